// Delays the reuse of freed blocks until the streams that use them have finished.
//
//   PendingFrees::Uses uses;                  // one for each block
//   frees.Record(uses, stream);               // work of `stream` uses the block
//   frees.Start(uses, block);                 // the block is freed: an event is added to each recorded stream
//   frees.Process(/*wait=*/false, [](void* block) { ... });   // called for each block whose events are complete
//
// A block that kEveryStream uses has no event: only Process with `wait` ends its use, by waiting for the whole device.
//
// Only Record allocates memory, so freeing a block needs none. Not thread-safe.

#ifndef TENSORCASK_TENSOR_MEMORY_INTERNAL_PENDING_FREES_H_
#define TENSORCASK_TENSOR_MEMORY_INTERNAL_PENDING_FREES_H_

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask::internal {

class PendingFrees {
 private:
  struct Event;

 public:
  // The streams that use a block. Stays at its address from Start until the block is passed to `done`.
  class Uses {
   public:
    bool empty() const { return recorded_.empty(); }
    bool is_pending() const { return num_pending_ > 0; }  // Start was called, and `done` was not

   private:
    friend class PendingFrees;
    std::list<Event> recorded_;
    int64_t num_pending_ = 0;  // events that are not complete
  };

  explicit PendingFrees(RefPtr<DeviceBackend> backend) : backend_(std::move(backend)) {}

  // No effect if the stream is recorded already. If it throws, nothing is recorded.
  void Record(Uses& uses, StreamId stream);
  // Requires: !uses.empty(). An event that cannot be recorded is tried again by Process.
  void Start(Uses& uses, void* block);
  // Looks at the events of each stream in their order, up to the first one that is not complete. With `wait`, waits for
  // them. Calls `done` for each block whose events are all complete.
  // Errors: the first error of the device; the events of its stream stay.
  absl::Status Process(bool wait, absl::FunctionRef<void(void* block)> done);
  // Whether a freed block waits for the whole device.
  bool WaitsForEveryStream() const {
    const auto found = queues_.find(kEveryStream);
    return found != queues_.end() && !found->second.events.empty();
  }
  // Drops all events without waiting for them, and calls `done` for their blocks.
  void Abandon(absl::FunctionRef<void(void* block)> done);

 private:
  struct Event {
    StreamId stream = kDefaultStream;
    Uses* uses = nullptr;
    void* block = nullptr;
    std::optional<EventId> id;  // nullopt: recording it failed, and is tried again
  };
  struct Queue {
    std::list<Event> events;
    int64_t num_recorded = 0;  // events in Uses::recorded_ that Start will move to this queue
  };

  absl::Status RecordEvent(Event& event);
  absl::StatusOr<bool> IsComplete(Event& event, bool wait);
  void FinishFirst(Queue& queue, absl::FunctionRef<void(void* block)> done);

  const RefPtr<DeviceBackend> backend_;
  std::map<StreamId, Queue> queues_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_MEMORY_INTERNAL_PENDING_FREES_H_
