#include "tensorcask/serialize/checkpoint/internal/make_folder.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/internal/missing_folder.h"
#include "tensorcask/serialize/io/internal/retry.h"

namespace tensorcask::checkpoint {

using internal::RetryInterrupted;

absl::Status MakeFolderFor(const std::string& path, bool sync, FileSystem* files) {
  const std::string folder = FolderOf(path);
  FileInfo info;
  const IoResult found = RetryInterrupted([&] { return files->Describe(folder, &info); });
  if (found >= 0) return absl::OkStatus();  // creating files in it tells whether it is a folder
  if (found != -ENOENT) return IoError(found, path, absl::StrCat("look at the folder ", folder));
  const IoResult made = RetryInterrupted([&] { return files->MakeFolder(folder); });
  if (made == -EEXIST) return absl::OkStatus();  // another process was faster
  if (made < 0) {
    return internal::NameMissingFolder(IoError(made, path, absl::StrCat("make the folder ", folder)), folder, files);
  }
  if (!sync) return absl::OkStatus();
  const std::string parent = FolderOf(folder);
  const IoResult synced = RetryInterrupted([&] { return files->SyncFolder(parent); });
  return synced < 0 ? IoError(synced, path, absl::StrCat("sync the folder ", parent)) : absl::OkStatus();
}

}  // namespace tensorcask::checkpoint
