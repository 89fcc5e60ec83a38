// Every operation on files that reading, saving, merging and managing checkpoints make, failing in turn, with every
// error that a system gives; and every allocation. (faults_test.cc looks closer at plain saves and loads.)
//
// Each time the status has the code of that error and names a file. No handle or mapping stays open, and no temporary
// file that could be removed stays. Checkpoints that exist afterwards are whole, and the same operation then succeeds.

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
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/checkpoint/writer.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tests/crash/content.h"
#include "tensorcask/tests/crash/manager_scenarios.h"
#include "tensorcask/tests/support/counted_allocations.h"
#include "tensorcask/tests/support/failing_allocator.h"
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
using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::FailingNothrowNew;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::IsMissing;
using ::tensorcask::testing::SaveContent;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::VersionOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kErrors[] = {EIO, ENOSPC, EDQUOT, EINTR, EAGAIN, EMFILE, EACCES, ESTALE};
constexpr auto kOnce = FaultyFileSystem::kOnce;
constexpr auto kForEver = FaultyFileSystem::kForEver;

constexpr char kFolder[] = "/m";
constexpr char kTarget[] = "/m/ckpt";
constexpr int64_t kOld = 1;
constexpr int64_t kNew = 2;

std::string Where(int64_t n, int error, FaultyFileSystem::Duration duration) {
  return absl::StrCat("errno ", error, " at ", n, duration == kForEver ? " for ever" : "");
}

// The answer to a failed operation of that errno.
void ExpectSays(const absl::Status& status, int error, const FaultyFileSystem& files) {
  EXPECT_EQ(status.code(), absl::ErrnoToStatusCode(error)) << status << "\n" << files.LogText();
  EXPECT_THAT(std::string(status.message()), HasSubstr(kFolder)) << files.LogText();
}

CheckpointWriterOptions WriterOptions(FileSystem* files) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = 2;
  return options;
}

// The fault hit the removal of a temporary file, which is then left.
bool FailedToRemove(const FaultyFileSystem& files) {
  for (const FaultyFileSystem::Record& record : files.log()) {
    if (record.injected && record.operation == FileOperation::kRemove && record.result != -EINTR) {
      return absl::StrContains(record.path, ".tmp-");
    }
  }
  return false;
}

// ---- Reading --------------------------------------------------------------------------------------------------------

struct ReadCase {
  const char* name;
  Content content;
  ReadStrategy strategy;
  std::function<absl::Status(const CheckpointReader&)> use;
};

absl::Status ReadEach(const CheckpointReader& reader) {
  CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, reader.entries());
  for (const CheckpointEntry& entry : entries) CASK_RETURN_IF_ERROR(reader.ReadWithMetadata(entry.name).status());
  return absl::OkStatus();
}

absl::Status MapEach(const CheckpointReader& reader) {
  for (const char* name : {"bias", "version"}) CASK_RETURN_IF_ERROR(reader.Map(name).status());
  return absl::OkStatus();
}

absl::Status ReadRows(const CheckpointReader& reader) {
  CASK_ASSIGN_OR_RETURN(const TensorSlice rows, TensorSlice::Parse("1,3:-"));
  CASK_RETURN_IF_ERROR(reader.ReadSlice("kernel", rows).status());
  return reader.ReadSlice("kernel", rows, /*verify_whole=*/true).status();
}

absl::Status VerifyEach(const CheckpointReader& reader) {
  absl::Status first;
  CASK_ASSIGN_OR_RETURN(const CheckpointCensus census, reader.VerifyAll([&](const CheckpointDamage& damage) {
    if (first.ok()) first = damage.status;
  }));
  if (first.ok() && census.whole != 3) return absl::InternalError(absl::StrCat(census.whole, " tensors are whole"));
  return first;
}

const ReadCase kReads[] = {
    {"Open", Content::kMany, ReadStrategy::kRead, [](const CheckpointReader&) { return absl::OkStatus(); }},
    {"Entries", Content::kMany, ReadStrategy::kRead,
     [](const CheckpointReader& reader) { return reader.entries().status(); }},
    {"Read", Content::kStrings, ReadStrategy::kRead, ReadEach},
    {"ReadInParallel", Content::kStrings, ReadStrategy::kParallel, ReadEach},
    {"ReadSliced", Content::kSliced, ReadStrategy::kRead, ReadEach},
    {"ReadGuarded", Content::kGuarded, ReadStrategy::kRead, ReadEach},
    {"ReadMapped", Content::kStrings, ReadStrategy::kMap, ReadEach},
    {"ReadRows", Content::kSliced, ReadStrategy::kRead, ReadRows},
    {"ReadRowsOfGuarded", Content::kGuarded, ReadStrategy::kRead, ReadRows},
    {"ReadAll", Content::kMany, ReadStrategy::kRead,
     [](const CheckpointReader& reader) { return reader.ReadAll().status(); }},
    {"ReadAllOnThreads", Content::kSliced, ReadStrategy::kRead,
     [](const CheckpointReader& reader) { return reader.ReadAll(2).status(); }},
    {"Map", Content::kSliced, ReadStrategy::kMap, MapEach},
    {"Verify", Content::kSliced, ReadStrategy::kRead, VerifyEach},
};

class FaultsOfReading : public ::testing::TestWithParam<ReadCase> {
 protected:
  FaultsOfReading() {
    memory_.MakeFolder(kFolder);
    EXPECT_OK(SaveContent(kTarget, GetParam().content, kNew, WriterOptions(&memory_)));
  }

  CheckpointReaderOptions Options(FileSystem* files) const {
    CheckpointReaderOptions options;
    options.read.file_system = files;
    options.read.strategy = GetParam().strategy;
    return options;
  }

  MemoryFileSystem memory_;
};

TEST_P(FaultsOfReading, AreToldAndPass) {
  int64_t runs = 0;
  for (const int error : kErrors) {
    for (const auto duration : {kOnce, kForEver}) {
      for (int64_t n = 1;; ++n, ++runs) {
        SCOPED_TRACE(Where(n, error, duration));
        FaultyFileSystem files(&memory_);
        files.FailAt(n, error, duration);
        {
          const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(kTarget, Options(&files));
          const absl::Status status = reader.ok() ? GetParam().use(*reader) : reader.status();
          if (!status.ok()) ExpectSays(status, error, files);
          files.FailAt(0, 0);  // the same reader can go on
          if (reader.ok()) {
            EXPECT_OK(GetParam().use(*reader)) << files.LogText();
          }
        }
        EXPECT_EQ(files.open_handles(), 0u) << files.LogText();
        if (HasFailure()) return;
        if (files.faults() == 0) break;
      }
    }
  }
  EXPECT_GE(runs, 16 * 3);
  EXPECT_OK(VersionOf(kTarget, GetParam().content, &memory_).status());
  EXPECT_EQ(memory_.Paths().size(), 3u);
}

TEST_P(FaultsOfReading, WriteNothing) {
  FaultyFileSystem files(&memory_);
  {
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(kTarget, Options(&files)));
    ASSERT_OK(GetParam().use(reader));
  }
  for (const FileOperation operation :
       {FileOperation::kCreateNew, FileOperation::kAppend, FileOperation::kRename, FileOperation::kLink,
        FileOperation::kLock, FileOperation::kRemove, FileOperation::kMakeFolder}) {
    EXPECT_EQ(files.operations(operation), 0) << FileOperationName(operation);
  }
}

TEST_P(FaultsOfReading, ShortCountsAndInterruptionsAreNone) {
  for (const size_t bytes : {size_t{1}, size_t{7}}) {
    FaultyFileSystem files(&memory_);
    files.LimitTransfers(bytes);
    files.InterruptEach(3);
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(kTarget, Options(&files)));
    EXPECT_OK(GetParam().use(reader));
  }
}

TEST_P(FaultsOfReading, OfAllocationsAreToldAndPass) {
  for (const bool for_good : {false, true}) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(absl::StrCat("allocation ", n, for_good ? " and all after it" : ""));
      // Checks at its end that all came back.
      const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>(n, for_good);
      CheckpointReaderOptions options = Options(&memory_);
      options.allocator = allocator;
      ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(kTarget, options));
      const absl::Status status = GetParam().use(reader);
      if (allocator->calls() < n) {
        EXPECT_OK(status);
        break;
      }
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                   AllOf(HasSubstr(kTarget), HasSubstr("tensor \""), HasSubstr("no memory"))));
      if (!for_good) {
        EXPECT_OK(GetParam().use(reader));
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_EQ(memory_.open_handles(), 0u);
}

TEST_P(FaultsOfReading, OfNothrowNewAreTold) {
  {
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(kTarget, Options(&memory_)));
    absl::Status status;
    {
      const FailingNothrowNew failing;
      status = GetParam().use(reader);
    }
    if (!status.ok()) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
    }
    EXPECT_OK(GetParam().use(reader));
  }
  EXPECT_EQ(memory_.open_handles(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, FaultsOfReading, ::testing::ValuesIn(kReads),
                         [](const auto& info) { return std::string(info.param.name); });

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
  MergeOptions options;
  options.file_system = files;
  options.overwrite = overwrite;
  options.remove_sources = remove_sources;
  return MergeCheckpoints({"/m/part-0", "/m/part-1"}, kTarget, options);
}

void Nothing(MemoryFileSystem*) {}

const WriteCase kWrites[] = {
    {"SaveSliced", Content::kSliced, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kSliced, overwrite); }},
    {"SaveGuarded", Content::kGuarded, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kGuarded, overwrite); }},
    {"SaveDirect", Content::kDirect, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kDirect, overwrite); }},
    {"SaveOnThreads", Content::kDirect, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kDirect, overwrite, 2); }},
    {"SaveInBackground", Content::kStrings, false, Nothing,
     [](FileSystem* files, bool overwrite) { return SaveNew(files, Content::kStrings, overwrite, 1, true); }},
    {"Overwrite", Content::kGuarded, true, [](MemoryFileSystem* files) { SaveOld(files, Content::kGuarded); },
     [](FileSystem* files, bool) { return SaveNew(files, Content::kGuarded, true); }},
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
