// FileSystem::Posix(): the system calls of POSIX, and flock(2), one for one. system_files.h has those that differ
// between systems.

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "absl/functional/function_ref.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/internal/open_beneath.h"
#include "tensorcask/serialize/io/internal/system_files.h"
#include "tensorcask/serialize/io/internal/write_size.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask {
namespace {

using internal::ErrorNow;
using internal::ResultOf;

// Linux moves at most 0x7ffff000 bytes in one call (man 2 write, NOTES).
constexpr size_t kMaxTransferBytes = 0x7ffff000;
// A copy inside the system cannot be interrupted by a signal before it ends.
constexpr size_t kMaxCopyBytes = size_t{64} << 20;

// A path with a NUL byte would name another file, the one before the NUL.
bool HasNul(const std::string& path) { return path.find('\0') != std::string::npos; }

// The handle of a lock has the id of the process that acquired it in its upper half.
IoResult LockHandle(int descriptor) { return (IoResult{getpid()} << 32) | descriptor; }
bool IsOwnLock(IoResult handle) { return handle >> 32 == getpid(); }

int Descriptor(IoResult handle) { return static_cast<int>(handle); }

// Whether the process may write files of limited size only. Writing at the limit raises SIGXFSZ, which ends the
// process, so the library never writes there.
bool HasSizeLimit(rlim_t* limit_bytes) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  *limit_bytes = limit.rlim_cur;
  return true;
}

// Calls write(count), which writes at most so many bytes and answers like write(2).
IoResult WriteTimed(size_t count, absl::FunctionRef<ssize_t(size_t count)> write) {
  if (count < internal::WriteSize::kSmallBytes) return ResultOf(write(count));
  thread_local internal::WriteSize size;
  const auto start = std::chrono::steady_clock::now();
  const IoResult written = ResultOf(write(size.Of(count)));
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  if (written > 0) size.Took(static_cast<size_t>(written), static_cast<uint64_t>(took.count()));
  return written;
}

FileInfo InfoOf(const struct stat& found) {
  FileInfo info;
  info.type = S_ISREG(found.st_mode)   ? FileInfo::Type::kRegular
              : S_ISDIR(found.st_mode) ? FileInfo::Type::kFolder
                                       : FileInfo::Type::kOther;
  info.size_bytes = S_ISREG(found.st_mode) ? static_cast<uint64_t>(found.st_size) : 0;
  info.modified_unix_seconds = found.st_mtime;
  info.num_names = static_cast<uint64_t>(found.st_nlink);
  info.id = {static_cast<uint64_t>(found.st_dev), static_cast<uint64_t>(found.st_ino)};
  return info;
}

// The file is ours, so "not permitted" comes from a file system that keeps no permissions (FAT).
IoResult SetMode(IoResult handle, mode_t mode) {
  if (fchmod(static_cast<int>(handle), mode) == 0) return 0;
  return errno == EPERM || errno == ENOSYS ? -EOPNOTSUPP : ErrorNow();
}

class PosixFileSystem final : public FileSystem {
 public:
  IoResult OpenToRead(const std::string& path) override {
    if (HasNul(path)) return -EINVAL;
    return internal::RegularFile(open(path.c_str(), internal::kOpenToRead));
  }

  IoResult CreateNew(const std::string& path) override {
    if (HasNul(path)) return -EINVAL;
    ScopedDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600));
    if (file.get() < 0) return ErrorNow();
    // Between the two calls, RemoveUnlocked of another process may lock the file and remove it: then it is as if the
    // name had been taken. Without locks (an answer other than EWOULDBLOCK) there is no RemoveUnlocked either.
    if (flock(file.get(), LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK ? -EEXIST : file.Release();
    struct stat info;
    if (fstat(file.get(), &info) == 0 && info.st_nlink == 0) return -EEXIST;
    return file.Release();
  }

  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    if (offset > INT64_MAX) return -EINVAL;
    return ResultOf(
        pread(Descriptor(handle), out.data(), std::min(out.size(), kMaxTransferBytes), static_cast<off_t>(offset)));
  }

  IoResult Append(IoResult handle, absl::string_view bytes) override {
    size_t count = std::min(bytes.size(), kMaxTransferBytes);
    rlim_t limit = RLIM_INFINITY;
    if (HasSizeLimit(&limit) && count > 0) {
      const off_t position = lseek(Descriptor(handle), 0, SEEK_CUR);
      if (position < 0) return ErrorNow();
      if (static_cast<rlim_t>(position) >= limit) return -EFBIG;
      count = std::min<size_t>(count, limit - static_cast<rlim_t>(position));
    }
    return WriteTimed(count, [&](size_t part) { return write(Descriptor(handle), bytes.data(), part); });
  }

  IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) override {
    if (offset > INT64_MAX) return -EFBIG;
    size_t count = std::min(bytes.size(), kMaxTransferBytes);
    rlim_t limit = RLIM_INFINITY;
    if (HasSizeLimit(&limit) && count > 0) {
      if (offset >= limit) return -EFBIG;
      count = std::min<size_t>(count, limit - offset);
    }
    const auto at = static_cast<off_t>(offset);
    return WriteTimed(count, [&](size_t part) { return pwrite(Descriptor(handle), bytes.data(), part, at); });
  }

  IoResult CopyRange(IoResult from, uint64_t offset, IoResult to, uint64_t bytes) override {
    if (offset > INT64_MAX) return -EINVAL;
    auto count = static_cast<size_t>(std::min<uint64_t>(bytes, kMaxCopyBytes));
    rlim_t limit = RLIM_INFINITY;
    if (HasSizeLimit(&limit) && count > 0) {
      const off_t position = lseek(Descriptor(to), 0, SEEK_CUR);
      if (position < 0) return ErrorNow();
      if (static_cast<rlim_t>(position) >= limit) return -EFBIG;
      count = std::min<size_t>(count, limit - static_cast<rlim_t>(position));
    }
    return internal::CopyFileBytes(Descriptor(from), offset, Descriptor(to), count);
  }

  IoResult Reserve(IoResult handle, uint64_t size_bytes) override {
    if (size_bytes > INT64_MAX) return -EFBIG;
    struct stat info;
    if (fstat(Descriptor(handle), &info) != 0) return ErrorNow();
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size_bytes > size) return internal::ReserveFileSpace(Descriptor(handle), size, size_bytes);
    // Truncating to the size it has frees the blocks past the end.
    return ResultOf(ftruncate(Descriptor(handle), info.st_size));
  }

  IoResult StartSync(IoResult handle, uint64_t offset, uint64_t bytes) override {
    if (offset > INT64_MAX || bytes > INT64_MAX - offset) return -EINVAL;
    return internal::StartFileSync(Descriptor(handle), offset, bytes);
  }

  IoResult SizeOf(IoResult handle) override {
    struct stat info;
    if (fstat(Descriptor(handle), &info) != 0) return ErrorNow();
    return info.st_size;
  }

  IoResult DescribeOpen(IoResult handle, FileInfo* info) override {
    struct stat found;
    if (fstat(Descriptor(handle), &found) != 0) return ErrorNow();
    *info = InfoOf(found);
    return 0;
  }

  IoResult CheckNew(const std::string& path) override {
    if (HasNul(path)) return -EINVAL;
    struct stat found;
    if (lstat(path.c_str(), &found) == 0) return LeadsIntoProc(path) ? -EPERM : -EEXIST;
    if (errno != ENOENT) return ErrorNow();
    return ResultOf(faccessat(AT_FDCWD, FolderOf(path).c_str(), W_OK | X_OK, AT_EACCESS));
  }

  // Not fdatasync: the permissions are to last as well.
  IoResult Sync(IoResult handle) override { return internal::SyncFile(Descriptor(handle)); }

  IoResult SetPublic(IoResult handle) override {
    const IoResult mask = internal::ReadUmask();
    if (mask < 0) return mask;
    return SetMode(handle, 0666 & ~static_cast<mode_t>(mask));
  }

  IoResult SetPermissions(IoResult handle, const FilePermissions& permissions) override {
    struct stat info;
    if (fstat(Descriptor(handle), &info) != 0) return ErrorNow();
    if (info.st_uid != permissions.user) return -EOPNOTSUPP;
    constexpr auto kSame = static_cast<uid_t>(-1);
    const bool same_group =
        info.st_gid == permissions.group || fchown(Descriptor(handle), kSame, permissions.group) == 0;
    return SetMode(handle, permissions.mode & (same_group ? 0777 : 0707));
  }

  IoResult Close(IoResult handle) override {
    // Unlocks explicitly, because a child forked meanwhile has a descriptor of the same lock, so closing ours would not
    // release it. The child's own Close leaves the lock to the parent.
    if (IsOwnLock(handle)) flock(Descriptor(handle), LOCK_UN);
    return ResultOf(close(Descriptor(handle)));
  }

  // No MAP_POPULATE and no advice. Measured on ext4, Linux 6.18, 256 MiB in the page cache, mapped and checksummed:
  // plain 23.7 ms (0.60 of read() into warm memory), MAP_POPULATE 25.9, MADV_POPULATE_READ by 1 MiB 31.4,
  // MADV_SEQUENTIAL, MADV_HUGEPAGE and MAP_SHARED as plain. For files written in pieces of 4 KiB and of 256 KiB, on
  // ext4 and tmpfs, on an AMD EPYC: MAP_POPULATE and MADV_POPULATE_READ by 1, 4 or 16 MiB took 0.9 to 1.5 of the plain
  // time.
  IoResult Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) override {
    if (offset > INT64_MAX) return -EINVAL;
    void* memory = mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, Descriptor(handle), static_cast<off_t>(offset));
    if (memory == MAP_FAILED) return ErrorNow();
    *data = static_cast<const char*>(memory);
    return 0;
  }

  IoResult Unmap(const char* data, size_t size_bytes) override {
    return ResultOf(munmap(const_cast<char*>(data), size_bytes));
  }

  IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) override {
    if (HasNul(from) || HasNul(to)) return -EINVAL;
    if (on_existing == OnExisting::kReplace) return ResultOf(rename(from.c_str(), to.c_str()));
    return internal::RenameToNewName(from, to);
  }

  IoResult Link(const std::string& from, const std::string& to) override {
    if (HasNul(from) || HasNul(to)) return -EINVAL;
    // Links what a symbolic link leads to, which is also what a read gets.
    if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0) return 0;
    // EPERM: a file system without links, a folder, or another user's file (fs.protected_hardlinks).
    if (errno == EPERM || errno == ENOSYS || errno == EMLINK || errno == EXDEV) return -EOPNOTSUPP;
    return ErrorNow();
  }

  // flock(2), not fcntl(2): its locks belong to the open file, so that two handles of one process exclude each other.
  IoResult Lock(const std::string& path) override {
    if (HasNul(path)) return -EINVAL;
    ScopedDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666));
    if (file.get() < 0) return errno == ENXIO ? -EINVAL : ErrorNow();
    struct stat info;
    if (fstat(file.get(), &info) != 0) return ErrorNow();
    if (!S_ISREG(info.st_mode)) return -EINVAL;
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return ErrorNow();
    return LockHandle(file.Release());
  }

  IoResult LockShared(const std::string& path) override {
    if (HasNul(path)) return -EINVAL;
    ScopedDescriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (file.get() < 0) return errno == ENXIO ? -EINVAL : ErrorNow();
    if (flock(file.get(), LOCK_SH | LOCK_NB) != 0) {
      return errno == EWOULDBLOCK ? -EWOULDBLOCK : -EOPNOTSUPP;
    }
    return LockHandle(file.Release());
  }

  IoResult RemoveUnlocked(const std::string& path) override {
    FileInfo info;
    ScopedDescriptor lock(-1);
    const IoResult locked = LockUnused(path, &info, &lock);
    return locked < 0 ? locked : ResultOf(unlink(path.c_str()));
  }

  IoResult ProbeUnlocked(const std::string& path, FileInfo* info) override {
    ScopedDescriptor lock(-1);
    return LockUnused(path, info, &lock);
  }

  IoResult Remove(const std::string& path) override {
    if (HasNul(path)) return -EINVAL;
    return ResultOf(unlink(path.c_str()));
  }

  IoResult MakeFolder(const std::string& path) override {
    if (HasNul(path)) return -EINVAL;
    return ResultOf(mkdir(path.c_str(), 0777));
  }

  IoResult SyncFolder(const std::string& path) override {
    if (HasNul(path)) return -EINVAL;
    const ScopedDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0) return ErrorNow();
    const IoResult synced = internal::SyncFile(folder.get());
    return synced == -EINVAL ? 0 : synced;  // EINVAL: this file system has nothing to sync in a folder
  }

  IoResult PermissionsOf(const std::string& path, FilePermissions* permissions) override {
    if (HasNul(path)) return -EINVAL;
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) return ErrorNow();
    if (!S_ISREG(info.st_mode)) return -ENOENT;
    // With an access control list the bits of the group say what other users may have.
    const bool has_list = internal::HasAccessList(path);
    *permissions = {info.st_mode & (has_list ? 0707u : 0777u), info.st_uid, info.st_gid};
    return 0;
  }

  IoResult Describe(const std::string& path, FileInfo* info) override {
    if (HasNul(path)) return -EINVAL;
    struct stat found;
    if (stat(path.c_str(), &found) != 0) return ErrorNow();
    *info = InfoOf(found);
    return 0;
  }

  IoResult List(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    if (HasNul(path)) return -EINVAL;
    ScopedDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0) return ErrorNow();
    DIR* stream = fdopendir(folder.get());
    if (stream == nullptr) return ErrorNow();
    folder.Release();  // the stream owns it now
    int error = 0;
    for (;;) {
      errno = 0;  // readdir returns null both at the end and on an error
      const dirent* entry = readdir(stream);
      if (entry == nullptr) {
        error = errno;
        break;
      }
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names->emplace_back(name);
    }
    closedir(stream);
    if (error != 0) {
      names->clear();
      return -static_cast<IoResult>(error);
    }
    std::sort(names->begin(), names->end());
    return 0;
  }

  IoResult OpenFolderOf(const std::string& path, bool resolved) override {
    if (HasNul(path)) return -EINVAL;
    return internal::OpenFolderOf(path, resolved);
  }

  IoResult OpenBeneath(IoResult folder, const std::string& name, absl::Span<const IoResult> targets) override {
    if (HasNul(name)) return -EINVAL;
    return internal::OpenBeneath(Descriptor(folder), name, targets);
  }

 private:
  // True for links such as /dev/stdout, which lead to what a process has open.
  static bool LeadsIntoProc(std::string path) {
    constexpr int kMaxLinks = 40;
    for (int i = 0; i < kMaxLinks; ++i) {
      char target[PATH_MAX];
      const ssize_t bytes = readlink(path.c_str(), target, sizeof(target));
      if (bytes < 0) return false;
      if (internal::IsInProc(FolderOf(path))) return true;
      const std::string to(target, static_cast<size_t>(bytes));
      path = !to.empty() && to[0] == '/' ? to : FolderOf(path) + "/" + to;
    }
    return false;
  }

  // Locks the regular file at `path` exclusively: 0, and *lock holds the lock; -EWOULDBLOCK if a handle of any process
  // has a lock of it; -EOPNOTSUPP and -EINVAL as RemoveUnlocked.
  static IoResult LockUnused(const std::string& path, FileInfo* info, ScopedDescriptor* lock) {
    if (HasNul(path)) return -EINVAL;
    struct stat named;
    if (lstat(path.c_str(), &named) != 0) return ErrorNow();
    *info = InfoOf(named);
    if (!S_ISREG(named.st_mode)) return -EINVAL;
    *lock = ScopedDescriptor(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (lock->get() < 0) return ErrorNow();
    if (!internal::HasReliableLocks(lock->get())) return -EOPNOTSUPP;
    if (flock(lock->get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? -EWOULDBLOCK : -EOPNOTSUPP;
    // While this lock is held, no other process removes the file by RemoveUnlocked; so if the name is still that of the
    // file that was locked, it stays so.
    struct stat locked;
    if (fstat(lock->get(), &locked) != 0 || lstat(path.c_str(), &named) != 0) return ErrorNow();
    return named.st_dev == locked.st_dev && named.st_ino == locked.st_ino ? 0 : -EWOULDBLOCK;
  }
};

}  // namespace

FileSystem* FileSystem::Posix() {
  static PosixFileSystem* const files = new PosixFileSystem;
  return files;
}

}  // namespace tensorcask
