// The header of a safetensors file, parsed and checked against every rule of the format (FORMAT.md sections 2 and 5).
// Bytes to structs; no files.
//
//   CASK_ASSIGN_OR_RETURN(Header header, ParseHeader(text, /*data_bytes=*/file_bytes - 8 - text.size(), options));
//   for (const SafetensorsEntry& entry : header.entries) ...

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_JSON_HEADER_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_JSON_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/safetensors/safetensors_entry.h"

namespace tensorcask::safetensors {

inline constexpr size_t kPrefixBytes = 8;                 // the header's length, before the header
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // what every reader of the format accepts
inline constexpr absl::string_view kMetadataName = "__metadata__";

// Keys of the metadata. The value of kAliasesKey is a JSON array of strings, the keys of all aliases (alias_keys.h).
inline constexpr absl::string_view kFormatKey = "format";
inline constexpr absl::string_view kAliasesKey = "tensorcask.aliases";

struct ParseOptions {
  DecodeLimits limits;
  bool lenient = false;
  // What the entries of all headers of a model take together; null: a header has max_memory_beyond_input, and as much
  // memory as its text, for itself.
  ListingBudget* memory = nullptr;
};

struct Header {
  // In the order of the data; offsets count from the start of the file; `checksum` is set if the file's own.
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;  // without the checksums
  std::vector<std::string> notes;               // what was overlooked
  uint64_t size_bytes = 0;                      // the size of the text
};

// `text` is the header without its length, `data_bytes` the number of bytes after it.
// Does not compare names: open_model.h finds duplicates when it makes its table of names.
// Errors, which do not name the file: DataLoss; Unimplemented; ResourceExhausted past a limit.
absl::StatusOr<Header> ParseHeader(absl::string_view text, uint64_t data_bytes, const ParseOptions& options);

// Adds a note unless there are many.
void AddNote(std::string note, std::vector<std::string>* notes);

// ---- Checksums (FORMAT.md section 4) -------------------------------------------------------------------------------

inline constexpr absl::string_view kChecksumKey = "tensorcask.crc32c";
inline constexpr size_t kHexBytes = 8;  // digits of each number
// How a header with checksums of its own begins; the digits follow.
inline constexpr absl::string_view kChecksumStart = R"({"__metadata__":{"tensorcask.crc32c":")";
// Behind such a header there are at least so many spaces, more than any other program adds.
inline constexpr size_t kMinChecksumPadding = 8;

// "0000002a".
std::string HexOf(uint32_t value);

// The checksum of a header: CRC-32C of its text with zeros in place of the checksum's own digits.
// Requires: `text` begins with kChecksumStart, and at least 16 bytes follow.
uint32_t HeaderChecksum(absl::string_view text);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_JSON_HEADER_H_
