#include "tensorcask/serialize/io/internal/missing_folder.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::internal {

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

}  // namespace tensorcask::internal
