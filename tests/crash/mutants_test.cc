// A crash test that cannot find a removed fsync proves nothing: each mistake that save code could make is found.

#include "tensorcask/tests/crash/mutants.h"

#include <cstdio>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultVerdict;
using ::tensorcask::testing::MutantVerdict;
using ::tensorcask::testing::TryFaults;
using ::tensorcask::testing::TryMutants;

TEST(Mutants, AreAllCaught) {
  const std::vector<MutantVerdict> verdicts = TryMutants();
  EXPECT_GE(verdicts.size(), 81u);
  for (const MutantVerdict& verdict : verdicts) {
    EXPECT_TRUE(verdict.possible) << verdict.name << ": there is nothing of this number";
    EXPECT_TRUE(verdict.caught) << verdict.name << ": no state shows the mistake";
    std::printf("%s\n    %s\n", verdict.name.c_str(), verdict.caught_by.c_str());
  }
}

TEST(Mutants, AreCaughtForTheMistakeNotTheFault) {
  const std::vector<FaultVerdict> verdicts = TryFaults();
  EXPECT_GE(verdicts.size(), 33u);
  for (const FaultVerdict& verdict : verdicts) {
    EXPECT_TRUE(verdict.possible) << verdict.name;
    EXPECT_EQ(verdict.found.violations, 0) << verdict.name << ": " << verdict.found.first;
    // A short write is retried and not reported to the caller; lost data is reported.
    EXPECT_EQ(verdict.found.run.ok(), absl::EndsWith(verdict.name, "is short")) << verdict.name;
  }
}

}  // namespace
}  // namespace tensorcask
