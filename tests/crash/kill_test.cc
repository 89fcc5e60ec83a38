// A saving process killed by SIGKILL: at random times, and before each of its operations. tools/dev crash kills many
// more.

#include <cstdio>
#include <string>

#include "gtest/gtest.h"
#include "tensorcask/tests/crash/kill_loop.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::kAllKillTargets;
using ::tensorcask::testing::KillAtEachOperation;
using ::tensorcask::testing::KillReport;
using ::tensorcask::testing::KillTarget;
using ::tensorcask::testing::KillTargetName;
using ::tensorcask::testing::RunKillLoop;
using ::tensorcask::testing::TempFolder;

class Killed : public ::testing::TestWithParam<KillTarget> {};

TEST_P(Killed, AtRandomTimes) {
  const TempFolder folder;
  const KillReport report = RunKillLoop(folder.path(), GetParam(), /*kills=*/15, /*seed=*/1);
  EXPECT_EQ(report.violations, 0) << report.first;
  EXPECT_EQ(report.kills, 15);
  std::printf("%d kills, %lld saves, %lld temporary files\n", report.kills, static_cast<long long>(report.saves),
              static_cast<long long>(report.leftovers));
}

TEST_P(Killed, AtEachOperation) {
  const TempFolder folder;
  const KillReport report = KillAtEachOperation(folder.path(), GetParam());
  EXPECT_EQ(report.violations, 0) << report.first;
  EXPECT_GT(report.kills, 15);
  EXPECT_GT(report.unpublished, 10);
  EXPECT_GT(report.leftovers, 10);
}

INSTANTIATE_TEST_SUITE_P(All, Killed, ::testing::ValuesIn(kAllKillTargets),
                         [](const auto& info) { return std::string(KillTargetName(info.param)); });

}  // namespace
}  // namespace tensorcask
