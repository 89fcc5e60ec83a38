#include "tensorcask/serialize/checkpoint/manager.h"

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/state_file.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/manager_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Content;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::FilesOf;
using ::tensorcask::testing::FilesOfRun;
using ::tensorcask::testing::On;
using ::tensorcask::testing::SaveStep;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Code = absl::StatusCode;

// As manager.h shows it.
absl::StatusOr<Tensor> HeaderExample(const std::string& folder, const Tensor& w) {
  CheckpointManagerOptions options;
  options.keep_last = 3;
  CASK_ASSIGN_OR_RETURN(CheckpointManager manager, CheckpointManager::Open(folder, options));
  CASK_RETURN_IF_ERROR(manager.Save(100, [&](CheckpointWriter& writer) { return writer.Add("w", w); }));
  CASK_ASSIGN_OR_RETURN(LatestCheckpoint latest, FindLatestCheckpoint(folder));
  CASK_ASSIGN_OR_RETURN(CheckpointReader reader, CheckpointReader::Open(latest.prefix));
  return reader.Read("w");
}

TEST(CheckpointManagerTest, TheExampleOfTheHeader) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(const Tensor read, HeaderExample(folder.Path("run-7"), Tensor::Scalar<float>(2)));
  EXPECT_EQ(read.scalar<float>(), 2);
}

// ---- What is kept ---------------------------------------------------------------------------------------------------

struct RetentionCase {
  const char* name;
  int keep_last;
  int64_t keep_every;
  std::vector<int64_t> saved;
  std::vector<int64_t> kept;
};

class Retention : public ::testing::TestWithParam<RetentionCase> {};

TEST_P(Retention, KeepsTheseAndNoOthers) {
  const RetentionCase& param = GetParam();
  MemoryFileSystem memory;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager,
                       CheckpointManager::Open("/run", On(&memory, param.keep_last, param.keep_every)));
  for (const int64_t step : param.saved) ASSERT_OK(SaveStep(&manager, step));
  EXPECT_EQ(manager.steps(), param.kept);
  EXPECT_EQ(memory.Paths(), FilesOfRun(param.kept));
  for (const int64_t step : param.kept) EXPECT_EQ(Content(&memory, manager.PrefixOf(step)), step);

  // A folder that is opened again is as it was left.
  manager = CheckpointManager(std::move(manager));
  { const CheckpointManager closed = std::move(manager); }
  ASSERT_OK_AND_ASSIGN(const CheckpointManager again,
                       CheckpointManager::Open("/run", On(&memory, param.keep_last, param.keep_every)));
  EXPECT_EQ(again.steps(), param.kept);
  EXPECT_EQ(memory.Paths(), FilesOfRun(param.kept));
}

const RetentionCase kRetention[] = {
    {"Fewer", 3, 0, {1, 2}, {1, 2}},
    {"Last", 3, 0, {1, 2, 3, 4, 5}, {3, 4, 5}},
    {"One", 1, 0, {0, 10, 20}, {20}},
    {"Every", 1, 10, {5, 10, 15, 20, 25}, {10, 20, 25}},
    {"ZeroIsAMultiple", 1, 10, {0, 1, 2}, {0, 2}},
    {"EveryCountsAmongTheLast", 2, 10, {8, 9, 10, 11, 12}, {10, 11, 12}},
    {"EveryStep", 1, 1, {1, 2, 3}, {1, 2, 3}},
    {"LargestNumber", 1, 0, {INT64_MAX - 1, INT64_MAX}, {INT64_MAX}},
    {"GoneBack", 2, 0, {100, 200, 300, 150}, {150, 200, 300}},
    {"GoneBackAndOn", 2, 0, {100, 200, 300, 150, 160}, {160, 200, 300}},
};
INSTANTIATE_TEST_SUITE_P(All, Retention, ::testing::ValuesIn(kRetention),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CheckpointManagerTest, ASmallerNumberToKeepHoldsFromTheNextSave) {
  MemoryFileSystem memory;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 5)));
    for (const int64_t step : {1, 2, 3, 4, 5}) ASSERT_OK(SaveStep(&manager, step));
  }
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 2)));
  EXPECT_THAT(manager.steps(), ElementsAre(1, 2, 3, 4, 5));
  ASSERT_OK(SaveStep(&manager, 6));
  EXPECT_EQ(memory.Paths(), FilesOfRun({5, 6}));
}

TEST(CheckpointManagerTest, StepsOfOtherShardCountsAreRemovedWhole) {
  MemoryFileSystem memory;
  CheckpointManagerOptions options = On(&memory, 1);
  options.writer.num_shards = 4;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", options));
    ASSERT_OK(SaveStep(&manager, 1));
  }
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 1)));
  ASSERT_OK(SaveStep(&manager, 2));
  EXPECT_EQ(memory.Paths(), FilesOfRun({2}));
}

// ---- Saving ---------------------------------------------------------------------------------------------------------

TEST(CheckpointManagerTest, AnErrorOfAddLeavesNothing) {
  MemoryFileSystem memory;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory)));
  ASSERT_OK(SaveStep(&manager, 1));
  const std::vector<std::string> before = memory.Paths();
  EXPECT_THAT(manager.Save(2, [](CheckpointWriter& writer) { return writer.Add("", Tensor::Scalar<float>(1)); }),
              StatusIs(Code::kInvalidArgument, HasSubstr("name is empty")));
  EXPECT_THAT(manager.Save(2, [](CheckpointWriter&) { return absl::CancelledError("enough"); }),
              StatusIs(Code::kCancelled, HasSubstr("enough")));
  EXPECT_EQ(memory.Paths(), before);
  ASSERT_OK(SaveStep(&manager, 2));
  EXPECT_THAT(manager.steps(), ElementsAre(1, 2));
}

TEST(CheckpointManagerTest, AStepIsSavedOnce) {
  MemoryFileSystem memory;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory)));
  ASSERT_OK(SaveStep(&manager, 1));
  EXPECT_THAT(SaveStep(&manager, 1), StatusIs(Code::kAlreadyExists, HasSubstr("/run/ckpt-1: this step is saved")));
  EXPECT_THAT(SaveStep(&manager, -1), StatusIs(Code::kInvalidArgument, HasSubstr("step is -1")));
  EXPECT_EQ(Content(&memory, "/run/ckpt-1"), 1);
}

TEST(CheckpointManagerTest, ADamagedStepIsReplaced) {
  MemoryFileSystem memory;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory)));
  for (const int64_t step : {1, 2}) ASSERT_OK(SaveStep(&manager, step));
  memory.Put(FilesOf(2)[1], "cut");
  ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, manager.Latest());
  EXPECT_EQ(latest.step, 1);
  ASSERT_EQ(latest.skipped.size(), 1u);
  EXPECT_EQ(latest.skipped[0].step, 2);
  EXPECT_THAT(latest.skipped[0].why, StatusIs(Code::kDataLoss, AllOf(HasSubstr(FilesOf(2)[1]), HasSubstr("step"))));
  // The run goes on from 1, and comes to 2 again.
  ASSERT_OK(SaveStep(&manager, 2));
  EXPECT_EQ(Content(&memory, "/run/ckpt-2"), 2);
  EXPECT_THAT(manager.steps(), ElementsAre(1, 2));
}

// An index of version 3, which says of itself that this build cannot read it.
std::string NewerIndex() {
  BundleHeaderProto header;
  header.set_num_shards(2);
  header.mutable_version()->set_producer(1);
  header.mutable_version()->set_min_consumer(3);
  return testing::IndexOf({{"", header.SerializeAsString()}});
}

TEST(CheckpointManagerTest, AStepOfANewerVersionIsNotReplaced) {
  MemoryFileSystem memory;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory)));
  for (const int64_t step : {1, 2}) ASSERT_OK(SaveStep(&manager, step));
  memory.Put(FilesOf(2)[2], NewerIndex());
  const std::vector<std::string> before = memory.Paths();
  EXPECT_THAT(SaveStep(&manager, 2), StatusIs(Code::kUnimplemented, AllOf(HasSubstr("/run/ckpt-2: the step exists"),
                                                                          HasSubstr("requires reader version 3"))));
  EXPECT_EQ(memory.Paths(), before);
  EXPECT_EQ(testing::BytesOf(memory, FilesOf(2)[2]), NewerIndex());
  EXPECT_THAT(manager.steps(), ElementsAre(1, 2));
}

// Whatever goes wrong while a step that is there is looked at, it stays.
TEST(CheckpointManagerTest, AStepThatCannotBeReadNowIsNotReplaced) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files)));
  ASSERT_OK(SaveStep(&manager, 1));
  const std::vector<std::string> before = memory.Paths();
  for (const int error : {EIO, EACCES, EMFILE}) {
    for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
      for (int64_t n = 1;; ++n) {
        SCOPED_TRACE(absl::StrCat("error ", error, " at ", n));
        const int64_t faults = files.faults();
        files.FailAt(files.operations() + n, error, duration);
        const absl::Status saved = SaveStep(&manager, 1);
        const bool was_broken = files.faults() > faults;
        files.FailAt(0, 0);
        EXPECT_THAT(std::string(saved.message()), HasSubstr("/run/ckpt-1"));
        EXPECT_EQ(Content(&memory, "/run/ckpt-1"), 1);
        EXPECT_EQ(memory.Paths(), before);
        if (!was_broken) {
          EXPECT_THAT(saved, StatusIs(Code::kAlreadyExists));
          break;
        }
      }
    }
  }
}

TEST(CheckpointManagerTest, AStepWithoutItsDataIsReplaced) {
  MemoryFileSystem memory;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory)));
  for (const int64_t step : {1, 2}) ASSERT_OK(SaveStep(&manager, step));
  ASSERT_EQ(memory.Remove(FilesOf(1)[0]), 0);
  ASSERT_OK(SaveStep(&manager, 1));
  EXPECT_EQ(Content(&memory, "/run/ckpt-1"), 1);
  for (const std::string& path : FilesOf(2)) ASSERT_EQ(memory.Remove(path), 0);  // by hand, under the manager
  ASSERT_OK(SaveStep(&manager, 2));
  EXPECT_EQ(Content(&memory, "/run/ckpt-2"), 2);
}

TEST(CheckpointManagerTest, TheStateFileIsTensorFlows) {
  MemoryFileSystem memory;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 2, 10)));
    for (const int64_t step : {9, 10, 11, 12}) ASSERT_OK(SaveStep(&manager, step));
  }
  const std::string text = *memory.Find("/run/checkpoint");
  EXPECT_THAT(text, MatchesRegex("model_checkpoint_path: \"ckpt-12\"\n"
                                 "all_model_checkpoint_paths: \"ckpt-11\"\n"
                                 "all_model_checkpoint_paths: \"ckpt-12\"\n"
                                 "all_model_checkpoint_timestamps: [0-9.]+\n"
                                 "all_model_checkpoint_timestamps: [0-9.]+\n"
                                 "last_preserved_timestamp: [0-9.]+\n"));
  // The times of steps that were there before are kept.
  ASSERT_OK_AND_ASSIGN(const CheckpointState before, ReadCheckpointState("/run/checkpoint", &memory));
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 2, 10)));
  ASSERT_OK(SaveStep(&manager, 13));
  ASSERT_OK_AND_ASSIGN(const CheckpointState after, ReadCheckpointState("/run/checkpoint", &memory));
  EXPECT_THAT(after.all, ElementsAre("ckpt-12", "ckpt-13"));
  EXPECT_EQ(after.saved_at[0], before.saved_at[1]);
  EXPECT_GE(after.saved_at[1], after.saved_at[0]);
  EXPECT_EQ(after.last_preserved_at, before.last_preserved_at);
  // Nothing depends on it.
  memory.Put("/run/checkpoint", "\xff garbage");
  ASSERT_OK(SaveStep(&manager, 14));
  EXPECT_OK(ReadCheckpointState("/run/checkpoint", &memory));
}

// The order of steps on which durability rests.
TEST(CheckpointManagerTest, AnOldStepGoesWhenTheNewOneStands) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files, 1)));
  ASSERT_OK(SaveStep(&manager, 1));
  const size_t before = files.log().size();
  ASSERT_OK(SaveStep(&manager, 2));
  std::vector<std::string> steps;
  const std::vector<FaultyFileSystem::Record> log = files.log();
  for (size_t i = before; i < log.size(); ++i) {
    std::string path = log[i].path;
    for (size_t at; (at = path.find(".tmp-")) != std::string::npos;) path.replace(at, 21, "~");
    switch (log[i].operation) {
      case FileOperation::kRename:
      case FileOperation::kSyncFolder:
      case FileOperation::kRemove:
        steps.push_back(std::string(FileOperationName(log[i].operation)) + " " + path);
        break;
      default:
        break;
    }
  }
  const auto moved = [](const std::string& path) { return "Rename " + path + "~ -> " + path; };
  EXPECT_THAT(steps,
              ElementsAre(moved(FilesOf(2)[0]), moved(FilesOf(2)[1]), "SyncFolder /run", moved(FilesOf(2)[2]),
                          "SyncFolder /run", moved("/run/checkpoint"), "SyncFolder /run", "Remove " + FilesOf(1)[2],
                          "SyncFolder /run", "Remove " + FilesOf(1)[0], "Remove " + FilesOf(1)[1]));
}

TEST(CheckpointManagerTest, ATrailingSlashAndTheRootAreFolders) {
  MemoryFileSystem memory;
  for (const auto& [folder, prefix] :
       {std::pair<const char*, const char*>{"/run//", "/run/ckpt-1"}, {"/", "/ckpt-1"}, {".", "./ckpt-1"}}) {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(folder, On(&memory)));
    EXPECT_EQ(manager.PrefixOf(1), prefix);
    ASSERT_OK(SaveStep(&manager, 1));
    EXPECT_EQ(Content(&memory, prefix), 1);
    ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest,
                         FindLatestCheckpoint(folder, "ckpt", CheckStep::kEverything, &memory));
    EXPECT_EQ(latest.prefix, prefix[0] == '/' && folder[1] == 'r' ? "/run//ckpt-1" : prefix);
  }
}

// ---- Everything that can fail, failing ------------------------------------------------------------------------------

// A folder of many steps costs what its names cost, once, and a save does not look at them.
TEST(CheckpointManagerTest, ManyStepsAreNotLookedAtByASave) {
  MemoryFileSystem memory;
  ASSERT_EQ(memory.MakeFolder("/run"), 0);
  constexpr int64_t kSteps = 10000;
  for (int64_t step = 1; step <= kSteps; ++step) {
    memory.Put(absl::StrCat("/run/ckpt-", step, ".index"), "");
    memory.Put(absl::StrCat("/run/ckpt-", step, ".data-00000-of-00001"), "");
  }
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files, 2, 1)));
  EXPECT_LT(files.operations(), 20);
  EXPECT_EQ(manager.steps().size(), static_cast<size_t>(kSteps));
  ASSERT_OK(SaveStep(&manager, kSteps + 1));
  const int64_t before = files.operations();
  ASSERT_OK(SaveStep(&manager, kSteps + 2));
  const int64_t of_a_save = files.operations() - before;
  EXPECT_LT(of_a_save, 60);
  EXPECT_EQ(files.operations(FileOperation::kList), 1);
  EXPECT_LT(memory.Find("/run/checkpoint")->size(), 1000u);
}

TEST(CheckpointManagerTest, AllTimesOfTheStateFileAreTakenOver) {
  MemoryFileSystem memory;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 5)));
    for (const int64_t step : {1, 2, 3}) ASSERT_OK(SaveStep(&manager, step));
  }
  ASSERT_OK_AND_ASSIGN(CheckpointState before, ReadCheckpointState("/run/checkpoint", &memory));
  ASSERT_THAT(before.all, ElementsAre("ckpt-1", "ckpt-2", "ckpt-3"));
  before.saved_at = {1000.25, 2000.5, 3000.75};
  ASSERT_OK(WriteCheckpointState("/run/checkpoint", before, /*sync=*/false, &memory));
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 5)));
  ASSERT_OK(SaveStep(&manager, 4));
  ASSERT_OK_AND_ASSIGN(const CheckpointState after, ReadCheckpointState("/run/checkpoint", &memory));
  ASSERT_THAT(after.all, ElementsAre("ckpt-1", "ckpt-2", "ckpt-3", "ckpt-4"));
  EXPECT_THAT(after.saved_at, ElementsAre(1000.25, 2000.5, 3000.75, Gt(1e9)));
}

}  // namespace
}  // namespace tensorcask
