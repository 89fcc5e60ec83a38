// The programs that tests/tensor/memory/traces records, on a device: after each step the caching allocator has the
// segments and blocks that it has on the simulated device.
//
// Addresses of a device decide between free blocks of one size, so two comparisons are made. The first is exact: with a
// backend that repeats the device's addresses. The second is with the simulated device, whose addresses only grow; it
// is made as long as those of the device do, too.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tests/gpu/gpu_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::GpuTest;

// Answers in order of the calls.
struct Answer {
  absl::Status status;
  void* address = nullptr;
};
struct Answers {
  std::deque<Answer> blocks;
  std::deque<Answer> addresses;
  std::deque<Answer> maps;
};

// A backend for allocators alone: no streams but 0, whose work is always done.
class AllocatingBackend : public DeviceBackend {
 public:
  absl::string_view name() const override { return "allocating"; }
  absl::StatusOr<StreamId> CreateStream() override { return absl::UnimplementedError("no streams"); }
  absl::Status DestroyStream(StreamId) override { return absl::UnimplementedError("no streams"); }
  absl::Status Synchronize(StreamId) override { return absl::OkStatus(); }
  absl::Status SynchronizeAll() override { return absl::OkStatus(); }
  absl::StatusOr<EventId> RecordEvent(StreamId) override { return 1; }
  absl::StatusOr<bool> QueryEvent(EventId) override { return true; }
  absl::Status SynchronizeEvent(EventId) override { return absl::OkStatus(); }
  absl::Status WaitForEvent(StreamId, EventId) override { return absl::OkStatus(); }
  void DestroyEvent(EventId) override {}
  absl::Status Copy(CopyKind, void*, const void*, size_t, StreamId) override {
    return absl::UnimplementedError("no copies");
  }
  absl::Status Fill(void*, uint8_t, size_t, StreamId) override { return absl::UnimplementedError("no fills"); }
};

// Passes calls on, and keeps the answers.
class Recorder final : public AllocatingBackend {
 public:
  Recorder(RefPtr<DeviceBackend> backend, Answers* answers) : backend_(std::move(backend)), answers_(answers) {}

  Device device() const override { return backend_->device(); }
  absl::StatusOr<void*> Allocate(size_t bytes) override { return Keep(backend_->Allocate(bytes), answers_->blocks); }
  absl::Status Free(void* block, size_t bytes) override { return backend_->Free(block, bytes); }
  absl::StatusOr<DeviceMemoryInfo> MemoryInfo() override { return backend_->MemoryInfo(); }
  size_t MappingGranularity() const override { return backend_->MappingGranularity(); }
  absl::StatusOr<void*> ReserveAddresses(size_t bytes) override {
    return Keep(backend_->ReserveAddresses(bytes), answers_->addresses);
  }
  absl::Status FreeAddresses(void* start, size_t bytes) override { return backend_->FreeAddresses(start, bytes); }
  absl::Status Map(void* start, size_t bytes) override {
    answers_->maps.push_back({backend_->Map(start, bytes)});
    return answers_->maps.back().status;
  }
  absl::Status Unmap(void* start, size_t bytes) override { return backend_->Unmap(start, bytes); }

 private:
  static absl::StatusOr<void*> Keep(const absl::StatusOr<void*>& answer, std::deque<Answer>& answers) {
    answers.push_back({answer.status(), answer.ok() ? *answer : nullptr});
    return answer;
  }

  const RefPtr<DeviceBackend> backend_;
  Answers* const answers_;
};

// Gives the answers again.
class Repeater final : public AllocatingBackend {
 public:
  Repeater(Device device, size_t granularity, DeviceMemoryInfo info, Answers* answers)
      : device_(device), granularity_(granularity), info_(info), answers_(answers) {}

  Device device() const override { return device_; }
  absl::StatusOr<void*> Allocate(size_t) override { return NextAddress(answers_->blocks); }
  absl::Status Free(void*, size_t) override { return absl::OkStatus(); }
  absl::StatusOr<DeviceMemoryInfo> MemoryInfo() override { return info_; }
  size_t MappingGranularity() const override { return granularity_; }
  absl::StatusOr<void*> ReserveAddresses(size_t) override { return NextAddress(answers_->addresses); }
  absl::Status FreeAddresses(void*, size_t) override { return absl::OkStatus(); }
  absl::Status Map(void*, size_t) override { return Next(answers_->maps).status; }
  absl::Status Unmap(void*, size_t) override { return absl::OkStatus(); }

 private:
  static Answer Next(std::deque<Answer>& answers) {
    if (answers.empty()) return {absl::InternalError("the device was not asked this")};
    const Answer answer = answers.front();
    answers.pop_front();
    return answer;
  }
  static absl::StatusOr<void*> NextAddress(std::deque<Answer>& answers) {
    const Answer answer = Next(answers);
    if (!answer.status.ok()) return answer.status;
    return answer.address;
  }

  const Device device_;
  const size_t granularity_;
  const DeviceMemoryInfo info_;
  Answers* const answers_;
};

using Block = std::tuple<uintptr_t, size_t, MemoryBlock::State>;                // address, bytes, state
using Segment = std::tuple<uintptr_t, size_t, bool, bool, std::vector<Block>>;  // address, bytes, large, expandable

// With addresses that count from the start of each segment, if `relative`.
std::vector<Segment> Describe(const MemorySnapshot& snapshot, bool relative) {
  std::vector<Segment> described;
  for (const MemorySegment& segment : snapshot.segments) {
    const uintptr_t origin = relative ? segment.address : 0;
    std::vector<Block> blocks;
    for (const MemoryBlock& block : segment.blocks)
      blocks.emplace_back(block.address - origin, block.bytes, block.state);
    described.emplace_back(segment.address - origin, segment.bytes, segment.is_large, segment.is_expandable,
                           std::move(blocks));
  }
  // The pools lie in any order; the segments of each are in order of address.
  std::stable_sort(described.begin(), described.end(),
                   [](const Segment& a, const Segment& b) { return std::get<2>(a) < std::get<2>(b); });
  return described;
}

// Steps of a program, with the blocks that it holds.
class Program {
 public:
  Program(RefPtr<DeviceBackend> backend, const char* options)
      : cache_(CachingAllocator::Make(std::move(backend), CachingOptions::Parse(options).value())) {}
  ~Program() {
    for (const auto& [number, block] : held_) cache_->Deallocate(block.first, block.second);
  }

  absl::Status Step(int64_t event) {
    if (event < 0) {
      const auto freed = held_.find(-event);
      if (freed == held_.end()) return absl::InvalidArgumentError("frees what is not allocated");
      cache_->Deallocate(freed->second.first, freed->second.second);
      held_.erase(freed);
      return absl::OkStatus();
    }
    const auto bytes = static_cast<size_t>(event);
    CASK_ASSIGN_OR_RETURN(void* const block, cache_->TryAllocate(bytes));
    held_[++allocations_] = {block, bytes};
    return absl::OkStatus();
  }
  MemorySnapshot Snapshot() const { return cache_->Snapshot(); }
  MemoryStatistics statistics() const { return cache_->statistics(); }

 private:
  const RefPtr<CachingAllocator> cache_;
  std::map<int64_t, std::pair<void*, size_t>> held_;
  int64_t allocations_ = 0;
};

// Whether the segments of each pool got ever greater addresses, as those of the simulated device do.
class Ascending {
 public:
  bool StillHolds(const MemorySnapshot& snapshot) {
    for (const MemorySegment& segment : snapshot.segments) {
      std::map<uintptr_t, int64_t>& pool = segment.is_large ? large_ : small_;
      if (pool.count(segment.address) > 0) continue;
      if (!pool.empty() && segment.address < pool.rbegin()->first) holds_ = false;
      pool[segment.address] = 1;
    }
    return holds_;
  }

 private:
  std::map<uintptr_t, int64_t> small_;
  std::map<uintptr_t, int64_t> large_;
  bool holds_ = true;
};

class TracesTest : public GpuTest {
 protected:
  void Compare(const char* trace, const char* options) {
    SCOPED_TRACE(absl::StrCat(trace, " ", options));
    std::ifstream file(absl::StrCat("tests/tensor/memory/traces/", trace, ".txt"));
    const std::vector<int64_t> events{std::istream_iterator<int64_t>(file), std::istream_iterator<int64_t>()};
    ASSERT_GT(events.size(), 1000U) << "the trace is not here";
    Answers answers;
    SimulatedBackend::Options simulated;
    simulated.memory_bytes = uint64_t{1} << 30;
    ASSERT_OK_AND_ASSIGN(const DeviceMemoryInfo info, backend().MemoryInfo());
    Program found(MakeRef<Recorder>(device(), &answers), options);
    Program repeated(MakeRef<Repeater>(backend().device(), backend().MappingGranularity(), info, &answers), options);
    Program expected(SimulatedBackend::Create(simulated).value(), options);
    Ascending ascending;
    bool is_ascending = true;
    size_t compared = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("step ", i));
      ASSERT_OK(found.Step(events[i]));
      ASSERT_OK(repeated.Step(events[i]));
      ASSERT_OK(expected.Step(events[i]));
      const MemorySnapshot snapshot = found.Snapshot();
      ASSERT_TRUE(Describe(snapshot, false) == Describe(repeated.Snapshot(), false)) << snapshot.ToJson();
      is_ascending = is_ascending && ascending.StillHolds(snapshot);
      if (!is_ascending) continue;
      ++compared;
      const MemorySnapshot wanted = expected.Snapshot();
      ASSERT_TRUE(Describe(snapshot, true) == Describe(wanted, true)) << snapshot.ToJson() << "\n" << wanted.ToJson();
    }
    if (compared < events.size()) {
      std::cout << trace << " " << options << ": the device's addresses do not grow after step " << compared << " of "
                << events.size() << "\n";
    }
    // The requests alone decide these.
    EXPECT_EQ(found.statistics().allocated_bytes.all.peak, expected.statistics().allocated_bytes.all.peak);
    EXPECT_EQ(found.statistics().allocations.all.allocated, expected.statistics().allocations.all.allocated);
    EXPECT_EQ(found.statistics().ooms, 0);
    EXPECT_TRUE(answers.blocks.empty());
    EXPECT_TRUE(answers.maps.empty());
  }
  void CompareAll(const char* trace) {
    for (const char* const options : {"", "max_split_size_mb:21", "roundup_power2_divisions:4"})
      Compare(trace, options);
    if (backend().MappingGranularity() > 0) Compare(trace, "expandable_segments:True");
  }
};
CASK_ON_EACH_DEVICE(TracesTest);

TEST_P(TracesTest, Transformer) { CompareAll("transformer"); }
TEST_P(TracesTest, Convolutions) { CompareAll("convolutions"); }
TEST_P(TracesTest, Generation) { CompareAll("generation"); }

}  // namespace
}  // namespace tensorcask
