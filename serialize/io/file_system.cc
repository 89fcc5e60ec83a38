#include "tensorcask/serialize/io/file_system.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "tensorcask/serialize/io/internal/path_limits.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr char kErrorNumberKey[] = "tensorcask/errno";

}  // namespace

using internal::kMaxNameBytes;
using internal::kMaxPathBytes;
using internal::RetryInterrupted;

uint64_t ReadShape::PieceBytesOf(uint64_t total_bytes) const {
  const uint64_t longest = std::max(longest_bytes, piece_bytes);
  const uint64_t round = longest * static_cast<uint64_t>(in_flight);
  const uint64_t rounds = std::max<uint64_t>(1, (total_bytes + round - 1) / round);
  const uint64_t pieces = rounds * static_cast<uint64_t>(in_flight);
  return std::clamp((total_bytes + pieces - 1) / pieces, piece_bytes, longest);
}

IoResult FileSystem::CheckNew(const std::string& path) {
  FileInfo info;
  return Describe(path, &info) >= 0 ? -EEXIST : 0;
}
IoResult FileSystem::CreateToPublish(const std::string& path, const std::string&) { return CreateNew(path); }
IoResult FileSystem::ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) {
  IoResult error = 0;
  uint64_t error_offset = 0;
  for (const ReadRange& range : ranges) {
    if (error < 0 && range.offset >= error_offset) continue;
    for (size_t done = 0; done < range.out.size();) {
      const IoResult got =
          RetryInterrupted([&] { return ReadAt(handle, range.offset + done, range.out.subspan(done)); });
      if (got <= 0) {
        error = got == 0 ? -ENODATA : got;
        error_offset = range.offset;
        break;
      }
      done += static_cast<size_t>(got);
    }
  }
  return error;
}
IoResult FileSystem::OpenToReadSoon(const std::string& path) { return OpenToRead(path); }
IoResult FileSystem::ReadPieceSoon(IoResult handle, absl::Span<ReadRange> ranges,
                                   absl::FunctionRef<bool()> find_memory) {
  return find_memory() ? ReadPieceAt(handle, ranges) : -ECANCELED;
}
IoResult FileSystem::ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) {
  return ReadManyAt(handle, ranges);
}
IoResult FileSystem::DescribeOpen(IoResult, FileInfo*) { return -EOPNOTSUPP; }
IoResult FileSystem::WriteAt(IoResult, uint64_t, absl::string_view) { return -EOPNOTSUPP; }
IoResult FileSystem::LockShared(const std::string&) { return -EOPNOTSUPP; }
IoResult FileSystem::SetPermissions(IoResult, const FilePermissions&) { return -EOPNOTSUPP; }
IoResult FileSystem::PermissionsOf(const std::string&, FilePermissions*) { return -EOPNOTSUPP; }
IoResult FileSystem::CopyRange(IoResult, uint64_t, IoResult, uint64_t) { return -EOPNOTSUPP; }
IoResult FileSystem::StartSync(IoResult, uint64_t, uint64_t) { return -EOPNOTSUPP; }
IoResult FileSystem::OpenFolderOf(const std::string&, bool) { return -EOPNOTSUPP; }
IoResult FileSystem::OpenBeneath(IoResult, const std::string&, absl::Span<const IoResult>) { return -EOPNOTSUPP; }
IoResult FileSystem::RenameOver(const std::string&, const std::string&, IoResult) { return -EOPNOTSUPP; }
IoResult FileSystem::RemoveUnlocked(const std::string&) { return -EOPNOTSUPP; }
IoResult FileSystem::ProbeUnlocked(const std::string& path, FileInfo* info) {
  const IoResult described = Describe(path, info);
  return described < 0 ? described : -EOPNOTSUPP;
}

namespace {

// A URL without its query, which may be a signature that lets everybody read the file.
absl::string_view WithoutQuery(absl::string_view path) {
  const absl::string_view scheme = SchemeOf(path);
  return scheme == "http" || scheme == "https" ? path.substr(0, path.find('?')) : path;
}

}  // namespace

absl::Status IoError(IoResult result, absl::string_view path, absl::string_view action, const FileSystem* files) {
  const std::string detail = files != nullptr ? files->LastDetail() : "";
  const auto error = static_cast<int>(-result);
  absl::Status status = absl::ErrnoToStatus(error, absl::StrCat(WithoutQuery(path), ": cannot ", action));
  if (error == EFBIG) status = absl::ResourceExhaustedError(status.message());  // Abseil: OutOfRange
  if (!detail.empty()) status = AppendToMessage(status, absl::StrCat(" (", detail, ")"));
  status = WithErrorNumber(std::move(status), error);
  const bool is_of_process = error == EMFILE || error == ENFILE || error == ENOMEM;
  // Of an answer, or a block of a disk, that is not what it should be. Abseil: Unknown.
  if (error == EBADMSG) status = WithErrorNumber(absl::DataLossError(status.message()), error);
  return is_of_process ? MarkResourceFailure(std::move(status)) : status;
}

int ErrorNumberOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kErrorNumberKey);
  int error = 0;
  return payload.has_value() && absl::SimpleAtoi(std::string(*payload), &error) ? error : 0;
}

absl::Status WithErrorNumber(absl::Status status, int error) {
  status.SetPayload(kErrorNumberKey, absl::Cord(absl::StrCat(error)));
  return status;
}

absl::string_view SchemeOf(absl::string_view path) {
  const size_t end = path.find("://");
  if (end == absl::string_view::npos || end == 0 || !absl::ascii_isalpha(static_cast<unsigned char>(path[0])))
    return "";
  for (const char c : path.substr(0, end)) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '+' && c != '-' && c != '.') return "";
  }
  return path.substr(0, end);
}

std::string FolderOf(absl::string_view path) {
  path = WithoutQuery(path);
  const absl::string_view scheme = SchemeOf(path);
  const size_t start = scheme.empty() ? 0 : scheme.size() + 3;
  const size_t slash = path.rfind('/');
  if (start > 0 && (slash < start || slash == absl::string_view::npos)) return std::string(path);
  if (slash == absl::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

absl::Status CheckPath(absl::string_view path) {
  if (path.empty()) return absl::InvalidArgumentError("the path \"\" is empty");
  if (path.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("the path ", Quoted(path), " has a NUL byte"));
  }
  if (path.size() > kMaxPathBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the path ", Quoted(path), " has ", path.size(), " bytes, the limit is ", kMaxPathBytes));
  }
  if (!SchemeOf(path).empty()) return absl::OkStatus();
  for (absl::string_view component : absl::StrSplit(path, '/')) {
    if (component.size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat("the path ", Quoted(path), " has a name of ", component.size(),
                                                     " bytes, the limit is ", kMaxNameBytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorcask
