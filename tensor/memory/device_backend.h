// The operations of a device that allocators and copies are built on: memory, streams, events, copies and fills.
//
//   CASK_ASSIGN_OR_RETURN(void* const block, backend->Allocate(size_t{2} << 20));
//   CASK_ASSIGN_OR_RETURN(const StreamId stream, backend->CreateStream());
//   backend->Copy(CopyKind::kHostToDevice, block, host, bytes, stream);   // returns before the bytes are copied
//   CASK_ASSIGN_OR_RETURN(const EventId event, backend->RecordEvent(stream));
//   CASK_ASSIGN_OR_RETURN(const bool done, backend->QueryEvent(event));  // true once the copy has finished
//   backend->DestroyEvent(event);
//
// A stream is a queue of work: copies, fills and events of one stream are executed in the order in which they were
// added. Streams are independent of each other, except where WaitForEvent orders them. Stream 0 always exists.
//
// Implementations: CudaBackend (cuda_backend.h) and SimulatedBackend (simulated_backend.h). Both are safe to call from
// several threads. The host never accesses memory of a device through its pointers.
//
// Errors of all functions: ResourceExhausted if the device has no memory left; InvalidArgument for a stream, an event
// or a range of memory that does not exist; other codes for failures of the device. Messages begin with name().

#ifndef TENSORCASK_TENSOR_MEMORY_DEVICE_BACKEND_H_
#define TENSORCASK_TENSOR_MEMORY_DEVICE_BACKEND_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"

namespace tensorcask {

using StreamId = int64_t;
using EventId = int64_t;

inline constexpr StreamId kDefaultStream = 0;

// Where the two ranges of a copy are.
enum class CopyKind : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };

struct DeviceMemoryInfo {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

class DeviceBackend : public RefCounted {
 public:
  virtual absl::string_view name() const = 0;  // "cuda", "simulated": for messages
  virtual Device device() const = 0;

  // `bytes` (> 0) uninitialised bytes at a multiple of Allocator::kAlignment. Never null.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // Frees what Allocate(bytes) returned, after all work that is queued on any stream of the device has finished.
  virtual absl::Status Free(void* block, size_t bytes) = 0;
  virtual absl::StatusOr<DeviceMemoryInfo> MemoryInfo() = 0;

  // `bytes` (> 0) bytes of host memory at a multiple of Allocator::kAlignment, which copies of the device reach without
  // the processor ("pinned" or page-locked memory). Never null. Slow: PinnedAllocator keeps such memory for reuse. The
  // default implementation gives ordinary memory of CpuAllocator::Default().
  virtual absl::StatusOr<void*> AllocateHost(size_t bytes);
  // Frees what AllocateHost(bytes) returned. No work that uses it is pending.
  virtual absl::Status FreeHost(void* block, size_t bytes);

  // Virtual memory: addresses that are reserved first, and get memory piece by piece. Starts and sizes are multiples of
  // MappingGranularity(); 0 means that the device has no virtual memory, and the functions return Unimplemented.
  virtual size_t MappingGranularity() const { return 0; }
  virtual absl::StatusOr<void*> ReserveAddresses(size_t bytes);
  virtual absl::Status FreeAddresses(void* start, size_t bytes);  // Requires: nothing is mapped there
  // Gives the range memory. Requires: it lies in one reservation, and nothing is mapped there.
  virtual absl::Status Map(void* start, size_t bytes);
  // Returns the memory of a range that was given to Map, after all work that is queued on any stream has finished.
  virtual absl::Status Unmap(void* start, size_t bytes);

  virtual absl::StatusOr<StreamId> CreateStream() = 0;
  // Waits for the stream's work and removes the stream. Stream 0 cannot be destroyed.
  virtual absl::Status DestroyStream(StreamId stream) = 0;
  // Waits until all work of the stream has finished.
  virtual absl::Status Synchronize(StreamId stream) = 0;
  // True if all work of the stream has finished. The default implementation queries an event.
  virtual absl::StatusOr<bool> IsIdle(StreamId stream);
  // Waits until all work of all streams of the device has finished, of other libraries in its context, too.
  virtual absl::Status SynchronizeAll() = 0;

  // Adds an event to the stream. The event is complete when all work that was added before it has finished. The caller
  // destroys it.
  virtual absl::StatusOr<EventId> RecordEvent(StreamId stream) = 0;
  virtual absl::StatusOr<bool> QueryEvent(EventId event) = 0;  // whether it is complete
  virtual absl::Status SynchronizeEvent(EventId event) = 0;    // the calling thread waits for it
  // Work that is added to `stream` afterwards starts after the event is complete.
  virtual absl::Status WaitForEvent(StreamId stream, EventId event) = 0;
  virtual void DestroyEvent(EventId event) = 0;
  // Work that is added to stream `later` from now on starts after the work that is on stream `earlier` now.
  absl::Status Order(StreamId earlier, StreamId later);

  // Adds a copy of `bytes` bytes to the stream. Both ranges stay valid and unchanged until it has finished. The ranges
  // do not overlap.
  virtual absl::Status Copy(CopyKind kind, void* to, const void* from, size_t bytes, StreamId stream) = 0;
  // Adds to the stream: sets `bytes` bytes of device memory to `value`.
  virtual absl::Status Fill(void* to, uint8_t value, size_t bytes, StreamId stream) = 0;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_DEVICE_BACKEND_H_
