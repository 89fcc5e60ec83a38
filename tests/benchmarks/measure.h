// Ratios of times measured side by side in one run: machines are shared and noisy, so figures are medians of rounds in
// which the two take turns.
//
//   double ratio = MedianRatio(rounds, [&] { Encode(); }, [&] { memcpy(a, b, n); });

#ifndef TENSORCASK_TESTS_BENCHMARKS_MEASURE_H_
#define TENSORCASK_TESTS_BENCHMARKS_MEASURE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace tensorcask::benchmarks {

// Keeps the compiler from dropping what made `value`.
template <typename T>
inline void Keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

template <typename Fn>
double SecondsOf(Fn&& fn) {
  const auto start = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Median seconds of `fn`, after one call to warm up.
template <typename Fn>
double MedianSeconds(int rounds, Fn&& fn) {
  fn();
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(SecondsOf(fn));
  return Median(seconds);
}

// The median over rounds of fn's time over the baseline's, measured in turns.
template <typename Fn, typename Baseline>
double MedianRatio(int rounds, Fn&& fn, Baseline&& baseline) {
  baseline();
  fn();
  std::vector<double> ratios;
  for (int i = 0; i < rounds; ++i) {
    const double ours = SecondsOf(fn);
    ratios.push_back(ours / SecondsOf(baseline));
  }
  return Median(ratios);
}

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_MEASURE_H_
