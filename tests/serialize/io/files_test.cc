#include "tensorcask/serialize/io/files.h"

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class FilesTest : public ::testing::Test {
 protected:
  // The next operation of this kind answers -error.
  void Fail(FileOperation operation, int error) {
    files_.FailAt(files_.operations(operation) + 1, error, FaultyFileSystem::kOnce, operation);
  }
  std::string Made(const std::string& name) {
    const std::string path = folder_.Path(name);
    const IoResult handle = files_.CreateNew(path);
    EXPECT_GE(handle, 0);
    EXPECT_EQ(files_.Close(handle), 0);
    return path;
  }

  const TempFolder folder_;
  FaultyFileSystem files_{FileSystem::Posix()};
};

TEST_F(FilesTest, AreDescribed) {
  const std::string path = Made("a");
  ASSERT_OK_AND_ASSIGN(const FileInfo info, DescribeFile(path, &files_));
  EXPECT_EQ(info.type, FileInfo::Type::kRegular);
  EXPECT_TRUE(IsThere(path, &files_));
  EXPECT_FALSE(IsThere(folder_.Path("b"), &files_));
  EXPECT_THAT(DescribeFile(folder_.Path("b"), &files_), StatusIs(Code::kNotFound, HasSubstr("b: cannot look at")));
  EXPECT_THAT(ListFolder(folder_.path(), &files_).value(), ElementsAre("a"));
  EXPECT_THAT(ListFolder(folder_.Path("b"), &files_), StatusIs(Code::kNotFound, HasSubstr("cannot list the folder")));
}

// What cannot be told is not "nothing is there", whatever the code that Abseil has for the error.
TEST_F(FilesTest, OnlyAMissingFileIsNotFound) {
  const std::string path = Made("a");
  for (const int error : {EACCES, EIO, ENXIO, ENODEV, ENOTDIR}) {
    Fail(FileOperation::kDescribe, error);
    const absl::Status status = DescribeFile(path, &files_).status();
    EXPECT_FALSE(status.ok() || absl::IsNotFound(status)) << error << ": " << status;
    EXPECT_EQ(ErrorNumberOf(status), error);
  }
}

TEST_F(FilesTest, InterruptedCallsAreRepeated) {
  const std::string path = Made("a");
  files_.InterruptEach(3);
  EXPECT_OK(DescribeFile(path, &files_));
  EXPECT_OK(ListFolder(folder_.path(), &files_));
  EXPECT_OK(SyncFolder(folder_.path(), &files_));
  EXPECT_TRUE(FileLock::Acquire(path, &files_).value().is_held());
  EXPECT_OK(RemoveFile(path, &files_));
}

TEST_F(FilesTest, AreRemovedWithoutAnErrorIfTheyAreGone) {
  const std::string path = Made("a");
  EXPECT_OK(RemoveFile(path, &files_));
  EXPECT_OK(RemoveFile(path, &files_));
  EXPECT_OK(RemoveUnlessFolder(path, &files_));
  EXPECT_EQ(RemoveUnlockedFile(path, &files_).value(), true);
  ASSERT_EQ(files_.MakeFolder(path), 0);
  EXPECT_THAT(RemoveFile(path, &files_), StatusIs(Code::kFailedPrecondition, HasSubstr("cannot remove")));
  EXPECT_OK(RemoveUnlessFolder(path, &files_));
  EXPECT_TRUE(IsThere(path, &files_));
  Fail(FileOperation::kRemove, EACCES);
  EXPECT_THAT(RemoveUnlessFolder(path, &files_, "clean"), StatusIs(Code::kPermissionDenied, HasSubstr("cannot clean")));
}

TEST_F(FilesTest, OneLockIsHeldAtATime) {
  const std::string path = Made("a");
  ASSERT_OK_AND_ASSIGN(FileLock lock, FileLock::Acquire(path, &files_));
  EXPECT_TRUE(lock.is_held());
  EXPECT_FALSE(FileLock::Acquire(path, &files_).value().is_held());
  EXPECT_EQ(RemoveUnlockedFile(path, &files_).value(), false);
  EXPECT_TRUE(IsThere(path, &files_));
  FileLock moved = std::move(lock);
  EXPECT_TRUE(moved.is_held());
  moved = FileLock();
  EXPECT_TRUE(FileLock::Acquire(path, &files_).value().is_held()) << "what the assignment replaced is released";
  EXPECT_EQ(files_.open_handles(), 0U);
}

// Errors of file systems without locks must not look like a lock that another handle holds.
TEST_F(FilesTest, AFileSystemWithoutLocksIsAnError) {
  const std::string path = Made("a");
  for (const int error : {ENOLCK, EOPNOTSUPP, EACCES}) {
    Fail(FileOperation::kLock, error);
    const absl::Status status = FileLock::Acquire(path, &files_).status();
    EXPECT_EQ(ErrorNumberOf(status), error) << status;
    Fail(FileOperation::kRemoveUnlocked, error);
    EXPECT_EQ(ErrorNumberOf(RemoveUnlockedFile(path, &files_).status()), error);
  }
}

TEST_F(FilesTest, FoldersAreMadeOneLevelDeep) {
  EXPECT_OK(MakeFolderFor(folder_.Path("f/a"), /*sync=*/true, &files_));
  EXPECT_OK(MakeFolderFor(folder_.Path("f/a"), /*sync=*/true, &files_));
  EXPECT_TRUE(IsThere(folder_.Path("f"), &files_));
  EXPECT_THAT(MakeFolderFor(folder_.Path("x/y/a"), /*sync=*/false, &files_),
              StatusIs(Code::kNotFound, HasSubstr("there is no folder " + folder_.Path("x"))));
}

TEST_F(FilesTest, NamesOfNewFilesAreChecked) {
  EXPECT_OK(CheckNewFile(folder_.Path("new"), &files_));
  EXPECT_THAT(CheckNewFile(Made("old"), &files_), StatusIs(Code::kAlreadyExists, HasSubstr("old: exists already")));
  EXPECT_THAT(CheckNewFile("/dev/stdout", &files_), StatusIs(Code::kAlreadyExists));
}

}  // namespace
}  // namespace tensorcask
