// Opening a folder of checkpoints: options, the lock, and what killed saves left.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/manager_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "tensorcask/tests/support/uploading_file_system.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::On;
using ::tensorcask::testing::SaveStep;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::tensorcask::testing::UploadingFileSystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

TEST(CheckpointManagerTest, BadOptionsAreRefused) {
  MemoryFileSystem memory;
  struct Row {
    const char* name;
    const char* folder;
    void (*set)(CheckpointManagerOptions*);
    Code code;
    const char* says;
  };
  const Row rows[] = {
      {"KeepNone", "/run", [](CheckpointManagerOptions* o) { o->keep_last = 0; }, Code::kInvalidArgument,
       "keep_last is 0"},
      {"Every", "/run", [](CheckpointManagerOptions* o) { o->keep_every = -1; }, Code::kInvalidArgument,
       "keep_every is -1"},
      {"Overwrite", "/run", [](CheckpointManagerOptions* o) { o->writer.overwrite = true; }, Code::kInvalidArgument,
       "overwrite"},
      {"NoName", "/run", [](CheckpointManagerOptions* o) { o->name = ""; }, Code::kInvalidArgument, "name is \"\""},
      {"Slash", "/run", [](CheckpointManagerOptions* o) { o->name = "a/b"; }, Code::kInvalidArgument, "a/b"},
      {"Pattern", "/run", [](CheckpointManagerOptions* o) { o->name = "a-of-b"; }, Code::kInvalidArgument, "-of-"},
      {"Nul", "/run", [](CheckpointManagerOptions* o) { o->name = std::string("a\0", 2); }, Code::kInvalidArgument,
       "NUL"},
      {"LongName", "/run", [](CheckpointManagerOptions* o) { o->name = std::string(220, 'n'); }, Code::kInvalidArgument,
       "255"},
      {"NoFolder", "", [](CheckpointManagerOptions*) {}, Code::kInvalidArgument, "empty"},
      {"NoParent", "/no/run", [](CheckpointManagerOptions*) {}, Code::kNotFound, "cannot make the folder /no/run"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    CheckpointManagerOptions options = On(&memory);
    row.set(&options);
    EXPECT_THAT(CheckpointManager::Open(row.folder, options), StatusIs(row.code, HasSubstr(row.says)));
  }
  EXPECT_THAT(memory.Paths(), IsEmpty());
  memory.Put("/file", "");
  EXPECT_THAT(CheckpointManager::Open("/file", On(&memory)), StatusIs(Code::kFailedPrecondition, HasSubstr("/file")));
}

TEST(CheckpointManagerTest, ASecondManagerIsToldOfTheLock) {
  const TempFolder folder;
  const std::string run = folder.Path("run");
  CheckpointManagerOptions options = On(FileSystem::Posix());
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager first, CheckpointManager::Open(run, options));
    EXPECT_THAT(CheckpointManager::Open(run, options),
                StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("run/.ckpt.lock: is locked"), HasSubstr("fuser"))));
    EXPECT_THAT(CheckpointManager::Open(run + "//", options), StatusIs(Code::kFailedPrecondition));
    ASSERT_OK(SaveStep(&first, 1)) << "the first one is not disturbed";
    options.name = "other";
    EXPECT_OK(CheckpointManager::Open(run, options)) << "another name is another run";
    options.name = "ckpt";
    // The lock moves with the handle, and goes when that is replaced.
    CheckpointManager moved = std::move(first);
    EXPECT_THAT(CheckpointManager::Open(run, options), StatusIs(Code::kFailedPrecondition));
    ASSERT_OK_AND_ASSIGN(moved, CheckpointManager::Open(folder.Path("elsewhere"), options));
    EXPECT_OK(CheckpointManager::Open(run, options));
  }
  EXPECT_OK(CheckpointManager::Open(run, options));
}

TEST(CheckpointManagerTest, AFailedOpenHoldsNoLock) {
  MemoryFileSystem memory;
  for (int64_t n = 1;; ++n) {
    FaultyFileSystem files(&memory);
    files.FailAt(n, EIO);
    const absl::Status opened = CheckpointManager::Open("/run", On(&files)).status();
    EXPECT_EQ(memory.open_handles(), 0u);
    if (files.faults() == 0) break;
    EXPECT_OK(CheckpointManager::Open("/run", On(&memory))) << n;
  }
}

// What killed saves of step 7 and 9 left, and what others have there.
const char* const kLeftovers[] = {
    "ckpt-7.data-00000-of-00002",        "ckpt-7.data-00001-of-00002.tmp-0123456789abcdef",
    "ckpt-7.index.tmp-0123456789abcdef", "ckpt-9.data-00000-of-00001",
    "ckpt-9.tmp-fedcba9876543210",     // a long name, cut
    "ckpt-9.da.tmp-fedcba9876543210",  // the same
    "ckpt-1.index.tmp-0000000000000000", "checkpoint.tmp-0123456789abcdef",
};
const char* const kForeign[] = {
    "ckpt-07.data-00000-of-00001",
    "ckpt--7.data-00000-of-00001",
    "ckpt-9223372036854775808.data-00000-of-00001",
    "ckpt-7x.data-00000-of-00001",
    "ckpt-.data-00000-of-00001",
    "ckpt-7.data-0000-of-00001",
    "ckpt-7.data-00000-of-00001.bak",
    "ckpt-7.data-00000-of-00001.tmp-0123",
    "ckpt-7.index.tmp-0123456789ABCDEF",
    "ckpt-7.meta",
    "ckpt-7.meta.tmp-0123456789abcdef",
    "ckpt-7",
    "ckpt-7.index.lock",
    "ckpt-1-7.data-00000-of-00001",
    "my-ckpt-7.data-00000-of-00001",
    "ckpt.data-00000-of-00001",
    "model.tmp-0123456789abcdef",
    "other-7.data-00000-of-00001",
    "notes.txt",
    "-7.index",
};

TEST(CheckpointManagerTest, OpenRemovesWhatKilledSavesLeftAndNothingElse) {
  MemoryFileSystem memory;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory)));
    for (const int64_t step : {1, 2}) ASSERT_OK(SaveStep(&manager, step));
  }
  const std::vector<std::string> clean = memory.Paths();
  for (const char* name : kLeftovers) memory.Put(absl::StrCat("/run/", name), "x");
  ASSERT_OK(CheckpointManager::Open("/run", On(&memory)));
  EXPECT_EQ(memory.Paths(), clean);

  for (const char* name : kForeign) memory.Put(absl::StrCat("/run/", name), "x");
  ASSERT_EQ(memory.MakeFolder("/run/ckpt-8.data-00000-of-00001"), 0);
  std::vector<std::string> with_foreign = memory.Paths();
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", On(&memory, 1)));
  EXPECT_EQ(memory.Paths(), with_foreign);
  EXPECT_THAT(manager.steps(), ElementsAre(1, 2));
  ASSERT_OK(SaveStep(&manager, 3));
  for (const char* name : kForeign) EXPECT_NE(memory.Find(absl::StrCat("/run/", name)), nullptr) << name;
  EXPECT_THAT(manager.steps(), ElementsAre(3));
}

// They take no step's place, and are not touched.
TEST(CheckpointManagerTest, FoldersUnderTheNamesOfIndexesAreLeftAlone) {
  MemoryFileSystem memory;
  ASSERT_EQ(memory.MakeFolder("/run"), 0);
  ASSERT_EQ(memory.MakeFolder("/run/ckpt-1.index"), 0);
  memory.Put("/run/ckpt-1.data-00000-of-00001", "whose?");
  ASSERT_EQ(memory.MakeFolder("/run/ckpt-90.index"), 0);
  const CheckpointManagerOptions options = On(&memory, /*keep_last=*/2);
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open("/run", options));
  EXPECT_THAT(manager.steps(), IsEmpty());
  for (const int64_t step : {2, 3, 4}) EXPECT_OK(SaveStep(&manager, step));
  EXPECT_THAT(manager.steps(), ElementsAre(3, 4));
  EXPECT_THAT(SaveStep(&manager, 1), StatusIs(Code::kAlreadyExists, HasSubstr("/run/ckpt-1.index")));
  EXPECT_OK(SaveStep(&manager, 5));
  EXPECT_THAT(manager.steps(), ElementsAre(4, 5));

  // The same of one that comes later, in the place of a step.
  ASSERT_EQ(memory.Remove("/run/ckpt-4.index"), 0);
  ASSERT_EQ(memory.MakeFolder("/run/ckpt-4.index"), 0);
  for (const int64_t step : {6, 7}) EXPECT_OK(SaveStep(&manager, step));
  EXPECT_THAT(manager.steps(), ElementsAre(6, 7));

  // The next run meets them again.
  { const CheckpointManager closed = std::move(manager); }
  ASSERT_OK_AND_ASSIGN(CheckpointManager again, CheckpointManager::Open("/run", options));
  EXPECT_OK(SaveStep(&again, 8));
  EXPECT_THAT(again.steps(), ElementsAre(7, 8));
  for (const int64_t step : {1, 4, 90}) {
    FileInfo info;
    ASSERT_EQ(memory.Describe(absl::StrCat("/run/ckpt-", step, ".index"), &info), 0) << step;
    EXPECT_EQ(info.type, FileInfo::Type::kFolder) << step;
  }
  EXPECT_NE(memory.Find("/run/ckpt-1.data-00000-of-00001"), nullptr);
}

TEST(CheckpointManagerTest, TheStateFileOfTwoRunsIsCleanedByNeither) {
  MemoryFileSystem memory;
  CheckpointManagerOptions other = On(&memory);
  other.name = "other";
  ASSERT_OK(CheckpointManager::Open("/run", other));
  memory.Put("/run/checkpoint.tmp-0123456789abcdef", "x");
  ASSERT_OK(CheckpointManager::Open("/run", On(&memory)));
  EXPECT_NE(memory.Find("/run/checkpoint.tmp-0123456789abcdef"), nullptr);
}

// Two managers of one folder, as on an object store: each publishes only under names that are free.
TEST(CheckpointManagerTest, GoesOnWithANoteWhereThereAreNoLocks) {
  MemoryFileSystem memory;
  UploadingFileSystem files(&memory);
  memory.MakeFolder("/run");
  memory.Put("/run/ckpt-7.data-00000-of-00001", "of a save that goes on elsewhere");
  ASSERT_OK_AND_ASSIGN(CheckpointManager first, CheckpointManager::Open("/run", On(&files, 2)));
  ASSERT_OK_AND_ASSIGN(CheckpointManager second, CheckpointManager::Open("/run", On(&files, 2)));
  EXPECT_THAT(first.notes(), ElementsAre(HasSubstr("/run: this file system has no locks")));
  ASSERT_OK(SaveStep(&first, 1));
  EXPECT_THAT(SaveStep(&second, 1), StatusIs(Code::kAlreadyExists, HasSubstr("ckpt-1")));
  for (const int64_t step : {2, 3}) ASSERT_OK(SaveStep(&first, step));
  EXPECT_THAT(first.steps(), ElementsAre(2, 3));
  EXPECT_EQ(memory.Find("/run/ckpt-1.index"), nullptr);
  EXPECT_NE(memory.Find("/run/ckpt-7.data-00000-of-00001"), nullptr);
  ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, second.Latest());
  EXPECT_EQ(latest.step, 3);
  EXPECT_EQ(files.unpublished(), 0u);
}

}  // namespace
}  // namespace tensorcask
