// Copies between memory of a device, which the host cannot access through pointers, and memory of the host.
//
//   DeviceMemory* const memory = tensor.buffer()->device_memory();   // null if the data is in memory of the host
//   CASK_RETURN_IF_ERROR(memory->Read(tensor.buffer()->device_data(), bytes, [&](absl::string_view piece) {
//     return sink->Append(piece);                                    // while the device copies the next piece
//   }));
//
// The allocators of tensor/memory implement this interface. Code that moves tensors between devices and files uses it,
// and does not link tensor/memory.
//
// Copies are work of stream(): each begins when the work that was added to this stream before it has finished.
// Functions are safe to call from several threads.
//
// Errors of all functions: ResourceExhausted if there is no memory to copy through; errors of the device.

#ifndef TENSORCASK_TENSOR_DEVICE_MEMORY_H_
#define TENSORCASK_TENSOR_DEVICE_MEMORY_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"

namespace tensorcask {

class DeviceBackend;  // tensor/memory/device_backend.h
class TensorBuffer;   // tensor/buffer.h

// A copy from a device to memory of the host that was started and may not have finished. If it is destroyed early, its
// memory is reused only after the copy has finished.
class PendingRead : public RefCounted {
 public:
  // The memory of the copy. Read it only after Wait has returned OK.
  virtual const RefPtr<TensorBuffer>& buffer() const = 0;
  // Waits for the copy. Safe from several threads.
  virtual absl::Status Wait() = 0;
};

// An argument of RecordStream and KeepUntilDone: work of streams that may no longer exist uses the memory.
inline constexpr int64_t kEveryStream = -1;

class DeviceMemory {
 public:
  virtual Device device() const = 0;
  virtual DeviceBackend* backend() const = 0;  // lives as long as the allocator
  virtual int64_t stream() const = 0;          // a StreamId of the backend

  // Calls `consume` for successive pieces of the `bytes` bytes at `from`. While `consume` runs, the device copies the
  // next piece. Errors: also the first error of `consume`.
  virtual absl::Status Read(const void* from, size_t bytes,
                            absl::FunctionRef<absl::Status(absl::string_view piece)> consume) = 0;
  // Calls `produce` to fill successive pieces, and copies each one to the device while `produce` fills the next one.
  // All bytes are on the device when this returns. Errors: also the first error of `produce`.
  virtual absl::Status Write(void* to, size_t bytes,
                             absl::FunctionRef<absl::Status(absl::Span<char> piece)> produce) = 0;
  // Adds a copy of the bytes to the stream, and returns before it has finished. Work that is added to the stream
  // afterwards may change the bytes on the device.
  virtual absl::StatusOr<RefPtr<PendingRead>> BeginRead(const void* from, size_t bytes) = 0;

  // The next two add work to stream(), and return before it has finished.
  virtual absl::Status CopyWithin(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status Fill(void* to, uint8_t value, size_t bytes) = 0;

  // Work that is added to stream `later` from now on starts after the work that is on stream `earlier` now.
  virtual absl::Status Order(int64_t earlier, int64_t later) = 0;
  // Waits until all work of the stream has finished.
  virtual absl::Status Synchronize(int64_t stream) = 0;

  // Once freed, the block at `block` is reused only after the work that is then on `stream`; with kEveryStream, after
  // all work that is on the device when it is reused.
  virtual absl::Status RecordStream(const void* block, int64_t stream) = 0;
  // Keeps `memory` until the work that is on `stream` now has finished: the next call of a function here then drops it,
  // and the destruction of the allocator at the latest. Drops it at once if there is no such work.
  virtual absl::Status KeepUntilDone(RefPtr<RefCounted> memory, int64_t stream) = 0;

 protected:
  ~DeviceMemory() = default;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_DEVICE_MEMORY_H_
