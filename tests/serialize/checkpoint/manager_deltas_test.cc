// Steps that are stored as deltas to other steps: no manager removes a base that a step needs.

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/encoded_testing.h"
#include "tensorcask/tests/serialize/checkpoint/manager_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::FilesOf;
using ::tensorcask::testing::NameBase;
using ::tensorcask::testing::On;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::tensorcask::testing::Weights;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

CheckpointManagerOptions Deltas(FileSystem* files, int full_every, int keep_last, int64_t keep_every = 0) {
  CheckpointManagerOptions options = On(files, keep_last, keep_every);
  options.full_every = full_every;
  return options;
}

// 100,000 weights, of which one changes with each step: large enough, and alike enough, for deltas.
Tensor WeightsOf(int64_t step) {
  static const auto* const weights = new Tensor(Weights({1000, 100}, 1));
  Tensor tensor = *weights->Clone();
  tensor.mutable_flat<float>()[static_cast<size_t>(step)] = static_cast<float>(step);
  return tensor;
}

absl::Status AddWeights(int64_t step, CheckpointWriter& writer) {
  CASK_RETURN_IF_ERROR(writer.Add("step", Tensor::Scalar<int64_t>(step)));
  return writer.Add("w", WeightsOf(step));
}

absl::Status SaveStep(CheckpointManager* manager, int64_t step) {
  return manager->Save(step, [&](CheckpointWriter& writer) { return AddWeights(step, writer); });
}

absl::StatusOr<CheckpointReader> OpenAt(FileSystem* files, const std::string& prefix) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  return CheckpointReader::Open(prefix, options);
}

std::shared_ptr<const CheckpointReader> BaseAt(FileSystem* files, const std::string& prefix) {
  absl::StatusOr<CheckpointReader> reader = OpenAt(files, prefix);
  EXPECT_OK(reader.status());
  return std::make_shared<const CheckpointReader>(*std::move(reader));
}

// The options of a manager that makes deltas to the step at `prefix`.
CheckpointManagerOptions DeltasTo(const std::string& prefix, FileSystem* files, int keep_last) {
  CheckpointManagerOptions options = On(files, keep_last);
  options.writer.payload.level = PayloadLevel::kDefault;
  options.writer.payload.base = BaseAt(files, prefix);
  return options;
}

bool IsDelta(const CheckpointReader& reader) {
  const absl::StatusOr<CheckpointEntry> entry = reader.Find("w");
  EXPECT_OK(entry.status());
  return entry->payload != nullptr && entry->payload->is_delta;
}

// `reader` has the tensors of this step.
void ExpectStep(const CheckpointReader& reader, int64_t step) {
  ASSERT_OK_AND_ASSIGN(const Tensor number, reader.Read("step"));
  EXPECT_EQ(number.scalar<int64_t>(), step);
  ASSERT_OK_AND_ASSIGN(const Tensor weights, reader.Read("w"));
  EXPECT_TRUE(SameTensor(weights, WeightsOf(step)));
}

// The newest step is this one, is a delta to `base_name` ("": is full), and can be read.
void ExpectLatest(const CheckpointManager& manager, int64_t step, const std::string& base_name,
                  const std::string& folder = "/run") {
  SCOPED_TRACE(step);
  for (const CheckStep check : {CheckStep::kStructure, CheckStep::kEverything}) {
    ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, manager.Latest(check));
    EXPECT_EQ(latest.step, step);
    EXPECT_EQ(latest.base_prefix, base_name.empty() ? "" : absl::StrCat(folder, "/", base_name));
    EXPECT_THAT(latest.skipped, IsEmpty());
  }
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, manager.OpenLatest());
  EXPECT_EQ(IsDelta(reader), !base_name.empty());
  ExpectStep(reader, step);
}

// Every step in the folder can be read: none lost its base.
void ExpectAllReadable(const CheckpointManager& manager, FileSystem* files) {
  for (const int64_t step : manager.steps()) {
    SCOPED_TRACE(step);
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenAt(files, manager.PrefixOf(step)));
    ExpectStep(reader, step);
  }
}

TEST(ManagerDeltas, ABaseThatIsAStepIsKept) {
  MemoryFileSystem files;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files)));
    ASSERT_OK(SaveStep(&manager, 1));
  }
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager,
                         CheckpointManager::Open("/run", DeltasTo("/run/ckpt-1", &files, /*keep_last=*/3)));
    for (int64_t step = 2; step <= 6; ++step) {
      ASSERT_OK(SaveStep(&manager, step));
      ExpectLatest(manager, step, "ckpt-1");
    }
    EXPECT_THAT(manager.steps(), ElementsAre(1, 4, 5, 6));
    ExpectAllReadable(manager, &files);
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
    ExpectAllReadable(manager, &files);
  }
}

TEST(ManagerDeltas, InTheBackgroundTheBaseIsComplete) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 4, 2)));
  for (int64_t step = 1; step <= 6; ++step) {
    ASSERT_OK_AND_ASSIGN(BackgroundSave save, manager.SaveInBackground(step, [&](CheckpointWriter& writer) {
      return AddWeights(step, writer);
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
  ExpectAllReadable(manager, &files);
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
    EXPECT_THAT(latest.skipped[0].why, StatusIs(Code::kDataLoss, HasSubstr("to /run/ckpt-3, which is missing")));
  }
  // The run goes on from step 2, with other values, and reaches the lost steps again.
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 2, 4)));
  for (int64_t step = 3; step <= 4; ++step) {
    ASSERT_OK(manager.Save(step, [&](CheckpointWriter& writer) { return AddWeights(10 * step, writer); }));
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, manager.OpenLatest());
    EXPECT_EQ(reader.prefix(), manager.PrefixOf(step));
    EXPECT_EQ(IsDelta(reader), step == 4);
    ExpectStep(reader, 10 * step);
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
  options.writer.payload.base = BaseAt(&files, "/run/ckpt-1");
  EXPECT_THAT(CheckpointManager::Open("/run", options),
              StatusIs(Code::kInvalidArgument, HasSubstr("chooses the bases")));
}

// Step 2 is a delta to step 1, and has a tensor of its own, to which step 3 is a delta.
TEST(ManagerDeltas, BasesOfBasesAreKept) {
  MemoryFileSystem files;
  const auto save = [&](CheckpointManagerOptions options, int64_t step, absl::string_view own) {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", options));
    ASSERT_OK(manager.Save(step, [&](CheckpointWriter& writer) -> absl::Status {
      CASK_RETURN_IF_ERROR(writer.Add(own, WeightsOf(100 * step)));
      return AddWeights(step, writer);
    }));
  };
  save(On(&files), 1, "none");
  save(DeltasTo("/run/ckpt-1", &files, 3), 2, "own");
  save(DeltasTo("/run/ckpt-2", &files, 3), 3, "own");
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files, 2)));
  ASSERT_OK(SaveStep(&manager, 4));
  EXPECT_THAT(manager.steps(), ElementsAre(1, 2, 3, 4));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader third, OpenAt(&files, "/run/ckpt-3"));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry own, third.Find("own"));
  EXPECT_TRUE(own.payload != nullptr && own.payload->is_delta);
  ASSERT_OK_AND_ASSIGN(const Tensor read, third.Read("own"));
  EXPECT_TRUE(SameTensor(read, WeightsOf(300)));
  ExpectAllReadable(manager, &files);
  ASSERT_OK(SaveStep(&manager, 5));
  EXPECT_THAT(manager.steps(), ElementsAre(4, 5));
}

// A path to the folder through links, "..", and relative ones.
TEST(ManagerDeltas, ABaseIsKnownByAnyPath) {
  const TempFolder folder;
  FileSystem* const files = FileSystem::Posix();
  ASSERT_EQ(symlink("run", folder.Path("link").c_str()), 0);
  ASSERT_EQ(mkdir(folder.Path("sub").c_str(), 0700), 0);
  char here[PATH_MAX];
  ASSERT_NE(getcwd(here, sizeof(here)), nullptr);
  std::string to_root;
  for (const char c : absl::string_view(here)) to_root += c == '/' ? "../" : "";
  const std::string relative = absl::StrCat(to_root, folder.Path("run").substr(1), "/ckpt-1");
  const std::string run = folder.Path("run");
  for (const std::string& base :
       {folder.Path("run/ckpt-1"), folder.Path("run/ckpt-1.index"), folder.Path("link/ckpt-1"),
        folder.Path("sub/../run//./ckpt-1"), folder.Path("sub/../link/ckpt-1"), relative}) {
    SCOPED_TRACE(base);
    for (const std::string& path : {run, folder.Path("link")}) {
      SCOPED_TRACE(path);
      {
        ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(run, On(files, 1)));
        ASSERT_OK(SaveStep(&manager, 1));
      }
      {
        CheckpointManagerOptions options = DeltasTo(base, files, 1);
        options.writer.sync = false;
        ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(path, options));
        for (int64_t step = 2; step <= 4; ++step) ASSERT_OK(SaveStep(&manager, step));
        EXPECT_THAT(manager.steps(), ElementsAre(1, 4));
        ExpectLatest(manager, 4, "ckpt-1", path);
      }
      for (const char* pattern : {"/ckpt-1", "/ckpt-4"}) {
        for (const char* suffix : {".index", ".data-00000-of-00002", ".data-00001-of-00002"}) {
          ASSERT_EQ(files->Remove(absl::StrCat(run, pattern, suffix)), 0);
        }
      }
    }
  }
}

// A base of another folder is not a step, although it has the name of one.
TEST(ManagerDeltas, ABaseOfAnotherFolderKeepsNoStep) {
  MemoryFileSystem files;
  for (const char* const folder : {"/other", "/run"}) {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(folder, On(&files)));
    ASSERT_OK(SaveStep(&manager, 1));
  }
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager,
                       CheckpointManager::Open("/run", DeltasTo("/other/ckpt-1", &files, 2)));
  for (int64_t step = 2; step <= 4; ++step) ASSERT_OK(SaveStep(&manager, step));
  EXPECT_THAT(manager.steps(), ElementsAre(3, 4));
  ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, manager.Latest());
  EXPECT_EQ(latest.base_prefix, "") << "the index names only a base of its own folder";
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, manager.OpenLatest());
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kFailedPrecondition, HasSubstr("no base is given")));
  CheckpointReaderOptions with_base;
  with_base.base = BaseAt(&files, "/other/ckpt-1");
  ASSERT_OK_AND_ASSIGN(const CheckpointReader read, manager.OpenLatest(with_base));
  ExpectStep(read, 4);
}

// A step is replaced if it is damaged. The base of what is to be saved is not.
TEST(ManagerDeltas, ADamagedBaseIsNotReplacedByADeltaToIt) {
  MemoryFileSystem files;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files)));
    ASSERT_OK(SaveStep(&manager, 1));
  }
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", DeltasTo("/run/ckpt-1", &files, 3)));
  EXPECT_THAT(SaveStep(&manager, 1), StatusIs(Code::kAlreadyExists));
  ASSERT_OK(SaveStep(&manager, 2));
  const std::string path = "/run/ckpt-1.data-00000-of-00002";
  const std::string whole = BytesOf(files, path);
  std::string damaged = whole;
  damaged[1000] ^= 1;
  files.Put(path, damaged);
  EXPECT_THAT(SaveStep(&manager, 1),
              StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("/run/ckpt-1: the step is damaged and was not"),
                                                        HasSubstr("is the base of what is to be saved"))));
  files.Put(path, whole);
  ExpectLatest(manager, 2, "ckpt-1");
}

// What is damaged of a full step may be something that the deltas to it do not need.
TEST(ManagerDeltas, ADamagedBaseOfAWholeStepIsNotReplaced) {
  MemoryFileSystem files;
  const auto save = [&](CheckpointManager& manager, int64_t step) {
    return manager.Save(step, [&](CheckpointWriter& writer) -> absl::Status {
      CheckpointAddOptions add;
      add.shard = 1;
      CASK_RETURN_IF_ERROR(writer.Add("other", Weights({10, 10}, static_cast<uint32_t>(step)), add));
      return AddWeights(step, writer);
    });
  };
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 2, 4)));
    for (int64_t step = 1; step <= 4; ++step) ASSERT_OK(save(manager, step));
  }
  const auto damage = [&](const std::string& path) {
    std::string data = BytesOf(files, path);
    data[data.size() / 2] ^= 1;
    files.Put(path, data);
  };
  damage("/run/ckpt-3.data-00001-of-00002");  // "other", which is no delta in step 4
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 2, 4)));
  ExpectLatest(manager, 4, "ckpt-3");
  EXPECT_THAT(save(manager, 3),
              StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("/run/ckpt-3: the step is damaged and was not"),
                                                        HasSubstr("step 4 is whole and is stored as deltas to it"))));
  ExpectLatest(manager, 4, "ckpt-3");
  damage("/run/ckpt-3.data-00000-of-00002");  // "w", too: step 4 is lost
  ASSERT_OK(save(manager, 3));
  ExpectLatest(manager, 4, "ckpt-3");
}

// A tensor that does not become smaller is stored whole, and a step of such tensors needs no base.
TEST(ManagerDeltas, AStepWithoutDeltasNamesNoBase) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 3, 1)));
  ASSERT_OK(SaveStep(&manager, 1));
  for (int64_t step = 2; step <= 3; ++step) {
    ASSERT_OK(manager.Save(step, [&](CheckpointWriter& writer) {
      return writer.Add("other", Weights({1000, 100}, static_cast<uint32_t>(step)));
    }));
    ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, manager.Latest());
    EXPECT_EQ(latest.step, step);
    EXPECT_EQ(latest.base_prefix, "");
  }
  EXPECT_THAT(manager.steps(), ElementsAre(1, 3)) << "the next step would be a delta to step 1";
  for (const std::string& path : FilesOf(1)) ASSERT_EQ(files.Remove(path), 0);
  ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, manager.Latest());
  EXPECT_EQ(latest.step, 3);
}

// A run that goes on from an older step has deltas with lower numbers than their base.
TEST(ManagerDeltas, AreRemovedBeforeTheirBases) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 4, 10)));
    for (const int64_t step : {20, 30, 10}) ASSERT_OK(SaveStep(&manager, step));
    ExpectAllReadable(manager, &files);
  }
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files, 1)));
  const size_t before = files.log().size();
  ASSERT_OK(SaveStep(&manager, 40));
  EXPECT_THAT(manager.steps(), ElementsAre(40));
  std::vector<std::string> removed;
  const std::vector<FaultyFileSystem::Record> log = files.log();
  for (size_t i = before; i < log.size(); ++i) {
    if (log[i].operation == FileOperation::kRemove && absl::EndsWith(log[i].path, ".index")) {
      removed.push_back(log[i].path);
    }
  }
  EXPECT_THAT(removed, ElementsAre("/run/ckpt-30.index", "/run/ckpt-10.index", "/run/ckpt-20.index"));
}

// A process is killed at each operation of a save in turn: each step that is left can be read, and the run goes on.
TEST(ManagerDeltas, ACrashLeavesNoDeltaWithoutItsBase) {
  int64_t crashes = 0;
  for (const int64_t saved : {4, 5, 6}) {  // the next step is full, or the first or second delta to step 4
    for (int64_t n = 1;; ++n) {
      MemoryFileSystem memory;
      FaultyFileSystem files(&memory);
      bool crashed = false;
      {
        ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 3, 2)));
        for (int64_t step = 1; step < saved; ++step) ASSERT_OK(SaveStep(&manager, step));
        files.FailAt(files.operations() + n, EIO, FaultyFileSystem::kForEver);
        SaveStep(&manager, saved).IgnoreError();
        crashed = files.faults() > 0;
      }
      SCOPED_TRACE(absl::StrCat("step ", saved, ", killed at ", n, "\n", files.LogText()));
      ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&memory, 3, 2)));
      ExpectAllReadable(manager, &memory);
      ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, manager.Latest());
      EXPECT_THAT(latest.skipped, IsEmpty());
      EXPECT_GE(latest.step, saved - 1);
      for (int64_t step = latest.step + 1; step <= latest.step + 2; ++step) ASSERT_OK(SaveStep(&manager, step));
      ExpectLatest(manager, latest.step + 2, absl::StrCat("ckpt-", latest.step + 1));
      ExpectAllReadable(manager, &memory);
      if (HasFailure() || !crashed) break;
      ++crashes;
    }
  }
  EXPECT_GT(crashes, 60);
}

TEST(ManagerDeltas, CyclesAndLongChainsOfBasesEnd) {
  MemoryFileSystem files;
  constexpr int64_t kSteps = 300;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files, kSteps)));
    for (int64_t step = 1; step <= kSteps; ++step) ASSERT_OK(testing::SaveStep(&manager, step));
  }
  // Each step is a delta to the one before it; the first three form a cycle, and the fourth is its own base.
  for (int64_t step = 1; step <= kSteps; ++step) {
    NameBase(&files, absl::StrCat("/run/ckpt-", step), absl::StrCat("ckpt-", step == 1 ? 3 : step == 4 ? 4 : step - 1));
  }
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&files, 2)));
    ASSERT_OK(testing::SaveStep(&manager, kSteps + 1));
    EXPECT_EQ(manager.steps().size(), static_cast<size_t>(kSteps) - 2) << "all but the cycle";
    EXPECT_EQ(manager.steps()[0], 4);
    ASSERT_OK(testing::SaveStep(&manager, kSteps + 2));
    EXPECT_THAT(manager.steps(), ElementsAre(kSteps + 1, kSteps + 2));
  }
}

TEST(ManagerDeltas, ABaseThatIsNoNameInTheFolderIsDamage) {
  MemoryFileSystem files;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", Deltas(&files, 2, 4)));
    for (int64_t step = 1; step <= 2; ++step) ASSERT_OK(SaveStep(&manager, step));
  }
  for (const std::string& base : {std::string("../run/ckpt-1"), std::string("/run/ckpt-1"), std::string("sub/ckpt-1"),
                                  std::string("ckpt-1\0", 7)}) {
    SCOPED_TRACE(base);
    NameBase(&files, "/run/ckpt-2", base);
    ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest,
                         FindLatestCheckpoint("/run", "ckpt", CheckStep::kEverything, &files));
    EXPECT_EQ(latest.step, 1);
    ASSERT_EQ(latest.skipped.size(), 1u);
    EXPECT_THAT(latest.skipped[0].why, StatusIs(Code::kDataLoss, HasSubstr("wanted a name in the same folder")));
  }
}

}  // namespace
}  // namespace tensorcask
