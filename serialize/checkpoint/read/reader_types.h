// Options and results of CheckpointReader (checkpoint_reader.h).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_READER_TYPES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_READER_TYPES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device_map.h"

namespace tensorcask {

enum class Verify { kOnRead, kNever };

struct CheckpointReaderOptions {
  ReadOptions read;  // file system, strategy, threads; of the data files
  Verify verify = Verify::kOnRead;
  DecodeLimits limits;
  // Where elements go; also the allocator of a device (tensor/memory). Tensors are then loaded through pinned memory,
  // and plain ones without a copy of the whole tensor on the host: the device copies one piece while the reader reads
  // another. Strings and variants stay on the host. Map copies to the device.
  RefPtr<Allocator> allocator = CpuAllocator::Default();
  // Several devices: a tensor goes to the first of these allocators whose device is the one that `device_map` gives for
  // the recorded device, and to `allocator` if there is none. The metadata keeps the recorded device. Errors of
  // DeviceMap::Apply are those of the read.
  std::vector<RefPtr<Allocator>> device_allocators;
  DeviceMap device_map;
  // The base that the checkpoint was written with (CheckpointWriterOptions::payload.base), for tensors that are stored
  // as deltas: reading a delta reads all of the base tensor of the same name. Other tensors do not need it. Null: the
  // reader looks in the same folder for the base that the index names, if it names one (FORMAT.md section 4.1).
  std::shared_ptr<const BaseLookup> base = nullptr;
};

// One thing found wrong by CheckpointReader::VerifyAll.
struct CheckpointDamage {
  std::string tensor;  // "" if the damage is not that of one tensor
  std::string file;
  uint64_t offset = 0;
  absl::Status status;  // a sentence with all of the above. FailedPrecondition: a delta whose base is not the right one
};

// What CheckpointReader::VerifyAll found besides damage.
struct CheckpointCounts {
  int64_t whole = 0;  // tensors of which every byte (and any base) was checked; a sliced tensor counts once
  // Tensors that this version only lists: unknown forms, and payloads of a later version. The data file holds all their
  // bytes; the bytes were not checked.
  int64_t not_checked = 0;
  // Deltas whose stored bytes are whole. Whether the elements can be read is unknown, as no base was given or named.
  int64_t without_base = 0;
  // Sentences about unusual but harmless findings, such as bytes after the last tensor of a data file.
  std::vector<std::string> notes;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_READER_TYPES_H_
