// Crashes at every operation of a save, in memory: what crash_model.h says may be left is opened and compared.
// tools/dev crash looks at many more states.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tensorcask/tests/crash/crash_search.h"
#include "tensorcask/tests/crash/manager_scenarios.h"
#include "tensorcask/tests/crash/merge_scenarios.h"
#include "tensorcask/tests/crash/model_scenarios.h"
#include "tensorcask/tests/crash/save_scenarios.h"
#include "tensorcask/tests/crash/scenario.h"
#include "tensorcask/tests/support/crash_model.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AllManagerScenarios;
using ::tensorcask::testing::AllMergeScenarios;
using ::tensorcask::testing::AllModelScenarios;
using ::tensorcask::testing::AllSaveScenarios;
using ::tensorcask::testing::CrashFindings;
using ::tensorcask::testing::CrashMode;
using ::tensorcask::testing::CrashSampling;
using ::tensorcask::testing::MakeSaveScenario;
using ::tensorcask::testing::SaveCase;
using ::tensorcask::testing::Scenario;
using ::tensorcask::testing::Scenarios;
using ::tensorcask::testing::SearchForCrashes;

struct Total {
  int scenarios = 0;
  int64_t states = 0;
  int64_t distinct = 0;
};

void ExpectSafe(const Scenario& scenario, CrashMode mode, const CrashSampling& sampling, Total* total) {
  const CrashFindings found = SearchForCrashes(scenario, mode, sampling);
  EXPECT_OK(found.run) << scenario.name();
  EXPECT_EQ(found.violations, 0) << found.first;
  EXPECT_GT(found.operations, 5) << scenario.name();
  EXPECT_GT(found.distinct, 5) << scenario.name();
  ++total->scenarios;
  total->states += found.states;
  total->distinct += found.distinct;
}

struct Family {
  const char* name;
  Scenarios (*scenarios)();
  CrashMode mode;
  int min_scenarios;
  int64_t min_states;
};

class CrashStates : public ::testing::TestWithParam<Family> {};

TEST_P(CrashStates, BreakNoPromise) {
  CrashSampling sampling;
  sampling.random_states = 12;
  Total total;
  for (const std::unique_ptr<Scenario>& scenario : GetParam().scenarios()) {
    if (scenario->durable() || GetParam().mode == CrashMode::kProcess) {
      ExpectSafe(*scenario, GetParam().mode, sampling, &total);
    }
  }
  std::printf("%d scenarios, %lld states, %lld of them distinct\n", total.scenarios,
              static_cast<long long>(total.states), static_cast<long long>(total.distinct));
  EXPECT_GE(total.scenarios, GetParam().min_scenarios);
  EXPECT_GE(total.states, GetParam().min_states);
}

const Family kFamilies[] = {
    {"SavesKilled", AllSaveScenarios, CrashMode::kProcess, 50, 800},
    {"SavesOrdered", AllSaveScenarios, CrashMode::kOrdered, 48, 25000},
    {"SavesWeak", AllSaveScenarios, CrashMode::kWeak, 48, 25000},
    {"ModelsKilled", AllModelScenarios, CrashMode::kProcess, 35, 300},
    {"ModelsOrdered", AllModelScenarios, CrashMode::kOrdered, 33, 10000},
    {"ModelsWeak", AllModelScenarios, CrashMode::kWeak, 33, 10000},
    {"MergesKilled", AllMergeScenarios, CrashMode::kProcess, 18, 300},
    {"MergesOrdered", AllMergeScenarios, CrashMode::kOrdered, 18, 12000},
    {"MergesWeak", AllMergeScenarios, CrashMode::kWeak, 18, 12000},
    {"ManagerKilled", AllManagerScenarios, CrashMode::kProcess, 7, 250},
    {"ManagerOrdered", AllManagerScenarios, CrashMode::kOrdered, 6, 5000},
    {"ManagerWeak", AllManagerScenarios, CrashMode::kWeak, 6, 5000},
};
INSTANTIATE_TEST_SUITE_P(All, CrashStates, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CrashStatesOfTheSmallest, AllSubsets) {
  CrashSampling sampling;
  sampling.max_exhaustive = 12;
  Total total;
  for (const auto over : {SaveCase::Over::kNothing, SaveCase::Over::kOld}) {
    for (const int num_shards : {1, 2, 5}) {
      SaveCase save;
      save.over = over;
      save.num_shards = num_shards;
      for (const CrashMode mode : {CrashMode::kOrdered, CrashMode::kWeak}) {
        ExpectSafe(*MakeSaveScenario(save), mode, sampling, &total);
      }
    }
  }
  std::printf("%lld states, %lld of them distinct\n", static_cast<long long>(total.states),
              static_cast<long long>(total.distinct));
  EXPECT_GE(total.states, 5000);
}

}  // namespace
}  // namespace tensorcask
