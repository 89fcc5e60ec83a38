// Checking all of a tensor bundle: see CheckpointReader::VerifyAll.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_VERIFY_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_VERIFY_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/read/bundle_index.h"
#include "tensorcask/serialize/checkpoint/read/plain_tensor.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"

namespace tensorcask::checkpoint {

absl::StatusOr<CheckpointCounts> VerifyBundle(const BundleIndex& index, const StoredTensors& stored,
                                              const CheckpointReaderOptions& options,
                                              absl::FunctionRef<void(const CheckpointDamage&)> report);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_VERIFY_H_
