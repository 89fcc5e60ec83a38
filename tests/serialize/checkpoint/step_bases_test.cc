// Which steps stay because others are deltas to them, and in which order the others go.

#include "tensorcask/serialize/checkpoint/internal/step_bases.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::checkpoint {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Bases = std::map<int64_t, int64_t>;

auto In(const Bases& bases) {
  return [&bases](int64_t step) -> absl::StatusOr<int64_t> {
    const auto found = bases.find(step);
    return found == bases.end() ? kNoStep : found->second;
  };
}

TEST(StepBases, AreKeptDirectlyAndThroughOthers) {
  const Bases bases = {{9, 5}, {5, 2}, {8, 3}, {4, 1}};
  std::set<int64_t> removable = {1, 2, 3, 4, 5};
  ASSERT_OK(KeepBases({9}, In(bases), &removable));
  EXPECT_THAT(removable, ElementsAre(1, 3, 4));
  EXPECT_THAT(DeltasFirst(removable, In(bases)), ElementsAre(4, 3, 1));
}

TEST(StepBases, CyclesEnd) {
  const Bases bases = {{1, 2}, {2, 3}, {3, 1}, {4, 4}, {5, 3}, {6, 77}};
  std::set<int64_t> removable = {1, 2, 3, 4, 6};
  ASSERT_OK(KeepBases({5}, In(bases), &removable));
  EXPECT_THAT(removable, ElementsAre(4, 6));
  const std::vector<int64_t> ordered = DeltasFirst({1, 2, 3, 4, 5, 6}, In(bases));
  EXPECT_THAT(ordered, ::testing::UnorderedElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(std::vector<int64_t>(ordered.begin(), ordered.begin() + 2), ElementsAre(6, 5));
}

TEST(StepBases, AChainMayBeLong) {
  constexpr int64_t kSteps = 10000;
  Bases bases;
  std::set<int64_t> all;
  for (int64_t step = 0; step < kSteps; ++step) {
    all.insert(step);
    if (step + 1 < kSteps) bases[step] = step + 1;  // the oldest needs all
  }
  std::set<int64_t> removable = all;
  removable.erase(0);
  ASSERT_OK(KeepBases({0}, In(bases), &removable));
  EXPECT_THAT(removable, IsEmpty());
  EXPECT_EQ(DeltasFirst(all, In(bases)), std::vector<int64_t>(all.begin(), all.end()));
}

TEST(StepBases, EachGoesAfterItsDeltas) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    // Without cycles: a base has a lower place in a random order.
    std::vector<int64_t> places(20);
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
    std::shuffle(places.begin(), places.end(), random);
    Bases bases;
    for (size_t i = 1; i < places.size(); ++i) {
      if (random() % 3 != 0) bases[places[i]] = places[random() % i];
    }
    const std::set<int64_t> all(places.begin(), places.end());
    const std::vector<int64_t> ordered = DeltasFirst(all, In(bases));
    ASSERT_EQ(std::set<int64_t>(ordered.begin(), ordered.end()), all);
    ASSERT_EQ(ordered.size(), all.size());
    const auto at = [&](int64_t step) { return std::find(ordered.begin(), ordered.end(), step); };
    for (const auto& [step, base] : bases) EXPECT_LT(at(step), at(base)) << step << " is a delta to " << base;
  }
}

TEST(StepBases, AnErrorKeepsAllAndStopsNoRemoval) {
  const auto fails = [](int64_t) -> absl::StatusOr<int64_t> { return absl::UnavailableError("may pass"); };
  std::set<int64_t> removable = {1, 2};
  EXPECT_THAT(KeepBases({3}, fails, &removable), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(DeltasFirst(removable, fails), ElementsAre(2, 1));
}

}  // namespace
}  // namespace tensorcask::checkpoint
