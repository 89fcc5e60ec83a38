// Operations on files that differ between systems, for FileSystem::Posix(). Descriptors are those of open files.
//
// Answers are those of FileSystem: 0 or more, or a negative errno; -EOPNOTSUPP where the system cannot do it.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_SYSTEM_FILES_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_SYSTEM_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::internal {

// The negative errno, with one number for "not supported": macOS has two.
IoResult ErrorNow();
// The result for the answer of a system call, which is negative after an error.
IoResult ResultOf(int64_t answer);

// True if the folder lies in /proc, whose links lead to what a process has open.
bool IsInProc(const std::string& folder);

// True if every process that can open the file also sees its locks, as on the file systems of one machine. (On a
// network, flock may be local to each machine: NFS with nolock or local_lock, many file systems in user space.)
bool HasReliableLocks(int descriptor);

// Copies up to `count` bytes from `offset` of `from` to the position of `to`, which it moves.
IoResult CopyFileBytes(int from, uint64_t offset, int to, size_t count);

// Reserves space for the bytes from `begin` to `end`, which lie past the end of the file, without changing its size.
IoResult ReserveFileSpace(int descriptor, uint64_t begin, uint64_t end);

// Starts to write a range to the disk, and does not wait.
IoResult StartFileSync(int descriptor, uint64_t offset, uint64_t bytes);
// Writes a file or a folder to the disk.
IoResult SyncFile(int descriptor);

// Renames unless `to` exists: -EEXIST.
IoResult RenameToNewName(const std::string& from, const std::string& to);

// Whether an access control list adds to the permission bits of the file.
bool HasAccessList(const std::string& path);

// The umask. umask(2) tells it only by setting another, and a file that another thread makes in that moment would be
// open to all users. So only Linux answers.
IoResult ReadUmask();

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_SYSTEM_FILES_H_
