#include "tensorcask/serialize/checkpoint/internal/target_check.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {
namespace {

absl::string_view LastName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 is 0

}  // namespace

absl::Status CheckTarget(const std::string& target, absl::Span<const std::string> sources, absl::string_view what,
                         bool overwrite, FileSystem* file_system) {
  CASK_RETURN_IF_ERROR(CheckNoDevice(target, file_system));
  Publication probe({file_system, /*sync=*/false, overwrite, /*random_names=*/true});
  CASK_ASSIGN_OR_RETURN(const FileSink* sink, probe.Add(IndexPath(target)));
  const std::string probe_path = sink->path();
  for (const std::string& source : sources) {
    if (LastName(source) != LastName(target)) continue;
    const std::string path = absl::StrCat(FolderOf(source), "/", LastName(probe_path));
    // On a file system that hides temporary files (FileSystem::CreateToPublish), only the path tells.
    if (source == target || IsThere(path, file_system))
      return absl::InvalidArgumentError(absl::StrCat(target, ": is ", what, ", ", source));
  }
  // A file that cannot be removed is an error: no save works in such a folder.
  probe.Abandon();
  return RemoveFile(probe_path, file_system);
}

absl::Status CheckNotBase(const std::string& target, const BaseLookup* base, bool overwrite, FileSystem* file_system) {
  if (base == nullptr || !overwrite) return absl::OkStatus();
  const std::optional<BaseLookup::Location> location = base->base_location();
  if (!location.has_value() || location->file_system != file_system) return absl::OkStatus();
  return CheckTarget(target, {location->prefix}, "the base of what is to be saved", overwrite, file_system);
}

std::string BaseBeside(const std::string& temporary, const BaseLookup* base, FileSystem* file_system) {
  if (base == nullptr) return "";
  const std::optional<BaseLookup::Location> location = base->base_location();
  if (!location.has_value()) return "";
  FileSystem* const files = location->file_system;
  const bool is_same_folder = files == file_system && FolderOf(location->prefix) == FolderOf(temporary);
  const bool is_beside = (is_same_folder || IsThere(PrefixBeside(location->prefix, LastName(temporary)), files)) &&
                         IsThere(IndexPath(location->prefix), files);  // a V1 checkpoint has none
  return is_beside ? std::string(LastName(location->prefix)) : "";
}

absl::Status CheckNoDevice(const std::string& prefix, FileSystem* file_system) {
  const absl::StatusOr<FileInfo> info = DescribeFile(prefix, file_system);
  if (!info.ok() || info->type != FileInfo::Type::kOther) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(prefix, ": is a device, pipe or socket; wanted the prefix of a checkpoint's files"));
}

}  // namespace tensorcask::checkpoint
