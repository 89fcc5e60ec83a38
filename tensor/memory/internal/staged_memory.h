// DeviceMemory over a backend: copies between the device and the host pass through two pinned blocks, so that the
// device copies one while the caller works on the other.

#ifndef TENSORCASK_TENSOR_MEMORY_INTERNAL_STAGED_MEMORY_H_
#define TENSORCASK_TENSOR_MEMORY_INTERNAL_STAGED_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/pinned_allocator.h"

namespace tensorcask::internal {

class StagedMemory final : public DeviceMemory {
 public:
  // Copies are made in pieces of these sizes; what is smaller is one piece.
  static constexpr size_t kMinPieceBytes = size_t{256} << 10;
  static constexpr size_t kMaxPieceBytes = size_t{4} << 20;

  // `record_stream` is RecordStream of the allocator. The backend of `pinned` is that of the device.
  StagedMemory(RefPtr<PinnedAllocator> pinned, StreamId stream,
               std::function<absl::Status(const void* block, StreamId stream)> record_stream)
      : pinned_(std::move(pinned)), stream_(stream), record_stream_(std::move(record_stream)) {}
  // Waits for the work that KeepUntilDone was called for, and drops the memory.
  ~StagedMemory();
  StagedMemory(const StagedMemory&) = delete;
  StagedMemory& operator=(const StagedMemory&) = delete;

  Device device() const override { return backend()->device(); }
  DeviceBackend* backend() const override { return pinned_->backend().get(); }
  int64_t stream() const override { return stream_; }
  absl::Status Read(const void* from, size_t bytes,
                    absl::FunctionRef<absl::Status(absl::string_view piece)> consume) override;
  absl::Status Write(void* to, size_t bytes, absl::FunctionRef<absl::Status(absl::Span<char> piece)> produce) override;
  absl::StatusOr<RefPtr<PendingRead>> BeginRead(const void* from, size_t bytes) override;
  absl::Status CopyWithin(void* to, const void* from, size_t bytes) override;
  absl::Status Fill(void* to, uint8_t value, size_t bytes) override;
  absl::Status Order(int64_t earlier, int64_t later) override { return backend()->Order(earlier, later); }
  absl::Status Synchronize(int64_t stream) override;
  absl::Status RecordStream(const void* block, int64_t stream) override { return record_stream_(block, stream); }
  absl::Status KeepUntilDone(RefPtr<RefCounted> memory, int64_t stream) override;

  // Drops the kept memory whose work has finished; with `wait`, all. What is kept for kEveryStream is dropped only with
  // `wait`: nothing but waiting for the device tells that the work has finished. The last reference calls the release
  // function of external memory, so the caller holds no lock. Errors: those of the device; what is concerned stays
  // kept.
  absl::Status ReleaseDone(bool wait);

 private:
  struct Kept {
    std::optional<EventId> event;  // nullopt: of kEveryStream
    RefPtr<RefCounted> memory;
  };

  // As ReleaseDone, before a copy that waits for the device anyway: also drops what is kept for kEveryStream.
  void ReleaseBeforeCopy();

  const RefPtr<PinnedAllocator> pinned_;
  const StreamId stream_;
  const std::function<absl::Status(const void*, StreamId)> record_stream_;
  std::mutex mutex_;
  std::list<Kept> kept_;
  std::atomic<size_t> num_kept_{0};
  std::atomic<bool> keeps_for_every_stream_{false};
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_MEMORY_INTERNAL_STAGED_MEMORY_H_
