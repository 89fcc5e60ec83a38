#include "tensorcask/serialize/onnx/internal/external_data.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/contained_folder.h"
#include "tensorcask/tensor/base/printable_text.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::onnx {
namespace {

constexpr size_t kSha1Digits = 40;

absl::Status Bad(absl::string_view key, absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("external_data has the ", key, " ", Quoted(value), "; wanted ", wanted));
}

absl::StatusOr<uint64_t> ParseSize(absl::string_view key, absl::string_view text) {
  uint64_t value = 0;
  const bool has_digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (!has_digits || !absl::SimpleAtoi(text, &value)) return Bad(key, text, "decimal digits, below 2^64");
  return value;
}

// Refuses what other programs or other systems take for another place than one in a folder.
absl::Status CheckLocation(absl::string_view text) {
  if (text.front() == '#') return Bad("location", text, "a file; '#' marks memory of the program that wrote the model");
  if (absl::StrContains(text, "_ORT_MEM_ADDR_")) {
    return Bad("location", text, "a file; this one marks memory of onnxruntime");
  }
  for (absl::string_view rest = text; !rest.empty();) {
    const size_t bytes = internal::PrintableBytes(rest);
    if (bytes == 0) return Bad("location", text, "printable characters of UTF-8: messages show it");
    rest.remove_prefix(bytes);
  }
  if (absl::StrContains(text, '\\')) return Bad("location", text, "'/' between folders");
  const size_t colon = text.find(':');
  const bool is_drive = colon == 1 && absl::ascii_isalpha(static_cast<unsigned char>(text[0]));
  if (is_drive || absl::StrContains(text, "://") || absl::StartsWithIgnoreCase(text, "file:")) {
    return Bad("location", text, "a path beneath the folder of the model, without drive or scheme");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParseSha1(absl::string_view text) {
  if (text.size() != kSha1Digits || !std::all_of(text.begin(), text.end(), absl::ascii_isxdigit)) {
    return Bad("checksum", text, "40 hexadecimal digits of SHA-1");
  }
  return absl::AsciiStrToLower(text);
}

}  // namespace

// As it is written and without "x/..", which may bring such a name to the front.
absl::StatusOr<std::string> ParseLocation(absl::string_view text) {
  absl::StatusOr<std::string> name = ContainedName(text);
  if (!name.ok()) return Annotate(name.status(), "external_data has a location that is refused");
  CASK_RETURN_IF_ERROR(CheckLocation(text));
  CASK_RETURN_IF_ERROR(CheckLocation(*name));
  return name;
}

absl::StatusOr<ExternalData> ParseExternalData(absl::Span<const ExternalEntry> entries) {
  ExternalData data;
  absl::flat_hash_set<absl::string_view> seen;
  for (const auto& [key, value] : entries) {
    if (!seen.insert(key).second) return Bad("key", key, "it once");
    if (key == "location") {
      CASK_ASSIGN_OR_RETURN(data.location, ParseLocation(value));
    } else if (key == "offset") {
      CASK_ASSIGN_OR_RETURN(data.offset, ParseSize(key, value));
    } else if (key == "length") {
      CASK_ASSIGN_OR_RETURN(data.length, ParseSize(key, value));
    } else if (key == "checksum") {
      CASK_ASSIGN_OR_RETURN(data.sha1, ParseSha1(value));
    } else if (key != "basepath") {  // where a program found the model; the file tells that itself
      return Bad("key", key, "location, offset, length, checksum or basepath");
    }
  }
  if (data.location.empty()) return absl::InvalidArgumentError("external_data has no location");
  return data;
}

}  // namespace tensorcask::onnx
