// What the program of `tools/dev bench bars` does besides measuring. Nothing here depends on speed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tests/benchmarks/bar_groups.h"
#include "tensorcask/tests/benchmarks/limits.h"
#include "tensorcask/tests/benchmarks/machine.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/strided_cases.h"
#include "tensorcask/tests/benchmarks/strided_views.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::benchmarks {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

std::vector<std::string> Chosen(const std::vector<std::string>& names) {
  const std::vector<BarGroup> all = {{"core", nullptr}, {"strided", nullptr}, {"wire", nullptr}};
  std::vector<std::string> chosen;
  const absl::StatusOr<std::vector<BarGroup>> groups = ChosenGroups(all, names);
  EXPECT_OK(groups.status());
  if (!groups.ok()) return {};
  for (const BarGroup& group : *groups) chosen.emplace_back(group.name);
  return chosen;
}

TEST(BarGroups, AreAllWithoutNames) { EXPECT_THAT(Chosen({}), ElementsAre("core", "strided", "wire")); }

TEST(BarGroups, AreThoseOfTheNamesInTheOrderOfTheTableEachOnce) {
  EXPECT_THAT(Chosen({"strided"}), ElementsAre("strided"));
  EXPECT_THAT(Chosen({"wire", "core", "wire"}), ElementsAre("core", "wire"));
}

TEST(BarGroups, OtherNamesAreRefusedWithTheNamesThatThereAre) {
  const std::vector<BarGroup> all = {{"core", nullptr}, {"strided", nullptr}};
  for (const std::string name : {"cor", "", "--core", "Core"}) {
    EXPECT_THAT(ChosenGroups(all, {"core", name}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"" + name + "\""), HasSubstr("one of: core strided"))));
  }
}

TEST(Figures, AreTheMedianAndTheSpreadOfTheMiddleHalf) {
  const Figure figure = FigureOf({90, 1, 2, 2.5, 2, 1.5, 2, 0.1, 2});
  EXPECT_EQ(figure.median, 2);
  EXPECT_EQ(figure.spread, 0.25);  // 1.5 to 2
  EXPECT_EQ(FigureOf({3}).spread, 0);
  EXPECT_EQ(figure.Times(1000).median, 2000);
  EXPECT_EQ(figure.Inverse().median, 0.5);
}

TEST(Figures, OfNoisyRoundsAreMeasuredAgain) {
  const auto count_calls = [](const std::vector<double>& rounds, double* median) {
    size_t calls = 0;
    *median = CalmFigure(3, [&] { return rounds.at(calls++); }).median;
    return calls;
  };
  double median = 0;
  EXPECT_EQ(count_calls({2, 2, 2.1}, &median), 3U);
  EXPECT_EQ(median, 2);
  EXPECT_EQ(count_calls({1, 2, 3, 5, 5, 5.5}, &median), 6U);
  EXPECT_EQ(median, 5);
  EXPECT_EQ(count_calls({1, 2, 3, 4, 5, 6, 1, 9, 18}, &median), 9U);  // all noisy: the calmest
  EXPECT_EQ(median, 5);
}

TEST(Figures, ARatioIsToTheLoopThatIsFastestMostOfTheTime) {
  int calls = 0;
  const std::function<double()> lucky_once = [&] { return ++calls == 1 ? 0.1 : 4.0; };
  size_t fastest = 0;
  const Figure figure = RatioToFastest(
      9, [] { return 3.0; }, {lucky_once, [] { return 2.0; }, [] { return 2.5; }}, &fastest);
  EXPECT_EQ(fastest, 1U);
  EXPECT_EQ(figure.median, 1.5);
  EXPECT_EQ(figure.spread, 0);
  EXPECT_EQ(calls, 5);  // the rounds in which the loop is chosen
}

TEST(Machine, TheProcessorHasTheNameOfCpuinfo) {
  EXPECT_EQ(ProcessorName("processor\t: 0\nmodel\t\t: 167\nmodel name\t: Some CPU @ 2: fast \nflags: a\n"
                          "model name\t: Another\n"),
            "Some CPU @ 2: fast");
  EXPECT_EQ(ProcessorName(""), "unknown processor");
  EXPECT_EQ(ProcessorName("model name\nmodel name:\n"), "unknown processor");
}

TEST(Machine, SizesOfCachesAreReadable) {
  EXPECT_EQ(CacheSize(48 << 10), "48 KiB");
  EXPECT_EQ(CacheSize(1 << 20), "1 MiB");
  EXPECT_EQ(CacheSize((1 << 20) + (1 << 18)), "1.25 MiB");
  EXPECT_EQ(CacheSize(105L << 20), "105 MiB");
  EXPECT_EQ(CacheSize(0), "unknown");
  EXPECT_EQ(CacheSize(-1), "unknown");
}

// Each line of 64 bytes holds its own number, eight times.
TEST(Limits, MoveEachCacheLineOnce) {
  const StridedCase cases[] = {{"transpose", DType::kFloat32, {64, 48}, {1, 0}},
                               {"bytes", DType::kUint8, {128, 64}, {1, 0}},
                               {"batch", DType::kFloat64, {3, 16, 24}, {0, 2, 1}},
                               {"reversed", DType::kFloat32, {32, 5, 16}, {2, 1, 0}}};
  for (const StridedCase& moved : cases) {
    SCOPED_TRACE(moved.name);
    CaseViews views(moved);
    auto* const from = static_cast<char*>(views.from.buffer()->mutable_data());
    for (size_t i = 0; i < views.to_bytes(); i += 64) {
      const auto number = static_cast<uint64_t>(i / 64);
      for (size_t j = 0; j < 64; j += 8) std::memcpy(from + i + j, &number, 8);
    }
    for (const LimitLoop& loop : LimitLoops(views.from)) {
      SCOPED_TRACE(loop.name);
      auto* const to = static_cast<char*>(views.to.buffer()->mutable_data());
      std::memset(to, 0xff, views.to_bytes());
      loop.run(to);
      std::vector<uint64_t> found;
      for (size_t i = 0; i < views.to_bytes(); i += 64) {
        uint64_t number = 0;
        std::memcpy(&number, to + i, 8);
        EXPECT_EQ(std::memcmp(to + i, from + number * 64, 64), 0);
        found.push_back(number);
      }
      std::sort(found.begin(), found.end());
      for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i);
    }
  }
}

TEST(Limits, OfEverySecondElementWriteAllLines) {
  CaseViews views({"second", DType::kFloat32, {16, 64}, {0, 1}, 2});
  for (const LimitLoop& loop : LimitLoops(views.from)) {
    SCOPED_TRACE(loop.name);
    auto* const to = static_cast<char*>(views.to.buffer()->mutable_data());
    std::memset(to, 0xff, views.to_bytes());
    loop.run(to);
    for (size_t i = 0; i < views.to_bytes(); i += 4) EXPECT_EQ(*reinterpret_cast<const float*>(to + i), 1);
  }
}

}  // namespace
}  // namespace tensorcask::benchmarks
