#include "tensorcask/serialize/io/stale_temporaries.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/io/publication.h"
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
using ::testing::SizeIs;

bool All(absl::string_view) { return true; }

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  EXPECT_EQ(FileSystem::Posix()->List(folder, &names), 0);
  return names;
}

PublishOptions Overwriting(FileSystem* files = FileSystem::Posix()) {
  return {files, /*sync=*/false, /*overwrite=*/true};
}

TEST(StaleTemporaries, Names) {
  const std::string digits = "0123456789abcdef";
  EXPECT_EQ(FinalNameOfTemporary("m.index.tmp-" + digits), "m.index");
  EXPECT_EQ(FinalNameOfTemporary("/d/m.tmp-1.tmp-" + digits), "/d/m.tmp-1");
  for (const char* name : {"", "m", "m.tmp-", "m.tmp-0123456789abcde", "m.tmp-0123456789abcdeF",
                           "m.tmp_0123456789abcdef", "0123456789abcdef", "m.tmp-0123456789abcdef0"}) {
    EXPECT_EQ(FinalNameOfTemporary(name), std::nullopt) << name;
  }
  EXPECT_FALSE(MayBeCut(std::string(200, 'n')));
  EXPECT_TRUE(MayBeCut(std::string(234, 'n')));
}

TEST(StaleTemporaries, OnlyTemporariesThatAreWantedAreRemoved) {
  MemoryFileSystem files;
  ASSERT_EQ(files.MakeFolder("/d"), 0);
  ASSERT_EQ(files.MakeFolder("/d/f.tmp-0123456789abcdef"), 0);
  files.Put("/d/a.tmp-0123456789abcdef", "four");
  files.Put("/d/b.tmp-0123456789abcdef", "x");
  files.Put("/d/a.tmp-0123456789abcdeX", "x");
  files.Put("/d/a", "x");
  const auto wanted = [](absl::string_view name) { return name != "b"; };
  for (const char* folder : {"/d", "/d/"}) {
    ASSERT_OK_AND_ASSIGN(const RemovedTemporaries removed, RemoveStaleTemporaries(folder, wanted, &files));
    const bool first = std::string(folder) == "/d";
    EXPECT_EQ(removed.files, first ? 1 : 0);
    EXPECT_EQ(removed.bytes, first ? 4u : 0u);
    EXPECT_EQ(removed.left, 1) << "the folder";
  }
  EXPECT_THAT(files.Paths(), ElementsAre("/d/a", "/d/a.tmp-0123456789abcdeX", "/d/b.tmp-0123456789abcdef"));
  EXPECT_THAT(RemoveStaleTemporaries("/none", All, &files), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
}

TEST(StaleTemporaries, WhereLocksAreUnknownAllStay) {
  MemoryFileSystem memory;
  memory.Put("/a.tmp-0000000000000000", "x");
  FaultyFileSystem files(&memory);
  files.FailAt(1, EOPNOTSUPP, FaultyFileSystem::kForEver, FileOperation::kRemoveUnlocked);
  ASSERT_OK_AND_ASSIGN(const RemovedTemporaries removed, RemoveStaleTemporaries("/", All, &files));
  EXPECT_EQ(removed.left, 1);
  Publication publish(Overwriting(&files));
  ASSERT_OK(publish.Add("/a"));
  ASSERT_OK(publish.Commit());
  EXPECT_THAT(memory.Paths(), ElementsAre("/a", "/a.tmp-0000000000000000"));
}

TEST(StaleTemporaries, OnlyRegularFilesAreRemoved) {
  const TempFolder folder;
  FileSystem* const files = FileSystem::Posix();
  folder.Write("file", "x");
  ASSERT_EQ(symlink("file", folder.Path("link").c_str()), 0);
  ASSERT_EQ(mkfifo(folder.Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkdir(folder.Path("folder").c_str(), 0700), 0);
  for (const char* name : {"link", "pipe", "folder"}) EXPECT_EQ(files->RemoveUnlocked(folder.Path(name)), -EINVAL);
  EXPECT_EQ(files->RemoveUnlocked(folder.Path("none")), -ENOENT);
  EXPECT_EQ(files->LockShared(folder.Path("none")), -ENOENT);
  EXPECT_EQ(files->RemoveUnlocked("/proc/self/status"), -EOPNOTSUPP) << "a file system that is not known";
  EXPECT_EQ(files->RemoveUnlocked(folder.Path("file")), 0);
}

TEST(ListTemporaries, SaysWhichHaveAWriterAndRemovesNone) {
  const TempFolder folder;
  Publication living(Overwriting());
  ASSERT_OK(living.Add(folder.Path("alive")));
  const std::string digits = ".tmp-0123456789abcdef";
  folder.Write("dead" + digits, "four");
  folder.Write("other.tmp-0123", "x");
  ASSERT_EQ(symlink(("dead" + digits).c_str(), folder.Path("link" + digits).c_str()), 0);
  ASSERT_EQ(mkfifo(folder.Path("pipe" + digits).c_str(), 0600), 0);
  ASSERT_EQ(mkdir(folder.Path("sub" + digits).c_str(), 0700), 0);
  const std::vector<std::string> before = NamesIn(folder.path());
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_OK_AND_ASSIGN(const std::vector<TemporaryFile> found, ListTemporaries(folder.path()));
    ASSERT_THAT(found, SizeIs(5));
    EXPECT_EQ(found[0].name, "alive.tmp-0000000000000000");
    EXPECT_EQ(found[0].state, TemporaryFile::State::kInUse);
    EXPECT_EQ(found[1].path(), folder.Path("dead" + digits));
    EXPECT_EQ(found[1].state, TemporaryFile::State::kStale);
    EXPECT_EQ(found[1].info.size_bytes, 4u);
    EXPECT_GT(found[1].info.modified_unix_seconds, 1'500'000'000);
    for (int i = 2; i < 5; ++i) EXPECT_EQ(found[i].state, TemporaryFile::State::kOther) << found[i].name;
    EXPECT_EQ(NamesIn(folder.path()), before);
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<TemporaryFile> found, ListTemporaries(folder.path()));
  for (const TemporaryFile& file : found) {
    const bool is_stale = file.state == TemporaryFile::State::kStale;
    EXPECT_EQ(RemoveTemporary(file).code(), is_stale ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition)
        << file.name;
  }
  EXPECT_THAT(NamesIn(folder.path()), SizeIs(before.size() - 1));
  EXPECT_THAT(ListTemporaries(folder.Path("none")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  ASSERT_OK(living.Commit());
}

TEST(ListTemporaries, WithoutLocksNothingIsStale) {
  MemoryFileSystem memory;
  memory.Put("/a.tmp-0000000000000000", "x");
  ASSERT_OK_AND_ASSIGN(const std::vector<TemporaryFile> found, ListTemporaries("/", &memory));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].state, TemporaryFile::State::kUnknown);
}

// What locks promise, on both file systems.
void ExpectLocksExclude(FileSystem* files, const std::string& path) {
  const IoResult made = files->CreateNew(path);
  ASSERT_GE(made, 0);
  EXPECT_EQ(files->RemoveUnlocked(path), -EWOULDBLOCK);
  EXPECT_EQ(files->Lock(path), -EWOULDBLOCK);
  const IoResult shared = files->LockShared(path);
  ASSERT_GE(shared, 0);
  EXPECT_EQ(files->Close(made), 0);
  EXPECT_EQ(files->RemoveUnlocked(path), -EWOULDBLOCK);
  EXPECT_EQ(files->Close(shared), 0);
  const IoResult exclusive = files->Lock(path);
  ASSERT_GE(exclusive, 0);
  EXPECT_EQ(files->LockShared(path), -EWOULDBLOCK);
  EXPECT_EQ(files->RemoveUnlocked(path), -EWOULDBLOCK);
  EXPECT_EQ(files->Close(exclusive), 0);
  EXPECT_EQ(files->RemoveUnlocked(path), 0);
  EXPECT_EQ(files->RemoveUnlocked(path), -ENOENT);
}

TEST(StaleTemporaries, Locks) {
  const TempFolder folder;
  ExpectLocksExclude(FileSystem::Posix(), folder.Path("a"));
  MemoryFileSystem memory;
  ExpectLocksExclude(&memory, "/a");
  EXPECT_EQ(memory.open_handles(), 0u);
}

// Before each operation of a writer another process looks for stale files: it never finds one.
TEST(StaleTemporaries, AWriterHoldsItsFilesUntilTheyHaveTheirNames) {
  const TempFolder folder;
  FaultyFileSystem files(FileSystem::Posix());
  int64_t looked = 0;
  files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
    ASSERT_OK_AND_ASSIGN(const RemovedTemporaries removed, RemoveStaleTemporaries(folder.path(), All));
    EXPECT_EQ(removed.files, 0) << FileOperationName(operation) << " " << path;
    looked += removed.left;
  });
  Publication publish({&files, /*sync=*/true, /*overwrite=*/false});
  for (const char* name : {"a", "b", "index"}) ASSERT_OK(publish.Add(folder.Path(name)));
  ASSERT_OK(publish.Commit());
  EXPECT_GT(looked, 30);
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("a", "b", "index"));
  EXPECT_EQ(files.open_handles(), 0u);
}

// A process that does work() after it was told to; `ready` is called first, when prepare() is done.
class Process {
 public:
  Process(const std::function<void()>& prepare, const std::function<bool()>& work) {
    int to[2];
    int from[2];
    EXPECT_EQ(pipe(to), 0);
    EXPECT_EQ(pipe(from), 0);
    pid_ = fork();
    EXPECT_GE(pid_, 0);
    if (pid_ == 0) {
      close(to[1]);
      close(from[0]);
      prepare();
      char byte = 0;
      if (write(from[1], &byte, 1) != 1 || read(to[0], &byte, 1) != 1) _exit(2);
      _exit(work() ? 0 : 1);
    }
    close(to[0]);
    close(from[1]);
    tell_ = to[1];
    char byte = 0;
    EXPECT_EQ(read(from[0], &byte, 1), 1);
    close(from[0]);
  }
  ~Process() { EXPECT_EQ(pid_, -1) << "the test ends it"; }

  bool Finish() {
    EXPECT_EQ(write(tell_, "", 1), 1);
    return Wait() == 0;
  }
  void Kill() {
    kill(pid_, SIGKILL);
    Wait();
  }

 private:
  int Wait() {
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    close(tell_);
    pid_ = -1;
    return status;
  }

  pid_t pid_ = -1;
  int tell_ = -1;
};

bool AddTwo(const TempFolder& folder, Publication* publish) {
  for (const char* name : {"data", "index"}) {
    const absl::StatusOr<FileSink*> sink = publish->Add(folder.Path(name));
    if (!sink.ok() || !(*sink)->Append("1234567").ok() || !(*sink)->Flush(/*sync=*/false).ok()) return false;
  }
  return true;
}

TEST(StaleTemporaries, OfAWriterInAnotherProcessStayWhileItLives) {
  const TempFolder folder;
  Publication* publish = nullptr;
  Process writer(
      [&] {
        publish = new Publication(Overwriting());
        if (!AddTwo(folder, publish)) _exit(3);
      },
      [&] { return publish->Commit().ok(); });
  ASSERT_OK_AND_ASSIGN(const RemovedTemporaries removed, RemoveStaleTemporaries(folder.path(), All));
  EXPECT_EQ(removed.files, 0);
  EXPECT_EQ(removed.left, 2);
  Publication second(Overwriting());
  EXPECT_TRUE(AddTwo(folder, &second));
  ASSERT_OK(second.Commit());
  EXPECT_THAT(NamesIn(folder.path()), SizeIs(4)) << "those of the other writer are left alone";
  EXPECT_TRUE(writer.Finish());
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("data", "index"));
}

TEST(StaleTemporaries, OfAKilledWriterAreRemoved) {
  const TempFolder folder;
  const auto write = [&] {
    if (!AddTwo(folder, new Publication(Overwriting()))) _exit(3);
  };
  Process(write, [] { return true; }).Kill();
  EXPECT_THAT(NamesIn(folder.path()), SizeIs(2));
  ASSERT_OK_AND_ASSIGN(const RemovedTemporaries removed, RemoveStaleTemporaries(folder.path(), All));
  EXPECT_EQ(removed.files, 2);
  EXPECT_EQ(removed.bytes, 14u);
  EXPECT_EQ(removed.left, 0);

  // The next writer of these names does it, too.
  Process(write, [] { return true; }).Kill();
  EXPECT_THAT(NamesIn(folder.path()), SizeIs(2));
  Publication next(Overwriting());
  EXPECT_TRUE(AddTwo(folder, &next));
  EXPECT_THAT(NamesIn(folder.path()), SizeIs(2));
  ASSERT_OK(next.Commit());
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("data", "index"));
}

TEST(StaleTemporaries, StayWhileAForkedChildOfTheWriterLives) {
  const TempFolder folder;
  pid_t child = -1;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Process writer(
      [&] {
        if (!AddTwo(folder, new Publication(Overwriting()))) _exit(3);
        child = fork();
        if (child == 0) {
          char byte = 0;
          close(ends[1]);
          while (read(ends[0], &byte, 1) > 0) {
          }
          _exit(0);  // when the test closes its end
        }
      },
      [] { return true; });
  close(ends[0]);
  writer.Kill();
  ASSERT_OK_AND_ASSIGN(RemovedTemporaries removed, RemoveStaleTemporaries(folder.path(), All));
  EXPECT_EQ(removed.left, 2);
  close(ends[1]);
  for (int i = 0; i < 1000 && removed.files < 2; ++i) {
    usleep(10000);
    ASSERT_OK_AND_ASSIGN(const RemovedTemporaries more, RemoveStaleTemporaries(folder.path(), All));
    removed.files += more.files;
  }
  EXPECT_EQ(removed.files, 2);
}

}  // namespace
}  // namespace tensorcask
