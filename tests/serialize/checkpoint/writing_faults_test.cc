// Each operation of the file system fails in turn while a checkpoint is saved, merged or managed.

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/crash/content.h"
#include "tensorcask/tests/crash/manager_scenarios.h"
#include "tensorcask/tests/serialize/checkpoint/fault_surfaces_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AddContent;
using ::tensorcask::testing::CheckContent;
using ::tensorcask::testing::CheckGoingOn;
using ::tensorcask::testing::CheckSteps;
using ::tensorcask::testing::Content;
using ::tensorcask::testing::CountFiles;
using ::tensorcask::testing::ExpectSays;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::IsMissing;
using ::tensorcask::testing::kErrors;
using ::tensorcask::testing::kFolder;
using ::tensorcask::testing::kForEver;
using ::tensorcask::testing::kNew;
using ::tensorcask::testing::kOld;
using ::tensorcask::testing::kOnce;
using ::tensorcask::testing::kTarget;
using ::tensorcask::testing::SaveContent;
using ::tensorcask::testing::VersionOf;
using ::tensorcask::testing::Where;
using ::tensorcask::testing::WriterOptions;
using ::testing::HasSubstr;

// The fault hit the removal of a temporary file, which is then left.
bool FailedToRemove(const FaultyFileSystem& files) {
  for (const FaultyFileSystem::Record& record : files.log()) {
    if (record.injected && record.operation == FileOperation::kRemove && record.result != -EINTR) {
      return absl::StrContains(record.path, ".tmp-");
    }
  }
  return false;
}

// ---- Writing --------------------------------------------------------------------------------------------------------

struct WriteCase {
  const char* name;
  Content content;
  bool overwrites;  // version kOld stands
  std::function<void(MemoryFileSystem*)> prepare;
  // Makes version kNew under kTarget; where there is something already, if `overwrite`.
  std::function<absl::Status(FileSystem*, bool overwrite)> act;
};

void SaveOld(MemoryFileSystem* files, Content content) {
  CheckpointWriterOptions options = WriterOptions(files);
  options.num_shards = 3;
  EXPECT_OK(SaveContent(kTarget, content, kOld, options));
}

void SaveParts(MemoryFileSystem* files, Content content) {
  for (int part = 0; part < 2; ++part) {
    EXPECT_OK(SaveContent(absl::StrCat("/m/part-", part), content, kNew, WriterOptions(files), {part, 2}));
  }
}

absl::Status SaveNew(FileSystem* files, Content content, bool overwrite, int num_threads = 1, bool background = false) {
  CheckpointWriterOptions options = WriterOptions(files);
  options.overwrite = overwrite;
  options.num_threads = num_threads;
  options.background = background;
  return SaveContent(kTarget, content, kNew, options);
}

absl::Status MergeParts(FileSystem* files, bool overwrite, bool remove_sources = false) {
  CheckpointMergeOptions options;
  options.file_system = files;
  options.overwrite = overwrite;
  options.remove_sources = remove_sources;
  return MergeCheckpoints({"/m/part-0", "/m/part-1"}, kTarget, options).status();
}

void Nothing(MemoryFileSystem*) {}

const WriteCase kWrites[] = {
    {"SaveSliced", Content::kSliced, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kSliced, overwrite); }},
    {"SaveExtensionOnly", Content::kExtensionOnly, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kExtensionOnly, overwrite); }},
    {"SaveDirect", Content::kDirect, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kDirect, overwrite); }},
    {"SaveOnThreads", Content::kDirect, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kDirect, overwrite, 2); }},
    {"SaveInBackground", Content::kStrings, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kStrings, overwrite, 1, true); }},
    {"Overwrite", Content::kExtensionOnly, true,
     [](MemoryFileSystem* files) { SaveOld(files, Content::kExtensionOnly); },
     [](FileSystem* files, bool) { return SaveNew(files, Content::kExtensionOnly, true); }},
    {"Merge", Content::kSliced, false, [](MemoryFileSystem* files) { SaveParts(files, Content::kSliced); },
     [](FileSystem* files, bool overwrite) { return MergeParts(files, overwrite); }},
    {"MergeOver", Content::kMany, true,
     [](MemoryFileSystem* files) {
       SaveParts(files, Content::kMany);
       SaveOld(files, Content::kMany);
     },
     [](FileSystem* files, bool) { return MergeParts(files, true); }},
};

class FaultsOfWriting : public ::testing::TestWithParam<WriteCase> {};

TEST_P(FaultsOfWriting, LeaveAllOrNothing) {
  const WriteCase& param = GetParam();
  int64_t runs = 0;
  for (const int error : kErrors) {
    for (const auto duration : {kOnce, kForEver}) {
      for (int64_t n = 1;; ++n, ++runs) {
        SCOPED_TRACE(Where(n, error, duration));
        MemoryFileSystem memory;
        memory.MakeFolder(kFolder);
        param.prepare(&memory);
        const std::vector<std::string> before = memory.Paths();
        FaultyFileSystem files(&memory);
        files.FailAt(n, error, duration);
        const absl::Status status = param.act(&files, false);
        EXPECT_EQ(files.open_handles(), 0u) << files.LogText();
        if (!status.ok()) ExpectSays(status, error, files);

        const absl::StatusOr<int64_t> version = VersionOf(kTarget, param.content, &memory);
        if (status.ok()) {
          ASSERT_OK(version.status()) << files.LogText();
          EXPECT_EQ(*version, kNew) << files.LogText();
        } else if (!version.ok()) {
          EXPECT_FALSE(param.overwrites) << version.status() << "\n" << files.LogText();
          EXPECT_TRUE(IsMissing(version.status(), kTarget, &memory)) << version.status() << "\n" << files.LogText();
        } else {
          EXPECT_TRUE(*version == kNew || (*version == kOld && param.overwrites));
        }
        if (duration == kOnce) {
          EXPECT_LE(CountFiles(kFolder, &memory).temporary, FailedToRemove(files) ? 1 : 0) << files.LogText();
          if (!status.ok() && !param.overwrites) {
            EXPECT_EQ(memory.Paths(), before) << files.LogText();
          }
        }
        if (files.faults() == 0) {
          EXPECT_OK(status);
          break;
        }
        if (!status.ok()) {
          bool leftovers = false;
          for (const std::string& path : memory.Paths()) leftovers |= absl::StartsWith(path, kTarget);
          EXPECT_OK(param.act(&memory, leftovers)) << files.LogText();
          ASSERT_OK_AND_ASSIGN(const int64_t again, VersionOf(kTarget, param.content, &memory));
          EXPECT_EQ(again, kNew);
        }
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GE(runs, 16 * 15);
}

TEST_P(FaultsOfWriting, ShortCountsAndInterruptionsAreNone) {
  for (const size_t bytes : {size_t{97}, size_t{4097}}) {
    MemoryFileSystem memory;
    memory.MakeFolder(kFolder);
    GetParam().prepare(&memory);
    FaultyFileSystem files(&memory);
    files.LimitTransfers(bytes);
    files.InterruptEach(3);
    ASSERT_OK(GetParam().act(&files, false));
    ASSERT_OK_AND_ASSIGN(const int64_t version, VersionOf(kTarget, GetParam().content, &memory));
    EXPECT_EQ(version, kNew);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FaultsOfWriting, ::testing::ValuesIn(kWrites),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FaultsOfMerging, KeepTheSources) {
  for (int64_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    MemoryFileSystem memory;
    memory.MakeFolder(kFolder);
    SaveParts(&memory, Content::kSliced);
    FaultyFileSystem files(&memory);
    files.FailAt(n, EIO, kForEver);
    const absl::Status status = MergeParts(&files, /*overwrite=*/false, /*remove_sources=*/true);
    if (!status.ok()) {
      for (int part = 0; part < 2; ++part) {
        EXPECT_OK(CheckContent(absl::StrCat("/m/part-", part), Content::kSliced, kNew, &memory, {part, 2}));
      }
    }
    if (files.faults() == 0 || HasFailure()) return;
  }
}

// ---- The manager ----------------------------------------------------------------------------------------------------

CheckpointManagerOptions ManagerOptions(FileSystem* files) {
  CheckpointManagerOptions options;
  options.keep_last = 1;
  options.writer = WriterOptions(files);
  return options;
}

absl::Status SaveStep(CheckpointManager* manager, int64_t step) {
  return manager->Save(step, [&](CheckpointWriter& writer) { return AddContent(Content::kSmall, step, 2, &writer); });
}

TEST(FaultsOfTheManager, LoseNoStep) {
  for (const int error : kErrors) {
    for (const auto duration : {kOnce, kForEver}) {
      for (int64_t n = 1;; ++n) {
        SCOPED_TRACE(Where(n, error, duration));
        MemoryFileSystem memory;
        {
          ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(kFolder, ManagerOptions(&memory)));
          ASSERT_OK(SaveStep(&manager, 1));
        }
        FaultyFileSystem files(&memory);
        files.FailAt(n, error, duration);
        int64_t last = 1;
        {
          absl::StatusOr<CheckpointManager> manager = CheckpointManager::Open(kFolder, ManagerOptions(&files));
          const absl::Status status = manager.ok() ? SaveStep(&*manager, 2) : manager.status();
          const bool saved = status.ok();
          if (error == EAGAIN && absl::IsFailedPrecondition(status)) {
            EXPECT_THAT(std::string(status.message()), HasSubstr("locked"));  // which is what this errno means there
          } else if (!saved) {
            ExpectSays(status, error, files);
          }
          files.FailAt(0, 0);
          if (manager.ok() && !saved) {  // the same manager can go on
            absl::Status again = SaveStep(&*manager, 2);
            // The step stands: only what came after it failed, or its durability, and it could not be removed.
            if (absl::IsAlreadyExists(again)) again = SaveStep(&*manager, 3);
            EXPECT_OK(again) << status << "\n" << files.LogText();
            EXPECT_EQ(CountFiles(kFolder, &memory).temporary, 0) << files.LogText();
            last = manager->steps().back();
          }
          if (saved) last = 2;
        }
        EXPECT_EQ(files.open_handles(), 0u) << files.LogText();
        ASSERT_OK_AND_ASSIGN(const int64_t newest, CheckSteps(kFolder, Content::kSmall, last, ManagerOptions(&memory)));
        EXPECT_OK(CheckGoingOn(kFolder, Content::kSmall, newest + 1, ManagerOptions(&memory)));
        if (HasFailure()) return;
        if (files.faults() == 0) {
          EXPECT_GT(n, 30);
          break;
        }
      }
    }
  }
}

TEST(FaultsOfFindingTheLatest, NeverGiveAnOlderStepInSilence) {
  MemoryFileSystem memory;
  CheckpointManagerOptions options = ManagerOptions(&memory);
  options.keep_last = 2;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(kFolder, options));
    ASSERT_OK(SaveStep(&manager, 1));
    ASSERT_OK(SaveStep(&manager, 2));
  }
  for (const int error : kErrors) {
    for (const auto duration : {kOnce, kForEver}) {
      for (int64_t n = 1;; ++n) {
        SCOPED_TRACE(Where(n, error, duration));
        FaultyFileSystem files(&memory);
        files.FailAt(n, error, duration);
        const absl::StatusOr<LatestCheckpoint> latest =
            FindLatestCheckpoint(kFolder, "ckpt", CheckStep::kEverything, &files);
        EXPECT_EQ(files.open_handles(), 0u) << files.LogText();
        if (latest.ok()) {
          // What a disk does not give back (EIO) is damage, and said to be.
          const bool skipped = latest->step == 1 && latest->skipped.size() == 1 && latest->skipped[0].step == 2;
          EXPECT_TRUE(latest->step == 2 || (error == EIO && skipped)) << files.LogText();
        } else if (error == EIO && absl::IsNotFound(latest.status())) {
          EXPECT_THAT(std::string(latest.status().message()), HasSubstr("step 2: "));
        } else {
          ExpectSays(latest.status(), error, files);
        }
        if (HasFailure()) return;
        if (files.faults() == 0) break;
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
