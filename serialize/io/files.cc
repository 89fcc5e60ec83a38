#include "tensorcask/serialize/io/files.h"

#include <cerrno>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {

using internal::RetryInterrupted;

absl::StatusOr<FileInfo> DescribeFile(const std::string& path, FileSystem* files, absl::string_view action) {
  FileInfo info;
  const IoResult found = RetryInterrupted([&] { return files->Describe(path, &info); });
  if (found >= 0) return info;
  const absl::Status error = IoError(found, path, action, files);
  // Abseil has the same code for a device that is gone, where something is at the path.
  if (found == -ENOENT || !absl::IsNotFound(error)) return error;
  return WithErrorNumber(absl::UnavailableError(error.message()), static_cast<int>(-found));
}

std::optional<FileInfo> DescribeOpenFile(const ByteSource& source) {
  FileSystem* files = nullptr;
  IoResult handle = -1;
  if (!source.GetFile(&files, &handle)) return std::nullopt;
  FileInfo info;
  if (RetryInterrupted([&] { return files->DescribeOpen(handle, &info); }) < 0) return std::nullopt;
  return info;
}

bool IsThere(const std::string& path, FileSystem* files) {
  FileInfo info;
  return RetryInterrupted([&] { return files->Describe(path, &info); }) >= 0;
}

absl::Status CheckNewFile(const std::string& path, FileSystem* files) {
  const IoResult result = RetryInterrupted([&] { return files->CheckNew(path); });
  if (result >= 0) return absl::OkStatus();
  if (result != -EEXIST && result != -EPERM) return IoError(result, path, "create", files);
  return absl::AlreadyExistsError(absl::StrCat(path, ": exists already"));
}

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder, FileSystem* files,
                                                    absl::string_view action) {
  std::vector<std::string> names;
  const IoResult listed = RetryInterrupted([&] { return files->List(folder, &names); });
  if (listed < 0) return IoError(listed, folder, action, files);
  return names;
}

absl::Status RemoveFile(const std::string& path, FileSystem* files, absl::string_view action) {
  const IoResult removed = RetryInterrupted([&] { return files->Remove(path); });
  return removed < 0 && removed != -ENOENT ? IoError(removed, path, action, files) : absl::OkStatus();
}

absl::Status RemoveUnlessFolder(const std::string& path, FileSystem* files, absl::string_view action) {
  const IoResult removed = RetryInterrupted([&] { return files->Remove(path); });
  const bool is_done = removed >= 0 || removed == -ENOENT || removed == -EISDIR;
  return is_done ? absl::OkStatus() : IoError(removed, path, action, files);
}

absl::StatusOr<bool> RemoveUnlockedFile(const std::string& path, FileSystem* files) {
  const IoResult removed = RetryInterrupted([&] { return files->RemoveUnlocked(path); });
  if (removed >= 0 || removed == -ENOENT) return true;
  if (removed == -EWOULDBLOCK) return false;
  return IoError(removed, path, "remove", files);
}

absl::Status MakeFolderFor(const std::string& path, bool sync, FileSystem* files) {
  const std::string folder = FolderOf(path);
  FileInfo info;
  const IoResult found = RetryInterrupted([&] { return files->Describe(folder, &info); });
  if (found >= 0) return absl::OkStatus();  // creating files in it tells whether it is a folder
  if (found != -ENOENT) return IoError(found, path, absl::StrCat("look at the folder ", folder), files);
  const IoResult made = RetryInterrupted([&] { return files->MakeFolder(folder); });
  if (made == -EEXIST) return absl::OkStatus();  // another process was faster
  if (made < 0)
    return NameMissingFolder(IoError(made, path, absl::StrCat("make the folder ", folder), files), folder, files);
  if (!sync) return absl::OkStatus();
  const std::string parent = FolderOf(folder);
  const IoResult synced = RetryInterrupted([&] { return files->SyncFolder(parent); });
  return synced < 0 ? IoError(synced, path, absl::StrCat("sync the folder ", parent), files) : absl::OkStatus();
}

absl::Status SyncFolder(const std::string& folder, FileSystem* files) {
  const IoResult synced = RetryInterrupted([&] { return files->SyncFolder(folder); });
  return synced < 0 ? IoError(synced, folder, "sync the folder", files) : absl::OkStatus();
}

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path, FileSystem* files) {
  const IoResult handle = RetryInterrupted([&] { return files->Lock(path); });
  if (handle == -EWOULDBLOCK) return FileLock();
  if (handle < 0) return IoError(handle, path, "lock", files);
  return FileLock(files, handle);
}

void FileLock::Release() {
  if (files_ != nullptr) files_->Close(handle_);
  files_ = nullptr;
  handle_ = -1;
}

absl::Status NameMissingFolder(const absl::Status& status, const std::string& path, FileSystem* files) {
  if (!absl::IsNotFound(status) || !CheckPath(path).ok()) return status;
  const auto is_missing = [&](const std::string& folder) {
    FileInfo info;
    return RetryInterrupted([&] { return files->Describe(folder, &info); }) == -ENOENT;
  };
  std::string missing;
  for (std::string folder = FolderOf(path); folder != missing && is_missing(folder); folder = FolderOf(folder)) {
    missing = folder;
  }
  if (missing.empty()) return status;
  return AppendToMessage(status, absl::StrCat("; there is no folder ", missing));
}

}  // namespace tensorcask
