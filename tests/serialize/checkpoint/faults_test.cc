// Each operation of a save and of a load made to fail in turn, once and for ever.

#include <cerrno>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::CheckpointNamedTensor;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::SampleTensors;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

// Tensors that take each way through a sink: gathered, and at once.
const std::vector<CheckpointNamedTensor>& Tensors() {
  static const auto* tensors = [] {
    auto* all = new std::vector<CheckpointNamedTensor>(SampleTensors(2));
    all->push_back({"large", *Tensor::Zeros(DType::kFloat64, TensorShape({100000})), 1});
    all->push_back({"z", Tensor::Scalar<float>(1), 1});
    return all;
  }();
  return *tensors;
}

CheckpointWriterOptions To(FileSystem* files, bool sync) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = 2;
  options.sync = sync;
  return options;
}

absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, ReadStrategy strategy = ReadStrategy::kRead) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  options.read.strategy = strategy;
  return CheckpointReader::Open("/m", options);
}

void ExpectAllThere(FileSystem* files) {
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(files));
  for (const CheckpointNamedTensor& named : Tensors()) {
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(named.name));
    EXPECT_TRUE(SameTensor(read, named.tensor));
  }
}

TEST(Faults, OfASave) {
  int64_t broken = 0;
  for (const bool sync : {true, false}) {
    for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
      for (const int error : {ENOSPC, EIO, EACCES}) {
        for (int64_t n = 1;; ++n) {
          SCOPED_TRACE(absl::StrCat(sync ? "sync" : "no sync", ", errno ", error, " at ", n,
                                    duration == FaultyFileSystem::kForEver ? " for ever" : ""));
          MemoryFileSystem memory;
          FaultyFileSystem files(&memory);
          files.FailAt(n, error, duration);
          const absl::Status saved = Save("/m", Tensors(), To(&files, sync));
          EXPECT_EQ(files.open_handles(), 0u) << files.LogText();
          if (files.faults() == 0) {
            EXPECT_OK(saved);
            ASSERT_GT(n, 10);
            break;
          }
          ++broken;
          if (saved.ok()) {  // reserving room is a hint
            ASSERT_NO_FATAL_FAILURE(ExpectAllThere(&memory)) << files.LogText();
            continue;
          }
          EXPECT_TRUE(absl::StrContains(saved.message(), "/m.")) << saved;
          if (duration == FaultyFileSystem::kOnce) {
            EXPECT_THAT(memory.Paths(), IsEmpty()) << files.LogText();
          } else if (memory.Find("/m.index") != nullptr) {
            // Only its durability failed, and then its removal: it is the index of a whole checkpoint.
            EXPECT_EQ(files.log()[files.log().size() - 2].operation, FileOperation::kSyncFolder) << files.LogText();
            ASSERT_NO_FATAL_FAILURE(ExpectAllThere(&memory));
          }
          // Where nothing could be removed, data files may stand under their names: overwriting takes them for what
          // they are.
          CheckpointWriterOptions again = To(&memory, sync);
          again.overwrite = duration == FaultyFileSystem::kForEver;
          ASSERT_OK(Save("/m", Tensors(), again));
          ASSERT_NO_FATAL_FAILURE(ExpectAllThere(&memory));
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(broken, 200);
}

TEST(Faults, OfASaveThatOverwrites) {
  const std::vector<CheckpointNamedTensor> old_tensors = {{"old", Tensor::Scalar<int32_t>(7), 0}};
  for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(absl::StrCat("at ", n, duration == FaultyFileSystem::kForEver ? " for ever" : ""));
      MemoryFileSystem memory;
      CheckpointWriterOptions options = To(&memory, true);
      options.num_shards = 3;
      ASSERT_OK(Save("/m", old_tensors, options));
      FaultyFileSystem files(&memory);
      files.FailAt(n, EIO, duration);
      options = To(&files, true);
      options.overwrite = true;
      const absl::Status saved = Save("/m", Tensors(), options);
      if (files.faults() == 0) {
        EXPECT_EQ(memory.Find("/m.data-00000-of-00003"), nullptr);
        break;
      }
      // The old checkpoint or the new one: never none, never a mixture.
      const absl::StatusOr<CheckpointReader> reader = OpenIn(&memory);
      ASSERT_OK(reader.status()) << files.LogText();
      if (reader->num_shards() == 3) {
        EXPECT_FALSE(saved.ok());
        ASSERT_OK_AND_ASSIGN(const Tensor read, reader->Read("old"));
        EXPECT_TRUE(SameTensor(read, old_tensors[0].tensor));
      } else {
        ASSERT_NO_FATAL_FAILURE(ExpectAllThere(&memory));
      }
      if (HasFailure()) return;
    }
  }
}

TEST(Faults, OfALoad) {
  MemoryFileSystem memory;
  ASSERT_OK(Save("/m", Tensors(), To(&memory, false)));
  for (const auto strategy : {ReadStrategy::kRead, ReadStrategy::kParallel, ReadStrategy::kMap}) {
    for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
      for (int64_t n = 1;; ++n) {
        SCOPED_TRACE(absl::StrCat("errno at ", n, duration == FaultyFileSystem::kForEver ? " for ever" : ""));
        FaultyFileSystem files(&memory);
        files.FailAt(n, EIO, duration);
        {
          const absl::StatusOr<CheckpointReader> reader = OpenIn(&files, strategy);
          int failed = 0;
          if (!reader.ok()) {
            ++failed;
            EXPECT_TRUE(absl::StrContains(reader.status().message(), "/m.index")) << reader.status();
          } else {
            const absl::StatusOr<std::vector<CheckpointEntry>> entries = reader->entries();
            if (!entries.ok()) ++failed;
            for (const CheckpointNamedTensor& named : Tensors()) {
              for (const absl::StatusOr<Tensor>& read : {reader->Map(named.name), reader->Read(named.name)}) {
                if (read.ok()) {
                  EXPECT_TRUE(SameTensor(*read, named.tensor));
                } else {
                  ++failed;
                  EXPECT_TRUE(absl::StrContains(read.status().message(), "/m.")) << read.status();
                }
              }
            }
            // What failed once works when it is asked for again.
            if (duration == FaultyFileSystem::kOnce && files.faults() > 0) {
              for (const CheckpointNamedTensor& named : Tensors()) EXPECT_OK(reader->Read(named.name));
            }
          }
          if (files.faults() == 0) {
            EXPECT_EQ(failed, 0);
            break;
          }
        }
        EXPECT_EQ(files.open_handles(), 0u) << files.LogText();
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Faults, InterruptionsAndShortCountsAreNone) {
  MemoryFileSystem plain;
  ASSERT_OK(Save("/m", SampleTensors(2), To(&plain, true)));
  for (const size_t bytes : {size_t{1}, size_t{7}, SIZE_MAX}) {
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    files.LimitTransfers(bytes);
    files.InterruptEach(3);
    ASSERT_OK(Save("/m", SampleTensors(2), To(&files, true)));
    for (const std::string& path : plain.Paths()) EXPECT_EQ(BytesOf(memory, path), BytesOf(plain, path));
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
    for (const CheckpointNamedTensor& named : SampleTensors(2)) {
      ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(named.name));
      EXPECT_TRUE(SameTensor(read, named.tensor));
    }
    EXPECT_OK(reader.entries());
  }
}

// As TensorFlow's writer does: one folder, not its parents.
TEST(Faults, OfMakingTheFolder) {
  for (const bool sync : {true, false}) {
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    const std::vector<CheckpointNamedTensor> tensors = {{"w", Tensor::Scalar<float>(1)}};
    ASSERT_OK(Save("/new/m", tensors, To(&files, sync)));
    EXPECT_NE(memory.Find("/new/m.index"), nullptr);
    EXPECT_EQ(files.operations(FileOperation::kMakeFolder), 1);
    const bool synced_parent = absl::StrContains(files.LogText(), "SyncFolder /\n");
    EXPECT_EQ(synced_parent, sync) << files.LogText();
    EXPECT_THAT(Save("/no/such/m", tensors, To(&files, sync)), StatusIs(Code::kNotFound, HasSubstr("/no/such")));
    files.FailAt(files.operations(FileOperation::kMakeFolder) + 1, EACCES, FaultyFileSystem::kOnce,
                 FileOperation::kMakeFolder);
    EXPECT_THAT(Save("/other/m", tensors, To(&files, sync)),
                StatusIs(Code::kPermissionDenied, HasSubstr("/other/m.index: cannot make the folder /other")));
    EXPECT_OK(Save("/other/m", tensors, To(&files, sync)));
  }
}

}  // namespace
}  // namespace tensorcask
