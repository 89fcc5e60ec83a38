// What the files of `bars` share: the table's rows, and what must work for there to be any.

#ifndef TENSORCASK_TESTS_BENCHMARKS_BARS_H_
#define TENSORCASK_TESTS_BENCHMARKS_BARS_H_

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {

inline int& MissedRows() {
  static int missed = 0;
  return missed;
}

// The end of a row.
inline void PrintNoise(const Figure& figure) {
  if (figure.spread > kNoisySpread) std::printf("  (noisy: rounds differ by %.0f %%)", 100 * figure.spread);
  std::printf("\n");
  std::fflush(stdout);
}

inline void PrintRow(const std::string& name, const Figure& figure, const char* relation, double bar, bool met,
                     const char* unit, const std::string& compared_to) {
  MissedRows() += met ? 0 : 1;
  std::printf("%-70s %9.2f %-9s %s %7.2f  %-6s  %s", name.c_str(), figure.median, unit, relation, bar,
              met ? "met" : "missed", compared_to.c_str());
  PrintNoise(figure);
}

// A figure without a bar, beside a row that has one: the same work in another unit.
inline void Note(const std::string& name, const Figure& figure, const char* unit, const std::string& compared_to) {
  std::printf("%-70s %9.2f %-9s %20s%s", name.c_str(), figure.median, unit, "", compared_to.c_str());
  PrintNoise(figure);
}

inline void Row(const std::string& name, const Figure& figure, double bar, const char* unit,
                const std::string& compared_to) {
  PrintRow(name, figure, "<=", bar, figure.median <= bar, unit, compared_to);
}

inline void RowAtLeast(const std::string& name, const Figure& figure, double bar, const char* unit,
                       const std::string& compared_to) {
  PrintRow(name, figure, ">=", bar, figure.median >= bar, unit, compared_to);
}

// A figure that does not depend on time.
inline Figure Exactly(double value) { return {value, 0}; }

template <typename T>
T Require(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "bars: %s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

inline void Require(const absl::Status& status) {
  if (!status.ok()) Require(absl::StatusOr<int>(status));
}

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_BARS_H_
