// Ratios of times measured side by side in one run: machines are shared and noisy, so figures are medians of rounds in
// which the two take turns, and have the spread of the rounds.
//
//   Figure ratio = MedianRatio(rounds, [&] { Encode(); }, [&] { memcpy(a, b, n); });

#ifndef TENSORCASK_TESTS_BENCHMARKS_MEASURE_H_
#define TENSORCASK_TESTS_BENCHMARKS_MEASURE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>
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

// What rounds of a measurement say.
struct Figure {
  double median = 0;
  double spread = 0;  // from the first quartile to the third, over the median

  // The same in another unit, and of the reciprocals (whose spread is nearly the same).
  Figure Times(double factor) const { return {median * factor, spread}; }
  Figure Inverse() const { return {1 / median, spread}; }
};

// With a larger spread, a figure says more about the machine than about the code.
inline constexpr double kNoisySpread = 0.15;

// Requires: `rounds` is not empty.
inline Figure FigureOf(std::vector<double> rounds) {
  std::sort(rounds.begin(), rounds.end());
  const size_t quarter = rounds.size() / 4;
  const double median = rounds[rounds.size() / 2];
  return {median, (rounds[rounds.size() - 1 - quarter] - rounds[quarter]) / median};
}

// The figure of `rounds` calls of `measure`. Measures noisy rounds again, up to twice, and returns the calmest figure.
template <typename Measure>
Figure CalmFigure(int rounds, Measure&& measure) {
  Figure calmest;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<double> measured;
    for (int i = 0; i < rounds; ++i) measured.push_back(measure());
    const Figure figure = FigureOf(std::move(measured));
    if (attempt == 0 || figure.spread < calmest.spread) calmest = figure;
    if (calmest.spread <= kNoisySpread) break;
  }
  return calmest;
}

// Seconds of `fn`, after one call to warm up.
template <typename Fn>
Figure MedianSeconds(int rounds, Fn&& fn) {
  fn();
  return CalmFigure(rounds, [&] { return SecondsOf(fn); });
}

// fn's time over the baseline's, measured in turns.
template <typename Fn, typename Baseline>
Figure MedianRatio(int rounds, Fn&& fn, Baseline&& baseline) {
  baseline();
  fn();
  return CalmFigure(rounds, [&] {
    const double ours = SecondsOf(fn);
    return ours / SecondsOf(baseline);
  });
}

// The seconds of `ours` over those of the fastest of `loops`, each of which returns its seconds. *fastest gets the
// number of that loop. Ours runs before each loop, so that every loop finds the caches in the same state. The loop is
// chosen in rounds of its own: the largest of several ratios would be biased upwards by noise.
// Requires: `loops` is not empty.
inline Figure RatioToFastest(int rounds, const std::function<double()>& ours,
                             const std::vector<std::function<double()>>& loops, size_t* fastest) {
  constexpr int kRoundsOfChoice = 5;
  std::vector<std::vector<double>> seconds(loops.size());
  for (int i = 0; i < kRoundsOfChoice && (loops.size() > 1 || i == 0); ++i) {  // one loop: to warm up
    for (size_t loop = 0; loop < loops.size(); ++loop) {
      ours();
      seconds[loop].push_back(loops[loop]());
    }
  }
  const auto least = std::min_element(seconds.begin(), seconds.end(),
                                      [](const auto& a, const auto& b) { return Median(a) < Median(b); });
  *fastest = static_cast<size_t>(least - seconds.begin());
  return CalmFigure(rounds, [&] {
    const double of_ours = ours();
    return of_ours / loops[*fastest]();
  });
}

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_MEASURE_H_
