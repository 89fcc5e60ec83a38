#include "tensorcask/serialize/checkpoint/format/naming.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {
namespace {

constexpr absl::string_view kIndexSuffix = ".index";
constexpr absl::string_view kDataMark = ".data-";
constexpr absl::string_view kOfMark = "-of-";
constexpr size_t kDigits = 5;
constexpr size_t kMaxTensorNameBytes = size_t{64} << 10;

// The number of the first five characters of `text`. -1 if they are not five digits.
int FiveDigits(absl::string_view text) {
  if (text.size() < kDigits) return -1;
  int value = 0;
  for (const char c : text.substr(0, kDigits)) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value;
}

absl::string_view LastName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 is 0

absl::Status CheckPrefix(const std::string& prefix) {
  CASK_RETURN_IF_ERROR(CheckPath(DataPath(prefix, 0, 1)));  // the longest of its paths
  const absl::string_view name = LastName(prefix);
  if (name.empty() || name == "." || name == "..") {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint prefix ", Quoted(prefix), " names a folder; wanted the name of a checkpoint in it"));
  }
  const std::optional<DataName> data = ParseDataName(prefix);
  if (data.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint prefix ", Quoted(prefix), " is the name of a data file; its prefix is ", Quoted(data->prefix)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string IndexPath(absl::string_view prefix) { return absl::StrCat(prefix, kIndexSuffix); }

std::string DataPath(absl::string_view prefix, int shard, int num_shards) {
  return absl::StrCat(prefix, kDataMark, absl::StrFormat("%05d", shard), kOfMark, absl::StrFormat("%05d", num_shards));
}

std::string PrefixBeside(absl::string_view prefix, absl::string_view name) {
  return absl::StrCat(prefix.substr(0, prefix.rfind('/') + 1), name);  // npos + 1 is 0
}

absl::StatusOr<std::string> PrefixOfPath(const std::string& path) {
  std::string prefix(absl::StripSuffix(path, kIndexSuffix));
  CASK_RETURN_IF_ERROR(CheckPrefix(prefix));
  return prefix;
}

absl::Status CheckTensorName(absl::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("a tensor's name is empty");
  if (name[0] == '\0') {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor name ", Quoted(name), " starts with a NUL byte, as only the keys of slices do"));
  }
  if (name.size() > kMaxTensorNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor name ", Quoted(name), " is longer than ", kMaxTensorNameBytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckNewPrefix(const std::string& prefix) {
  CASK_RETURN_IF_ERROR(CheckPrefix(prefix));
  if (absl::EndsWith(prefix, kIndexSuffix)) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint prefix ", Quoted(prefix),
                                                   " is the name of an index; wanted the part before \".index\""));
  }
  for (const absl::string_view pattern : {absl::string_view("%s"), kOfMark}) {
    if (absl::StrContains(LastName(prefix), pattern)) {
      return absl::InvalidArgumentError(absl::StrCat("checkpoint prefix ", Quoted(prefix), " has ", Quoted(pattern),
                                                     " in its name, which other tools treat as a pattern of files"));
    }
  }
  return absl::OkStatus();
}

std::optional<DataName> ParseDataName(absl::string_view path) {
  const size_t suffix_bytes = kDataMark.size() + kDigits + kOfMark.size() + kDigits;
  if (path.size() <= suffix_bytes) return std::nullopt;
  absl::string_view suffix = path.substr(path.size() - suffix_bytes);
  DataName name;
  name.prefix = path.substr(0, path.size() - suffix_bytes);
  if (!absl::ConsumePrefix(&suffix, kDataMark)) return std::nullopt;
  name.shard = FiveDigits(suffix);
  suffix.remove_prefix(kDigits);
  if (!absl::ConsumePrefix(&suffix, kOfMark)) return std::nullopt;
  name.num_shards = FiveDigits(suffix);
  if (name.shard < 0 || name.num_shards < 0) return std::nullopt;
  return name;
}

}  // namespace tensorcask::checkpoint
