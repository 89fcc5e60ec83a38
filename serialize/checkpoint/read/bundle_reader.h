// Tensor bundles: an index and data files (FORMAT.md).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_READER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_READER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/read/checkpoint_reader_impl.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask::checkpoint {

// `index` is the file PREFIX.index. If options.base is null, deltas are read with the base that the index names.
// Errors: those of BundleIndex::Open.
absl::StatusOr<std::unique_ptr<ReaderImpl>> OpenBundle(std::string prefix, std::shared_ptr<const ByteSource> index,
                                                       CheckpointReaderOptions options);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_READER_H_
