#include "tensorcask/serialize/rpc/internal/piece.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::rpc {
namespace {

// The numbers of the fields of Piece in proto/exchange_service.proto.
enum PieceField : uint32_t { kItem = 1, kOffset = 2, kCrc32c = 3, kVersionId = 4, kMessageBytes = 5, kData = 15 };

char* WriteNumber(PieceField field, uint64_t value, char* out) {
  if (value == 0) return out;
  return WriteVarint(value, internal::WriteTag(field, WireType::kVarint, out));
}

template <typename T>
char* WriteFixed(PieceField field, T value, char* out) {
  if (value == 0) return out;
  out = internal::WriteTag(field, sizeof(T) == 4 ? WireType::kFixed32 : WireType::kFixed64, out);
  StoreLittleEndian(value, out);
  return out + sizeof(T);
}

absl::Status Malformed(absl::string_view what) { return absl::DataLossError(absl::StrCat("a piece ", what)); }

// Null for unknown fields.
uint64_t* NumberOf(uint32_t field, PieceHeader* header) {
  switch (field) {
    case kOffset:
      return &header->offset;
    case kVersionId:
      return &header->version_id;
    case kMessageBytes:
      return &header->message_bytes;
    default:
      return nullptr;
  }
}

WireType TypeOf(uint32_t field, WireType found) {
  switch (field) {
    case kItem:
    case kOffset:
    case kMessageBytes:
      return WireType::kVarint;
    case kCrc32c:
      return WireType::kFixed32;
    case kVersionId:
      return WireType::kFixed64;
    case kData:
      return WireType::kBytes;
    default:
      return found;
  }
}

// Moves a tag or a length from the front of *rest. False if it is cut short or longer than protobuf accepts.
bool TakeShortVarint(absl::string_view* rest, uint64_t* value) {
  constexpr size_t kMaxBytes = 5;
  const size_t before = rest->size();
  return ParseVarint(rest, value) && before - rest->size() <= kMaxBytes && *value <= UINT32_MAX;
}

// Moves the number of a field from the front of *rest. False if it is cut short or of a type without a number.
bool TakeNumber(WireType type, absl::string_view* rest, uint64_t* value) {
  size_t bytes = 0;
  switch (type) {
    case WireType::kVarint:
      return ParseVarint(rest, value);
    case WireType::kFixed32:
      bytes = sizeof(uint32_t);
      break;
    case WireType::kFixed64:
      bytes = sizeof(uint64_t);
      break;
    default:
      return false;
  }
  if (rest->size() < bytes) return false;
  *value =
      bytes == sizeof(uint32_t) ? LoadLittleEndian<uint32_t>(rest->data()) : LoadLittleEndian<uint64_t>(rest->data());
  rest->remove_prefix(bytes);
  return true;
}

}  // namespace

size_t EncodePieceHeader(const PieceHeader& header, absl::Span<char> out) {
  char* end = out.data();
  end = WriteNumber(kItem, header.item, end);
  end = WriteNumber(kOffset, header.offset, end);
  end = WriteFixed(kCrc32c, header.crc32c, end);
  end = WriteFixed(kVersionId, header.version_id, end);
  end = WriteNumber(kMessageBytes, header.message_bytes, end);
  end = internal::WriteTag(kData, WireType::kBytes, end);
  end = WriteVarint(header.data_bytes, end);
  return static_cast<size_t>(end - out.data());
}

absl::StatusOr<ParsedPiece> ParsePieceHeader(absl::string_view begin, uint64_t total_bytes) {
  ParsedPiece piece;
  const absl::string_view whole = begin.substr(0, kMaxPieceHeaderBytes);
  absl::string_view rest = whole;
  while (true) {
    uint64_t tag = 0;
    if (rest.empty() && whole.size() == total_bytes) return Malformed("has no data");
    if (!TakeShortVarint(&rest, &tag)) return Malformed("has a header that is damaged or too long");
    const auto field = static_cast<uint32_t>(tag >> 3);
    const auto type = static_cast<WireType>(tag & 7);
    if (field == 0 || TypeOf(field, type) != type) {
      return Malformed(absl::StrCat("has field ", field, " of wire type ", tag & 7));
    }
    uint64_t value = 0;
    if (field == kData) {
      if (!TakeShortVarint(&rest, &value)) return Malformed("has a header that is damaged or too long");
      piece.header_bytes = whole.size() - rest.size();
      const uint64_t left = total_bytes - piece.header_bytes;
      if (value != left) {
        return Malformed(absl::StrCat("says that its last field has ", value, " bytes of data; ", left, " came"));
      }
      if (value == 0) return Malformed("has no data");
      piece.header.data_bytes = value;
      return piece;
    }
    if (!TakeNumber(type, &rest, &value)) return Malformed("has a header that is damaged or too long");
    if (field == kItem) {
      if (value > UINT32_MAX) return Malformed(absl::StrCat("is of item ", value));
      piece.header.item = static_cast<uint32_t>(value);
    } else if (field == kCrc32c) {
      piece.header.crc32c = static_cast<uint32_t>(value);
    } else if (uint64_t* const number = NumberOf(field, &piece.header); number != nullptr) {
      *number = value;
    }
  }
}

}  // namespace tensorcask::rpc
