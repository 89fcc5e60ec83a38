#include "tensorcask/serialize/checkpoint/format/string_codec.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::checkpoint {
namespace {

// The checksum counts a length as a number of four bytes, or of eight from 2^32 on: TensorFlow once stored 32-bit
// varints, and the checksums of its old files must stay valid.
uint32_t ExtendByLength(uint32_t crc, uint64_t length, ByteOrder order = ByteOrder::kLittle) {
  char bytes[sizeof(uint64_t)];
  StoreLittleEndian(length, bytes);
  const size_t size = length <= UINT32_MAX ? sizeof(uint32_t) : sizeof(uint64_t);
  if (order == ByteOrder::kBig) SwapBytes(bytes, 1, size);
  return ExtendCrc32c(crc, absl::string_view(bytes, size));
}

}  // namespace

absl::Status AppendStrings(absl::Span<const std::string> values, ByteSink* sink, uint32_t* crc) {
  constexpr size_t kFlushBytes = size_t{64} << 10;
  std::string gathered;
  *crc = 0;
  for (const std::string& value : values) {
    AppendVarint(value.size(), &gathered);
    *crc = ExtendByLength(*crc, value.size());
    if (gathered.size() >= kFlushBytes) {
      CASK_RETURN_IF_ERROR(sink->Append(gathered));
      gathered.clear();
    }
  }
  char stored[sizeof(uint32_t)];
  StoreLittleEndian(MaskCrc32c(*crc), stored);
  gathered.append(stored, sizeof(stored));
  *crc = ExtendCrc32c(*crc, absl::string_view(stored, sizeof(stored)));
  CASK_RETURN_IF_ERROR(sink->Append(gathered));
  for (const std::string& value : values) {
    *crc = ExtendCrc32c(*crc, value);
    CASK_RETURN_IF_ERROR(sink->Append(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredStrings> ParseStrings(absl::string_view stored, uint64_t count, bool verify, ByteOrder order) {
  StoredStrings strings;
  strings.count = count;
  absl::string_view rest = stored;
  uint64_t total_bytes = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (!ParseCanonicalVarint(&rest, &length)) {
      return absl::DataLossError(absl::StrCat("the length of string ", i, " is cut short or not canonical"));
    }
    // What is left shrinks with every length, so the sum cannot wrap.
    if (length > rest.size() || total_bytes > rest.size() - length) {
      return absl::DataLossError(absl::StrCat("string ", i, " of ", count, " has length ", length, " after ",
                                              total_bytes, " bytes of others; ", rest.size(), " bytes are left"));
    }
    total_bytes += length;
    if (verify) strings.crc = ExtendByLength(strings.crc, length, order);
  }
  strings.lengths = stored.substr(0, stored.size() - rest.size());
  if (rest.size() < sizeof(uint32_t) || rest.size() - sizeof(uint32_t) != total_bytes) {
    return absl::DataLossError(absl::StrCat("its strings have ", total_bytes, " bytes and a checksum of 4; ",
                                            rest.size(), " bytes are stored"));
  }
  strings.characters = rest.substr(sizeof(uint32_t));
  if (verify) {
    auto wanted = LoadLittleEndian<uint32_t>(rest.data());
    if (order == ByteOrder::kBig) SwapBytes(&wanted, 1, sizeof(wanted));
    const uint32_t found = MaskCrc32c(strings.crc);
    if (found != wanted) {
      return absl::DataLossError(absl::StrCat("the checksum of its lengths is ", absl::Hex(found, absl::kZeroPad8),
                                              ", stored is ", absl::Hex(wanted, absl::kZeroPad8)));
    }
    strings.crc = ExtendCrc32c(strings.crc, rest);
  }
  return strings;
}

void CopyStrings(const StoredStrings& strings, std::string* out) {
  absl::string_view lengths = strings.lengths;
  absl::string_view characters = strings.characters;
  for (uint64_t i = 0; i < strings.count; ++i) {
    uint64_t length = 0;
    ParseCanonicalVarint(&lengths, &length);
    out[i].assign(characters.data(), length);
    characters.remove_prefix(length);
  }
}

}  // namespace tensorcask::checkpoint
