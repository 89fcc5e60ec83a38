// The segments and blocks of a caching allocator at one moment: as a struct, as JSON, as a drawing, and as the file
// that PyTorch's memory viewer opens.
//
//   MemorySnapshot snapshot = allocator->Snapshot();
//   std::cout << snapshot.Draw(/*width=*/32);
//
//   0x7f2000000000  2097152 bytes  small  stream 0  #####...........................
//   0x7f2000200000  20971520 bytes  large  stream 0  ################~~~~~~~~........

#ifndef TENSORCASK_TENSOR_MEMORY_MEMORY_SNAPSHOT_H_
#define TENSORCASK_TENSOR_MEMORY_MEMORY_SNAPSHOT_H_

#include "tensorcask/tensor/base/cxx17.h"

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
  int64_t pool_id = 0;  // the number of a private pool; 0: the common pool
  std::string pool;     // the tag of that pool
  bool is_expandable = false;
  std::vector<MemoryBlock> blocks;
};

struct MemorySnapshot {
  std::string device;                   // as Device::ToString writes it
  int32_t device_index = 0;             // the number of the device among those of its type
  std::vector<MemorySegment> segments;  // in order of address

  // An object with the field "segments", whose entries have the fields of torch.cuda.memory_snapshot(): "device",
  // "address", "total_size", "allocated_size", "active_size", "stream", "segment_type" ("small", "large"), and "blocks"
  // with "address", "size", "requested_size" and "state" ("active_allocated", "active_pending_free", "inactive").
  std::string ToJson() const;

  // The same as the file that torch.cuda.memory._dump_snapshot writes, for https://pytorch.org/memory_viz: a pickle of
  // dicts, lists, texts and integers. It has no history of allocations, so the viewer draws the present state.
  //
  //   std::ofstream("snapshot.pickle", std::ios::binary) << cache->Snapshot().ToPickle();
  std::string ToPickle() const;

  // A line for each segment with `width` characters for its bytes: '#' if a byte is allocated, else '~' if a stream may
  // use one, else '.'. Requires: width > 0.
  std::string Draw(int width = 64) const;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_MEMORY_SNAPSHOT_H_
