// Allocate and free, from the caches of tensor/memory and from other allocators.
//
//   bazel run //tests/benchmarks:memory_benchmark
//
// Each operation allocates a block, writes its first byte and frees it. The numbers are nanoseconds for one operation,
// medians of rounds; with two threads, each thread has a block of its own. The last two columns compare host_caching
// with the fastest of glibc, mimalloc and jemalloc. mimalloc and jemalloc are opened at run time (Debian:
// libmimalloc2.0, libjemalloc2); a column of dashes means that the library cannot be opened. jemalloc needs more room
// for thread-local data than glibc leaves: GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536.

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/host_caching_allocator.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

// Plain functions, so that the benchmark adds little to what it measures.
struct Candidate {
  std::string name;
  void* (*allocate)(const Candidate& self, size_t bytes) = nullptr;  // null: not installed
  void (*deallocate)(const Candidate& self, void* block, size_t bytes) = nullptr;
  RefPtr<Allocator> allocator = nullptr;
  void* (*library_allocate)(size_t) = nullptr;
  void (*library_deallocate)(void*) = nullptr;
};

Candidate OfAllocator(const char* name, RefPtr<Allocator> allocator) {
  Candidate candidate;
  candidate.name = name;
  candidate.allocate = [](const Candidate& self, size_t bytes) { return self.allocator->Allocate(bytes); };
  candidate.deallocate = [](const Candidate& self, void* block, size_t bytes) {
    self.allocator->Deallocate(block, bytes);
  };
  candidate.allocator = std::move(allocator);
  return candidate;
}

Candidate OfFunctions(const char* name, void* (*allocate)(size_t), void (*deallocate)(void*)) {
  Candidate candidate;
  candidate.name = name;
  if (allocate == nullptr || deallocate == nullptr) return candidate;
  candidate.allocate = [](const Candidate& self, size_t bytes) { return self.library_allocate(bytes); };
  candidate.deallocate = [](const Candidate& self, void* block, size_t) { self.library_deallocate(block); };
  candidate.library_allocate = allocate;
  candidate.library_deallocate = deallocate;
  return candidate;
}

Candidate OfLibrary(const char* name, const char* library, const char* allocate, const char* deallocate) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return OfFunctions(name, nullptr, nullptr);
  return OfFunctions(name, reinterpret_cast<void* (*)(size_t)>(dlsym(handle, allocate)),
                     reinterpret_cast<void (*)(void*)>(dlsym(handle, deallocate)));
}

void Work(const Candidate& candidate, size_t bytes, int operations) {
  for (int i = 0; i < operations; ++i) {
    void* const block = candidate.allocate(candidate, bytes);
    *static_cast<volatile char*>(block) = 1;
    candidate.deallocate(candidate, block, bytes);
  }
}

// Nanoseconds for one operation.
double Measure(const Candidate& candidate, size_t bytes, int num_threads) {
  constexpr int kRounds = 9;
  constexpr double kRoundSeconds = 0.05;  // hides what starting the threads takes, and moving them to free processors
  const auto seconds_for = [&](int operations) {
    return MedianSeconds(kRounds,
                         [&] {
                           std::vector<std::thread> threads;
                           for (int i = 1; i < num_threads; ++i)
                             threads.emplace_back([&] { Work(candidate, bytes, operations); });
                           Work(candidate, bytes, operations);
                           for (std::thread& thread : threads) thread.join();
                         })
        .median;
  };
  constexpr int kFewOperations = 200;
  const double few = std::max(seconds_for(kFewOperations), 1e-9);
  const int operations = std::max(kFewOperations, static_cast<int>(kRoundSeconds / few * kFewOperations));
  return seconds_for(operations) * 1e9 / operations;
}

void Run() {
  const std::vector<Candidate> candidates = {
      OfAllocator("host_caching", HostCachingAllocator::Make()),
      OfFunctions("glibc", std::malloc, std::free),
      OfLibrary("mimalloc", "libmimalloc.so.2", "mi_malloc", "mi_free"),
      OfLibrary("jemalloc", "libjemalloc.so.2", "malloc", "free"),
  };
  constexpr size_t kFirstPeer = 1;
  std::printf("%-10s %-7s", "bytes", "threads");
  for (const Candidate& candidate : candidates) std::printf(" %13s", candidate.name.c_str());
  std::printf(" %11s %5s\n", "x best peer", "bar");
  for (const size_t bytes : {size_t{64}, size_t{4} << 10, size_t{1} << 20, size_t{64} << 20}) {
    for (const int num_threads : {1, 2}) {
      std::printf("%-10zu %-7d", bytes, num_threads);
      double ours = 0;
      double best_peer = std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < candidates.size(); ++i) {
        if (candidates[i].allocate == nullptr) {
          std::printf(" %13s", "-");
          continue;
        }
        const double nanoseconds = Measure(candidates[i], bytes, num_threads);
        std::printf(" %13.1f", nanoseconds);
        if (i == 0) ours = nanoseconds;
        if (i >= kFirstPeer) best_peer = std::min(best_peer, nanoseconds);
      }
      std::printf(" %11.2f %5.1f\n", ours / best_peer, bytes <= (size_t{4} << 10) ? 1.2 : 0.5);
    }
  }
}

}  // namespace
}  // namespace tensorcask::benchmarks

int main() { tensorcask::benchmarks::Run(); }
