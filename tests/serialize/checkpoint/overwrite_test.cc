// Replacing a checkpoint: the names of the new data files, and which files of the old checkpoint exist at each moment.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/internal/old_checkpoint.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "tensorcask/tests/support/uploading_file_system.h"

namespace tensorcask {
namespace {

using ::tensorcask::checkpoint::DataPath;
using ::tensorcask::checkpoint::OldCheckpoint;
using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::IndexOf;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::tensorcask::testing::UploadingFileSystem;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;
using Code = absl::StatusCode;

CheckpointWriterOptions To(FileSystem* files, int num_shards = 1, bool overwrite = true) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = num_shards;
  options.overwrite = overwrite;
  return options;
}

// The value of "w" in the checkpoint /m, and its number of data files.
absl::StatusOr<std::pair<Tensor, int>> Read(FileSystem* files) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open("/m", options));
  CASK_ASSIGN_OR_RETURN(Tensor value, reader.Read("w"));
  return std::make_pair(std::move(value), reader.num_shards());
}

std::vector<std::string> PathsOf(int num_files) {
  std::vector<std::string> paths;
  for (int shard = 0; shard < num_files; ++shard) paths.push_back(DataPath("/m", shard, num_files));
  paths.emplace_back("/m.index");
  return paths;
}

// As a file system that does not tell its files apart.
class AnonymousFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  IoResult DescribeOpen(IoResult, FileInfo*) override { return -EOPNOTSUPP; }
};

TEST(Overwrite, GivesDataFilesNamesThatTheOldCheckpointDoesNotHave) {
  MemoryFileSystem files;
  // Shards that are asked for, and data files then: one more if the checkpoint to be replaced has as many.
  const std::vector<std::pair<int, int>> saves = {{3, 3}, {1, 1}, {1, 2}, {1, 1}, {2, 2}, {2, 3}, {2, 2}, {1, 1}};
  for (const auto& [num_shards, num_files] : saves) {
    const Tensor value = Tensor::Scalar<int32_t>(num_shards);
    ASSERT_OK(Save("/m", {{"w", value, num_shards - 1}}, To(&files, num_shards)));
    ASSERT_OK_AND_ASSIGN(const auto read, Read(&files));
    EXPECT_TRUE(SameTensor(read.first, value));
    EXPECT_EQ(read.second, num_files);
    EXPECT_THAT(files.Paths(), ElementsAreArray(PathsOf(num_files)));
  }
}

TEST(Overwrite, WritesTheBytesOfANewSaveWithOneShardMore) {
  for (const int num_shards : {1, 2}) {
    MemoryFileSystem files;
    const Tensor value = Tensor::Scalar<int32_t>(7);
    ASSERT_OK(Save("/m", {{"w", Tensor::Scalar<float>(1)}}, To(&files, num_shards)));
    ASSERT_OK(Save("/m", {{"w", value, num_shards - 1}}, To(&files, num_shards)));
    ASSERT_OK(Save("/n", {{"w", value, num_shards - 1}}, To(&files, num_shards + 1, /*overwrite=*/false)));
    EXPECT_EQ(BytesOf(files, "/m.index"), BytesOf(files, "/n.index"));
    for (int shard = 0; shard <= num_shards; ++shard) {
      EXPECT_EQ(BytesOf(files, DataPath("/m", shard, num_shards + 1)),
                BytesOf(files, DataPath("/n", shard, num_shards + 1)));
    }
    EXPECT_EQ(files.Paths().size(), 2 * (static_cast<size_t>(num_shards) + 2));
  }
}

// A save with `overwrite` where there is nothing writes what it writes without.
TEST(Overwrite, OfNothingIsANewSave) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", {{"w", Tensor::Scalar<float>(1)}}, To(&files)));
  ASSERT_OK(Save("/n", {{"w", Tensor::Scalar<float>(1)}}, To(&files, 1, /*overwrite=*/false)));
  for (const char* file : {".index", ".data-00000-of-00001"}) {
    EXPECT_EQ(BytesOf(files, absl::StrCat("/m", file)), BytesOf(files, absl::StrCat("/n", file)));
  }
}

// Just before each operation of the save, and after it, a reader that opens the checkpoint anew finds the old or the
// new one.
TEST(Overwrite, IsOneStepForReaders) {
  for (const bool merges : {false, true}) {
    MemoryFileSystem memory;
    const Tensor old_value = Tensor::Scalar<int32_t>(1);
    const Tensor new_value = Tensor::Scalar<int32_t>(2);
    ASSERT_OK(Save("/m", {{"w", old_value}}, To(&memory)));
    ASSERT_OK(Save("/source", {{"w", new_value}}, To(&memory)));
    FaultyFileSystem files(&memory);
    int old_seen = 0;
    int new_seen = 0;
    files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
      const auto found = Read(&memory);
      ASSERT_OK(found.status()) << "before " << FileOperationName(operation) << " " << path;
      const bool is_old = SameTensor(found->first, old_value);
      EXPECT_TRUE(is_old || SameTensor(found->first, new_value));
      EXPECT_TRUE(!is_old || new_seen == 0) << "the old one is back";
      ++(is_old ? old_seen : new_seen);
    });
    if (merges) {
      CheckpointMergeOptions options;
      options.file_system = &files;
      options.overwrite = true;
      ASSERT_OK(MergeCheckpoints({"/source"}, "/m", options));
    } else {
      ASSERT_OK(Save("/m", {{"w", new_value}}, To(&files)));
    }
    EXPECT_GT(old_seen, 10);
    EXPECT_GE(new_seen, 2) << "the sync of the folder, and the removal of the old data file";
    EXPECT_EQ(memory.Find("/m.data-00000-of-00001"), nullptr);
  }
}

// It may be one that a later version can read, or from which salvage can read.
TEST(Overwrite, AnIndexThatCannotBeReadKeepsItsData) {
  MemoryFileSystem memory;
  memory.Put("/m.index", "no index");
  for (const char* path : {"/m.data-00000-of-00001", "/m.data-00000-of-00003"}) memory.Put(path, "old");
  FaultyFileSystem files(&memory);
  bool looked = false;
  files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
    if (operation != FileOperation::kRename || !absl::EndsWith(path, "-> /m.index")) return;
    looked = true;
    EXPECT_EQ(BytesOf(memory, "/m.data-00000-of-00001"), "old");
    EXPECT_EQ(BytesOf(memory, "/m.data-00000-of-00003"), "old");
  });
  ASSERT_OK(Save("/m", {{"w", Tensor::Scalar<float>(1)}}, To(&files)));
  EXPECT_TRUE(looked);
  ASSERT_OK(Read(&memory).status());
  std::vector<std::string> paths = PathsOf(2);
  paths.insert(paths.end(), {"/m.data-00000-of-00001", "/m.data-00000-of-00003"});
  EXPECT_THAT(memory.Paths(), UnorderedElementsAreArray(paths));
}

// The names are chosen when the save begins.
TEST(Overwrite, OfTwoWritersTheFirstToFinishStays) {
  for (const int old_shards : {0, 1, 3}) {
    for (const bool tells_files_apart : {true, false}) {
      MemoryFileSystem memory;
      AnonymousFileSystem anonymous(&memory);
      FileSystem* const files = tells_files_apart ? static_cast<FileSystem*>(&memory) : &anonymous;
      if (old_shards > 0) {
        ASSERT_OK(Save("/m", {{"w", Tensor::Scalar<int32_t>(0)}}, To(files, old_shards)));
      }
      ASSERT_OK_AND_ASSIGN(CheckpointWriter first, CheckpointWriter::Create("/m", To(files)));
      ASSERT_OK_AND_ASSIGN(CheckpointWriter second, CheckpointWriter::Create("/m", To(files)));
      ASSERT_OK(first.Add("w", Tensor::Scalar<int32_t>(1)));
      ASSERT_OK(second.Add("w", Tensor::Scalar<int32_t>(2)));
      ASSERT_OK(first.Finish());
      EXPECT_THAT(second.Finish(), StatusIs(Code::kAborted, HasSubstr("/m.index: was replaced by another save")));
      ASSERT_OK_AND_ASSIGN(const auto read, Read(files));
      EXPECT_TRUE(SameTensor(read.first, Tensor::Scalar<int32_t>(1)));
      EXPECT_THAT(memory.Paths(), ElementsAreArray(PathsOf(old_shards == 1 ? 2 : 1)));
      EXPECT_EQ(memory.open_handles(), 0u);
    }
  }
}

// The new files need no names that the old checkpoint had.
TEST(Overwrite, OfACheckpointThatIsRemovedMeanwhileSucceeds) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", {{"w", Tensor::Scalar<int32_t>(0)}}, To(&files)));
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files)));
  ASSERT_OK(writer.Add("w", Tensor::Scalar<int32_t>(1)));
  for (const std::string& path : PathsOf(1)) ASSERT_EQ(files.Remove(path), 0);
  ASSERT_OK(writer.Finish());
  EXPECT_THAT(files.Paths(), ElementsAreArray(PathsOf(2)));
}

// A file system whose files cannot get another name than the one that they were made for.
TEST(Overwrite, EachFileIsMadeForTheNameThatItGets) {
  MemoryFileSystem memory;
  UploadingFileSystem files(&memory);
  for (const int num_shards : {1, 1, 1, 2, 1}) {
    ASSERT_OK(Save("/m", {{"w", Tensor::Scalar<int32_t>(num_shards)}}, To(&files, num_shards)));
    ASSERT_OK_AND_ASSIGN(const auto read, Read(&files));
    EXPECT_TRUE(SameTensor(read.first, Tensor::Scalar<int32_t>(num_shards)));
  }
  // Merged: without links, so the data files are copied.
  ASSERT_OK(Save("/n", {{"x", Tensor::Scalar<int32_t>(7)}}, To(&files)));
  CheckpointMergeOptions options;
  options.file_system = &files;
  ASSERT_OK(MergeCheckpoints({"/m", "/n"}, "/merged", options));
  EXPECT_NE(memory.Find("/merged.index"), nullptr);
  options.overwrite = true;
  EXPECT_THAT(MergeCheckpoints({"/m", "/n"}, "/n", options),
              StatusIs(Code::kInvalidArgument, HasSubstr("/n: is one of the checkpoints to merge, /n")));
  EXPECT_EQ(files.unpublished(), 0u);
}

TEST(Overwrite, NoDevicePipeOrSocketIsThePrefixOfACheckpoint) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo(folder.Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(symlink("/dev/null", folder.Path("null").c_str()), 0);
  ASSERT_OK(Save(folder.Path("source"), {{"w", Tensor::Scalar<float>(1)}}, {}));
  for (const std::string& prefix : {std::string("/dev/null"), folder.Path("null"), folder.Path("pipe")}) {
    for (const bool overwrite : {false, true}) {
      const auto refused = StatusIs(Code::kFailedPrecondition, HasSubstr(prefix + ": is a device, pipe or socket"));
      EXPECT_THAT(Save(prefix, {{"w", Tensor::Scalar<float>(1)}}, To(FileSystem::Posix(), 1, overwrite)), refused);
      CheckpointMergeOptions options;
      options.overwrite = overwrite;
      EXPECT_THAT(MergeCheckpoints({folder.Path("source")}, prefix, options), refused);
    }
  }
  FileInfo info;
  EXPECT_EQ(FileSystem::Posix()->Describe("/dev/null.index", &info), -ENOENT);
  // A folder or a file of that name does not prevent the save.
  ASSERT_EQ(mkdir(folder.Path("m").c_str(), 0700), 0);
  EXPECT_OK(Save(folder.Path("m"), {{"w", Tensor::Scalar<float>(1)}}, {}));
}

TEST(Overwrite, AsManyDataFilesAsThereCanBeIsRefused) {
  MemoryFileSystem files;
  files.Put("/m.index", IndexOf(checkpoint::kMaxShards, {}));
  ASSERT_OK_AND_ASSIGN(const OldCheckpoint old, OldCheckpoint::Open("/m", &files));
  EXPECT_THAT(old.ChooseNumShards(checkpoint::kMaxShards),
              StatusIs(Code::kInvalidArgument, HasSubstr("/m: the checkpoint to overwrite has data files")));
  ASSERT_OK_AND_ASSIGN(const int fewer, old.ChooseNumShards(checkpoint::kMaxShards - 1));
  EXPECT_EQ(fewer, checkpoint::kMaxShards - 1);
}

}  // namespace
}  // namespace tensorcask
