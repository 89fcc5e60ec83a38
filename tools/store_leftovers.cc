#include "tensorcask/tools/store_leftovers.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/unlisted_data.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {
namespace {

// Adds the data files without an index. A store lists names without their ages, so these few are asked for one by one.
absl::Status AddDataFiles(const std::string& folder, std::vector<StoreLeftover>* found) {
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder, ToolFiles()));
  for (const std::string& name : checkpoint::DataWithoutIndex(names)) {
    StoreLeftover leftover;
    leftover.path = absl::StrCat(folder, name);
    const absl::StatusOr<FileInfo> info = DescribeFile(leftover.path, ToolFiles());
    if (absl::IsNotFound(info.status())) continue;  // it was removed meanwhile, or is a folder of that name
    CASK_RETURN_IF_ERROR(info.status());
    leftover.file = *info;
    const bool is_known = info->modified_unix_seconds != 0;
    leftover.since = is_known ? absl::FromUnixSeconds(info->modified_unix_seconds) : absl::InfiniteFuture();
    found->push_back(std::move(leftover));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<StoreLeftover>> FindStoreLeftovers(const std::string& folder) {
  const std::string with_slash = absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/");
  CASK_ASSIGN_OR_RETURN(const std::vector<UnfinishedUpload> uploads, ToolStore()->ListUploads(with_slash));
  std::vector<StoreLeftover> found;
  for (const UnfinishedUpload& upload : uploads) {
    if (absl::StrContains(absl::string_view(upload.path).substr(with_slash.size()), '/')) continue;  // further down
    StoreLeftover leftover;
    leftover.path = upload.path;
    leftover.upload_id = upload.upload_id;
    leftover.since = upload.started == absl::UnixEpoch() ? absl::InfiniteFuture() : upload.started;
    found.push_back(std::move(leftover));
  }
  const absl::Status added = AddDataFiles(with_slash, &found);
  if (!added.ok() && !absl::IsNotFound(added)) return added;  // a folder that has only uploads does not exist yet
  std::sort(found.begin(), found.end(), [](const StoreLeftover& a, const StoreLeftover& b) {
    return std::tie(a.path, a.upload_id) < std::tie(b.path, b.upload_id);
  });
  return found;
}

absl::Status RemoveStoreLeftover(const StoreLeftover& leftover) {
  if (!leftover.upload_id.empty()) {
    return ToolStore()->RemoveUpload({leftover.path, leftover.upload_id, leftover.since});
  }
  const std::string index = checkpoint::IndexPathOfData(leftover.path);
  const absl::StatusOr<FileInfo> info = DescribeFile(index, ToolFiles());
  if (info.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(leftover.path, ": was not removed, because its index exists now: ", index));
  }
  if (!absl::IsNotFound(info.status())) return info.status();
  CASK_ASSIGN_OR_RETURN(const FileInfo now, DescribeFile(leftover.path, ToolFiles()));
  if (!IsUnchanged(leftover.file, now)) {
    return absl::FailedPreconditionError(absl::StrCat(leftover.path, ": was not removed, because it was saved again"));
  }
  return RemoveFile(leftover.path, ToolFiles(), "remove");
}

}  // namespace tensorcask::tools
