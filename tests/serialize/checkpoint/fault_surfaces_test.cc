// Every operation on files that reading, saving, merging and managing checkpoints make, failing in turn, with every
// error that a system gives; and every allocation. (faults_test.cc looks closer at plain saves and loads.)
//
// Each time the status has the code of that error and names a file. No handle or mapping stays open, and no temporary
// file that could be removed stays. Checkpoints that exist afterwards are whole, and the same operation then succeeds.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tests/crash/content.h"
#include "tensorcask/tests/serialize/checkpoint/fault_surfaces_testing.h"
#include "tensorcask/tests/support/counted_allocations.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Content;
using ::tensorcask::testing::ExpectSays;
using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::FailingNothrowNew;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::kErrors;
using ::tensorcask::testing::kFolder;
using ::tensorcask::testing::kForEver;
using ::tensorcask::testing::kNew;
using ::tensorcask::testing::kOnce;
using ::tensorcask::testing::kTarget;
using ::tensorcask::testing::SaveContent;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::VersionOf;
using ::tensorcask::testing::Where;
using ::tensorcask::testing::WriterOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
  CASK_ASSIGN_OR_RETURN(const CheckpointCounts counts, reader.VerifyAll([&](const CheckpointDamage& damage) {
    if (first.ok()) first = damage.status;
  }));
  if (first.ok() && counts.whole != 3) return absl::InternalError(absl::StrCat(counts.whole, " tensors are whole"));
  return first;
}

const ReadCase kReads[] = {
    {"Open", Content::kMany, ReadStrategy::kRead, [](const CheckpointReader&) { return absl::OkStatus(); }},
    {"Entries", Content::kMany, ReadStrategy::kRead,
     [](const CheckpointReader& reader) { return reader.entries().status(); }},
    {"Read", Content::kStrings, ReadStrategy::kRead, ReadEach},
    {"ReadInParallel", Content::kStrings, ReadStrategy::kParallel, ReadEach},
    {"ReadSliced", Content::kSliced, ReadStrategy::kRead, ReadEach},
    {"ReadExtensionOnly", Content::kExtensionOnly, ReadStrategy::kRead, ReadEach},
    {"ReadMapped", Content::kStrings, ReadStrategy::kMap, ReadEach},
    {"ReadRows", Content::kSliced, ReadStrategy::kRead, ReadRows},
    {"ReadRowsOfExtensionOnly", Content::kExtensionOnly, ReadStrategy::kRead, ReadRows},
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

}  // namespace
}  // namespace tensorcask
