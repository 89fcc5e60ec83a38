// The files that a merge replaces, removes and leaves behind, also when a step of it fails.

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/merge_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::HeaderOf;
using ::tensorcask::testing::Merge;
using ::tensorcask::testing::On;
using ::tensorcask::testing::OpenIn;
using ::tensorcask::testing::SaveIn;
using ::tensorcask::testing::SaveRows;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

// ---- Targets and sources --------------------------------------------------------------------------------------------

TEST(MergeTest, MakesTheFolderOfTheTarget) {
  MemoryFileSystem files;
  SaveIn(&files, "/a", {{"a", Tensor::Scalar<float>(1)}});
  ASSERT_OK(MergeCheckpoints({"/a"}, "/new/m", On(&files)));
  EXPECT_OK(OpenIn(&files, "/new/m"));
  EXPECT_THAT(MergeCheckpoints({"/a"}, "/no/such/m", On(&files)), StatusIs(Code::kNotFound, HasSubstr("/no/such")));
}

// The data files stay locked until they are published; the indexes are open only while they are read.
TEST(MergeTest, MoreSourcesThanFilesThatMayBeOpen) {
  constexpr int kSources = 200;
  const TempFolder folder;
  std::vector<std::string> sources;
  for (int i = 0; i < kSources; ++i) {
    sources.push_back(folder.Path(absl::StrCat("part-", i)));
    SaveIn(FileSystem::Posix(), sources.back(), {{absl::StrCat("t", i), Tensor::Scalar<float>(static_cast<float>(i))}});
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = kSources - 10;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status merged = MergeCheckpoints(sources, folder.Path("m")).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_OK(merged);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(FileSystem::Posix(), folder.Path("m")));
  for (int i = 0; i < kSources; ++i) {
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader.Read(absl::StrCat("t", i)));
    EXPECT_EQ(tensor.data<float>()[0], static_cast<float>(i));
  }
}

// Opens of `path` from the n-th on find another file.
class ReplacingFileSystem final : public ForwardingFileSystem {
 public:
  ReplacingFileSystem(MemoryFileSystem* behind, std::string path, int n)
      : ForwardingFileSystem(behind), memory_(behind), path_(std::move(path)), n_(n) {}

  IoResult OpenToRead(const std::string& path) override {
    if (path == path_ && --n_ == 0) {
      const std::string other = *memory_->Find(path);
      memory_->Remove(path);
      memory_->Put(path, other);
    }
    return ForwardingFileSystem::OpenToRead(path);
  }
  bool has_replaced() const { return n_ <= 0; }

 private:
  MemoryFileSystem* const memory_;
  const std::string path_;
  int n_;
};

TEST(MergeTest, ASourceThatIsReplacedMeanwhile) {
  for (int n = 2; n < 100; ++n) {
    SCOPED_TRACE(n);
    MemoryFileSystem memory;
    SaveIn(&memory, "/a", {{"a", Tensor::Scalar<float>(1)}});
    SaveIn(&memory, "/b", {{"b", Tensor::Scalar<float>(2)}});
    ReplacingFileSystem files(&memory, "/a.index", n);
    const absl::Status merged = MergeCheckpoints({"/a", "/b"}, "/m", On(&files)).status();
    if (!files.has_replaced()) {
      EXPECT_GT(n, 3);
      ASSERT_OK(merged);
      return;
    }
    EXPECT_THAT(merged, StatusIs(Code::kAborted, HasSubstr("/a.index: was replaced while it was read")));
    EXPECT_THAT(OpenIn(&memory, "/m"), StatusIs(Code::kNotFound));
  }
}

// From the n-th open of `path` on, the same file has other bytes, as many as before.
class RewritingFileSystem final : public ForwardingFileSystem {
 public:
  RewritingFileSystem(FileSystem* behind, std::string path, std::string bytes, int n)
      : ForwardingFileSystem(behind), path_(std::move(path)), bytes_(std::move(bytes)), n_(n) {}

  IoResult OpenToRead(const std::string& path) override {
    const IoResult handle = ForwardingFileSystem::OpenToRead(path);
    if (path == path_ && --n_ <= 0) rewritten_.insert(handle);
    return handle;
  }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    if (rewritten_.count(handle) == 0 || offset > bytes_.size()) {
      return ForwardingFileSystem::ReadAt(handle, offset, out);
    }
    return static_cast<IoResult>(bytes_.copy(out.data(), out.size(), static_cast<size_t>(offset)));
  }
  IoResult Close(IoResult handle) override {
    rewritten_.erase(handle);
    return ForwardingFileSystem::Close(handle);
  }
  bool has_rewritten() const { return n_ <= 0; }

 private:
  const std::string path_;
  const std::string bytes_;
  int n_;
  std::set<IoResult> rewritten_;
};

// More than a block of the index.
std::vector<testing::CheckpointNamedTensor> ManyScalars(float value) {
  std::vector<testing::CheckpointNamedTensor> tensors;
  for (int i = 0; i < 4000; ++i) tensors.push_back({absl::StrCat("t", i), Tensor::Scalar<float>(value)});
  return tensors;
}

TEST(MergeTest, ASourceThatIsRewrittenMeanwhile) {
  int aborted = 0;
  for (int n = 1; n < 100; ++n) {
    SCOPED_TRACE(n);
    MemoryFileSystem memory;
    SaveIn(&memory, "/a", ManyScalars(1));
    SaveIn(&memory, "/other", ManyScalars(2));  // other checksums in the index
    const std::string other = *memory.Find("/other.index");
    ASSERT_EQ(other.size(), memory.Find("/a.index")->size());
    RewritingFileSystem files(&memory, "/a.index", other, n);
    const absl::Status merged = MergeCheckpoints({"/a"}, "/m", On(&files)).status();
    if (!files.has_rewritten()) break;
    if (merged.ok()) continue;  // from before the entries were checked, or after all were read
    EXPECT_THAT(merged, StatusIs(Code::kAborted, HasSubstr("/a.index: was changed while it was read")));
    EXPECT_THAT(OpenIn(&memory, "/m"), StatusIs(Code::kNotFound));
    ++aborted;
  }
  EXPECT_GT(aborted, 0);
}

TEST(MergeTest, MissingSourcesMayBePassedOver) {
  MemoryFileSystem files;
  SaveIn(&files, "/a", {{"a", Tensor::Scalar<float>(1)}});
  CheckpointMergeOptions options = On(&files);
  options.allow_missing = true;
  EXPECT_THAT(MergeCheckpoints({"/none", "/nowhere/x"}, "/m", options),
              StatusIs(Code::kNotFound, AllOf(HasSubstr("none of 2"), HasSubstr("/none.index"))));
  ASSERT_OK(MergeCheckpoints({"/none", "/a", "/nowhere/x"}, "/m", options));
  EXPECT_EQ(HeaderOf(&files, "/m").num_shards(), 1);
}

TEST(MergeTest, SourcesAreRemovedIndexFirst) {
  MemoryFileSystem memory;
  SaveIn(&memory, "/a", {{"a", Tensor::Scalar<float>(1)}}, 2);
  SaveIn(&memory, "/b", {{"b", Tensor::Scalar<float>(1)}});
  FaultyFileSystem files(&memory);
  CheckpointMergeOptions options = On(&files);
  options.remove_sources = true;
  ASSERT_OK_AND_ASSIGN(const CheckpointMergeReport report, MergeCheckpoints({"/a", "/b"}, "/m", options));
  EXPECT_THAT(memory.Paths(), ElementsAre("/m.data-00000-of-00002", "/m.data-00001-of-00002", "/m.index"));
  std::vector<std::string> removed;
  for (const FaultyFileSystem::Record& record : files.log()) {
    if (record.operation == FileOperation::kRemove && !absl::StrContains(record.path, ".tmp-")) {
      removed.push_back(record.path);
    }
  }
  EXPECT_THAT(removed, ElementsAre("/a.index", "/a.data-00000-of-00002", "/a.data-00001-of-00002", "/b.index",
                                   "/b.data-00000-of-00001"));
  EXPECT_EQ(report.removed, removed);
  // Best effort: the checkpoint stands.
  SaveIn(&memory, "/c", {{"c", Tensor::Scalar<float>(1)}});
  files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
    if (operation == FileOperation::kRemove && path == "/c.index") {
      files.FailAt(1, EACCES, FaultyFileSystem::kForEver, FileOperation::kRemove);
    }
  });
  options.overwrite = true;
  EXPECT_OK(MergeCheckpoints({"/c"}, "/n", options));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader left, OpenIn(&memory, "/c"));
  EXPECT_OK(left.Read("c"));
}

// Another program saves a source again after the merge has read it: what it saved stays, with the files beside it.
TEST(MergeTest, ASourceThatWasSavedAgainIsNotRemoved) {
  for (const absl::string_view saved : {".index", ".data-00000-of-00001"}) {
    SCOPED_TRACE(saved);
    MemoryFileSystem memory;
    SaveIn(&memory, "/a", {{"a", Tensor::Scalar<float>(1)}});
    SaveIn(&memory, "/b", {{"b", Tensor::Scalar<float>(1)}});
    SaveIn(&memory, "/again", {{"a", Tensor::Scalar<float>(2)}});
    FaultyFileSystem files(&memory);
    files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
      if (operation != FileOperation::kRename || !absl::EndsWith(path, "-> /m.index")) return;
      memory.Rename(absl::StrCat("/again", saved), absl::StrCat("/a", saved), FileSystem::OnExisting::kReplace);
    });
    CheckpointMergeOptions options = On(&files);
    options.remove_sources = true;
    ASSERT_OK_AND_ASSIGN(const CheckpointMergeReport report, MergeCheckpoints({"/a", "/b"}, "/m", options));
    EXPECT_THAT(report.removed, ElementsAre("/b.index", "/b.data-00000-of-00001"));
    EXPECT_THAT(report.notes,
                ElementsAre(absl::StrCat("/a is not removed: /a", saved, " was replaced during the merge")));
    EXPECT_TRUE(memory.Find("/a.index") != nullptr);
    EXPECT_TRUE(memory.Find("/a.data-00000-of-00001") != nullptr);
  }
}

TEST(MergeTest, ASourceThatWasRemovedMeanwhileKeepsItsOtherFiles) {
  MemoryFileSystem memory;
  SaveIn(&memory, "/a", {{"a", Tensor::Scalar<float>(1)}});
  FaultyFileSystem files(&memory);
  files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
    if (operation == FileOperation::kRename && absl::EndsWith(path, "-> /m.index")) memory.Remove("/a.index");
  });
  CheckpointMergeOptions options = On(&files);
  options.remove_sources = true;
  ASSERT_OK_AND_ASSIGN(const CheckpointMergeReport report, MergeCheckpoints({"/a"}, "/m", options));
  EXPECT_THAT(report.removed, IsEmpty());
  EXPECT_THAT(report.notes, ElementsAre("/a is not removed: /a.index was removed during the merge"));
  EXPECT_TRUE(memory.Find("/a.data-00000-of-00001") != nullptr);
}

TEST(MergeTest, AnOldTargetIsReplacedOnlyIfAsked) {
  MemoryFileSystem files;
  SaveIn(&files, "/a", {{"a", Tensor::Scalar<float>(1)}});
  SaveIn(&files, "/m", {{"old", Tensor::Scalar<float>(1)}}, 3);
  CheckpointMergeOptions options = On(&files);
  EXPECT_THAT(MergeCheckpoints({"/a"}, "/m", options), StatusIs(Code::kAlreadyExists, HasSubstr("/m.index: exists")));
  options.overwrite = true;
  ASSERT_OK(MergeCheckpoints({"/a"}, "/m", options));
  EXPECT_THAT(files.Paths(), ElementsAre("/a.data-00000-of-00001", "/a.index", "/m.data-00000-of-00001", "/m.index"));
}

// A folder has many names, and a source that is the target must be seen under each: else it would be removed as a
// source.
TEST(MergeTest, TheTargetIsNoSourceUnderAnyName) {
  const TempFolder folder;
  ASSERT_EQ(mkdir(folder.Path("d").c_str(), 0700), 0);
  ASSERT_EQ(symlink("d", folder.Path("alias").c_str()), 0);
  SaveIn(FileSystem::Posix(), folder.Path("d/m"), {{"a", Tensor::Scalar<float>(1)}});
  CheckpointMergeOptions options;
  options.overwrite = true;
  options.remove_sources = true;
  for (const char* source : {"d/m", "d//m", "alias/m", "d/../d/m.index"}) {
    SCOPED_TRACE(source);
    EXPECT_THAT(MergeCheckpoints({folder.Path(source)}, folder.Path("d/m"), options),
                StatusIs(Code::kInvalidArgument, HasSubstr("is one of the checkpoints")));
  }
  EXPECT_OK(OpenIn(FileSystem::Posix(), folder.Path("d/m")));
  // The same name elsewhere is another.
  ASSERT_OK(MergeCheckpoints({folder.Path("d/m")}, folder.Path("m"), options));
  EXPECT_OK(OpenIn(FileSystem::Posix(), folder.Path("m")));
  EXPECT_THAT(OpenIn(FileSystem::Posix(), folder.Path("d/m")), StatusIs(Code::kNotFound));
}

// Twice into the same target: the names there are already names of the same files.
// The file that finds out which names the target's folder has goes, or is named.
TEST(MergeTest, LeavesNoFileInSilence) {
  MemoryFileSystem memory;
  SaveIn(&memory, "/a", {{"x", Tensor::Scalar<float>(1)}});
  const std::vector<std::string> before = memory.Paths();
  FaultyFileSystem files(&memory);
  files.FailAt(1, EPERM, FaultyFileSystem::kForEver, FileOperation::kRemove);
  EXPECT_THAT(MergeCheckpoints({"/a"}, "/t", On(&files)),
              StatusIs(Code::kPermissionDenied, HasSubstr("/t.index.tmp-")));
  for (const std::string& path : memory.Paths()) {
    if (path.find(".tmp-") != std::string::npos) memory.Remove(path);
  }
  EXPECT_EQ(memory.Paths(), before);

  files.FailAt(files.operations(FileOperation::kRemove) + 1, EPERM, FaultyFileSystem::kOnce, FileOperation::kRemove);
  EXPECT_OK(MergeCheckpoints({"/a"}, "/t", On(&files)));
  EXPECT_THAT(memory.Paths(), ElementsAre("/a.data-00000-of-00001", "/a.index", "/t.data-00000-of-00001", "/t.index"));
}

TEST(MergeTest, AgainIntoTheSameTarget) {
  const TempFolder folder;
  SaveIn(FileSystem::Posix(), folder.Path("a"), {{"a", Tensor::Scalar<float>(1)}});
  CheckpointMergeOptions options;
  options.overwrite = true;
  for (int i = 0; i < 3; ++i) ASSERT_OK(MergeCheckpoints({folder.Path("a")}, folder.Path("m"), options));
  std::vector<std::string> names;
  ASSERT_EQ(FileSystem::Posix()->List(folder.path(), &names), 0);
  EXPECT_THAT(names, ElementsAre("a.data-00000-of-00001", "a.index", "m.data-00000-of-00001", "m.index"));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(FileSystem::Posix(), folder.Path("m")));
  EXPECT_OK(reader.Read("a"));
}

// ---- Everything that can fail, failing ------------------------------------------------------------------------------

TEST(MergeFaults, AllOrNothingAndSourcesStay) {
  int64_t broken = 0;
  for (const bool links : {true, false}) {
    for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
      for (int64_t n = 1;; ++n) {
        MemoryFileSystem memory;
        SaveIn(&memory, "/a", {{"a", Tensor::Scalar<float>(1), 1}}, 2);
        ASSERT_OK(SaveRows(&memory, "/b", 10, 0, 4));
        ASSERT_OK(SaveRows(&memory, "/c", 10, 4, 6));
        const std::vector<std::string> before = memory.Paths();
        FaultyFileSystem disk(&memory);
        if (!links) disk.FailAt(1, EOPNOTSUPP, FaultyFileSystem::kForEver, FileOperation::kLink);
        FaultyFileSystem files(&disk);
        files.FailAt(n, EIO, duration);
        const absl::Status merged = Merge(&files, {"/a", "/b", "/c"});
        SCOPED_TRACE(absl::StrCat("at ", n, duration ? " for ever" : " once", "\n", files.LogText()));
        EXPECT_EQ(files.open_handles(), 0u);
        EXPECT_EQ(memory.open_handles(), 0u);
        for (const std::string& path : before) EXPECT_NE(memory.Find(path), nullptr) << path;
        const absl::StatusOr<CheckpointReader> reader = OpenIn(&memory, "/m");
        EXPECT_TRUE(reader.ok() || !merged.ok());
        if (reader.ok()) {
          EXPECT_OK(reader->Read("a"));
          EXPECT_OK(reader->Read("w"));
        }
        if (!merged.ok() && duration == FaultyFileSystem::kOnce) {
          EXPECT_EQ(memory.Paths(), before);
        }
        if (files.faults() == 0) {
          EXPECT_OK(merged);
          break;
        }
        ++broken;
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(broken, 100);
}

// A crash must not leave an index without its data: the index goes first, and is gone for good before the data go.
TEST(MergeTest, TheRemovalOfASourcesIndexIsDurableBeforeItsDataGo) {
  for (const bool sync : {true, false}) {
    SCOPED_TRACE(sync);
    MemoryFileSystem memory;
    ASSERT_EQ(memory.MakeFolder("/from"), 0);
    SaveIn(&memory, "/from/a", {{"a", Tensor::Scalar<float>(1)}});
    FaultyFileSystem files(&memory);
    CheckpointMergeOptions options = On(&files);
    options.remove_sources = true;
    options.sync = sync;
    ASSERT_OK(MergeCheckpoints({"/from/a"}, "/m", options));
    std::vector<std::string> in_folder;
    for (const FaultyFileSystem::Record& record : files.log()) {
      if (record.operation == FileOperation::kRemove && absl::StartsWith(record.path, "/from/a.")) {
        in_folder.push_back(record.path);
      }
      if (record.operation == FileOperation::kSyncFolder && record.path == "/from") in_folder.push_back("sync");
    }
    if (sync) {
      EXPECT_THAT(in_folder, ElementsAre("/from/a.index", "sync", "/from/a.data-00000-of-00001"));
    } else {
      EXPECT_THAT(in_folder, ElementsAre("/from/a.index", "/from/a.data-00000-of-00001"));
    }
  }
  // Where the folder cannot be synced, the data stay.
  MemoryFileSystem memory;
  ASSERT_EQ(memory.MakeFolder("/from"), 0);
  SaveIn(&memory, "/from/a", {{"a", Tensor::Scalar<float>(1)}});
  FaultyFileSystem files(&memory);
  files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
    if (operation == FileOperation::kRemove && path == "/from/a.index") {
      files.FailAt(1, EIO, FaultyFileSystem::kForEver, FileOperation::kSyncFolder);
    }
  });
  CheckpointMergeOptions options = On(&files);
  options.remove_sources = true;
  EXPECT_OK(MergeCheckpoints({"/from/a"}, "/m", options));
  EXPECT_TRUE(memory.Find("/from/a.data-00000-of-00001"));
}

}  // namespace
}  // namespace tensorcask
