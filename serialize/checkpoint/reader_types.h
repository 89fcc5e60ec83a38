// What CheckpointReader (reader.h) is told and what it tells.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READER_TYPES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READER_TYPES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask {

class CheckpointReader;

enum class Verify { kOnRead, kNever };

struct CheckpointReaderOptions {
  ReadOptions read;  // file system, strategy, threads; of the data files
  Verify verify = Verify::kOnRead;
  DecodeLimits limits;
  RefPtr<Allocator> allocator = CpuAllocator::Default();
  // The checkpoint that tensors stored as deltas are to (CheckpointWriterOptions::base): that of the same name is read
  // with each of them, all of it. Tensors that are no deltas are read without.
  std::shared_ptr<const CheckpointReader> base;
};

// One thing found wrong by CheckpointReader::VerifyAll.
struct CheckpointDamage {
  std::string tensor;  // "" if it is not about one
  std::string file;
  uint64_t offset = 0;
  absl::Status status;  // says it all in a sentence
};

// What CheckpointReader::VerifyAll found besides damage.
struct CheckpointCensus {
  int64_t whole = 0;  // tensors whose every byte was checked; a sliced one counts once
  // Those of which only the place could be checked, since this version only lists what they hold: unknown forms, and
  // payloads of a later version.
  int64_t not_checked = 0;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READER_TYPES_H_
