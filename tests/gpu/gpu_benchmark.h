// What the files of gpu_benchmark share: the device, its sizes, and figures that are printed as lines of JSON.
//
//   Bench bench = ...;
//   CASK_ASSIGN_OR_RETURN(const double seconds, MedianSeconds(bench, [&] { return CopyAcross(from, &to); }));
//   PrintFigure("copy of 1 GiB", GibPerSecond(bytes, seconds), "GiB/s", limit_seconds / seconds);

#ifndef TENSORCASK_TESTS_GPU_GPU_BENCHMARK_H_
#define TENSORCASK_TESTS_GPU_GPU_BENCHMARK_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/cuda_backend.h"
#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask::benchmarks {

inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;

struct Bench {
  RefPtr<DeviceBackend> device;
  CudaBackend* cuda = nullptr;  // null on the simulated device
  RefPtr<CachingAllocator> cache;
  bool small = false;      // sizes for a test of this program
  double seconds = 2;      // for the rounds of one figure
  std::string folder;      // for files; empty: chosen
  size_t num_threads = 8;  // for the saves and loads with threads

  size_t copy_bytes() const { return small ? 4 * kMiB : 1024 * kMiB; }
};

inline double GibPerSecond(size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds / static_cast<double>(1024 * kMiB);
}

// "512 B", "20 MiB", "8 GiB"
inline std::string SizeText(size_t bytes) {
  if (bytes >= 1024 * kMiB && bytes % (1024 * kMiB) == 0) return absl::StrCat(bytes / (1024 * kMiB), " GiB");
  if (bytes >= kMiB) return absl::StrCat(bytes / kMiB, " MiB");
  return absl::StrCat(bytes, " B");
}

inline void PrintFigure(absl::string_view name, double value, absl::string_view unit,
                        std::optional<double> ratio = std::nullopt) {
  const std::string ratio_text = ratio.has_value() ? absl::StrCat(", \"ratio\": ", *ratio) : "";
  const std::string line =
      absl::StrCat("{\"name\": \"", name, "\", \"value\": ", value, ", \"unit\": \"", unit, "\"", ratio_text, "}\n");
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

// What a benchmark did: `message` is empty if it worked.
inline void PrintCase(absl::string_view name, const absl::Status& status) {
  std::string message(status.message());
  std::replace_if(
      message.begin(), message.end(), [](char c) { return c == '"' || c == '\\' || c < ' '; }, '\'');
  const std::string line = absl::StrCat("{\"case\": \"", name, "\", \"outcome\": \"", status.ok() ? "passed" : "failed",
                                        "\", \"message\": \"", message, "\"}\n");
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

class Stopwatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The median of the seconds that `round` returns (an absl::StatusOr<double>), of at most seven rounds and as many as
// fit in the time, after one that does not count.
template <typename Round>
absl::StatusOr<double> MedianOfRounds(const Bench& bench, Round&& round) {
  CASK_RETURN_IF_ERROR(round().status());
  const Stopwatch all;
  std::vector<double> seconds;
  do {
    CASK_ASSIGN_OR_RETURN(const double one, round());
    seconds.push_back(one);
  } while (seconds.size() < 7 && all.Seconds() < bench.seconds);
  return Median(std::move(seconds));
}

// The same for a function that returns a Status.
template <typename Work>
absl::StatusOr<double> MedianSeconds(const Bench& bench, Work&& work) {
  return MedianOfRounds(bench, [&]() -> absl::StatusOr<double> {
    const Stopwatch watch;
    CASK_RETURN_IF_ERROR(work());
    return watch.Seconds();
  });
}

// Seconds that a copy of `bytes` bytes between pinned memory and the device takes, one call for all of them (of at most
// 1 GiB: more is computed from that).
absl::StatusOr<double> PinnedCopySeconds(const Bench& bench, CopyKind kind, size_t bytes);

absl::Status AllocationFigures(const Bench& bench);
absl::Status CopyFigures(const Bench& bench);
absl::Status FileFigures(const Bench& bench);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_GPU_GPU_BENCHMARK_H_
