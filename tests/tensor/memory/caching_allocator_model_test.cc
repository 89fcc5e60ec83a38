// Random operations on a CachingAllocator, and those of programs that PyTorch ran (traces/record.py), against a slow
// model of it. The model keeps every segment and block in a list, searches them all for each request by PyTorch's
// rules, and counts its statistics anew after each step. Both must choose the same blocks.
//
// TENSORCASK_MODEL_STEPS sets the number of steps (20000).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct ModelBlock {
  size_t bytes = 0;
  bool allocated = false;
  std::set<StreamId> recorded;       // while it is allocated
  std::map<StreamId, int64_t> uses;  // after the free: the piece of each stream's work that must finish
};

struct ModelSegment {
  StreamId stream = 0;
  bool is_small = false;
  size_t bytes = 0;
  std::map<uintptr_t, ModelBlock> blocks;
};

// Streams as two numbers: work that was added, and work that has finished.
struct ModelStream {
  int64_t added = 0;
  int64_t finished = 0;
};

class Model {
 public:
  explicit Model(size_t max_split) : max_split_(max_split) {}

  std::map<StreamId, ModelStream> streams;

  static bool IsFree(const ModelBlock& block) { return !block.allocated && block.uses.empty(); }

  // What polling finds: uses that have finished go, and free neighbours merge.
  void Poll() {
    for (auto& segment : segments_) {
      for (auto& block : segment.second.blocks) {
        auto& uses = block.second.uses;
        for (auto use = uses.begin(); use != uses.end();) {
          use = streams[use->first].finished >= use->second ? uses.erase(use) : std::next(use);
        }
      }
      MergeAll(segment.second);
    }
  }

  // The address of the block that a request must get from the cache, and its segment; 0: none.
  std::pair<uintptr_t, uintptr_t> Choose(size_t bytes, StreamId stream) const {
    size_t best_bytes = SIZE_MAX;
    std::pair<uintptr_t, uintptr_t> best = {0, 0};
    for (const auto& [start, segment] : segments_) {
      if (segment.stream != stream || segment.is_small != (bytes <= kMiB)) continue;
      for (const auto& [address, block] : segment.blocks) {
        if (!IsFree(block) || block.bytes < bytes || block.bytes >= best_bytes) continue;
        best_bytes = block.bytes;
        best = {address, start};
      }
    }
    if (bytes < max_split_ && best_bytes >= max_split_) return {0, 0};
    if (bytes >= max_split_ && best.first != 0 && best_bytes >= bytes + 20 * kMiB) return {0, 0};
    return best;
  }

  void Take(uintptr_t segment_start, uintptr_t address, size_t bytes) {
    ModelSegment& segment = segments_.at(segment_start);
    ModelBlock& block = segment.blocks.at(address);
    const size_t rest = block.bytes - bytes;
    if (segment.is_small ? rest >= 512 : (bytes < max_split_ && rest > kMiB)) {
      block.bytes = bytes;
      segment.blocks[address + bytes].bytes = rest;
    }
    block.allocated = true;
  }

  void AddSegment(uintptr_t start, size_t bytes, StreamId stream, bool is_small) {
    ModelSegment& segment = segments_[start];
    segment.stream = stream;
    segment.is_small = is_small;
    segment.bytes = bytes;
    segment.blocks[start].bytes = bytes;
  }

  std::pair<ModelSegment*, ModelBlock*> Find(uintptr_t address) {
    for (auto& segment : segments_) {
      const auto found = segment.second.blocks.find(address);
      if (found != segment.second.blocks.end()) return {&segment.second, &found->second};
    }
    return {nullptr, nullptr};
  }

  void Free(uintptr_t address) {
    const auto [segment, block] = Find(address);
    block->allocated = false;
    for (const StreamId stream : block->recorded) block->uses[stream] = streams[stream].added;
    block->recorded.clear();
    MergeAll(*segment);
  }

  void FinishAll() {
    for (auto& stream : streams) stream.second.finished = stream.second.added;
  }

  std::map<uintptr_t, ModelSegment>& segments() { return segments_; }

  void CheckAgainst(const MemorySnapshot& snapshot, const MemoryStatistics& statistics) {
    ASSERT_EQ(snapshot.segments.size(), segments_.size());
    int64_t allocations = 0;
    int64_t active = 0;
    int64_t active_bytes = 0;
    int64_t allocated_bytes = 0;
    int64_t reserved_bytes = 0;
    int64_t inactive_split = 0;
    int64_t inactive_split_bytes = 0;
    auto expected = segments_.begin();
    for (const MemorySegment& segment : snapshot.segments) {
      ASSERT_EQ(segment.address, expected->first);
      const ModelSegment& wanted = expected->second;
      ASSERT_EQ(segment.bytes, wanted.bytes);
      ASSERT_EQ(segment.stream, wanted.stream);
      ASSERT_EQ(segment.blocks.size(), wanted.blocks.size());
      reserved_bytes += static_cast<int64_t>(wanted.bytes);
      auto wanted_block = wanted.blocks.begin();
      for (const MemoryBlock& block : segment.blocks) {
        ASSERT_EQ(block.address, wanted_block->first);
        const ModelBlock& model = wanted_block->second;
        const auto bytes = static_cast<int64_t>(model.bytes);
        ASSERT_EQ(block.bytes, model.bytes);
        ASSERT_EQ(block.state == MemoryBlock::State::kAllocated, model.allocated);
        ASSERT_EQ(block.state == MemoryBlock::State::kInactive, IsFree(model));
        allocations += model.allocated ? 1 : 0;
        allocated_bytes += model.allocated ? bytes : 0;
        active += IsFree(model) ? 0 : 1;
        active_bytes += IsFree(model) ? 0 : bytes;
        if (IsFree(model) && wanted.blocks.size() > 1) {
          inactive_split += 1;
          inactive_split_bytes += bytes;
        }
        ++wanted_block;
      }
      ++expected;
    }
    ASSERT_EQ(statistics.allocations.all.current, allocations);
    ASSERT_EQ(statistics.allocated_bytes.all.current, allocated_bytes);
    ASSERT_EQ(statistics.active.all.current, active);
    ASSERT_EQ(statistics.active_bytes.all.current, active_bytes);
    ASSERT_EQ(statistics.reserved_bytes.all.current, reserved_bytes);
    ASSERT_EQ(statistics.segments.all.current, static_cast<int64_t>(segments_.size()));
    ASSERT_EQ(statistics.inactive_split.all.current, inactive_split);
    ASSERT_EQ(statistics.inactive_split_bytes.all.current, inactive_split_bytes);
    for (const PoolCounters* counters :
         {&statistics.allocations, &statistics.segments, &statistics.active, &statistics.inactive_split,
          &statistics.allocated_bytes, &statistics.reserved_bytes, &statistics.active_bytes,
          &statistics.inactive_split_bytes}) {
      ASSERT_EQ(counters->all.current, counters->small.current + counters->large.current);
      ASSERT_EQ(counters->all.current, counters->all.allocated - counters->all.freed);
      ASSERT_GE(counters->all.peak, counters->all.current);
      ASSERT_GE(counters->small.current, 0);
      ASSERT_GE(counters->large.current, 0);
    }
  }

 private:
  static void MergeAll(ModelSegment& segment) {
    for (auto block = segment.blocks.begin(); block != segment.blocks.end();) {
      const auto next = std::next(block);
      if (next != segment.blocks.end() && IsFree(block->second) && IsFree(next->second)) {
        block->second.bytes += next->second.bytes;
        segment.blocks.erase(next);
      } else {
        block = next;
      }
    }
  }

  const size_t max_split_;
  std::map<uintptr_t, ModelSegment> segments_;
};

class ModelRun {
 public:
  ModelRun(uint64_t seed, const char* options, uint64_t device_bytes = 160 * kMiB)
      : random_(seed), options_(CachingOptions::Parse(options).value()), model_(options_.max_split_size) {
    SimulatedBackend::Options backend_options;
    backend_options.memory_bytes = device_bytes;
    device_ = SimulatedBackend::Create(backend_options).value();
    scratch_ = device_->Allocate(512).value();
    streams_ = {kDefaultStream, device_->CreateStream().value(), device_->CreateStream().value()};
    cache_ = CachingAllocator::Make(device_, options_);
  }

  void Steps(int64_t count) {
    for (int64_t i = 0; i < count && !::testing::Test::HasFatalFailure(); ++i) {
      SCOPED_TRACE(i);
      Step();
      if (i % 8 == 0 || count < 1000) model_.CheckAgainst(cache_->Snapshot(), cache_->statistics());
    }
  }

  // Allocations and frees, as traces/record.py writes them.
  void Replay(const std::vector<int64_t>& events) {
    std::vector<std::pair<void*, size_t>> allocated;
    for (size_t i = 0; i < events.size() && !::testing::Test::HasFatalFailure(); ++i) {
      SCOPED_TRACE(i);
      if (events[i] > 0) {
        Allocate(static_cast<size_t>(events[i]), kDefaultStream);
        if (!::testing::Test::HasFatalFailure()) allocated.push_back(held_.back());
      } else {
        Free(std::find(held_.begin(), held_.end(), allocated.at(static_cast<size_t>(-events[i]) - 1)));
      }
      model_.CheckAgainst(cache_->Snapshot(), cache_->statistics());
    }
  }

  MemoryStatistics statistics() const { return cache_->statistics(); }

  void Finish() {
    for (const auto& [address, bytes] : held_) cache_->Deallocate(address, bytes);
    ASSERT_OK(cache_->EmptyCache());
    EXPECT_EQ(cache_->statistics().reserved_bytes.all.current, 0);
    EXPECT_EQ(device_->live_allocations(), 1);
    EXPECT_EQ(device_->live_events(), 0);
    cache_ = nullptr;
    EXPECT_OK(device_->Free(scratch_, 512));
  }

 private:
  size_t Below(size_t limit) { return random_() % limit; }
  StreamId AnyStream() { return streams_[Below(streams_.size())]; }

  void Step() {
    const size_t kind = Below(100);
    if (kind < 42 && held_.size() < 400) return AllocateAny();
    if (kind < 80) return held_.empty() ? void() : Free(held_.begin() + static_cast<int64_t>(Below(held_.size())));
    if (kind < 86) return Record();
    if (kind < 92) return AddWork();
    if (kind < 99) return FinishWork();
    if (Below(4) == 0) return Empty();
    if (Below(4) == 0)
      device_->FailNext(SimulatedBackend::Call::kAllocate, 1 + static_cast<int64_t>(Below(3)), 0,
                        absl::StatusCode::kResourceExhausted);
  }

  void AllocateAny() {
    const size_t limits[] = {4096, kMiB, 3 * kMiB, 12 * kMiB, 60 * kMiB};
    const size_t bytes = 1 + Below(limits[Below(Below(4) == 0 ? 5 : 4)]);
    Allocate(bytes, AnyStream());
  }

  void Allocate(size_t bytes, StreamId stream) {
    const size_t rounded = options_.RoundSize(bytes);
    model_.Poll();
    const auto [chosen, segment] = model_.Choose(rounded, stream);
    const MemoryStatistics before = cache_->statistics();
    void* const block = cache_->TryAllocate(bytes, stream).value_or(nullptr);
    const auto address = reinterpret_cast<uintptr_t>(block);
    if (chosen != 0) {
      ASSERT_EQ(address, chosen);
      model_.Take(segment, address, rounded);
    } else {
      Miss(before, block, rounded, stream);
    }
    if (block != nullptr) held_.emplace_back(block, bytes);
  }

  // No cached block fits: the allocator got a segment, perhaps after it had released others, or failed.
  void Miss(const MemoryStatistics& before, const void* block, size_t rounded, StreamId stream) {
    const MemoryStatistics after = cache_->statistics();
    const bool all_released = after.alloc_retries > before.alloc_retries;
    const bool any_released = after.segments.all.freed > before.segments.all.freed;
    // Freeing memory of the device waits for its work. Only after releasing all does the allocator look at its events.
    if (any_released || all_released) {
      for (const StreamId one : streams_) device_->Complete(one);
      model_.FinishAll();
    }
    if (all_released) model_.Poll();
    DropReleased(all_released, block, after.segments.all.freed - before.segments.all.freed);
    if (block == nullptr) {
      ASSERT_EQ(after.ooms, before.ooms + 1);
      return;
    }
    const auto address = reinterpret_cast<uintptr_t>(block);
    const size_t segment_bytes = rounded <= kMiB       ? 2 * kMiB
                                 : rounded < 10 * kMiB ? 20 * kMiB
                                                       : (rounded + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    for (const auto& [start, segment] : model_.segments())
      ASSERT_TRUE(address >= start + segment.bytes || address + segment_bytes <= start) << "segments overlap";
    model_.AddSegment(address, segment_bytes, stream, rounded <= kMiB);
    model_.Take(address, address, rounded);
  }

  // Removes from the model the segments that the allocator has released. Each must be free. A new segment begins with
  // `fresh`, perhaps where a released one was.
  void DropReleased(bool all, const void* fresh, int64_t released) {
    std::set<uintptr_t> kept;
    for (const MemorySegment& segment : cache_->Snapshot().segments) kept.insert(segment.address);
    kept.erase(reinterpret_cast<uintptr_t>(fresh));
    int64_t dropped = 0;
    for (auto next = model_.segments().begin(); next != model_.segments().end();) {
      const ModelSegment& segment = next->second;
      const bool is_free = segment.blocks.size() == 1 && Model::IsFree(segment.blocks.begin()->second);
      const bool is_gone = kept.count(next->first) == 0;
      ASSERT_TRUE(is_free || !is_gone) << "a segment in use was released";
      ASSERT_TRUE(is_gone || !is_free || !all) << "a free segment was kept";
      next = is_gone ? model_.segments().erase(next) : std::next(next);
      dropped += is_gone ? 1 : 0;
    }
    ASSERT_EQ(dropped, released);
  }

  void Free(std::vector<std::pair<void*, size_t>>::iterator block) {
    cache_->Deallocate(block->first, block->second);
    model_.Free(reinterpret_cast<uintptr_t>(block->first));
    *block = held_.back();
    held_.pop_back();
  }

  void Record() {
    if (held_.empty()) return;
    void* const block = held_[Below(held_.size())].first;
    const StreamId stream = AnyStream();
    ASSERT_OK(cache_->RecordStream(block, stream));
    const auto [segment, model] = model_.Find(reinterpret_cast<uintptr_t>(block));
    if (segment->stream != stream) model->recorded.insert(stream);
  }

  void AddWork() {
    const StreamId stream = AnyStream();
    ASSERT_OK(device_->Fill(scratch_, 1, 1, stream));
    ++model_.streams[stream].added;
  }

  // Finishes all work of a stream.
  void FinishWork() {
    const StreamId stream = AnyStream();
    device_->Complete(stream);
    model_.streams[stream].finished = model_.streams[stream].added;
  }

  void Empty() {
    const MemoryStatistics before = cache_->statistics();
    ASSERT_OK(cache_->EmptyCache());
    // Waiting for events finishes the work before them; freeing a segment finishes all work.
    for (const StreamId stream : streams_) device_->Complete(stream);
    model_.FinishAll();
    model_.Poll();
    DropReleased(true, nullptr, cache_->statistics().segments.all.freed - before.segments.all.freed);
  }

  std::mt19937_64 random_;
  const CachingOptions options_;
  Model model_;
  RefPtr<SimulatedBackend> device_;
  RefPtr<CachingAllocator> cache_;
  void* scratch_ = nullptr;
  std::vector<StreamId> streams_;
  std::vector<std::pair<void*, size_t>> held_;
};

TEST(CachingAllocatorModel, RandomStepsChooseTheBlocksOfTheModel) {
  const char* const steps = std::getenv("TENSORCASK_MODEL_STEPS");
  const int64_t count = steps == nullptr ? 20000 : std::strtoll(steps, nullptr, 10);
  const char* const kOptions[] = {"", "max_split_size_mb:21", "roundup_power2_divisions:4"};
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(seed);
    ModelRun run(seed, kOptions[seed]);
    run.Steps(count);
    if (HasFatalFailure()) return;
    EXPECT_GT(run.statistics().alloc_retries, 0);
    EXPECT_GT(run.statistics().ooms, 0);
    run.Finish();
  }
}

// Statistics of a whole trace, in bytes, and the segments that PyTorch's rules need for it.
struct Recorded {
  const char* name;
  size_t num_events;
  int64_t peak_allocated;
  int64_t peak_reserved;
  int64_t segments;
};

class CachingAllocatorTrace : public ::testing::TestWithParam<Recorded> {};

TEST_P(CachingAllocatorTrace, EachStepIsThatOfTheModel) {
  std::ifstream file(absl::StrCat("tests/tensor/memory/traces/", GetParam().name, ".txt"));
  const std::vector<int64_t> events{std::istream_iterator<int64_t>(file), std::istream_iterator<int64_t>()};
  ASSERT_EQ(events.size(), GetParam().num_events);
  for (const char* const options : {"", "max_split_size_mb:21", "roundup_power2_divisions:4"}) {
    SCOPED_TRACE(options);
    ModelRun run(0, options, uint64_t{1} << 30);
    run.Replay(events);
    if (HasFatalFailure()) return;
    const MemoryStatistics statistics = run.statistics();
    EXPECT_EQ(statistics.ooms, 0);
    if (*options == '\0') {
      EXPECT_EQ(statistics.allocated_bytes.all.peak, GetParam().peak_allocated);
      EXPECT_EQ(statistics.reserved_bytes.all.peak, GetParam().peak_reserved);
      EXPECT_EQ(statistics.segments.all.peak, GetParam().segments);
    }
    run.Finish();
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, CachingAllocatorTrace,
                         ::testing::Values(Recorded{"transformer", 6462, 322593792, 398458880, 36},
                                           Recorded{"convolutions", 1566, 112099840, 157286400, 11},
                                           Recorded{"generation", 6922, 40738304, 67108864, 5}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
