// Steps that are stored as deltas to other steps: no manager removes a base that a step needs.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/manager_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FilesOf;
using ::tensorcask::testing::On;
using ::tensorcask::testing::SaveStep;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

CheckpointManagerOptions Deltas(FileSystem* files, int full_every, int keep_last, int64_t keep_every = 0) {
  CheckpointManagerOptions options = On(files, keep_last, keep_every);
  options.full_every = full_every;
  return options;
}

CheckpointReader OpenAt(FileSystem* files, const std::string& prefix) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  return *CheckpointReader::Open(prefix, options);
}

// The newest step can be read, and is this one.
void ExpectLatest(const CheckpointManager& manager, int64_t step, const std::string& base_name) {
  ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, manager.Latest(CheckStep::kStructure));
  EXPECT_EQ(latest.base_prefix, base_name.empty() ? "" : "/run/" + base_name);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, manager.OpenLatest());
  ASSERT_OK_AND_ASSIGN(const Tensor number, reader.Read("step"));
  EXPECT_EQ(number.scalar<int64_t>(), step);
  EXPECT_OK(reader.Read("w"));
}

TEST(ManagerDeltas, ABaseThatIsAStepIsKept) {
  MemoryFileSystem files;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files)));
    ASSERT_OK(SaveStep(&manager, 1));
  }
  CheckpointManagerOptions options = On(&files, /*keep_last=*/3);
  options.writer.payload.level = PayloadLevel::kDefault;
  options.writer.payload.base = std::make_shared<const CheckpointReader>(OpenAt(&files, "/run/ckpt-1"));
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", options));
    for (int64_t step = 2; step <= 6; ++step) {
      ASSERT_OK(SaveStep(&manager, step));
      ExpectLatest(manager, step, "ckpt-1");
    }
    EXPECT_THAT(manager.steps(), ElementsAre(1, 4, 5, 6));
  }
  // Another manager, without the base, reads from the indexes which steps need it.
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files, /*keep_last=*/2)));
  ASSERT_OK(SaveStep(&manager, 7));
  EXPECT_THAT(manager.steps(), ElementsAre(1, 6, 7));
  ASSERT_OK(SaveStep(&manager, 8));
  EXPECT_THAT(manager.steps(), ElementsAre(7, 8));
}

TEST(ManagerDeltas, EachNthStepIsFullAndKeptWhileDeltasNeedIt) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 3, 2)));
  const std::vector<std::vector<int64_t>> wanted = {{1},       {1, 2},    {1, 2, 3}, {1, 3, 4}, {4, 5},
                                                    {4, 5, 6}, {4, 6, 7}, {7, 8},    {7, 8, 9}, {7, 9, 10}};
  for (int64_t step = 1; step <= 10; ++step) {
    ASSERT_OK(SaveStep(&manager, step));
    EXPECT_EQ(manager.steps(), wanted[static_cast<size_t>(step - 1)]) << step;
    const int64_t full = step - (step - 1) % 3;
    ExpectLatest(manager, step, full == step ? "" : absl::StrCat("ckpt-", full));
  }
}

TEST(ManagerDeltas, InTheBackgroundTheBaseIsComplete) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 4, 2)));
  for (int64_t step = 1; step <= 6; ++step) {
    ASSERT_OK_AND_ASSIGN(BackgroundSave save, manager.SaveInBackground(step, [&](CheckpointWriter& writer) {
      return testing::AddStep(step, writer);
    }));
    if (step == 6) {
      ASSERT_OK(save.Wait());
    }
  }
  EXPECT_THAT(manager.steps(), ElementsAre(5, 6));
  ExpectLatest(manager, 6, "ckpt-5");
}

TEST(ManagerDeltas, ADeltaThatIsKeptForGoodKeepsItsBase) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 3, 1, 5)));
  for (int64_t step = 1; step <= 9; ++step) ASSERT_OK(SaveStep(&manager, step));
  EXPECT_THAT(manager.steps(), ElementsAre(4, 5, 7, 9));
}

TEST(ManagerDeltas, AStepWhoseBaseIsGoneIsPassedOver) {
  MemoryFileSystem files;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 2, 4)));
    for (int64_t step = 1; step <= 4; ++step) ASSERT_OK(SaveStep(&manager, step));
  }
  for (const std::string& path : FilesOf(3)) ASSERT_EQ(files.Remove(path), 0);
  for (const CheckStep check : {CheckStep::kStructure, CheckStep::kEverything}) {
    ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, FindLatestCheckpoint("/run", "ckpt", check, &files));
    EXPECT_EQ(latest.step, 2);
    EXPECT_EQ(latest.base_prefix, "/run/ckpt-1");
    ASSERT_EQ(latest.skipped.size(), 1u);
    EXPECT_THAT(latest.skipped[0].why, StatusIs(Code::kDataLoss, HasSubstr("deltas to /run/ckpt-3, which is missing")));
  }
  // The run goes on from step 2, with other values, and reaches the lost steps again.
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 2, 4)));
  for (int64_t step = 3; step <= 4; ++step) {
    ASSERT_OK(manager.Save(step, [&](CheckpointWriter& writer) { return testing::AddStep(10 * step, writer); }));
    ExpectLatest(manager, 10 * step, step == 3 ? "" : "ckpt-3");
  }
}

TEST(ManagerDeltas, OptionsThatExcludeEachOtherAreRefused) {
  MemoryFileSystem files;
  EXPECT_THAT(CheckpointManager::Open("/run", Deltas(&files, 0, 3)),
              StatusIs(Code::kInvalidArgument, HasSubstr("full_every is 0")));
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files)));
    ASSERT_OK(SaveStep(&manager, 1));
  }
  CheckpointManagerOptions options = Deltas(&files, 2, 3);
  options.writer.payload.base = std::make_shared<const CheckpointReader>(OpenAt(&files, "/run/ckpt-1"));
  EXPECT_THAT(CheckpointManager::Open("/run", options),
              StatusIs(Code::kInvalidArgument, HasSubstr("chooses the bases")));
}

TEST(ManagerDeltas, ABaseInAnotherFolderIsNoNameOfAnIndex) {
  using checkpoint::DecodeHeader;
  using checkpoint::EncodeHeader;
  ASSERT_OK_AND_ASSIGN(const checkpoint::IndexHeader header, DecodeHeader(EncodeHeader(1, true, "ckpt-1"), {}));
  EXPECT_EQ(header.base, "ckpt-1");
  EXPECT_EQ(EncodeHeader(1, false, "ckpt-1"), EncodeHeader(1, false));
  for (const std::string& base : {std::string("../ckpt-1"), std::string("/etc/x"), std::string("a\0b", 3)}) {
    EXPECT_THAT(DecodeHeader(EncodeHeader(1, true, base), {}),
                StatusIs(Code::kDataLoss, HasSubstr("wanted a name in the same folder")));
  }
}

}  // namespace
}  // namespace tensorcask
