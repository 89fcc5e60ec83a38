#include "tensorcask/tensor/memory/simulated_backend.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/memory_pages.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask {
namespace {

constexpr uint64_t kMaxMemoryBytes = uint64_t{1} << 40;

constexpr uint64_t kManyReservationsBytes = uint64_t{16} << 30;

size_t RoundUp(size_t bytes) {
  return (bytes + SimulatedBackend::kGranularity - 1) / SimulatedBackend::kGranularity * SimulatedBackend::kGranularity;
}

uintptr_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

absl::string_view NameOf(SimulatedBackend::Call call) {
  switch (call) {
    case SimulatedBackend::Call::kAllocate:
      return "Allocate";
    case SimulatedBackend::Call::kFree:
      return "Free";
    case SimulatedBackend::Call::kRecordEvent:
      return "RecordEvent";
    case SimulatedBackend::Call::kQueryEvent:
      return "QueryEvent";
    case SimulatedBackend::Call::kSynchronize:
      return "Synchronize";
    case SimulatedBackend::Call::kCopy:
      return "Copy";
    case SimulatedBackend::Call::kAllocateHost:
      return "AllocateHost";
  }
  return "?";
}

char* Reserve(size_t bytes, internal::PageUse use) { return static_cast<char*>(internal::MapPages(bytes, use)); }

}  // namespace

absl::StatusOr<RefPtr<SimulatedBackend>> SimulatedBackend::Create(Options options) {
  if (options.memory_bytes == 0 || options.memory_bytes > kMaxMemoryBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("simulated: memory of ", options.memory_bytes, " bytes; 1 to ", kMaxMemoryBytes, " are possible"));
  }
  auto backend = RefPtr<SimulatedBackend>::AdoptNew(new SimulatedBackend(options));
  // A device has more address space than memory, so memory in several pieces can always be used up.
  const size_t factor = options.memory_bytes <= kManyReservationsBytes ? 16 : 4;
  backend->reserved_bytes_ = RoundUp(static_cast<size_t>(options.memory_bytes)) * factor + (size_t{16} << 20);
  backend->base_ = Reserve(backend->reserved_bytes_, internal::PageUse::kAddresses);
  backend->bytes_ = Reserve(backend->reserved_bytes_, internal::PageUse::kSparseMemory);
  if (backend->base_ == nullptr || backend->bytes_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("simulated: no address space for two ranges of ", backend->reserved_bytes_, " bytes"));
  }
  backend->streams_[kDefaultStream];
  return backend;
}

SimulatedBackend::~SimulatedBackend() {
  if (base_ != nullptr) internal::UnmapPages(base_, reserved_bytes_);
  if (bytes_ != nullptr) internal::UnmapPages(bytes_, reserved_bytes_);
}

absl::Status SimulatedBackend::Begin(Call call) {
  const auto index = static_cast<size_t>(call);
  ++calls_[index];
  Failure& failure = failures_[index];
  if (failure.count == 0) return absl::OkStatus();
  if (failure.skip > 0) {
    --failure.skip;
    return absl::OkStatus();
  }
  --failure.count;
  return absl::Status(failure.code, absl::StrCat("simulated: ", NameOf(call), " failed as the test asked"));
}

absl::StatusOr<void*> SimulatedBackend::Allocate(size_t bytes) {
  CASK_CHECK(bytes > 0, "an allocation has at least one byte");
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kAllocate));
  if (bytes > options_.memory_bytes - allocated_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("simulated: no memory for ", bytes, " bytes: ", allocated_bytes_,
                                                     " of ", options_.memory_bytes, " are allocated"));
  }
  CASK_ASSIGN_OR_RETURN(char* const start, Place(bytes, kGranularity));
  absl::Cleanup free = [&] { occupied_.erase(start); };
  allocations_[start] = bytes;
  std::move(free).Cancel();
  allocated_bytes_ += bytes;
  return start;
}

absl::StatusOr<char*> SimulatedBackend::Place(size_t bytes, size_t alignment) {
  const auto aligned = [&](size_t offset) { return (offset + alignment - 1) / alignment * alignment; };
  size_t start = 0;
  for (const auto& [other, other_bytes] : occupied_) {
    const auto other_start = static_cast<size_t>(other - base_);
    if (start <= other_start && bytes <= other_start - start) break;
    start = aligned(other_start + RoundUp(other_bytes));
  }
  if (start > reserved_bytes_ || bytes > reserved_bytes_ - start)
    return absl::ResourceExhaustedError(absl::StrCat("simulated: no address space for ", bytes, " bytes"));
  occupied_[base_ + start] = bytes;
  return base_ + start;
}

absl::StatusOr<void*> SimulatedBackend::ReserveAddresses(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_ASSIGN_OR_RETURN(char* const start, Place(bytes, kMappingBytes));
  absl::Cleanup free = [&] { occupied_.erase(start); };
  reservations_[start] = bytes;
  std::move(free).Cancel();
  return start;
}

absl::Status SimulatedBackend::FreeAddresses(void* start, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = reservations_.find(static_cast<const char*>(start));
  const auto mapped = mappings_.lower_bound(static_cast<const char*>(start));
  const bool is_mapped = mapped != mappings_.end() && Address(mapped->first) - Address(start) < bytes;
  if (found == reservations_.end() || found->second != bytes || is_mapped)
    return absl::InvalidArgumentError("simulated: FreeAddresses of what is not a reservation, or is mapped");
  occupied_.erase(found->first);
  reservations_.erase(found);
  return absl::OkStatus();
}

absl::Status SimulatedBackend::Map(void* start, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kAllocate));
  const auto after = reservations_.upper_bound(static_cast<const char*>(start));
  const auto* const address = static_cast<const char*>(start);
  const bool is_reserved = after != reservations_.begin() &&
                           Address(address) + bytes <= Address(std::prev(after)->first) + std::prev(after)->second;
  const auto next = mappings_.lower_bound(address);
  const bool meets_next = next != mappings_.end() && Address(next->first) < Address(address) + bytes;
  if (!is_reserved || meets_next || IsMapped(address, 1) || (address - base_) % kMappingBytes != 0 ||
      bytes % kMappingBytes != 0 || bytes == 0) {
    return absl::InvalidArgumentError("simulated: Map of what is not reserved, or is mapped, or is not a multiple");
  }
  if (bytes > options_.memory_bytes - allocated_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("simulated: no memory to map ", bytes,
                                                     " bytes: ", allocated_bytes_, " of ", options_.memory_bytes,
                                                     " are allocated"));
  }
  mappings_[address] = bytes;
  allocated_bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status SimulatedBackend::Unmap(void* start, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kFree));
  DrainAll();  // before all else, since it releases the lock
  const auto found = mappings_.find(static_cast<const char*>(start));
  if (found == mappings_.end() || found->second != bytes)
    return absl::InvalidArgumentError("simulated: Unmap of a range that was not given to Map");
  allocated_bytes_ -= bytes;
  mappings_.erase(found);
  return absl::OkStatus();
}

bool SimulatedBackend::IsMapped(const char* start, size_t bytes) const {
  auto next = mappings_.upper_bound(start);
  if (next == mappings_.begin()) return false;
  --next;
  const char* const end = start + bytes;
  const char* mapped_to = next->first;
  for (; next != mappings_.end() && next->first == mapped_to; ++next) {
    mapped_to += next->second;
    if (Address(end) <= Address(mapped_to)) return true;
  }
  return false;
}

absl::Status SimulatedBackend::Free(void* block, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kFree));
  DrainAll();  // before all else, since it releases the lock
  const auto found = allocations_.find(static_cast<const char*>(block));
  if (found == allocations_.end() || found->second != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("simulated: Free of ", bytes, " bytes at ",
                                                   absl::Hex(Address(block)), ", which is no allocation"));
  }
  allocated_bytes_ -= bytes;
  occupied_.erase(found->first);
  allocations_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<DeviceMemoryInfo> SimulatedBackend::MemoryInfo() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return DeviceMemoryInfo{options_.memory_bytes - allocated_bytes_, options_.memory_bytes};
}

absl::StatusOr<void*> SimulatedBackend::AllocateHost(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kAllocateHost));
  CASK_ASSIGN_OR_RETURN(void* const block, DeviceBackend::AllocateHost(bytes));
  absl::Cleanup free = [&] { static_cast<void>(DeviceBackend::FreeHost(block, bytes)); };
  host_allocations_[block] = bytes;
  std::move(free).Cancel();
  return block;
}

// Refuses memory that queued work uses, which would otherwise go unnoticed.
absl::Status SimulatedBackend::FreeHost(void* block, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = host_allocations_.find(block);
  if (found == host_allocations_.end() || found->second != bytes)
    return absl::InvalidArgumentError(absl::StrCat("simulated: FreeHost of ", bytes, " bytes that are no allocation"));
  for (const auto& [id, stream] : streams_) {
    for (const Work& work : stream.queue) {
      const char* const used = work.kind != Work::Kind::kCopy              ? nullptr
                               : work.copy_kind == CopyKind::kDeviceToHost ? work.to
                               : work.copy_kind == CopyKind::kHostToDevice ? work.from
                                                                           : nullptr;
      if (used != nullptr && Address(used) - Address(block) < bytes)
        return absl::FailedPreconditionError(absl::StrCat("simulated: FreeHost while stream ", id, " uses it"));
    }
  }
  host_allocations_.erase(found);
  return DeviceBackend::FreeHost(block, bytes);
}

absl::StatusOr<StreamId> SimulatedBackend::CreateStream() {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_[next_id_];
  return next_id_++;
}

absl::Status SimulatedBackend::DestroyStream(StreamId stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  if (stream == kDefaultStream) return absl::InvalidArgumentError("simulated: stream 0 cannot be destroyed");
  Drain(stream, nullptr);
  streams_.erase(stream);
  return absl::OkStatus();
}

absl::Status SimulatedBackend::Synchronize(StreamId stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kSynchronize));
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  Drain(stream, nullptr);
  return absl::OkStatus();
}

absl::Status SimulatedBackend::SynchronizeAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kSynchronize));
  for (const auto& entry : streams_) Drain(entry.first, nullptr);
  return absl::OkStatus();
}

absl::StatusOr<EventId> SimulatedBackend::RecordEvent(StreamId stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kRecordEvent));
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  const EventId event = next_id_++;
  // An event on an idle stream is complete at once.
  const bool idle = streams_[stream].queue.empty();
  events_[event] = {stream, idle, false};
  if (idle) return event;
  absl::Cleanup erase = [&] { events_.erase(event); };
  CASK_RETURN_IF_ERROR(Add(stream, {Work::Kind::kEvent, {}, nullptr, nullptr, 0, 0, event}));
  std::move(erase).Cancel();
  return event;
}

absl::StatusOr<bool> SimulatedBackend::QueryEvent(EventId event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kQueryEvent));
  CASK_RETURN_IF_ERROR(CheckEvent(event));
  return events_[event].complete;
}

absl::Status SimulatedBackend::SynchronizeEvent(EventId event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kSynchronize));
  CASK_RETURN_IF_ERROR(CheckEvent(event));
  if (!events_[event].complete) Drain(events_[event].stream, &event);
  return absl::OkStatus();
}

absl::Status SimulatedBackend::WaitForEvent(StreamId stream, EventId event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  CASK_RETURN_IF_ERROR(CheckEvent(event));
  if (events_[event].complete) return absl::OkStatus();
  return Add(stream, {Work::Kind::kWait, {}, nullptr, nullptr, 0, 0, event});
}

void SimulatedBackend::DestroyEvent(EventId event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return;
  found->second.destroyed = true;
  if (found->second.complete) events_.erase(found);
}

absl::Status SimulatedBackend::Copy(CopyKind kind, void* to, const void* from, size_t bytes, StreamId stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kCopy));
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  if (bytes == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(kind == CopyKind::kDeviceToHost ? CheckHostRange(to, bytes) : CheckDeviceRange(to, bytes));
  CASK_RETURN_IF_ERROR(kind == CopyKind::kHostToDevice ? CheckHostRange(from, bytes) : CheckDeviceRange(from, bytes));
  return Add(stream,
             {Work::Kind::kCopy, kind, static_cast<char*>(to), static_cast<const char*>(from), bytes, 0, EventId{0}});
}

absl::Status SimulatedBackend::Fill(void* to, uint8_t value, size_t bytes, StreamId stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_RETURN_IF_ERROR(Begin(Call::kCopy));
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  if (bytes == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(CheckDeviceRange(to, bytes));
  return Add(stream, {Work::Kind::kFill, {}, static_cast<char*>(to), nullptr, bytes, value, EventId{0}});
}

int64_t SimulatedBackend::Complete(StreamId stream, int64_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t done = 0;
  while (done < count) {
    const Step step = ExecuteNext(stream);
    if (step == Step::kNothing) break;
    if (step == Step::kExecuted) ++done;
  }
  return done;
}

int64_t SimulatedBackend::pending(StreamId stream) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? 0 : static_cast<int64_t>(found->second.queue.size());
}

void SimulatedBackend::FailNext(Call call, int64_t count, int64_t skip, absl::StatusCode code) {
  const std::lock_guard<std::mutex> lock(mutex_);
  failures_[static_cast<size_t>(call)] = {skip, count, code};
}

int64_t SimulatedBackend::live_allocations() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(occupied_.size() + mappings_.size());
}

int64_t SimulatedBackend::live_events() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t live = 0;
  for (const auto& event : events_) live += event.second.destroyed ? 0 : 1;
  return live;
}

uint64_t SimulatedBackend::live_host_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& allocation : host_allocations_) bytes += allocation.second;
  return bytes;
}

int64_t SimulatedBackend::calls(Call call) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return calls_[static_cast<size_t>(call)];
}

uint8_t SimulatedBackend::Peek(const void* address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_CHECK(CheckDeviceRange(address, 1).ok(), "the address lies in a live allocation");
  return static_cast<uint8_t>(*Bytes(static_cast<const char*>(address)));
}

absl::Status SimulatedBackend::CheckStream(StreamId stream) const {
  if (streams_.count(stream) != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("simulated: stream ", stream, " does not exist"));
}

absl::Status SimulatedBackend::CheckEvent(EventId event) const {
  const auto found = events_.find(event);
  if (found != events_.end() && !found->second.destroyed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("simulated: event ", event, " does not exist"));
}

absl::Status SimulatedBackend::CheckDeviceRange(const void* start, size_t bytes) const {
  auto next = allocations_.upper_bound(static_cast<const char*>(start));
  if (next != allocations_.begin()) {
    const auto& [first, allocated] = *std::prev(next);
    const size_t offset = Address(start) - Address(first);
    if (offset <= allocated && bytes <= allocated - offset) return absl::OkStatus();
  }
  if (IsMapped(static_cast<const char*>(start), bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("simulated: ", bytes, " bytes at ", absl::Hex(Address(start)),
                                                 " do not lie in one allocation of the device"));
}

absl::Status SimulatedBackend::CheckHostRange(const void* start, size_t bytes) const {
  const bool apart = Address(start) >= Address(base_) + reserved_bytes_ || Address(start) + bytes <= Address(base_);
  if (apart) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("simulated: ", bytes, " bytes at ", absl::Hex(Address(start)),
                                                 " are memory of the device; a host pointer is needed"));
}

absl::Status SimulatedBackend::Add(StreamId stream, Work work) {
  streams_[stream].queue.push_back(work);
  if (options_.automatic) Drain(stream, nullptr);
  return absl::OkStatus();
}

SimulatedBackend::Step SimulatedBackend::ExecuteNext(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.queue.empty()) return Step::kNothing;
  Stream& stream = found->second;
  if (stream.is_executing) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    executed_.wait(lock);
    lock.release();
    return Step::kWaited;
  }
  const Work work = stream.queue.front();
  if (work.kind == Work::Kind::kWait) {
    const auto event = events_.find(work.event);  // an event that is complete and destroyed is not found
    if (event != events_.end() && !event->second.complete) return Step::kNothing;
  }
  if (work.kind == Work::Kind::kCopy || work.kind == Work::Kind::kFill) {
    stream.is_executing = true;
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    lock.unlock();
    Move(work);
    lock.lock();
    lock.release();
    stream.is_executing = false;
    executed_.notify_all();
  }
  stream.queue.pop_front();
  ++stream.num_done;
  if (work.kind == Work::Kind::kEvent) {
    Event& event = events_.find(work.event)->second;
    event.complete = true;
    if (event.destroyed) events_.erase(work.event);
  }
  return Step::kExecuted;
}

void SimulatedBackend::Move(const Work& work) const {
  if (work.kind == Work::Kind::kFill) {
    std::memset(Bytes(work.to), work.value, work.bytes);
    return;
  }
  char* const to = work.copy_kind == CopyKind::kDeviceToHost ? work.to : Bytes(work.to);
  const char* const from = work.copy_kind == CopyKind::kHostToDevice ? work.from : Bytes(work.from);
  std::memcpy(to, from, work.bytes);
}

// Work that waits for another stream executes that one first. An event can only be waited for after it was recorded, so
// streams cannot wait for each other in a circle.
void SimulatedBackend::Drain(StreamId stream, const EventId* until) {
  const auto now = streams_.find(stream);
  if (now == streams_.end()) return;
  const int64_t last = now->second.num_done + static_cast<int64_t>(now->second.queue.size());
  while (true) {
    const auto found = streams_.find(stream);
    if (found == streams_.end() || found->second.num_done >= last) return;
    if (until != nullptr) {
      const auto event = events_.find(*until);
      if (event == events_.end() || event->second.complete) return;
    }
    if (ExecuteNext(stream) != Step::kNothing) continue;
    const EventId other = found->second.queue.front().event;
    Drain(events_.find(other)->second.stream, &other);
  }
}

void SimulatedBackend::DrainAll() {
  for (auto next = streams_.begin(); next != streams_.end();) {
    const StreamId stream = next->first;
    Drain(stream, nullptr);
    next = streams_.upper_bound(stream);  // others may have been added or destroyed meanwhile
  }
}

}  // namespace tensorcask
