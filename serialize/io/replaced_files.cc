#include "tensorcask/serialize/io/replaced_files.h"

#include <cerrno>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

FileInfo InfoAt(const std::string& path, FileSystem* files) {
  return path.empty() ? FileInfo() : DescribeFile(path, files).value_or(FileInfo());
}

}  // namespace

absl::StatusOr<bool> HasFileAt(const std::string& path, FileSystem* file_system) {
  FileInfo info;
  const IoResult found = internal::RetryInterrupted([&] { return file_system->Describe(path, &info); });
  if (found == -ENOENT || found == -ENOTDIR) return false;
  if (found < 0) return IoError(found, path, "look for an existing file", file_system);
  return info.type == FileInfo::Type::kRegular;
}

absl::StatusOr<ReplacedFiles> ReplacedFileAt(const std::string& path, FileSystem* file_system) {
  CASK_ASSIGN_OR_RETURN(const bool exists, HasFileAt(path, file_system));
  ReplacedFiles replaced;
  if (exists) replaced.path = path;
  return replaced;
}

bool IsUnchanged(const FileInfo& before, const FileInfo& now) {
  const bool is_same_file = before.id.is_known() ? before.id.Is(now.id) : !now.id.is_known();
  return is_same_file && before.size_bytes == now.size_bytes &&
         before.modified_unix_seconds == now.modified_unix_seconds;
}

absl::Status CheckSourcesStay(const ReplacedFiles& replaced, absl::Span<const std::vector<std::string>> sources,
                              FileSystem* file_system) {
  using Key = std::pair<uint64_t, uint64_t>;
  std::set<Key> lost;
  const auto note = [&](const std::string& path) {
    const FileId id = InfoAt(path, file_system).id;
    if (id.is_known()) lost.emplace(id.device, id.number);
  };
  note(replaced.path);
  for (const std::string& path : replaced.removed) note(path);
  for (const std::string& path : replaced.beside) note(path);
  if (lost.empty()) return absl::OkStatus();
  const FileId replaced_id = InfoAt(replaced.path, file_system).id;
  for (const std::vector<std::string>& files : sources) {
    if (files.empty() || replaced_id.Is(InfoAt(files[0], file_system).id)) continue;
    for (const std::string& path : files) {
      const FileId id = InfoAt(path, file_system).id;
      if (!id.is_known() || lost.count({id.device, id.number}) == 0) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          path,
          ": this call reads it, and it is a part of the archive that the call would replace, or another form of "
          "it; write to another folder or name"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorcask
