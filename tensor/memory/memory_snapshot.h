// The segments and blocks of a caching allocator at one moment: as a struct, as JSON and as a drawing.
//
//   MemorySnapshot snapshot = allocator->Snapshot();
//   std::cout << snapshot.Draw(/*width=*/32);
//
//   0x7f2000000000  2097152 bytes  small  stream 0  #####...........................
//   0x7f2000200000  20971520 bytes  large  stream 0  ################~~~~~~~~........

#ifndef TENSORCASK_TENSOR_MEMORY_MEMORY_SNAPSHOT_H_
#define TENSORCASK_TENSOR_MEMORY_MEMORY_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask {

struct MemoryBlock {
  enum class State : uint8_t {
    kAllocated,     // the program holds it
    kAwaitingFree,  // freed, but work of a stream may still use it
    kInactive,      // free
  };
  uintptr_t address = 0;
  size_t bytes = 0;
  size_t requested_bytes = 0;  // what the program asked for; 0 if the block is inactive
  State state = State::kInactive;
};

// One allocation of the device. Its blocks cover it without gaps, in order of address.
struct MemorySegment {
  uintptr_t address = 0;
  size_t bytes = 0;
  size_t allocated_bytes = 0;
  size_t active_bytes = 0;  // allocated or awaiting free
  StreamId stream = kDefaultStream;
  bool is_large = false;
  std::vector<MemoryBlock> blocks;
};

struct MemorySnapshot {
  std::string device;                   // as Device::ToString writes it
  std::vector<MemorySegment> segments;  // in order of address

  // An object with the field "segments", whose entries have the fields of torch.cuda.memory_snapshot(): "device",
  // "address", "total_size", "allocated_size", "active_size", "stream", "segment_type" ("small", "large"), and "blocks"
  // of "address", "size", "requested_size" and "state" ("active_allocated", "active_awaiting_free", "inactive").
  std::string ToJson() const;

  // A line for each segment with `width` characters for its bytes: '#' where a byte is allocated, else '~' where one
  // awaits its free, else '.'. Requires: width > 0.
  std::string Draw(int width = 64) const;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_MEMORY_SNAPSHOT_H_
