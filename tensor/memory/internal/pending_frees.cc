#include "tensorcask/tensor/memory/internal/pending_frees.h"

#include <cstdint>
#include <iterator>
#include <list>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask::internal {

void PendingFrees::Record(Uses& uses, StreamId stream) {
  for (const Event& event : uses.recorded_) {
    if (event.stream == stream) return;
  }
  std::list<Event> event(1);
  event.front().stream = stream;
  ++queues_[stream].num_recorded;
  uses.recorded_.splice(uses.recorded_.end(), event);
}

void PendingFrees::Start(Uses& uses, void* block) {
  uses.num_pending_ = static_cast<int64_t>(uses.recorded_.size());
  while (!uses.recorded_.empty()) {
    Queue& queue = queues_.find(uses.recorded_.front().stream)->second;
    --queue.num_recorded;
    queue.events.splice(queue.events.end(), uses.recorded_, uses.recorded_.begin());
    Event& event = queue.events.back();
    event.uses = &uses;
    event.block = block;
    if (event.stream != kEveryStream) static_cast<void>(CatchExceptions([&] { return RecordEvent(event); }));
  }
}

absl::Status PendingFrees::RecordEvent(Event& event) {
  CASK_ASSIGN_OR_RETURN(event.id, backend_->RecordEvent(event.stream));
  return absl::OkStatus();
}

absl::StatusOr<bool> PendingFrees::IsComplete(Event& event, bool wait) {
  if (event.stream == kEveryStream) return wait;  // Process has waited for all work
  if (!event.id.has_value()) {
    const absl::Status recorded = RecordEvent(event);
    if (absl::IsInvalidArgument(recorded)) return true;  // the stream was destroyed, after its work had finished
    CASK_RETURN_IF_ERROR(recorded);
  }
  if (!wait) return backend_->QueryEvent(*event.id);
  CASK_RETURN_IF_ERROR(backend_->SynchronizeEvent(*event.id));
  return true;
}

absl::Status PendingFrees::Process(bool wait, absl::FunctionRef<void(void* block)> done) {
  absl::Status result;
  if (wait && WaitsForEveryStream()) CASK_RETURN_IF_ERROR(backend_->SynchronizeAll());
  for (auto entry = queues_.begin(); entry != queues_.end();) {
    Queue& queue = entry->second;
    while (!queue.events.empty()) {
      const absl::StatusOr<bool> complete = IsComplete(queue.events.front(), wait);
      result.Update(complete.status());
      if (!complete.ok() || !*complete) break;
      FinishFirst(queue, done);
    }
    entry = queue.events.empty() && queue.num_recorded == 0 ? queues_.erase(entry) : std::next(entry);
  }
  return result;
}

void PendingFrees::FinishFirst(Queue& queue, absl::FunctionRef<void(void* block)> done) {
  Event& first = queue.events.front();
  const std::optional<EventId> id = first.id;
  first.id = std::nullopt;  // if destroying it throws, this event is recorded again
  if (id.has_value()) backend_->DestroyEvent(*id);
  const Event event = first;
  queue.events.pop_front();
  if (--event.uses->num_pending_ == 0) done(event.block);
}

void PendingFrees::Abandon(absl::FunctionRef<void(void* block)> done) {
  for (auto& [stream, queue] : queues_) {
    while (!queue.events.empty()) FinishFirst(queue, done);
  }
}

}  // namespace tensorcask::internal
