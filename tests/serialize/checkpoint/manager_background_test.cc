// Saving steps in the background.

#include "tensorcask/serialize/checkpoint/manager.h"

#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/manager_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AddStep;
using ::tensorcask::testing::Content;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::FilesOfRun;
using ::tensorcask::testing::On;
using ::tensorcask::testing::SaveStep;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

TEST(BackgroundManagerTest, SavesAndCleansUpByItself) {
  MemoryFileSystem memory;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 2)));
  for (const int64_t step : {1, 2, 3, 4}) {
    Tensor number = Tensor::Scalar<int64_t>(step);
    ASSERT_OK_AND_ASSIGN(BackgroundSave save,
                         manager.SaveInBackground(step, [&](CheckpointWriter& writer) -> absl::Status {
                           CASK_RETURN_IF_ERROR(writer.Add("w", *Tensor::Zeros(DType::kFloat32, TensorShape({1000}))));
                           return writer.Add("step", number);
                         }));
    number.mutable_scalar<int64_t>() = -5;  // the run goes on
    ASSERT_OK(save.Wait());
    EXPECT_EQ(Content(&memory, manager.PrefixOf(step)), step);
  }
  EXPECT_THAT(manager.steps(), ElementsAre(3, 4));
  EXPECT_EQ(memory.Paths(), FilesOfRun({3, 4}));
}

TEST(BackgroundManagerTest, TheNextSaveWaitsForTheOneBefore) {
  MemoryFileSystem memory;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 2)));
  std::vector<BackgroundSave> saves;
  for (int64_t step = 1; step <= 20; ++step) {
    ASSERT_OK_AND_ASSIGN(BackgroundSave save, manager.SaveInBackground(step, [&](CheckpointWriter& writer) {
      return AddStep(step, writer);
    }));
    saves.push_back(std::move(save));
    EXPECT_LE(manager.steps().size(), 3u);
  }
  ASSERT_OK(SaveStep(&manager, 21));
  EXPECT_THAT(manager.steps(), ElementsAre(20, 21));
  for (BackgroundSave& save : saves) EXPECT_OK(save.Wait());
  EXPECT_EQ(memory.Paths(), FilesOfRun({20, 21}));
}

TEST(BackgroundManagerTest, ErrorsArriveWithTheResult) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files, 2)));
  ASSERT_OK(SaveStep(&manager, 1));
  EXPECT_THAT(manager.SaveInBackground(1, [](CheckpointWriter&) { return absl::OkStatus(); }),
              StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(manager.SaveInBackground(2, [](CheckpointWriter&) { return absl::CancelledError("enough"); }),
              StatusIs(Code::kCancelled));
  files.FailAt(files.operations(FileOperation::kRename) + 3, ENOSPC, FaultyFileSystem::kOnce, FileOperation::kRename);
  ASSERT_OK_AND_ASSIGN(BackgroundSave save,
                       manager.SaveInBackground(2, [](CheckpointWriter& writer) { return AddStep(2, writer); }));
  EXPECT_THAT(save.Wait(), StatusIs(Code::kResourceExhausted, HasSubstr("/run/ckpt-2.index")));
  EXPECT_THAT(manager.steps(), ElementsAre(1));
  ASSERT_OK(SaveStep(&manager, 2));
  EXPECT_EQ(memory.Paths(), FilesOfRun({1, 2}));
}

TEST(BackgroundManagerTest, TheManagerWaitsAtItsEndAndThenHasNoLock) {
  MemoryFileSystem memory;
  std::vector<BackgroundSave> saves;  // may outlive it
  for (int64_t step = 1; step <= 5; ++step) {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory)));
    ASSERT_OK_AND_ASSIGN(BackgroundSave save, manager.SaveInBackground(step, [&](CheckpointWriter& writer) {
      return AddStep(step, writer);
    }));
    saves.push_back(std::move(save));
  }
  EXPECT_EQ(memory.Paths(), FilesOfRun({3, 4, 5}));
  for (BackgroundSave& save : saves) EXPECT_OK(save.Wait());
}

}  // namespace
}  // namespace tensorcask
