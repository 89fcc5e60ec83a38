// What holds for every FileSystem, tried on the real one, on the one in memory, and through the one that injects
// faults.

#include "tensorcask/serialize/io/file_system.h"

#include <cerrno>
#include <climits>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/file_system_router.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using OnExisting = FileSystem::OnExisting;

constexpr size_t kPageBytes = 4096;

enum class Kind { kPosix, kMemory, kFaulty, kRouter };

class FileSystemTest : public ::testing::TestWithParam<Kind> {
 protected:
  FileSystemTest() {
    if (GetParam() == Kind::kPosix) {
      files_ = FileSystem::Posix();
      root_ = folder_.path();
      return;
    }
    root_ = "/root";
    files_ = &memory_;
    if (GetParam() == Kind::kFaulty) files_ = &faulty_;
    if (GetParam() == Kind::kRouter) files_ = &router_;
    EXPECT_EQ(files_->MakeFolder(root_), 0);
  }
  ~FileSystemTest() override { EXPECT_EQ(memory_.open_handles(), 0u); }

  std::string Path(const std::string& name) const { return root_ + "/" + name; }

  std::string Make(const std::string& name, absl::string_view bytes) {
    const IoResult out = files_->CreateNew(Path(name));
    EXPECT_GE(out, 0) << name;
    while (!bytes.empty()) {
      const IoResult put = files_->Append(out, bytes);
      if (put <= 0) {
        ADD_FAILURE() << put;
        break;
      }
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    EXPECT_EQ(files_->Close(out), 0);
    return Path(name);
  }

  std::string Content(const std::string& path) {
    const IoResult in = files_->OpenToRead(path);
    if (in < 0) return "error " + std::to_string(in);
    std::string text(static_cast<size_t>(files_->SizeOf(in)), '\0');
    const IoResult got = files_->ReadAt(in, 0, absl::MakeSpan(text));
    EXPECT_EQ(got, static_cast<IoResult>(text.size()));
    EXPECT_EQ(files_->Close(in), 0);
    return text;
  }

  TempFolder folder_;
  MemoryFileSystem memory_;
  FaultyFileSystem faulty_{&memory_};
  FileSystemRouter router_{&memory_};
  FileSystem* files_ = nullptr;
  std::string root_;
};

TEST_P(FileSystemTest, WhatIsAppendedIsReadAtAnyPosition) {
  const std::string path = Make("a", "abcdef");
  const IoResult in = files_->OpenToRead(path);
  ASSERT_GE(in, 0);
  EXPECT_EQ(files_->SizeOf(in), 6);
  std::string out(4, '.');
  EXPECT_EQ(files_->ReadAt(in, 1, absl::MakeSpan(out)), 4);
  EXPECT_EQ(out, "bcde");
  EXPECT_EQ(files_->ReadAt(in, 4, absl::MakeSpan(out)), 2);
  EXPECT_EQ(out, "efde");
  EXPECT_EQ(files_->ReadAt(in, 6, absl::MakeSpan(out)), 0);
  EXPECT_EQ(files_->ReadAt(in, 1000000, absl::MakeSpan(out)), 0);
  EXPECT_EQ(files_->ReadAt(in, 0, {}), 0);
  EXPECT_EQ(files_->ReadAt(in, UINT64_MAX, absl::MakeSpan(out)), -EINVAL);
  EXPECT_EQ(files_->Close(in), 0);
}

TEST_P(FileSystemTest, WriteAtLeavesThePlaceWhereAppendGoesOn) {
  const std::string path = Path("a");
  const IoResult out = files_->CreateNew(path);
  ASSERT_GE(out, 0);
  EXPECT_EQ(files_->Append(out, "abcd"), 4);
  EXPECT_EQ(files_->WriteAt(out, 1, "X"), 1);
  EXPECT_EQ(files_->WriteAt(out, 8, "YZ"), 2);  // past the end: zeros in the gap
  EXPECT_EQ(files_->SizeOf(out), 10);
  EXPECT_EQ(files_->Append(out, "ef"), 2);
  EXPECT_EQ(files_->WriteAt(out, 3, ""), 0);
  EXPECT_EQ(files_->WriteAt(out, UINT64_MAX, "a"), -EFBIG);
  EXPECT_EQ(files_->Close(out), 0);
  const IoResult in = files_->OpenToRead(path);
  ASSERT_GE(in, 0);
  std::string text(11, '.');
  EXPECT_EQ(files_->ReadAt(in, 0, absl::MakeSpan(text)), 10);
  EXPECT_EQ(text, absl::string_view("aXcdef\0\0YZ.", 11));
  EXPECT_EQ(files_->WriteAt(in, 0, "a"), -EBADF);
  EXPECT_EQ(files_->Close(in), 0);
}

TEST_P(FileSystemTest, AHandleIsForOneDirectionAndForItsLife) {
  const IoResult out = files_->CreateNew(Path("a"));
  std::string byte(1, '.');
  EXPECT_EQ(files_->ReadAt(out, 0, absl::MakeSpan(byte)), -EBADF);
  EXPECT_EQ(files_->Close(out), 0);
  const IoResult in = files_->OpenToRead(Path("a"));
  EXPECT_EQ(files_->Append(in, "x"), -EBADF);
  EXPECT_EQ(files_->Close(in), 0);
  EXPECT_EQ(files_->Close(in), -EBADF);
  EXPECT_EQ(files_->SizeOf(in), -EBADF);
  EXPECT_EQ(files_->Sync(in), -EBADF);
}

TEST_P(FileSystemTest, ANewFileIsNew) {
  Make("a", "old");
  EXPECT_EQ(files_->CreateNew(Path("a")), -EEXIST);
  EXPECT_EQ(Content(Path("a")), "old");
  EXPECT_EQ(files_->MakeFolder(Path("d")), 0);
  EXPECT_EQ(files_->CreateNew(Path("d")), -EEXIST);
  EXPECT_EQ(files_->CreateNew(Path("missing/a")), -ENOENT);
  EXPECT_EQ(files_->CreateNew(Path("a/b")), -ENOTDIR);
}

TEST_P(FileSystemTest, ReservingChangesNoSizeAndNoContent) {
  const IoResult out = files_->CreateNew(Path("a"));
  const IoResult reserved = files_->Reserve(out, 1 << 20);
  EXPECT_TRUE(reserved == 0 || reserved == -EOPNOTSUPP) << reserved;
  EXPECT_EQ(files_->SizeOf(out), 0);
  EXPECT_EQ(files_->Append(out, "abc"), 3);
  const IoResult given_back = files_->Reserve(out, 3);
  EXPECT_TRUE(given_back == 0 || given_back == -EOPNOTSUPP) << given_back;
  EXPECT_EQ(files_->Append(out, "def"), 3);
  EXPECT_EQ(files_->Close(out), 0);
  EXPECT_EQ(Content(Path("a")), "abcdef");
}

TEST_P(FileSystemTest, SyncAndPermissionsOfAnOpenFile) {
  const IoResult out = files_->CreateNew(Path("a"));
  EXPECT_EQ(files_->Append(out, "abc"), 3);
  EXPECT_EQ(files_->Sync(out), 0);
  EXPECT_EQ(files_->SetPublic(out), 0);
  EXPECT_EQ(files_->Close(out), 0);
  EXPECT_EQ(files_->SyncFolder(root_), 0);
  EXPECT_EQ(files_->SyncFolder(Path("missing")), -ENOENT);
  EXPECT_EQ(files_->SyncFolder(Path("a")), -ENOTDIR);
}

TEST_P(FileSystemTest, MappingsOutliveTheHandleAndTheName) {
  std::string text;
  for (size_t i = 0; i < 3 * kPageBytes + 5; ++i) text += static_cast<char>(i * 7 + i / 256);
  const std::string path = Make("a", text);
  const IoResult in = files_->OpenToRead(path);
  const char* whole = nullptr;
  const char* tail = nullptr;
  const char* same = nullptr;
  ASSERT_EQ(files_->Map(in, 0, text.size(), &whole), 0);
  ASSERT_EQ(files_->Map(in, kPageBytes, text.size() - kPageBytes, &tail), 0);
  ASSERT_EQ(files_->Map(in, kPageBytes, 10, &same), 0);
  EXPECT_EQ(files_->Map(in, 1, 10, &same), -EINVAL) << "not at a page";
  EXPECT_EQ(files_->Map(in, 0, 0, &same), -EINVAL) << "empty";
  EXPECT_EQ(files_->Close(in), 0);
  EXPECT_EQ(files_->Remove(path), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(whole) % kPageBytes, 0u);
  EXPECT_EQ(absl::string_view(whole, text.size()), text);
  EXPECT_EQ(files_->Unmap(whole, text.size()), 0);
  EXPECT_EQ(absl::string_view(tail, text.size() - kPageBytes), absl::string_view(text).substr(kPageBytes));
  EXPECT_EQ(files_->Unmap(tail, text.size() - kPageBytes), 0);
  EXPECT_EQ(absl::string_view(same, 10), absl::string_view(text).substr(kPageBytes, 10));
  EXPECT_EQ(files_->Unmap(same, 10), 0);
}

TEST_P(FileSystemTest, AMappingStaysWhileTheFileGrows) {
  const IoResult out = files_->CreateNew(Path("a"));
  EXPECT_EQ(files_->Append(out, "abc"), 3);
  const IoResult in = files_->OpenToRead(Path("a"));
  const char* data = nullptr;
  ASSERT_EQ(files_->Map(in, 0, 3, &data), 0);
  const std::string more(100000, 'x');
  EXPECT_EQ(files_->Append(out, more), 100000);
  EXPECT_EQ(absl::string_view(data, 3), "abc");
  EXPECT_EQ(files_->SizeOf(in), 100003);
  EXPECT_EQ(files_->Unmap(data, 3), 0);
  EXPECT_EQ(files_->Close(in), 0);
  EXPECT_EQ(files_->Close(out), 0);
}

TEST_P(FileSystemTest, RenameReplacesOrRefuses) {
  Make("a", "new");
  Make("b", "old");
  EXPECT_EQ(files_->Rename(Path("a"), Path("b"), OnExisting::kRefuse), -EEXIST);
  EXPECT_EQ(Content(Path("a")), "new");
  EXPECT_EQ(Content(Path("b")), "old");
  EXPECT_EQ(files_->Rename(Path("a"), Path("b"), OnExisting::kReplace), 0);
  EXPECT_EQ(Content(Path("a")), "error -2");
  EXPECT_EQ(Content(Path("b")), "new");
  EXPECT_EQ(files_->Rename(Path("b"), Path("c"), OnExisting::kRefuse), 0);
  EXPECT_EQ(Content(Path("c")), "new");
  EXPECT_EQ(files_->Rename(Path("missing"), Path("d"), OnExisting::kRefuse), -ENOENT);
  EXPECT_EQ(files_->Rename(Path("missing"), Path("d"), OnExisting::kReplace), -ENOENT);
  EXPECT_EQ(files_->Rename(Path("c"), Path("missing/d"), OnExisting::kReplace), -ENOENT);
  EXPECT_EQ(files_->MakeFolder(Path("folder")), 0);
  EXPECT_EQ(files_->Rename(Path("c"), Path("folder"), OnExisting::kReplace), -EISDIR);
  EXPECT_EQ(files_->Rename(Path("c"), Path("folder"), OnExisting::kRefuse), -EEXIST);
  EXPECT_EQ(files_->Rename(Path("c"), Path("folder/c"), OnExisting::kRefuse), 0);
  EXPECT_EQ(Content(Path("folder/c")), "new");
}

TEST_P(FileSystemTest, ALinkIsASecondNameOfTheSameFile) {
  Make("a", "content");
  Make("taken", "other");
  EXPECT_EQ(files_->Link(Path("a"), Path("b")), 0);
  EXPECT_EQ(Content(Path("b")), "content");
  EXPECT_EQ(files_->Remove(Path("a")), 0);
  EXPECT_EQ(Content(Path("b")), "content");
  EXPECT_EQ(files_->Link(Path("b"), Path("taken")), -EEXIST);
  EXPECT_EQ(Content(Path("taken")), "other");
  EXPECT_EQ(files_->Link(Path("missing"), Path("c")), -ENOENT);
  EXPECT_EQ(files_->Link(Path("b"), Path("missing/c")), -ENOENT);
  EXPECT_EQ(files_->Link(root_, Path("c")), -EOPNOTSUPP);
}

TEST_P(FileSystemTest, ALockIsHeldByOneHandle) {
  const IoResult first = files_->Lock(Path("lock"));
  ASSERT_GE(first, 0);
  EXPECT_EQ(files_->Lock(Path("lock")), -EWOULDBLOCK);
  const IoResult other = files_->Lock(Path("other"));
  EXPECT_GE(other, 0);
  EXPECT_EQ(files_->Close(first), 0);
  const IoResult second = files_->Lock(Path("lock"));
  EXPECT_GE(second, 0);
  EXPECT_EQ(files_->Lock(Path("lock")), -EWOULDBLOCK);
  EXPECT_EQ(files_->Close(second), 0);
  EXPECT_EQ(files_->Close(other), 0);
  EXPECT_EQ(files_->Lock(root_), -EISDIR);
  EXPECT_EQ(files_->Lock(Path("missing/lock")), -ENOENT);
}

TEST_P(FileSystemTest, RemovingTakesTheNameAndLeavesReadersAlone) {
  const std::string path = Make("a", "abc");
  const IoResult in = files_->OpenToRead(path);
  EXPECT_EQ(files_->Remove(path), 0);
  EXPECT_EQ(files_->Remove(path), -ENOENT);
  EXPECT_EQ(files_->OpenToRead(path), -ENOENT);
  std::string out(3, '.');
  EXPECT_EQ(files_->ReadAt(in, 0, absl::MakeSpan(out)), 3);
  EXPECT_EQ(out, "abc");
  EXPECT_EQ(files_->Close(in), 0);
  EXPECT_EQ(files_->MakeFolder(Path("d")), 0);
  EXPECT_EQ(files_->Remove(Path("d")), -EISDIR);
}

TEST_P(FileSystemTest, FoldersAreListedInOrder) {
  Make("b", "");
  Make("a", "xyz");
  EXPECT_EQ(files_->MakeFolder(Path("c")), 0);
  EXPECT_EQ(files_->MakeFolder(Path("c")), -EEXIST);
  EXPECT_EQ(files_->MakeFolder(Path("a")), -EEXIST);
  EXPECT_EQ(files_->MakeFolder(Path("missing/d")), -ENOENT);
  Make("c/inside", "");
  std::vector<std::string> names = {"rubbish"};
  EXPECT_EQ(files_->List(root_, &names), 0);
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
  EXPECT_EQ(files_->List(Path("c"), &names), 0);
  EXPECT_THAT(names, ElementsAre("inside"));
  EXPECT_EQ(files_->List(Path("a"), &names), -ENOTDIR);
  EXPECT_THAT(names, ElementsAre());
  EXPECT_EQ(files_->List(Path("missing"), &names), -ENOENT);
  EXPECT_EQ(files_->OpenToRead(Path("c")), -EISDIR);
}

TEST_P(FileSystemTest, DescribeTellsFilesFromFolders) {
  Make("a", "xyz");
  FileInfo info;
  EXPECT_EQ(files_->Describe(Path("a"), &info), 0);
  EXPECT_EQ(info.type, FileInfo::Type::kRegular);
  EXPECT_EQ(info.size_bytes, 3u);
  EXPECT_EQ(files_->Describe(root_, &info), 0);
  EXPECT_EQ(info.type, FileInfo::Type::kFolder);
  EXPECT_EQ(files_->Describe(Path("missing"), &info), -ENOENT);
  EXPECT_EQ(files_->Describe(Path("a/b"), &info), -ENOTDIR);
}

TEST_P(FileSystemTest, BadNamesAreRefusedByEveryOperation) {
  struct Row {
    const char* name;
    std::string path;
    IoResult want;
  };
  const Row rows[] = {{"Empty", "", -ENOENT},
                      {"NulByte", Path(std::string("a\0b", 3)), -EINVAL},
                      {"LongName", Path(std::string(256, 'n')), -ENAMETOOLONG},
                      {"LongPath", Path(std::string(2500, '/') + std::string(2500, '/') + "a"), -ENAMETOOLONG}};
  Make("ok", "");
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    FileInfo info;
    std::vector<std::string> names;
    EXPECT_EQ(files_->OpenToRead(row.path), row.want);
    EXPECT_EQ(files_->CreateNew(row.path), row.want);
    EXPECT_EQ(files_->Rename(row.path, Path("x"), OnExisting::kRefuse), row.want);
    EXPECT_EQ(files_->Rename(Path("ok"), row.path, OnExisting::kReplace), row.want);
    EXPECT_EQ(files_->Link(row.path, Path("x")), row.want);
    EXPECT_EQ(files_->Link(Path("ok"), row.path), row.want);
    EXPECT_EQ(files_->Lock(row.path), row.want);
    EXPECT_EQ(files_->Remove(row.path), row.want);
    EXPECT_EQ(files_->MakeFolder(row.path), row.want);
    EXPECT_EQ(files_->SyncFolder(row.path), row.want);
    EXPECT_EQ(files_->Describe(row.path, &info), row.want);
    EXPECT_EQ(files_->List(row.path, &names), row.want);
  }
}

TEST_P(FileSystemTest, ThreadsDoNotDisturbOneAnother) {
  const std::string shared = Make("shared", std::string(100000, 's'));
  const IoResult in = files_->OpenToRead(shared);
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string path = Path(std::to_string(t) + "-" + std::to_string(i));
        const IoResult out = files_->CreateNew(path);
        std::string some(1000, '.');
        const bool ok = files_->Append(out, std::string(1000, static_cast<char>('a' + t))) == 1000 &&
                        files_->Close(out) == 0 && files_->ReadAt(in, 500, absl::MakeSpan(some)) == 1000 &&
                        some == std::string(1000, 's') &&
                        files_->Rename(path, path + "-done", OnExisting::kRefuse) == 0;
        good[t] += ok ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, ElementsAre(50, 50, 50, 50));
  std::vector<std::string> names;
  EXPECT_EQ(files_->List(root_, &names), 0);
  EXPECT_EQ(names.size(), 201u);
  EXPECT_EQ(files_->Close(in), 0);
}

INSTANTIATE_TEST_SUITE_P(All, FileSystemTest,
                         ::testing::Values(Kind::kPosix, Kind::kMemory, Kind::kFaulty, Kind::kRouter),
                         [](const auto& info) {
                           switch (info.param) {
                             case Kind::kPosix:
                               return "Posix";
                             case Kind::kMemory:
                               return "Memory";
                             case Kind::kRouter:
                               return "Router";
                             case Kind::kFaulty:
                               return "Faulty";
                           }
                           return "";
                         });

TEST(MemoryFileSystemTest, PathsAreComparedByWhatTheyName) {
  MemoryFileSystem files;
  files.Put("./a", "1");
  files.Put("//b", "2");
  EXPECT_THAT(files.Paths(), ElementsAre("/b", "a"));
  EXPECT_EQ(*files.Find("a"), "1");
  EXPECT_EQ(*files.Find("/./b"), "2");
  EXPECT_EQ(files.Find("b"), nullptr);
  EXPECT_EQ(files.MakeFolder("d/"), 0);
  files.Put("d//c", "3");
  std::vector<std::string> names;
  EXPECT_EQ(files.List(".", &names), 0);
  EXPECT_THAT(names, ElementsAre("a", "d"));
  EXPECT_EQ(files.List("/", &names), 0);
  EXPECT_THAT(names, ElementsAre("b"));
  EXPECT_EQ(files.List("d/.", &names), 0);
  EXPECT_THAT(names, ElementsAre("c"));
  EXPECT_EQ(files.OpenToRead("a/"), -ENOTDIR);
}

TEST(MemoryFileSystemTest, PutMakesANewFile) {
  MemoryFileSystem files;
  files.Put("a", "old");
  const IoResult in = files.OpenToRead("a");
  files.Put("a", "n");
  EXPECT_EQ(*files.Find("a"), "n");
  EXPECT_EQ(files.SizeOf(in), 3);
  EXPECT_EQ(files.Map(in, 0, 4, nullptr), -EINVAL) << "past the end";
  EXPECT_EQ(files.Close(in), 0);
}

TEST(FolderOfTest, IsWhatComesBeforeTheName) {
  EXPECT_EQ(FolderOf("folder/name"), "folder");
  EXPECT_EQ(FolderOf("a/b/c"), "a/b");
  EXPECT_EQ(FolderOf("name"), ".");
  EXPECT_EQ(FolderOf("/name"), "/");
  EXPECT_EQ(FolderOf("/a/b"), "/a");
  EXPECT_EQ(FolderOf("s3://bucket/a/b"), "s3://bucket/a");
  EXPECT_EQ(FolderOf("s3://bucket/a"), "s3://bucket");
  EXPECT_EQ(FolderOf("s3://bucket"), "s3://bucket");
  EXPECT_EQ(FolderOf("s3://"), "s3://");
  EXPECT_EQ(FolderOf("a b://c/d"), "a b://c");
  EXPECT_EQ(FolderOf("://c"), ":/");
}

TEST(IoErrorTest, NamesThePathAndTheAction) {
  EXPECT_THAT(IoError(-ENOSPC, "a.index", "write"),
              StatusIs(absl::StatusCode::kResourceExhausted, "a.index: cannot write: No space left on device"));
  class Store final : public ForwardingFileSystem {
   public:
    using ForwardingFileSystem::ForwardingFileSystem;
    std::string LastDetail() const override { return "SlowDown, request 18EB"; }
  } store(FileSystem::Posix());
  EXPECT_THAT(IoError(-EAGAIN, "s3://b/a", "read at 7", &store),
              StatusIs(IoError(-EAGAIN, "", "").code(), EndsWith(" (SlowDown, request 18EB)")));
  EXPECT_THAT(IoError(-EAGAIN, "a", "read", FileSystem::Posix()).message(), Not(HasSubstr("(")));
  EXPECT_THAT(IoError(-EFBIG, "a", "write"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("a: cannot write")));
  EXPECT_THAT(IoError(-EACCES, "a", "open"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("a: cannot open")));
}

TEST(IoErrorTest, HasTheNumberOfTheError) {
  for (const int error : {ENOSPC, EFBIG, EACCES, EMFILE, EIO}) {
    const absl::Status status = IoError(-error, "a.index", "write");
    EXPECT_EQ(ErrorNumberOf(status), error);
    EXPECT_EQ(ErrorNumberOf(Annotate(status, "tensor \"w\"")), error);
    EXPECT_EQ(ErrorNumberOf(AsDataLoss(status, "a.index")), error);
    EXPECT_EQ(ErrorNumberOf(AppendToMessage(status, "; no folder a")), error);
  }
  EXPECT_EQ(ErrorNumberOf(absl::ResourceExhaustedError("a limit")), 0);
  EXPECT_EQ(ErrorNumberOf(absl::OkStatus()), 0);
}

TEST(CheckPathTest, RefusesWhatTheSystemWouldNotTake) {
  EXPECT_OK(CheckPath("a"));
  EXPECT_OK(CheckPath("/a/../b//c.index"));
  EXPECT_OK(CheckPath(std::string(255, 'n')));
  EXPECT_OK(CheckPath("s3://bucket/" + std::string(1024, 'n')));
  std::string longest;
  while (longest.size() < 4094) longest += "d/";
  EXPECT_OK(CheckPath(longest + "n"));
  const auto invalid = [](auto message) { return StatusIs(absl::StatusCode::kInvalidArgument, message); };
  EXPECT_THAT(CheckPath(""), invalid(HasSubstr("empty")));
  EXPECT_THAT(CheckPath(absl::string_view("a\0b", 3)), invalid(HasSubstr("\"a\\x00\\x62\" has a NUL byte")));
  EXPECT_THAT(CheckPath(longest + "nn"), invalid(HasSubstr("4096 bytes, the limit is 4095")));
  EXPECT_THAT(CheckPath("x/" + std::string(256, 'n')), invalid(HasSubstr("256 bytes, the limit is 255")));
}

TEST_P(FileSystemTest, APathIsShorterThanPathMax) {
  Make("ok", "text");
  const std::string longest = root_ + std::string(PATH_MAX - 1 - root_.size() - 2, '/') + "ok";
  ASSERT_EQ(longest.size(), size_t{PATH_MAX - 1});
  FileInfo info;
  EXPECT_EQ(files_->Describe(longest, &info), 0);
  EXPECT_EQ(Content(longest), "text");
  EXPECT_EQ(files_->Describe(root_ + "/" + longest.substr(root_.size()), &info), -ENAMETOOLONG);
}

}  // namespace
}  // namespace tensorcask
