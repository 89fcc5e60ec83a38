#include "tensorcask/serialize/io/internal/system_files.h"

#include <fcntl.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#elif defined(__APPLE__)
#include <sys/mount.h>
#include <sys/param.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tensorcask::internal {

IoResult ErrorNow() { return errno == ENOTSUP ? -EOPNOTSUPP : -static_cast<IoResult>(errno); }

IoResult ResultOf(int64_t answer) { return answer >= 0 ? answer : ErrorNow(); }

namespace {

// link(2) refuses an existing name. For a moment the file has both names, which is harmless.
IoResult RenameByLink(const std::string& from, const std::string& to) {
  if (link(from.c_str(), to.c_str()) != 0) return ErrorNow();
  if (unlink(from.c_str()) == 0) return 0;
  const IoResult error = ErrorNow();
  unlink(to.c_str());
  return error;
}

}  // namespace

#ifdef __linux__

bool HasReliableLocks(int descriptor) {
  struct statfs info;
  if (fstatfs(descriptor, &info) != 0) return false;
  switch (static_cast<uint32_t>(info.f_type)) {
    case EXT4_SUPER_MAGIC:  // and ext2, ext3
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case MSDOS_SUPER_MAGIC:
    case uint32_t{0x2011BAB0}:  // exFAT
    case uint32_t{0x2FC12FC1}:  // ZFS
    case uint32_t{0xCA451A4E}:  // bcachefs
      return true;
    default:
      return false;
  }
}

bool IsInProc(const std::string& folder) {
  struct statfs info;
  return statfs(folder.c_str(), &info) == 0 && static_cast<uint32_t>(info.f_type) == PROC_SUPER_MAGIC;
}

// copy_file_range(2) without an offset for `to` moves its position, as write(2) does.
IoResult CopyFileBytes(int from, uint64_t offset, int to, size_t count) {
  auto at = static_cast<loff_t>(offset);
  const ssize_t copied = copy_file_range(from, &at, to, nullptr, count, 0);
  if (copied >= 0) return copied;
  // Different file systems, a kernel or a sandbox without the call: reading and writing still works.
  const bool unsupported = errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EPERM ||
                           errno == EOPNOTSUPP || errno == EBADF || errno == ETXTBSY;
  return unsupported ? -EOPNOTSUPP : ErrorNow();
}

IoResult ReserveFileSpace(int descriptor, uint64_t begin, uint64_t end) {
  // tmpfs zeroes each page that it reserves, so reserving costs more time than it saves.
  struct statfs system;
  if (fstatfs(descriptor, &system) == 0 && system.f_type == TMPFS_MAGIC) return -EOPNOTSUPP;
  return ResultOf(
      fallocate(descriptor, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin), static_cast<off_t>(end - begin)));
}

IoResult StartFileSync(int descriptor, uint64_t offset, uint64_t bytes) {
  return ResultOf(
      sync_file_range(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE));
}

IoResult SyncFile(int descriptor) { return ResultOf(fsync(descriptor)); }

IoResult RenameToNewName(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  // File systems that lack RENAME_NOREPLACE: NFS, some in user space.
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return RenameByLink(from, to);
  return ErrorNow();
}

bool HasAccessList(const std::string& path) {
  return lgetxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

// From /proc (Linux 4.7 and later).
IoResult ReadUmask() {
  const int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (status < 0) return errno == ENOENT || errno == EACCES ? -EOPNOTSUPP : ErrorNow();
  char text[1024];  // "Umask:" is the second line
  const IoResult got = ResultOf(read(status, text, sizeof(text) - 1));
  close(status);
  if (got < 0) return got;
  text[got] = '\0';
  const char* line = std::strstr(text, "\nUmask:");
  unsigned mask = 0;
  if (line == nullptr || std::sscanf(line, "\nUmask:%o", &mask) != 1) return -EOPNOTSUPP;
  return static_cast<IoResult>(mask & 0777);
}

#else

#ifdef __APPLE__
bool HasReliableLocks(int descriptor) {
  struct statfs info;
  return fstatfs(descriptor, &info) == 0 && (info.f_flags & MNT_LOCAL) != 0;
}
// fsync(2) leaves the bytes in the disk's own cache; F_FULLFSYNC does not, and some file systems lack it.
IoResult SyncFile(int descriptor) {
  if (fcntl(descriptor, F_FULLFSYNC) == 0) return 0;
  return errno == ENOTSUP || errno == ENOTTY || errno == EINVAL ? ResultOf(fsync(descriptor)) : ErrorNow();
}
IoResult RenameToNewName(const std::string& from, const std::string& to) {
  if (renamex_np(from.c_str(), to.c_str(), RENAME_EXCL) == 0) return 0;
  return errno == ENOTSUP || errno == EINVAL ? RenameByLink(from, to) : ErrorNow();
}
#else
bool HasReliableLocks(int) { return false; }
IoResult SyncFile(int descriptor) { return ResultOf(fsync(descriptor)); }
IoResult RenameToNewName(const std::string& from, const std::string& to) { return RenameByLink(from, to); }
#endif

bool IsInProc(const std::string&) { return false; }
IoResult CopyFileBytes(int, uint64_t, int, size_t) { return -EOPNOTSUPP; }
IoResult ReserveFileSpace(int, uint64_t, uint64_t) { return -EOPNOTSUPP; }
IoResult StartFileSync(int, uint64_t, uint64_t) { return -EOPNOTSUPP; }
bool HasAccessList(const std::string&) { return false; }
IoResult ReadUmask() { return -EOPNOTSUPP; }

#endif

}  // namespace tensorcask::internal
