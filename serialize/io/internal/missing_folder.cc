#include "tensorcask/serialize/io/internal/missing_folder.h"

#include <cerrno>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/internal/retry.h"

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
  absl::Status named = absl::NotFoundError(absl::StrCat(status.message(), "; there is no folder ", missing));
  status.ForEachPayload([&](absl::string_view key, const absl::Cord& payload) { named.SetPayload(key, payload); });
  return named;
}

}  // namespace tensorcask::internal
