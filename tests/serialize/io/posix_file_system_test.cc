// What only the real file system has: links, pipes, devices, permissions, limits of the process.

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::TempFolder;
using OnExisting = FileSystem::OnExisting;

FileSystem* const kFiles = FileSystem::Posix();

// What `act` returns (0 to 100) in a process of its own, whose limits and identity it may change.
int InAnotherProcess(const std::function<int()>& act) {
  const pid_t child = fork();
  if (child == 0) _exit(act());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int ModeOf(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? static_cast<int>(info.st_mode & 07777) : -1;
}

std::string ContentOf(const std::string& path) {
  const IoResult in = kFiles->OpenToRead(path);
  if (in < 0) return "error " + std::to_string(in);
  std::string text(static_cast<size_t>(kFiles->SizeOf(in)), '\0');
  EXPECT_EQ(kFiles->ReadAt(in, 0, absl::MakeSpan(text)), static_cast<IoResult>(text.size()));
  EXPECT_EQ(kFiles->Close(in), 0);
  return text;
}

int CountDescriptors() {
  std::vector<std::string> names;
  EXPECT_EQ(kFiles->List("/proc/self/fd", &names), 0);
  return static_cast<int>(names.size());
}

TEST(PosixOpenToReadTest, RefusesAllButRegularFilesWithoutWaiting) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo(folder.Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(mknod(folder.Path("socket").c_str(), S_IFSOCK | 0600, 0), 0);
  ASSERT_EQ(symlink("loop", folder.Path("loop").c_str()), 0);
  ASSERT_EQ(symlink("missing", folder.Path("dangling").c_str()), 0);
  ASSERT_EQ(symlink("pipe", folder.Path("to-pipe").c_str()), 0);
  struct Row {
    const char* name;
    std::string path;
    IoResult want;
  };
  const Row rows[] = {{"Pipe", folder.Path("pipe"), -EINVAL},
                      {"LinkToPipe", folder.Path("to-pipe"), -EINVAL},
                      {"Socket", folder.Path("socket"), -EINVAL},
                      {"Zeros", "/dev/zero", -EINVAL},
                      {"Null", "/dev/null", -EINVAL},
                      {"Folder", folder.path(), -EISDIR},
                      {"LinkLoop", folder.Path("loop"), -ELOOP},
                      {"DanglingLink", folder.Path("dangling"), -ENOENT}};
  const int descriptors = CountDescriptors();
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(kFiles->OpenToRead(row.path), row.want);
  }
  EXPECT_EQ(CountDescriptors(), descriptors);
  FileInfo info;
  EXPECT_EQ(kFiles->Describe("/dev/zero", &info), 0);
  EXPECT_EQ(info.type, FileInfo::Type::kOther);
}

TEST(PosixOpenToReadTest, FollowsLinksToFiles) {
  const TempFolder folder;
  folder.Write("a", "abc");
  ASSERT_EQ(symlink("a", folder.Path("link").c_str()), 0);
  EXPECT_EQ(ContentOf(folder.Path("link")), "abc");
}

TEST(PosixCreateNewTest, FollowsNoLink) {
  const TempFolder folder;
  ASSERT_EQ(symlink("elsewhere", folder.Path("link").c_str()), 0);
  EXPECT_EQ(kFiles->CreateNew(folder.Path("link")), -EEXIST);
  EXPECT_EQ(ModeOf(folder.Path("elsewhere")), -1);
  EXPECT_EQ(kFiles->Rename(folder.Write("a", "x"), folder.Path("link"), OnExisting::kRefuse), -EEXIST);
  EXPECT_EQ(ContentOf(folder.Path("a")), "x");
}

TEST(PosixHandleTest, IsNotInheritedByPrograms) {
  const TempFolder folder;
  const IoResult out = kFiles->CreateNew(folder.Path("a"));
  const IoResult in = kFiles->OpenToRead(folder.Path("a"));
  for (const IoResult handle : {out, in}) {
    EXPECT_EQ(fcntl(static_cast<int>(handle), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(kFiles->Close(handle), 0);
  }
}

TEST(PosixSetPublicTest, GivesThePermissionsOfAnyNewFile) {
  const TempFolder folder;
  for (const mode_t mask : {022, 000, 077, 027, 0777}) {
    SCOPED_TRACE(mask);
    const std::string path = folder.Path("a" + std::to_string(mask));
    const int result = InAnotherProcess([&] {
      umask(mask);
      const IoResult out = kFiles->CreateNew(path);
      if (out < 0) return 1;
      struct stat info;
      if (fstat(static_cast<int>(out), &info) != 0 || (info.st_mode & 0077) != 0) return 2;  // private until then
      if (kFiles->SetPublic(out) != 0) return 3;
      if (umask(0) != mask) return 4;  // and it was not touched
      return 0;
    });
    EXPECT_EQ(result, 0);
    EXPECT_EQ(ModeOf(path), static_cast<int>(0666 & ~mask));
  }
}

bool MakeFile(const std::string& path) {
  const IoResult file = kFiles->CreateNew(path);
  return file >= 0 && kFiles->Close(file) == 0;
}

TEST(PosixPermissionsTest, AreTheNineBitsOfARegularFile) {
  const TempFolder folder;
  const std::string path = folder.Path("a");
  FilePermissions permissions;
  EXPECT_EQ(kFiles->PermissionsOf(path, &permissions), -ENOENT);
  EXPECT_EQ(kFiles->PermissionsOf(folder.path(), &permissions), -ENOENT) << "a folder";
  ASSERT_EQ(symlink("b", path.c_str()), 0);
  ASSERT_TRUE(MakeFile(folder.Path("b")));
  EXPECT_EQ(kFiles->PermissionsOf(path, &permissions), -ENOENT) << "a link";
  ASSERT_EQ(chmod(folder.Path("b").c_str(), 0640 | S_ISUID | S_ISVTX), 0);
  ASSERT_EQ(kFiles->PermissionsOf(folder.Path("b"), &permissions), 0);
  EXPECT_EQ(permissions.mode, 0640u);
  EXPECT_EQ(permissions.user, geteuid());
}

TEST(PosixPermissionsTest, AreSetIfTheyAreOfAFileOfTheSameUser) {
  const TempFolder folder;
  const std::string path = folder.Path("a");
  const IoResult out = kFiles->CreateNew(path);
  FilePermissions permissions;
  ASSERT_EQ(kFiles->PermissionsOf(path, &permissions), 0);
  for (const uint32_t mode : {0600u, 0640u, 0666u, 0755u, 0400u}) {
    permissions.mode = mode | S_ISUID;
    EXPECT_EQ(kFiles->SetPermissions(out, permissions), 0);
    EXPECT_EQ(ModeOf(path), static_cast<int>(mode));
  }
  ++permissions.user;
  permissions.mode = 0666;
  EXPECT_EQ(kFiles->SetPermissions(out, permissions), -EOPNOTSUPP);
  EXPECT_EQ(ModeOf(path), 0400);
  EXPECT_EQ(kFiles->Close(out), 0);
}

// From now on this process is held to permissions, even if it is root.
bool DropPrivileges() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

TEST(PosixPermissionsTest, AGroupThatCannotBeGivenGetsNone) {
  constexpr gid_t kOther = 54321;  // no group of this process
  const TempFolder folder;
  const int result = InAnotherProcess([&] {
    if (!DropPrivileges()) return 1;
    const IoResult out = kFiles->CreateNew(folder.Path("new"));
    return out >= 0 && kFiles->SetPermissions(out, {0664, geteuid(), kOther}) == 0 ? 0 : 2;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(ModeOf(folder.Path("new")), 0604);
}

TEST(PosixPermissionTest, SaysSo) {
  const TempFolder folder;
  folder.Write("a", "abc");
  ASSERT_EQ(chmod(folder.Path("a").c_str(), 0), 0);
  ASSERT_EQ(mkdir(folder.Path("closed").c_str(), 0700), 0);
  folder.Write("closed/a", "abc");
  ASSERT_EQ(chmod(folder.Path("closed").c_str(), 0500), 0);
  const int result = InAnotherProcess([&] {
    if (!DropPrivileges()) return 1;
    if (kFiles->OpenToRead(folder.Path("a")) != -EACCES) return 2;
    if (kFiles->CreateNew(folder.Path("closed/b")) != -EACCES) return 3;
    if (kFiles->Remove(folder.Path("closed/a")) != -EACCES) return 4;
    if (kFiles->Rename(folder.Path("closed/a"), folder.Path("b"), OnExisting::kRefuse) != -EACCES) return 5;
    if (kFiles->MakeFolder(folder.Path("closed/d")) != -EACCES) return 6;
    return 0;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(chmod(folder.Path("closed").c_str(), 0700), 0);
  EXPECT_EQ(ContentOf(folder.Path("closed/a")), "abc");
}

TEST(PosixAppendTest, StopsAtTheLimitOfFileSizesAndLives) {
  const TempFolder folder;
  const int result = InAnotherProcess([&] {
    const rlimit limit = {5000, 5000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    const IoResult out = kFiles->CreateNew(folder.Path("a"));
    const std::string bytes(4000, 'x');
    if (kFiles->Append(out, bytes) != 4000) return 2;
    if (kFiles->Append(out, bytes) != 1000) return 3;
    if (kFiles->Append(out, bytes) != -EFBIG) return 4;
    if (kFiles->Append(out, "") != 0) return 5;
    return 0;
  });
  EXPECT_EQ(result, 0);
}

TEST(PosixOpenToReadTest, RunningOutOfDescriptorsIsAnErrorThatPasses) {
  const TempFolder folder;
  folder.Write("a", "abc");
  const int result = InAnotherProcess([&] {
    rlimit limit = {0, 100};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    std::vector<std::string> names;
    if (kFiles->OpenToRead(folder.Path("a")) != -EMFILE) return 2;
    if (kFiles->CreateNew(folder.Path("b")) != -EMFILE) return 3;
    if (kFiles->SyncFolder(folder.path()) != -EMFILE) return 4;
    if (kFiles->List(folder.path(), &names) != -EMFILE) return 5;
    limit.rlim_cur = 100;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 6;
    return kFiles->OpenToRead(folder.Path("a")) >= 0 ? 0 : 7;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(ModeOf(folder.Path("b")), -1);
}

TEST(PosixReserveTest, GivesBackWhatWasNotUsed) {
  const TempFolder folder;
  const IoResult out = kFiles->CreateNew(folder.Path("a"));
  const IoResult reserved = kFiles->Reserve(out, 8 << 20);
  if (reserved == -EOPNOTSUPP) GTEST_SKIP() << "this file system reserves nothing";
  ASSERT_EQ(reserved, 0);
  struct stat info;
  ASSERT_EQ(fstat(static_cast<int>(out), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 8 << 20);
  EXPECT_EQ(info.st_size, 0);
  EXPECT_EQ(kFiles->Append(out, std::string(5000, 'x')), 5000);
  EXPECT_EQ(kFiles->Reserve(out, 5000), 0);
  ASSERT_EQ(fstat(static_cast<int>(out), &info), 0);
  EXPECT_LE(info.st_blocks * 512, 1 << 20);
  EXPECT_EQ(info.st_size, 5000);
  EXPECT_EQ(kFiles->Close(out), 0);
  EXPECT_EQ(ContentOf(folder.Path("a")), std::string(5000, 'x'));
}

TEST(PosixReserveTest, ReservesNothingInTmpfs) {
  struct statfs system;
  if (statfs("/dev/shm", &system) != 0 || system.f_type != TMPFS_MAGIC) GTEST_SKIP() << "/dev/shm is no tmpfs";
  const int file = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
  if (file < 0) GTEST_SKIP() << "/dev/shm cannot be written";
  EXPECT_EQ(kFiles->Reserve(file, 8 << 20), -EOPNOTSUPP);
  struct stat info;
  ASSERT_EQ(fstat(file, &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
  EXPECT_EQ(kFiles->Close(file), 0);
}

// From now on the system call `number` answers `error` in this process.
bool BreakSystemCall(unsigned number, unsigned error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

#ifdef __NR_link
constexpr unsigned kLinkCall = __NR_link;
#else
constexpr unsigned kLinkCall = __NR_linkat;  // newer architectures have no other
#endif

TEST(PosixRenameTest, RefusesByLinkingWhereTheSystemCannotRefuse) {
  for (const unsigned error : {EINVAL, ENOSYS}) {
    SCOPED_TRACE(error);
    const TempFolder folder;
    folder.Write("a", "new");
    folder.Write("b", "old");
    const int result = InAnotherProcess([&] {
      if (!BreakSystemCall(__NR_renameat2, error)) return 100;
      if (kFiles->Rename(folder.Path("a"), folder.Path("b"), OnExisting::kRefuse) != -EEXIST) return 1;
      if (kFiles->Rename(folder.Path("a"), folder.Path("c"), OnExisting::kRefuse) != 0) return 2;
      if (kFiles->Rename(folder.Path("a"), folder.Path("d"), OnExisting::kRefuse) != -ENOENT) return 3;
      return 0;
    });
    if (result == 100) GTEST_SKIP() << "no seccomp here";
    EXPECT_EQ(result, 0);
    EXPECT_EQ(ContentOf(folder.Path("b")), "old");
    EXPECT_EQ(ContentOf(folder.Path("c")), "new");
    std::vector<std::string> names;
    EXPECT_EQ(kFiles->List(folder.path(), &names), 0);
    EXPECT_EQ(names.size(), 2u);
  }
}

TEST(PosixRenameTest, ChangesNothingWhereLinkingIsImpossibleToo) {
  const TempFolder folder;
  folder.Write("a", "new");
  const int result = InAnotherProcess([&] {
    if (!BreakSystemCall(__NR_renameat2, EINVAL) || !BreakSystemCall(kLinkCall, EPERM)) return 100;
    return kFiles->Rename(folder.Path("a"), folder.Path("b"), OnExisting::kRefuse) == -EPERM ? 0 : 1;
  });
  if (result == 100) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(result, 0);
  EXPECT_EQ(ContentOf(folder.Path("a")), "new");
  EXPECT_EQ(ModeOf(folder.Path("b")), -1);
}

TEST(PosixSetPublicTest, LeavesTheFilePrivateWhereNothingCanBeSet) {
  const TempFolder folder;
  const int result = InAnotherProcess([&] {
    const IoResult out = kFiles->CreateNew(folder.Path("a"));
    if (!BreakSystemCall(__NR_fchmod, EPERM)) return 100;
    return kFiles->SetPublic(out) == -EOPNOTSUPP ? 0 : 1;
  });
  if (result == 100) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(result, 0);
  EXPECT_EQ(ModeOf(folder.Path("a")), 0600);
}

TEST(PosixSyncFolderTest, AFileSystemWithNothingToSyncIsFine) {
  const TempFolder folder;
  for (const unsigned error : {EINVAL, EIO}) {
    const int result = InAnotherProcess([&] {
      if (!BreakSystemCall(__NR_fsync, error)) return 100;
      return kFiles->SyncFolder(folder.path()) == (error == EIO ? -EIO : 0) ? 0 : 1;
    });
    if (result == 100) GTEST_SKIP() << "no seccomp here";
    EXPECT_EQ(result, 0);
  }
}

}  // namespace
}  // namespace tensorcask
