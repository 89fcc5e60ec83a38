#include "tensorcask/serialize/safetensors/internal/json_header.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/safetensors/internal/header_handler.h"
#include "tensorcask/serialize/safetensors/internal/json_events.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::safetensors {
namespace {

constexpr size_t kMaxNotes = 100;
constexpr absl::string_view kJsonSpace = " \t\r\n";

// What stands where the header should begin and end. Sets *json to the text without it.
absl::Status TrimHeader(absl::string_view text, bool lenient, absl::string_view* json,
                        std::vector<std::string>* notes) {
  *json = text;
  const size_t start = std::min(text.find_first_not_of(kJsonSpace), text.size());
  if (start > 0) {
    if (!lenient) {
      return absl::DataLossError("the header begins with white space; it must begin with '{' (lenient accepts this)");
    }
    AddNote("there is white space before the header", notes);
    json->remove_prefix(start);
  }
  if (json->empty() || json->front() != '{') return absl::DataLossError("the header does not begin with '{'");
  if (!lenient || json->back() != '\0') return absl::OkStatus();
  AddNote("NUL bytes pad the header", notes);
  json->remove_suffix(json->size() - (json->find_last_not_of('\0') + 1));
  return absl::OkStatus();
}

// "bytes 16 to 24".
std::string RangeText(const SafetensorsEntry& entry) {
  return absl::StrCat("data bytes ", entry.offset, " to ", entry.offset + entry.stored_bytes);
}

// Checks that the tensors cover the data once and completely. Their offsets count from the start of the data.
absl::Status CheckCoverage(uint64_t data_bytes, bool lenient, Header* header) {
  std::vector<SafetensorsEntry>& entries = header->entries;
  const auto before = [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.stored_bytes < b.stored_bytes;
  };
  if (!std::is_sorted(entries.begin(), entries.end(), before)) std::stable_sort(entries.begin(), entries.end(), before);
  uint64_t end = 0;
  const SafetensorsEntry* previous = nullptr;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset < end) {
      if (entry.name == previous->name) {
        return absl::DataLossError(absl::StrCat("tensor ", Quoted(entry.name), " is listed twice: duplicate name"));
      }
      return absl::DataLossError(absl::StrCat("tensor ", Quoted(entry.name), " has ", RangeText(entry),
                                              ", which overlap those of tensor ", Quoted(previous->name), ", ",
                                              RangeText(*previous)));
    }
    if (entry.offset > end) {
      const std::string hole =
          absl::StrCat("data bytes ", end, " to ", entry.offset, ", before tensor ", Quoted(entry.name));
      if (!lenient) return absl::DataLossError(absl::StrCat(hole, ", belong to no tensor (lenient accepts this)"));
      AddNote(absl::StrCat(hole, ", belong to no tensor"), &header->notes);
    }
    end = entry.offset + entry.stored_bytes;
    previous = &entry;
  }
  if (end == data_bytes) return absl::OkStatus();
  const bool is_one = data_bytes - end == 1;
  const std::string rest = absl::StrCat(data_bytes - end, is_one ? " byte" : " bytes", " behind the last tensor");
  if (!lenient) {
    return absl::DataLossError(
        absl::StrCat(rest, is_one ? " belongs" : " belong", " to no tensor (lenient accepts this)"));
  }
  AddNote(rest, &header->notes);
  return absl::OkStatus();
}

std::optional<uint32_t> NumberOfHex(absl::string_view digits) {
  uint32_t value = 0;
  for (const char c : digits) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  return value;
}

// Gives the entries the checksums of the metadata's `digits`, if they are those of this header.
absl::Status TakeChecksums(absl::string_view text, absl::string_view digits, Header* header) {
  const size_t json_bytes = text.find_last_not_of(kJsonSpace) + 1;
  const bool is_own = absl::StartsWith(text, kChecksumStart) && digits.size() >= 2 * kHexBytes &&
                      text.size() - json_bytes >= kMinChecksumPadding &&
                      NumberOfHex(digits.substr(0, kHexBytes)) == text.size();
  if (!is_own) {
    AddNote(absl::StrCat("the checksums (", kChecksumKey,
                         ") are of another version of this file: a program rewrote it and kept its metadata; they are "
                         "not verified"),
            &header->notes);
    return absl::OkStatus();
  }
  const std::optional<uint32_t> stored = NumberOfHex(digits.substr(kHexBytes, kHexBytes));
  const uint32_t found = HeaderChecksum(text);
  if (stored != found) {
    return absl::DataLossError(absl::StrCat("the checksum of the header is ", HexOf(found), ", stored is ",
                                            Quoted(digits.substr(kHexBytes, kHexBytes))));
  }
  digits.remove_prefix(2 * kHexBytes);
  if (digits.size() != header->entries.size() * kHexBytes) {
    return absl::DataLossError(absl::StrCat("there are ", digits.size(), " digits of checksums; ",
                                            header->entries.size(), " tensors need ",
                                            header->entries.size() * kHexBytes));
  }
  for (SafetensorsEntry& entry : header->entries) {
    entry.checksum = NumberOfHex(digits.substr(0, kHexBytes));
    if (!entry.checksum.has_value()) {
      return absl::DataLossError(absl::StrCat("the checksum of tensor ", Quoted(entry.name), " is ",
                                              Quoted(digits.substr(0, kHexBytes)), "; it needs 8 hexadecimal digits"));
    }
    digits.remove_prefix(kHexBytes);
  }
  return absl::OkStatus();
}

}  // namespace

void AddNote(std::string note, std::vector<std::string>* notes) {
  if (notes->size() + 1 < kMaxNotes) {
    notes->push_back(std::move(note));
  } else if (notes->size() < kMaxNotes) {
    notes->push_back("and more");
  }
}

std::string HexOf(uint32_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad8)); }

uint32_t HeaderChecksum(absl::string_view text) {
  const size_t at = kChecksumStart.size() + kHexBytes;
  const uint32_t crc = ExtendCrc32c(Crc32c(text.substr(0, at)), "00000000");
  return ExtendCrc32c(crc, text.substr(at + kHexBytes));
}

absl::StatusOr<Header> ParseHeader(absl::string_view text, uint64_t data_bytes, const ParseOptions& options) {
  Header header;
  header.size_bytes = text.size();
  absl::string_view json;
  CASK_RETURN_IF_ERROR(TrimHeader(text, options.lenient, &json, &header.notes));
  HeaderHandler handler(text.size(), data_bytes, options, &header);
  header.entries.reserve(json.size() / 100 + 1);
  absl::Status status = ParseJson(json, options.limits.max_depth, &handler);
  if (!status.ok()) return AsDataLoss(status, "header");
  CASK_RETURN_IF_ERROR(CheckCoverage(data_bytes, options.lenient, &header));
  if (const auto it = header.metadata.find(std::string(kChecksumKey)); it != header.metadata.end()) {
    CASK_RETURN_IF_ERROR(TakeChecksums(text, it->second, &header));
    header.metadata.erase(it);
  }
  const uint64_t data_start = kPrefixBytes + text.size();
  for (SafetensorsEntry& entry : header.entries) entry.offset += data_start;
  return header;
}

}  // namespace tensorcask::safetensors
