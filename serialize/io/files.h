// Names of files and folders: what is there, what a folder has, removal, locks. What FileSystem says with an errno,
// these functions say with a Status that names the path, and they repeat calls that a signal interrupted.
//
//   CASK_ASSIGN_OR_RETURN(const FileInfo file, DescribeFile(path, files));   // NotFound if nothing is there
//
// Errors of all functions: "PATH: cannot ACTION: ...", with the code and the error number of the system (IoError).

#ifndef TENSORCASK_SERIALIZE_IO_FILES_H_
#define TENSORCASK_SERIALIZE_IO_FILES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

class ByteSource;

// What is at `path`, or what a link there leads to. Errors: NotFound if nothing is there.
absl::StatusOr<FileInfo> DescribeFile(const std::string& path, FileSystem* files,
                                      absl::string_view action = "look at the file");
// The open file that has the bytes of `source`; empty if there is none, or its system does not tell.
std::optional<FileInfo> DescribeOpenFile(const ByteSource& source);
// True if something is at `path`. False also if the system does not tell.
bool IsThere(const std::string& path, FileSystem* files);

// OK if a file of this name can be made, as far as that can be told without making it. Errors: AlreadyExists if there
// is anything of that name, or a link that leads to what a process has open, such as /dev/stdout.
absl::Status CheckNewFile(const std::string& path, FileSystem* files);

// The names in the folder, sorted, without . and ..
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder, FileSystem* files,
                                                    absl::string_view action = "list the folder");

// OK if there is no such file, now or before. Errors: FailedPrecondition for a folder.
absl::Status RemoveFile(const std::string& path, FileSystem* files, absl::string_view action = "remove");
// The same, but a folder stays, which is not an error.
absl::Status RemoveUnlessFolder(const std::string& path, FileSystem* files, absl::string_view action = "remove");
// Removes the file unless a process holds a lock of it: then the result is false. Errors: also where the file system
// cannot tell (FileSystem::RemoveUnlocked).
absl::StatusOr<bool> RemoveUnlockedFile(const std::string& path, FileSystem* files);

// Makes the folder of the file `path` if it is missing, but not the folder of that one. With `sync`, the name of the
// folder is durable.
absl::Status MakeFolderFor(const std::string& path, bool sync, FileSystem* files);
// The names in the folder are durable afterwards.
absl::Status SyncFolder(const std::string& folder, FileSystem* files);

// The lock of a file, until it is destroyed.
class FileLock {
 public:
  // Makes the file if it is missing. Holds nothing while another FileLock, of any process, holds the lock. Errors: also
  // of file systems without locks.
  static absl::StatusOr<FileLock> Acquire(const std::string& path, FileSystem* files);

  FileLock() = default;  // holds nothing
  ~FileLock() { Release(); }
  FileLock(FileLock&& other) noexcept
      : files_(std::exchange(other.files_, nullptr)), handle_(std::exchange(other.handle_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(files_, other.files_);
    std::swap(handle_, other.handle_);
    return *this;
  }

  bool is_held() const { return files_ != nullptr; }
  void Release();

 private:
  FileLock(FileSystem* files, IoResult handle) : files_(files), handle_(handle) {}

  FileSystem* files_ = nullptr;
  IoResult handle_ = -1;
};

// `status`, which an operation on the file or folder `path` returned. If it is NotFound because the folder that `path`
// is in does not exist, its message gets the outermost folder that is missing: "; there is no folder models".
absl::Status NameMissingFolder(const absl::Status& status, const std::string& path, FileSystem* files);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_FILES_H_
