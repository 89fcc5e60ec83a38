#include "tensorcask/serialize/payload/payload_header.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

constexpr char kMagic[] =
    "\x89"
    "CASKPL";
constexpr size_t kMagicBytes = 7;
constexpr uint8_t kVersion = 1;

// Where the fields are (FORMAT.md section 2).
constexpr size_t kVersionAt = 7;
constexpr size_t kDTypeAt = 8;
constexpr size_t kChunkSizeAt = 10;
constexpr size_t kLevelAt = 11;
constexpr size_t kFlagsAt = 12;
constexpr size_t kElementsAt = 16;
constexpr size_t kCharactersAt = 24;
constexpr size_t kBaseAt = 32;
constexpr size_t kReservedAt = 48;
constexpr size_t kChecksumAt = 60;

constexpr uint32_t kDelta = 1;

constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();
constexpr uint64_t kStringLengthBytes = 8;  // the size of a string's length

uint64_t FirstStreamBytes(DType dtype) { return dtype == DType::kString ? kStringLengthBytes : ElementSize(dtype); }

uint64_t Chunks(uint64_t bytes, int log2) { return (bytes >> log2) + ((bytes & ((uint64_t{1} << log2) - 1)) != 0); }

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("payload header: ", what));
}

// Checks that the fields of a header whose checksum matches agree with each other.
absl::Status Check(const PayloadHeader& header) {
  if (header.log2_chunk_bytes < kMinLog2ChunkBytes || header.log2_chunk_bytes > kMaxLog2ChunkBytes) {
    return Invalid(absl::StrCat("chunks of 2^", header.log2_chunk_bytes, " bytes; they are of 2^", kMinLog2ChunkBytes,
                                " to 2^", kMaxLog2ChunkBytes));
  }
  if (!PayloadHeader::Supports(header.dtype)) {
    return Invalid(absl::StrCat("dtype ", DTypeName(header.dtype), " has no such form"));
  }
  if (header.dtype != DType::kString && header.characters != 0) {
    return Invalid(absl::StrCat(header.characters, " characters of dtype ", DTypeName(header.dtype)));
  }
  if (header.num_elements == 0 && header.characters != 0) {
    return Invalid(absl::StrCat(header.characters, " characters of no strings"));
  }
  if (header.is_delta && (header.dtype == DType::kString || header.dtype == DType::kBool)) {
    return Invalid(absl::StrCat("a delta of dtype ", DTypeName(header.dtype)));
  }
  const std::optional<uint64_t> first = CheckedMul(header.num_elements, FirstStreamBytes(header.dtype));
  if (!first || *first > kMaxBytes || header.characters > kMaxBytes - *first) {
    return Invalid(absl::StrCat(header.num_elements, " elements of dtype ", DTypeName(header.dtype), " and ",
                                header.characters, " characters take 2^63 bytes or more"));
  }
  return absl::OkStatus();
}

}  // namespace

bool PayloadHeader::Supports(DType dtype) { return IsFixedSize(dtype) || dtype == DType::kString; }

uint64_t PayloadHeader::first_stream_bytes() const { return num_elements * FirstStreamBytes(dtype); }

uint64_t PayloadHeader::first_stream_chunks() const { return Chunks(first_stream_bytes(), log2_chunk_bytes); }

uint64_t PayloadHeader::num_chunks() const { return first_stream_chunks() + Chunks(characters, log2_chunk_bytes); }

PayloadHeader::Chunk PayloadHeader::chunk(uint64_t i) const {
  const bool first = i < first_stream_chunks();
  const uint64_t begin = (first ? i : i - first_stream_chunks()) << log2_chunk_bytes;
  const uint64_t end = first ? first_stream_bytes() : characters;
  CASK_CHECK(begin < end, "PayloadHeader::chunk: there is no such chunk");
  return {first ? 0 : 1, begin, static_cast<size_t>(std::min(end - begin, chunk_bytes()))};
}

std::string PayloadHeader::Encode() const {
  CASK_CHECK(Check(*this).ok(), "PayloadHeader::Encode: the header cannot be");
  std::string bytes(kPayloadHeaderBytes, '\0');
  char* const out = &bytes[0];
  std::memcpy(out, kMagic, kMagicBytes);
  StoreLittleEndian(kVersion, out + kVersionAt);
  StoreLittleEndian(static_cast<uint16_t>(DTypeNumber(dtype)), out + kDTypeAt);
  StoreLittleEndian(static_cast<uint8_t>(log2_chunk_bytes), out + kChunkSizeAt);
  StoreLittleEndian(level, out + kLevelAt);
  StoreLittleEndian(is_delta ? kDelta : 0, out + kFlagsAt);
  StoreLittleEndian(num_elements, out + kElementsAt);
  StoreLittleEndian(characters, out + kCharactersAt);
  if (is_delta) std::memcpy(out + kBaseAt, base.bytes.data(), base.bytes.size());
  StoreLittleEndian(MaskCrc32c(Crc32c({out, kChecksumAt})), out + kChecksumAt);
  return bytes;
}

absl::StatusOr<PayloadHeader> PayloadHeader::Parse(absl::string_view bytes) {
  if (bytes.size() != kPayloadHeaderBytes) {
    return Invalid(absl::StrCat(bytes.size(), " bytes, it has ", kPayloadHeaderBytes));
  }
  const char* const in = bytes.data();
  if (bytes.substr(0, kMagicBytes) != absl::string_view(kMagic, kMagicBytes)) return Invalid("the magic is wrong");
  if (const auto version = LoadLittleEndian<uint8_t>(in + kVersionAt); version != kVersion) {
    return absl::UnimplementedError(absl::StrCat("payload header: version ", version, ", this one reads ", kVersion));
  }
  if (LoadLittleEndian<uint32_t>(in + kChecksumAt) != MaskCrc32c(Crc32c(bytes.substr(0, kChecksumAt)))) {
    return absl::DataLossError("payload header: the checksum is wrong");
  }
  const auto flags = LoadLittleEndian<uint32_t>(in + kFlagsAt);
  if ((flags & ~kDelta) != 0) {
    return absl::UnimplementedError(absl::StrCat("payload header: flags ", flags, ", this version knows ", kDelta));
  }
  const absl::string_view reserved = bytes.substr(kReservedAt, kChecksumAt - kReservedAt);
  if (reserved.find_first_not_of('\0') != absl::string_view::npos) {
    return absl::UnimplementedError("payload header: reserved bytes are not 0");
  }
  const auto number = LoadLittleEndian<uint16_t>(in + kDTypeAt);
  const std::optional<DType> dtype = DTypeFromNumber(number);
  if (!dtype) {
    return absl::UnimplementedError(
        absl::StrCat("payload header: dtype number ", number, ", which this version does not know"));
  }
  PayloadHeader header;
  header.dtype = *dtype;
  header.log2_chunk_bytes = LoadLittleEndian<uint8_t>(in + kChunkSizeAt);
  header.level = LoadLittleEndian<uint8_t>(in + kLevelAt);
  header.is_delta = (flags & kDelta) != 0;
  header.num_elements = LoadLittleEndian<uint64_t>(in + kElementsAt);
  header.characters = LoadLittleEndian<uint64_t>(in + kCharactersAt);
  std::memcpy(header.base.bytes.data(), in + kBaseAt, header.base.bytes.size());
  CASK_RETURN_IF_ERROR(Check(header));
  if (!header.is_delta && header.base != ContentHash()) return Invalid("the hash of a base, but it is no delta");
  return header;
}

}  // namespace tensorcask
