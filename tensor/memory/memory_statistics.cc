#include "tensorcask/tensor/memory/memory_statistics.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace tensorcask {
namespace {

template <typename Statistics, typename Fn>
void ForEachCounter(Statistics& statistics, Fn&& fn) {
  const auto pools = [&fn](absl::string_view name, auto& counters) {
    fn(name, "all", counters.all);
    fn(name, "small", counters.small);
    fn(name, "large", counters.large);
  };
  pools("allocations", statistics.allocations);
  pools("segments", statistics.segments);
  pools("active", statistics.active);
  pools("inactive_split", statistics.inactive_split);
  pools("allocated_bytes", statistics.allocated_bytes);
  pools("reserved_bytes", statistics.reserved_bytes);
  pools("active_bytes", statistics.active_bytes);
  pools("inactive_split_bytes", statistics.inactive_split_bytes);
  fn("oversize_allocations", "", statistics.oversize_allocations);
  fn("oversize_segments", "", statistics.oversize_segments);
}

}  // namespace

void MemoryStatistics::ResetPeak() {
  ForEachCounter(*this, [](absl::string_view, absl::string_view, MemoryCounter& counter) { counter.ResetPeak(); });
}

void MemoryStatistics::ResetAccumulated() {
  ForEachCounter(*this,
                 [](absl::string_view, absl::string_view, MemoryCounter& counter) { counter.ResetAccumulated(); });
  alloc_retries = 0;
  ooms = 0;
}

std::string MemoryStatistics::ToString() const {
  std::string text =
      absl::StrFormat("%-20s %-5s %15s %15s %15s %15s\n", "", "pool", "current", "peak", "allocated", "freed");
  ForEachCounter(*this, [&text](absl::string_view name, absl::string_view pool, const MemoryCounter& counter) {
    absl::StrAppendFormat(&text, "%-20s %-5s %15d %15d %15d %15d\n", name, pool, counter.current, counter.peak,
                          counter.allocated, counter.freed);
  });
  absl::StrAppend(&text, "alloc_retries ", alloc_retries, "\nooms ", ooms, "\n");
  return text;
}

}  // namespace tensorcask
