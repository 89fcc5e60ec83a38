// Replays recorded allocations (tests/tensor/memory/traces) through a CachingAllocator, for replay_trace.py, which
// compares it with PyTorch's:
//
//   replay_trace [--simulated] [--options TEXT] [--addresses FILE] TRACE     prints the state after each step
//   replay_trace --times [--simulated] TRACE...                              prints the time of a step, as JSON
//
// A line of the state: bytes in use, bytes of all segments, and the segments, each with its pool (s, l), its size and
// its blocks (a: in use, p: waiting for a stream, f: free), such as
//
//   512 23068672 s2097152:a512,f2096640;l20971520:f20971520
//
// in the order in which they were created; expandable segments by pool and address. The last line is "order" and the
// numbers of the segments by address: of two free blocks of one size, the one at the lower address is used.
//
// With --addresses, memory is only a list of addresses, "ADDRESS BYTES" on each line of FILE: segment i is the one of
// line i. Segments then stand in order of address, which is printed before the pool.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/cuda_backend.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/memory/simulated_backend.h"

namespace tensorcask {
namespace {

constexpr int kRounds = 9;

// Allocate returns listed addresses in their order. The program never reads or writes memory there.
class ListedAddresses final : public DeviceBackend {
 public:
  explicit ListedAddresses(std::vector<std::pair<uintptr_t, size_t>> blocks) : blocks_(std::move(blocks)) {}

  absl::string_view name() const override { return "listed"; }
  Device device() const override { return {DeviceType::kExtension, 0}; }
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    if (next_ == blocks_.size())
      return absl::InternalError(absl::StrCat("a segment more than the list has: ", bytes, " bytes"));
    const auto [address, listed] = blocks_[next_];
    if (listed != bytes) {
      return absl::InternalError(
          absl::StrCat("segment ", next_, " needs ", bytes, " bytes; the list has ", listed, " there"));
    }
    ++next_;
    return reinterpret_cast<void*>(address);
  }
  absl::Status Free(void*, size_t) override { return absl::OkStatus(); }
  absl::StatusOr<DeviceMemoryInfo> MemoryInfo() override { return DeviceMemoryInfo{size_t{1} << 40, size_t{1} << 40}; }
  absl::StatusOr<StreamId> CreateStream() override { return kDefaultStream; }
  absl::Status DestroyStream(StreamId) override { return absl::OkStatus(); }
  absl::Status Synchronize(StreamId) override { return absl::OkStatus(); }
  absl::Status SynchronizeAll() override { return absl::OkStatus(); }
  absl::StatusOr<EventId> RecordEvent(StreamId) override { return 0; }
  absl::StatusOr<bool> QueryEvent(EventId) override { return true; }
  absl::Status SynchronizeEvent(EventId) override { return absl::OkStatus(); }
  absl::Status WaitForEvent(StreamId, EventId) override { return absl::OkStatus(); }
  void DestroyEvent(EventId) override {}
  absl::Status Copy(CopyKind, void*, const void*, size_t, StreamId) override { return absl::OkStatus(); }
  absl::Status Fill(void*, uint8_t, size_t, StreamId) override { return absl::OkStatus(); }

 private:
  const std::vector<std::pair<uintptr_t, size_t>> blocks_;
  size_t next_ = 0;
};

struct Arguments {
  bool simulated = false;
  bool times = false;
  std::string options;
  std::string addresses;
  std::vector<std::string> traces;
};

absl::StatusOr<std::vector<int64_t>> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  std::vector<int64_t> events{std::istream_iterator<int64_t>(file), std::istream_iterator<int64_t>()};
  if (events.empty() || !file.eof()) return absl::InvalidArgumentError(absl::StrCat(path, ": not a trace"));
  return events;
}

absl::StatusOr<RefPtr<DeviceBackend>> MakeBackend(const Arguments& arguments) {
  if (!arguments.addresses.empty()) {
    std::ifstream file(arguments.addresses);
    std::vector<std::pair<uintptr_t, size_t>> blocks;
    uintptr_t address = 0;
    size_t bytes = 0;
    while (file >> address >> bytes) blocks.emplace_back(address, bytes);
    return RefPtr<DeviceBackend>(MakeRef<ListedAddresses>(std::move(blocks)));
  }
  if (arguments.simulated) return SimulatedBackend::Create({/*memory_bytes=*/uint64_t{4} << 30});
  CudaBackend::Options options;
  if (const char* const library = std::getenv("TENSORCASK_CUDA_LIBRARY"); library != nullptr) options.library = library;
  return CudaBackend::Create(options);
}

// The allocations and frees of a trace.
class Replay {
 public:
  Replay(CachingAllocator& cache, const std::vector<int64_t>& events) : cache_(cache), events_(events) {
    blocks_.reserve(events.size());
  }
  ~Replay() {
    for (const auto& [block, bytes] : blocks_)
      if (block != nullptr) cache_.Deallocate(block, bytes);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Calls after() after each step.
  template <typename After>
  absl::Status Run(After&& after) {
    for (const int64_t event : events_) {
      if (event > 0) {
        CASK_ASSIGN_OR_RETURN(void* const block, cache_.TryAllocate(static_cast<size_t>(event)));
        blocks_.emplace_back(block, static_cast<size_t>(event));
      } else {
        auto& [block, bytes] = blocks_.at(static_cast<size_t>(-event) - 1);
        cache_.Deallocate(block, bytes);
        block = nullptr;
      }
      after();
    }
    return absl::OkStatus();
  }

 private:
  CachingAllocator& cache_;
  const std::vector<int64_t>& events_;
  std::vector<std::pair<void*, size_t>> blocks_;
};

void AppendSegment(const MemorySegment& segment, std::string* line) {
  absl::StrAppend(line, segment.is_large ? "l" : "s", segment.bytes);
  char before = ':';
  for (const MemoryBlock& block : segment.blocks) {
    const char* const state = block.state == MemoryBlock::State::kAllocated      ? "a"
                              : block.state == MemoryBlock::State::kAwaitingFree ? "p"
                                                                                 : "f";
    absl::StrAppend(line, std::string(1, before), state, block.bytes);
    before = ',';
  }
}

class StateLines {
 public:
  explicit StateLines(bool with_addresses) : with_addresses_(with_addresses) {}

  std::string Of(const CachingAllocator& cache) {
    const MemoryStatistics statistics = cache.statistics();
    std::string line =
        absl::StrCat(statistics.allocated_bytes.all.current, " ", statistics.reserved_bytes.all.current, " ");
    MemorySnapshot snapshot = cache.Snapshot();  // by address
    for (const MemorySegment& segment : snapshot.segments) created_.emplace(segment.address, created_.size());
    const auto rank = [&](const MemorySegment& segment) {
      if (with_addresses_) return size_t{0};
      if (segment.is_expandable) return segment.is_large ? size_t{1} : size_t{0};
      return created_.at(segment.address);
    };
    std::stable_sort(snapshot.segments.begin(), snapshot.segments.end(),
                     [&](const MemorySegment& a, const MemorySegment& b) { return rank(a) < rank(b); });
    bool is_first = true;
    for (const MemorySegment& segment : snapshot.segments) {
      if (!is_first) line += ';';
      is_first = false;
      if (with_addresses_) absl::StrAppend(&line, segment.address, ":");
      AppendSegment(segment, &line);
    }
    return line;
  }

  std::string Order() const {
    std::vector<std::pair<uintptr_t, size_t>> by_address(created_.begin(), created_.end());
    std::sort(by_address.begin(), by_address.end());
    std::string line = "order";
    for (const auto& entry : by_address) absl::StrAppend(&line, " ", entry.second);
    return line;
  }

 private:
  const bool with_addresses_;
  std::unordered_map<uintptr_t, size_t> created_;
};

absl::Status PrintStates(const Arguments& arguments) {
  CASK_ASSIGN_OR_RETURN(const std::vector<int64_t> events, ReadTrace(arguments.traces.at(0)));
  CASK_ASSIGN_OR_RETURN(const CachingOptions options, CachingOptions::Parse(arguments.options));
  CASK_ASSIGN_OR_RETURN(const RefPtr<DeviceBackend> backend, MakeBackend(arguments));
  const RefPtr<CachingAllocator> cache = CachingAllocator::Make(backend, options);
  StateLines lines(!arguments.addresses.empty());
  {
    Replay replay(*cache, events);
    CASK_RETURN_IF_ERROR(replay.Run([&] { std::cout << lines.Of(*cache) << '\n'; }));
  }
  std::cout << lines.Order() << '\n' << std::flush;
  return cache->EmptyCache();
}

// With a warm cache: a step takes nothing from the device.
absl::Status PrintTimes(const Arguments& arguments) {
  CASK_ASSIGN_OR_RETURN(const CachingOptions options, CachingOptions::Parse(arguments.options));
  CASK_ASSIGN_OR_RETURN(const RefPtr<DeviceBackend> backend, MakeBackend(arguments));
  for (const std::string& trace : arguments.traces) {
    CASK_ASSIGN_OR_RETURN(const std::vector<int64_t> events, ReadTrace(trace));
    const RefPtr<CachingAllocator> cache = CachingAllocator::Make(backend, options);
    std::vector<double> seconds;
    for (int round = 0; round <= kRounds; ++round) {
      Replay replay(*cache, events);
      const auto start = std::chrono::steady_clock::now();
      CASK_RETURN_IF_ERROR(replay.Run([] {}));
      if (round > 0)  // the first one fills the cache
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
    const std::string name = trace.substr(trace.find_last_of('/') + 1);
    std::cout << absl::StrCat("{\"name\": \"", name.substr(0, name.find('.')),
                              "\", \"value\": ", seconds[kRounds / 2] / static_cast<double>(events.size()) * 1e9,
                              ", \"unit\": \"ns\"}\n")
              << std::flush;
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--simulated") {
      arguments.simulated = true;
    } else if (argument == "--times") {
      arguments.times = true;
    } else if (argument == "--options" && has_value) {
      arguments.options = argv[++i];
    } else if (argument == "--addresses" && has_value) {
      arguments.addresses = argv[++i];
    } else if (argument[0] != '-') {
      arguments.traces.push_back(argument);
    } else {
      arguments.traces.clear();
      break;
    }
  }
  if (arguments.traces.empty() || (arguments.traces.size() > 1 && !arguments.times)) {
    std::cerr << "usage: replay_trace [--times] [--simulated] [--options TEXT] [--addresses FILE] TRACE...\n";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  const absl::Status status = arguments.times ? PrintTimes(arguments) : PrintStates(arguments);
  if (status.ok()) return 0;
  std::cout << std::flush;
  std::cerr << "replay_trace: " << status << "\n";
  return absl::IsUnimplemented(status) ? 77 : 1;  // 77: there is no device
}

}  // namespace
}  // namespace tensorcask

int main(int argc, char** argv) { return tensorcask::Main(argc, argv); }
