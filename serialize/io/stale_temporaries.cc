#include "tensorcask/serialize/io/stale_temporaries.h"

#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/io/internal/path_limits.h"
#include "tensorcask/serialize/io/internal/retry.h"

namespace tensorcask {
namespace {

using internal::RetryInterrupted;

constexpr absl::string_view kMark = ".tmp-";
constexpr size_t kDigits = 16;

}  // namespace

std::optional<absl::string_view> FinalNameOfTemporary(absl::string_view name) {
  if (name.size() < kMark.size() + kDigits) return std::nullopt;
  absl::string_view suffix = name.substr(name.size() - kMark.size() - kDigits);
  if (!absl::ConsumePrefix(&suffix, kMark)) return std::nullopt;
  for (const char c : suffix) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c)) && (c < 'a' || c > 'f')) return std::nullopt;
  }
  return name.substr(0, name.size() - kMark.size() - kDigits);
}

bool MayBeCut(absl::string_view final_name) {
  constexpr size_t kMaxPartOfCharacter = 3;  // what may be left of a character of UTF-8, which is not cut
  return final_name.size() + kMark.size() + kDigits + kMaxPartOfCharacter >= internal::kMaxNameBytes;
}

std::string TemporaryFile::path() const { return absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", name); }

absl::StatusOr<std::vector<TemporaryFile>> ListTemporaries(const std::string& folder, FileSystem* file_system) {
  std::vector<std::string> names;
  const IoResult listed = RetryInterrupted([&] { return file_system->List(folder, &names); });
  if (listed < 0) return IoError(listed, folder, "list the folder", file_system);
  std::vector<TemporaryFile> found;
  for (const std::string& name : names) {
    if (!FinalNameOfTemporary(name).has_value()) continue;
    TemporaryFile file;
    file.name = name;
    file.folder = folder;
    const std::string path = file.path();
    const IoResult probed = RetryInterrupted([&] { return file_system->ProbeUnlocked(path, &file.info); });
    if (probed == -ENOENT) continue;  // removed or renamed meanwhile
    file.state = probed >= 0              ? TemporaryFile::State::kStale
                 : probed == -EWOULDBLOCK ? TemporaryFile::State::kInUse
                 : probed == -EINVAL      ? TemporaryFile::State::kOther
                                          : TemporaryFile::State::kUnknown;
    found.push_back(std::move(file));
  }
  return found;
}

absl::Status RemoveTemporary(const TemporaryFile& file, FileSystem* file_system) {
  const std::string path = file.path();
  const IoResult removed = RetryInterrupted([&] { return file_system->RemoveUnlocked(path); });
  if (removed >= 0 || removed == -ENOENT) return absl::OkStatus();
  if (removed == -EWOULDBLOCK) return absl::FailedPreconditionError(absl::StrCat(path, ": a process uses it"));
  if (removed == -EOPNOTSUPP) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": this file system cannot tell whether a process uses it"));
  }
  if (removed == -EINVAL) return absl::FailedPreconditionError(absl::StrCat(path, ": is not a regular file"));
  return IoError(removed, path, "remove", file_system);
}

absl::StatusOr<RemovedTemporaries> RemoveStaleTemporaries(const std::string& folder,
                                                          absl::FunctionRef<bool(absl::string_view)> wanted,
                                                          FileSystem* file_system) {
  std::vector<std::string> names;
  const IoResult listed = RetryInterrupted([&] { return file_system->List(folder, &names); });
  if (listed < 0) return IoError(listed, folder, "list the folder", file_system);
  RemovedTemporaries removed;
  for (const std::string& name : names) {
    const std::optional<absl::string_view> final_name = FinalNameOfTemporary(name);
    if (!final_name.has_value() || !wanted(*final_name)) continue;
    const std::string path = absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", name);
    FileInfo info;
    const IoResult described = RetryInterrupted([&] { return file_system->Describe(path, &info); });
    if (RetryInterrupted([&] { return file_system->RemoveUnlocked(path); }) < 0) {
      ++removed.left;
      continue;
    }
    ++removed.files;
    if (described >= 0) removed.bytes += info.size_bytes;
  }
  return removed;
}

}  // namespace tensorcask
