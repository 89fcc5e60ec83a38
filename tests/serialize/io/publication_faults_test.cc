// Publishing while operations fail, stop or are interrupted: all or nothing.

#include "tensorcask/serialize/io/publication.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/serialize/io/publication_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::kNew;
using ::tensorcask::testing::kOld;
using ::tensorcask::testing::On;
using ::tensorcask::testing::PublishAll;
using ::tensorcask::testing::PutAll;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::WhatReadersFind;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using Code = absl::StatusCode;

enum class How { kWritten, kLinked, kCopied };  // where the data files come from

struct FaultCase {
  const char* name;
  bool sync;
  bool overwrite;
  How how = How::kWritten;
};

// What is there before: the files to replace, and those that AddExisting names.
void PrepareFor(const FaultCase& param, MemoryFileSystem* files) {
  if (param.overwrite) PutAll(files, kOld);
  if (param.how == How::kWritten) return;
  files->Put("s-0", kNew[0].bytes);
  files->Put("s-1", kNew[1].bytes);
}

// Publishes kNew.
absl::Status PublishAs(const FaultCase& param, FileSystem* files) {
  if (param.how == How::kWritten) return PublishAll(On(files, param.sync, param.overwrite), kNew);
  Publication publish(On(files, param.sync, param.overwrite));
  CASK_RETURN_IF_ERROR(publish.AddExisting("s-0", kNew[0].path));
  CASK_RETURN_IF_ERROR(publish.AddExisting("s-1", kNew[1].path));
  CASK_ASSIGN_OR_RETURN(FileSink * index, publish.Add(kNew[2].path));
  CASK_RETURN_IF_ERROR(index->Append(kNew[2].bytes));
  return publish.Commit();
}

// The names in `files` but for those of existing sources and of old data files, which must be as they were.
std::vector<std::string> NewPaths(const FaultCase& param, const MemoryFileSystem& files) {
  std::vector<std::string> paths = files.Paths();
  if (param.overwrite) {
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(*files.Find(kOld[i].path), kOld[i].bytes) << "untouched";
    paths.erase(std::remove_if(paths.begin(), paths.end(),
                               [](const std::string& path) { return path.compare(0, 6, "m.old-") == 0; }),
                paths.end());
  }
  if (param.how == How::kWritten) return paths;
  EXPECT_EQ(*files.Find("s-0"), kNew[0].bytes);
  EXPECT_EQ(*files.Find("s-1"), kNew[1].bytes);
  paths.erase(std::remove_if(paths.begin(), paths.end(), [](const std::string& path) { return path.size() == 3; }),
              paths.end());
  return paths;
}

// Without second names if param says so.
class Disk {
 public:
  explicit Disk(const FaultCase& param) : front_(&memory) {
    if (param.how == How::kCopied) {
      front_.FailAt(1, EOPNOTSUPP, FaultyFileSystem::kForEver, FileOperation::kLink);
    }
    PrepareFor(param, &memory);
  }
  FileSystem* files() { return &front_; }

  MemoryFileSystem memory;

 private:
  FaultyFileSystem front_;
};

class PublicationFaultTest : public ::testing::TestWithParam<FaultCase> {};

constexpr int kErrors[] = {EIO, ENOSPC, EDQUOT, EINTR, EAGAIN, EMFILE, EACCES, ESTALE};

TEST_P(PublicationFaultTest, TheNthOperationOnceAndForEver) {
  const FaultCase& param = GetParam();
  int runs = 0;
  for (const int error : kErrors) {
    for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
      for (const bool after_effect : {false, true}) {
        for (int64_t n = 1;; ++n) {
          Disk disk(param);
          const MemoryFileSystem& memory = disk.memory;
          FaultyFileSystem files(disk.files());
          files.FailAt(n, error, duration);
          files.FailAfterEffect(after_effect && error != EINTR);  // an interrupted call has done nothing
          const absl::Status status = PublishAs(param, &files);
          SCOPED_TRACE(::testing::Message() << "error " << error << " at " << n << (duration ? " for ever" : " once")
                                            << (after_effect ? " after the effect" : "") << "\n"
                                            << files.LogText());
          EXPECT_EQ(files.open_handles(), 0u);
          EXPECT_EQ(memory.open_handles(), 0u);
          if (files.faults() == 0) {
            EXPECT_OK(status);
            break;
          }
          ++runs;
          const std::string found = WhatReadersFind(memory);
          EXPECT_NE(found, "mixed");
          if (status.ok()) {
            EXPECT_EQ(found, "new");
            EXPECT_EQ(NewPaths(param, memory).size(), 3u);
            continue;
          }
          EXPECT_THAT(status, StatusIs(IoError(-error, "", "").code(),
                                       MatchesRegex("(s-[01]|m\\.(data-[01]|index).*): cannot .*")));
          EXPECT_FALSE(duration == FaultyFileSystem::kOnce && error == EINTR) << status;
          if (!param.overwrite) {
            // Where nothing can be removed any more, a switch stands only on what is whole.
            EXPECT_TRUE(found == "none" || (found == "new" && duration == FaultyFileSystem::kForEver)) << found;
            if (duration == FaultyFileSystem::kOnce) {
              EXPECT_THAT(NewPaths(param, memory), IsEmpty());
            }
          } else {
            EXPECT_NE(found, "none") << "the old files or the new ones";
            if (duration == FaultyFileSystem::kOnce) {
              EXPECT_EQ(NewPaths(param, memory).size(), found == "old" ? 1u : 3u);
            }
          }
          // Trying again works, whatever was left.
          FaultCase again = param;
          again.overwrite = true;
          EXPECT_OK(PublishAs(again, disk.files()));
          EXPECT_EQ(WhatReadersFind(memory), "new");
        }
      }
    }
  }
  EXPECT_GT(runs, 500);
}

// A writer that ends at any operation, as by kill -9, leaves what a reader may meet.
TEST_P(PublicationFaultTest, WhereverTheWriterStops) {
  const FaultCase& param = GetParam();
  bool old_seen = false;
  bool none_seen = false;
  for (int64_t n = 1;; ++n) {
    Disk disk(param);
    const MemoryFileSystem& memory = disk.memory;
    FaultyFileSystem files(disk.files());
    files.FailAt(n, EIO, FaultyFileSystem::kForEver);
    const absl::Status status = PublishAs(param, &files);
    const std::string found = WhatReadersFind(memory);
    EXPECT_NE(found, "mixed") << files.LogText();
    old_seen |= found == "old";
    none_seen |= found == "none";
    if (status.ok()) {
      EXPECT_EQ(found, "new");
      break;
    }
  }
  EXPECT_EQ(old_seen, param.overwrite);
  EXPECT_EQ(none_seen, !param.overwrite);
}

TEST_P(PublicationFaultTest, ShortCountsAndInterruptionsChangeNothing) {
  const FaultCase& param = GetParam();
  for (const size_t limit : {1, 2, 3, 7, 1000}) {
    for (const int interrupts : {0, 1, 5}) {
      Disk disk(param);
      const MemoryFileSystem& memory = disk.memory;
      FaultyFileSystem files(disk.files());
      files.LimitTransfers(limit);
      files.InterruptEach(interrupts);
      ASSERT_OK(PublishAs(param, &files));
      EXPECT_EQ(WhatReadersFind(memory), "new");
      EXPECT_EQ(NewPaths(param, memory).size(), 3u);
      EXPECT_EQ(memory.open_handles(), 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublicationFaultTest,
                         ::testing::Values(FaultCase{"SyncNew", true, false}, FaultCase{"SyncOverwrite", true, true},
                                           FaultCase{"FastNew", false, false}, FaultCase{"FastOverwrite", false, true},
                                           FaultCase{"LinkedNew", true, false, How::kLinked},
                                           FaultCase{"LinkedOverwrite", true, true, How::kLinked},
                                           FaultCase{"CopiedNew", true, false, How::kCopied},
                                           FaultCase{"CopiedFastOverwrite", false, true, How::kCopied}),
                         [](const auto& info) { return info.param.name; });

TEST(PublicationFailureTest, AFailedSyncFailsTheSaveAndIsNotRetried) {
  for (int64_t n = 1; n <= 3; ++n) {
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    files.FailAt(n, EIO, FaultyFileSystem::kOnce, FileOperation::kSync);
    EXPECT_THAT(PublishAll(On(&files), kNew), StatusIs(Code::kUnknown, HasSubstr(": cannot sync: Input/output error")));
    EXPECT_EQ(files.operations(FileOperation::kSync), n);
    EXPECT_EQ(files.operations(FileOperation::kRename), 0);
    EXPECT_THAT(memory.Paths(), IsEmpty());
  }
}

TEST(PublicationFailureTest, WhatASinkReportedFailsTheCommit) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  Publication publish(On(&files));
  ASSERT_OK_AND_ASSIGN(FileSink * sink, publish.Add("a"));
  files.FailAt(1, ENOSPC, FaultyFileSystem::kOnce, FileOperation::kAppend);
  EXPECT_THAT(sink->Append(std::string(1 << 20, 'x')), StatusIs(Code::kResourceExhausted, HasSubstr("a.tmp-")));
  EXPECT_THAT(publish.Commit(), StatusIs(Code::kResourceExhausted, HasSubstr("cannot write at 0: No space left")));
  EXPECT_THAT(memory.Paths(), IsEmpty());
}

TEST(PublicationFailureTest, WhatTheSwitchStandsForIsKeptIfItCannotBeRemoved) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  files.FailAt(2, EIO, FaultyFileSystem::kOnce, FileOperation::kSyncFolder);
  files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
    if (operation == FileOperation::kRemove && path == "m.index") {
      files.FailAt(1, EACCES, FaultyFileSystem::kOnce, FileOperation::kRemove);
    }
  });
  EXPECT_THAT(PublishAll(On(&files), kNew), StatusIs(Code::kUnknown, HasSubstr("m.index: cannot sync the folder .")));
  EXPECT_EQ(WhatReadersFind(memory), "new");
}

TEST(PublicationFailureTest, ReplacedFilesStayWhenOnlyTheLastSyncFails) {
  MemoryFileSystem memory;
  memory.Put("a", "old");
  FaultyFileSystem files(&memory);
  files.FailAt(1, EIO, FaultyFileSystem::kOnce, FileOperation::kSyncFolder);
  EXPECT_THAT(PublishAll(On(&files, true, /*overwrite=*/true), {{"a", "new"}}),
              StatusIs(Code::kUnknown, HasSubstr("a: cannot sync the folder .")));
  EXPECT_EQ(*memory.Find("a"), "new");
}

}  // namespace
}  // namespace tensorcask
