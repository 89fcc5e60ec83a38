// Saving steps while every operation fails in turn.

#include "tensorcask/serialize/checkpoint/manager.h"

#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/manager_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AddStep;
using ::tensorcask::testing::Content;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FilesOfRun;
using ::tensorcask::testing::On;
using ::tensorcask::testing::SaveStep;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Way { kHere, kBackground };

absl::Status SaveBy(Way way, CheckpointManager* manager, int64_t step) {
  if (way == Way::kHere) return SaveStep(manager, step);
  CASK_ASSIGN_OR_RETURN(BackgroundSave save, manager->SaveInBackground(step, [&](CheckpointWriter& writer) {
    return AddStep(step, writer);
  }));
  return save.Wait();
}

class ManagerFaults : public ::testing::TestWithParam<Way> {};

// Steps 1 to 3 are there, of which two are to be kept with the next: 4 is saved, and everything fails in turn.
TEST_P(ManagerFaults, LoseNoStepThatIsToBeKept) {
  int64_t broken = 0;
  for (const int error : {EIO, ENOSPC}) {
    for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
      for (const bool after_effect : {false, true}) {
        for (int64_t n = 1;; ++n) {
          MemoryFileSystem memory;
          {
            ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 3)));
            for (const int64_t step : {1, 2, 3}) ASSERT_OK(SaveStep(&manager, step));
          }
          FaultyFileSystem files(&memory);
          files.FailAt(n, error, duration);
          files.FailAfterEffect(after_effect);
          absl::StatusOr<CheckpointManager> manager = CheckpointManager::Open("/run", On(&files, 2));
          absl::Status saved = manager.status();
          if (manager.ok()) saved = SaveBy(GetParam(), &*manager, 4);
          SCOPED_TRACE(absl::StrCat("error ", error, " at ", n, duration ? " for ever" : "",
                                    after_effect ? " after the effect" : "", ": ", saved.ToString(), "\n",
                                    files.LogText()));
          if (!saved.ok()) {
            EXPECT_THAT(std::string(saved.message()), HasSubstr("/run"));
          }
          // The newest whole step is found: 4 if the save said so, and may be if it did not.
          ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest,
                               FindLatestCheckpoint("/run", "ckpt", CheckStep::kEverything, &memory));
          EXPECT_THAT(latest.skipped, IsEmpty());
          if (saved.ok() || absl::StrContains(saved.message(), "the step is saved, but")) {
            EXPECT_EQ(latest.step, 4);
            EXPECT_EQ(ErrorNumberOf(saved), saved.ok() ? 0 : error);
          }
          EXPECT_GE(latest.step, 3);
          EXPECT_EQ(Content(&memory, latest.prefix), latest.step);
          EXPECT_EQ(Content(&memory, "/run/ckpt-3"), 3);
          if (latest.step == 3) {
            EXPECT_EQ(Content(&memory, "/run/ckpt-2"), 2) << "nothing goes before the new one stands";
          }
          if (files.faults() == 0) {
            EXPECT_OK(saved);
            EXPECT_EQ(memory.Paths(), FilesOfRun({3, 4}));
            break;
          }
          ++broken;
          // Going on works, with the same manager and with the next.
          files.FailAt(0, 0);
          if (manager.ok()) {
            const absl::Status again = SaveBy(GetParam(), &*manager, 5);
            EXPECT_OK(again);
            manager = absl::CancelledError("closed");
          } else {
            ASSERT_OK_AND_ASSIGN(CheckpointManager next, CheckpointManager::Open("/run", On(&memory, 2)));
            EXPECT_OK(SaveStep(&next, 5));
          }
          ASSERT_OK_AND_ASSIGN(const CheckpointManager last, CheckpointManager::Open("/run", On(&memory, 2)));
          EXPECT_EQ(memory.Paths(), FilesOfRun(last.steps()));
          EXPECT_EQ(last.steps().size(), 2u);
          EXPECT_EQ(memory.open_handles(), 1u) << "the lock";
          EXPECT_EQ(files.open_handles(), 0u);
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(broken, 200);
}

INSTANTIATE_TEST_SUITE_P(All, ManagerFaults, ::testing::Values(Way::kHere, Way::kBackground),
                         [](const auto& info) { return info.param == Way::kHere ? "Here" : "Background"; });

}  // namespace
}  // namespace tensorcask
