#include "tensorcask/serialize/io/read_plan.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask {

ReadPlan::Planned* ReadPlan::PlannedOf(const std::shared_ptr<const ByteSource>& source) {
  if (source == nullptr || source->read_shape().in_flight <= 1) return nullptr;
  auto planned = std::find_if(planned_.begin(), planned_.end(), [&](const Planned& p) { return p.source == source; });
  if (planned == planned_.end()) planned = planned_.insert(planned, Planned{source, {}, {}, {}, nullptr});
  return &*planned;
}

void ReadPlan::Add(const std::shared_ptr<const ByteSource>& source, uint64_t offset, uint64_t size_bytes, char* into,
                   size_t number) {
  Planned* const planned = PlannedOf(source);
  if (planned == nullptr) return;
  planned->ranges.push_back({offset, size_bytes, into});
  if (into != nullptr && number != kNoNumber) planned->numbered.push_back({offset, offset + size_bytes, number});
}

void ReadPlan::AddLater(const std::shared_ptr<const ByteSource>& source, uint64_t offset, uint64_t size_bytes,
                        size_t number) {
  Planned* const planned = PlannedOf(source);
  if (planned == nullptr) return;
  planned->numbers_later.resize(planned->ranges.size(), kNoNumber);
  planned->numbers_later.push_back(number);
  planned->ranges.push_back({offset, size_bytes, nullptr, /*is_later=*/true});
  planned->numbered.push_back({offset, offset + size_bytes, number});
}

void ReadPlan::SetMemory(absl::FunctionRef<char*(size_t number)> memory_of) {
  for (const Planned& planned : planned_) {
    if (planned.announced == nullptr || planned.numbers_later.empty()) continue;
    std::vector<char*> memory(planned.ranges.size(), nullptr);
    for (size_t i = 0; i < planned.numbers_later.size(); ++i) {
      if (planned.numbers_later[i] != kNoNumber) memory[i] = memory_of(planned.numbers_later[i]);
    }
    planned.announced->SetMemory(memory);
  }
}

void ReadPlan::Add(const Step& step, size_t number) {
  Add(step.source, step.offset, step.size_bytes, step.into, number);
  for (const Step& more : step.more) Add(more);
}

void ReadPlan::Start() {
  const bool starts_now =
      std::any_of(planned_.begin(), planned_.end(), [](const Planned& p) { return !p.numbers_later.empty(); });
  std::shared_ptr<Announcement> next;
  for (auto at = planned_.rbegin(); at != planned_.rend(); ++at) {
    Planned& planned = *at;
    AnnounceOptions options;
    options.next = next;
    options.starts_now = starts_now && &planned == &planned_.front();
    if (fetched_ && !planned.numbered.empty()) {
      std::sort(planned.numbered.begin(), planned.numbered.end(),
                [](const Numbered& a, const Numbered& b) { return a.offset < b.offset; });
      options.fetched = [this, &planned](uint64_t begin, uint64_t end) { TellFetched(planned, begin, end); };
    }
    planned.announced = planned.source->Announce(planned.ranges, options);
    if (planned.announced != nullptr) next = planned.announced;
  }
}

void ReadPlan::TellFetched(const Planned& planned, uint64_t begin, uint64_t end) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ends_) return;
    ++telling_;
  }
  auto range = std::lower_bound(planned.numbered.begin(), planned.numbered.end(), begin,
                                [](const Numbered& one, uint64_t offset) { return one.offset < offset; });
  for (; range != planned.numbered.end() && range->offset < end; ++range) {
    if (range->end <= end) fetched_(range->number);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  --telling_;
  told_.notify_all();
}

// A thread that is told of a range reads it, and keeps the announcement meanwhile, which must not end on that thread.
ReadPlan::~ReadPlan() {
  if (owner_.IsThisProcess()) {                 // else such threads are the parent's
    SetMemory([](size_t) { return nullptr; });  // what waits for memory that was not told ends, in each file
    std::unique_lock<std::mutex> lock(mutex_);
    ends_ = true;
    told_.wait(lock, [&] { return telling_ == 0; });
  }
  for (Planned& planned : planned_) planned.announced = nullptr;  // in this order: each knows the next
}

StepOrder ReadPlan::StartSteps(size_t count, absl::FunctionRef<Step(size_t number)> step_of) {
  const auto is_planned = [&](size_t number) {
    const Step step = step_of(number);
    return step.source != nullptr && step.source->read_shape().in_flight > 1;
  };
  size_t first = 0;
  while (first < count && !is_planned(first)) ++first;
  if (first == count) return StepOrder(count);

  std::vector<Step> steps;
  steps.reserve(count);
  for (size_t i = 0; i < count; ++i) steps.push_back(step_of(i));
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  // Files in the order of their first steps.
  std::vector<std::pair<size_t, uint64_t>> places(count);
  std::unordered_map<const ByteSource*, size_t> files;
  for (size_t i = 0; i < count; ++i) {
    if (steps[i].source == nullptr) {
      if (i > 0) places[i] = places[i - 1];
      continue;
    }
    places[i] = {files.try_emplace(steps[i].source.get(), files.size()).first->second, steps[i].offset};
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return places[a] < places[b]; });
  for (const size_t i : order) Add(steps[i], i);
  Start();
  return StepOrder(std::move(order));
}

}  // namespace tensorcask
