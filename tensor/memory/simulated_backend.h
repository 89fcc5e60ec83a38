// A device without hardware, for tests and examples: limited memory, and streams whose work finishes on request.
//
//   CASK_ASSIGN_OR_RETURN(RefPtr<SimulatedBackend> device, SimulatedBackend::Create({64 << 20}));
//   device->Copy(CopyKind::kHostToDevice, block, host, bytes, stream);   // queued; no byte is copied yet
//   device->Complete(stream);                                            // now the bytes are copied
//   device->FailNext(SimulatedBackend::Call::kAllocate, /*count=*/1);    // the next Allocate fails
//
// Device memory is reserved address space without access rights; the bytes are kept elsewhere. So a host access through
// a device pointer ends the process with SIGSEGV. Copies and fills check that each range of the device lies in one
// allocation. Free waits for all work that was added before it, so no pending work uses a freed range.
//
// Addresses are deterministic: Allocate returns the lowest free range, in multiples of 512 bytes from base() on.
//
// Functions that wait (Synchronize, SynchronizeEvent, DestroyStream, Free) execute the work that they wait for. All
// other functions execute nothing, unless Options::automatic is set: then work is executed when it is added. Copies and
// fills are executed without the lock, so a thread that calls Complete again and again is like a device's copy engine.

#ifndef TENSORCASK_TENSOR_MEMORY_SIMULATED_BACKEND_H_
#define TENSORCASK_TENSOR_MEMORY_SIMULATED_BACKEND_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask {

class SimulatedBackend final : public DeviceBackend {
 public:
  static constexpr size_t kGranularity = 512;
  static constexpr size_t kMappingBytes = size_t{2} << 20;

  struct Options {
    uint64_t memory_bytes = uint64_t{64} << 20;  // what Allocate hands out in total
    Device device = {DeviceType::kExtension, 0};
    bool automatic = false;      // work is executed when it is added
    bool virtual_memory = true;  // false: MappingGranularity is 0, as of devices that cannot map memory
  };
  enum class Call : uint8_t { kAllocate, kFree, kRecordEvent, kQueryEvent, kSynchronize, kCopy, kAllocateHost };

  // Errors: InvalidArgument for 0 bytes or more than 1 TiB; ResourceExhausted if the system has no address space.
  static absl::StatusOr<RefPtr<SimulatedBackend>> Create(Options options);

  absl::string_view name() const override { return "simulated"; }
  Device device() const override { return options_.device; }

  absl::StatusOr<void*> Allocate(size_t bytes) override;
  absl::Status Free(void* block, size_t bytes) override;
  absl::StatusOr<DeviceMemoryInfo> MemoryInfo() override;
  absl::StatusOr<void*> AllocateHost(size_t bytes) override;
  absl::Status FreeHost(void* block, size_t bytes) override;
  size_t MappingGranularity() const override { return options_.virtual_memory ? kMappingBytes : 0; }
  absl::StatusOr<void*> ReserveAddresses(size_t bytes) override;
  absl::Status FreeAddresses(void* start, size_t bytes) override;
  absl::Status Map(void* start, size_t bytes) override;    // counts and fails as Call::kAllocate
  absl::Status Unmap(void* start, size_t bytes) override;  // counts and fails as Call::kFree
  absl::StatusOr<StreamId> CreateStream() override;
  absl::Status DestroyStream(StreamId stream) override;
  absl::Status Synchronize(StreamId stream) override;
  absl::Status SynchronizeAll() override;
  absl::StatusOr<EventId> RecordEvent(StreamId stream) override;
  absl::StatusOr<bool> QueryEvent(EventId event) override;
  absl::Status SynchronizeEvent(EventId event) override;
  absl::Status WaitForEvent(StreamId stream, EventId event) override;
  void DestroyEvent(EventId event) override;
  absl::Status Copy(CopyKind kind, void* to, const void* from, size_t bytes, StreamId stream) override;
  absl::Status Fill(void* to, uint8_t value, size_t bytes, StreamId stream) override;

  // Executes up to `count` pieces of the stream's work, events included, and returns how many were executed. Stops
  // before work that waits for an event that is not complete.
  int64_t Complete(StreamId stream, int64_t count = INT64_MAX);
  // Work of the stream that has not been executed.
  int64_t pending(StreamId stream) const;

  // The next `count` calls of this kind fail with `code`, after `skip` calls that work as usual.
  void FailNext(Call call, int64_t count, int64_t skip = 0, absl::StatusCode code = absl::StatusCode::kInternal);

  // The start of the address space.
  const char* base() const { return base_; }
  // Allocations that were not freed (with reservations and mappings), and events that were not destroyed.
  int64_t live_allocations() const;
  int64_t live_events() const;
  uint64_t live_host_bytes() const;  // from AllocateHost
  // Calls so far, failed ones included.
  int64_t calls(Call call) const;

  // The byte that a device pointer refers to, for a test to look at. Requires: it lies in a live allocation, and no
  // thread executes work that writes it.
  uint8_t Peek(const void* address) const;

 private:
  static constexpr size_t kCalls = 7;
  struct Work {
    enum class Kind : uint8_t { kCopy, kFill, kEvent, kWait } kind;
    CopyKind copy_kind;
    char* to;
    const char* from;
    size_t bytes;
    uint8_t value;
    EventId event;
  };
  struct Stream {
    std::deque<Work> queue;
    int64_t num_done = 0;       // how much of the work that was added has finished
    bool is_executing = false;  // a thread executes the first work of the queue
  };
  struct Failure {
    int64_t skip = 0;
    int64_t count = 0;
    absl::StatusCode code = absl::StatusCode::kInternal;
  };
  struct Event {
    StreamId stream = 0;
    bool complete = false;
    bool destroyed = false;  // erased when it is complete
  };

  explicit SimulatedBackend(Options options) : options_(options) {}
  ~SimulatedBackend() override;

  // All below require: the lock is held.
  absl::Status Begin(Call call);  // counts the call; an error if it shall fail
  absl::Status CheckStream(StreamId stream) const;
  absl::Status CheckEvent(EventId event) const;
  absl::StatusOr<char*> Place(size_t bytes, size_t alignment);  // the lowest free addresses, now occupied
  bool IsMapped(const char* start, size_t bytes) const;
  absl::Status CheckDeviceRange(const void* start, size_t bytes) const;
  absl::Status CheckHostRange(const void* start, size_t bytes) const;
  absl::Status Add(StreamId stream, Work work);
  // Executes the next work of the stream, or waits for the thread that does. Releases the lock meanwhile.
  enum class Step : uint8_t { kExecuted, kWaited, kNothing };  // kNothing: there is no work, or it waits for an event
  Step ExecuteNext(StreamId id);
  // Executes the work that is on the stream now; with `until`, only until that event is complete.
  void Drain(StreamId stream, const EventId* until);
  void DrainAll();
  void Move(const Work& work) const;  // needs no lock
  char* Bytes(const char* address) const { return bytes_ + (address - base_); }

  const Options options_;
  size_t reserved_bytes_ = 0;
  char* base_ = nullptr;   // what the user sees; no access rights
  char* bytes_ = nullptr;  // the same range, with the bytes
  mutable std::mutex mutex_;
  std::condition_variable executed_;
  std::map<const char*, size_t> occupied_;     // start -> bytes; allocations and reservations
  std::map<const char*, size_t> allocations_;  // start -> bytes as requested
  std::map<const char*, size_t> reservations_;
  std::map<const char*, size_t> mappings_;
  uint64_t allocated_bytes_ = 0;
  std::map<const void*, size_t> host_allocations_;
  std::map<StreamId, Stream> streams_;
  std::map<EventId, Event> events_;
  int64_t next_id_ = 1;
  std::array<Failure, kCalls> failures_;
  std::array<int64_t, kCalls> calls_ = {};
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_SIMULATED_BACKEND_H_
