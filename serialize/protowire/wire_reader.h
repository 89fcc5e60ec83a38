// Reads the fields of a serialized protobuf message, one after the other, trusting nothing.
//
//   WireReader reader(bytes);
//   WireReader::Field field;
//   while (reader.Next(&field)) {
//     if (field.number == 4 && field.type == WireType::kBytes) content = field.bytes;
//   }
//   CASK_RETURN_IF_ERROR(reader.status());
//
// Errors name the position. InvalidArgument: a varint of more than ten bytes or cut short, a tag of more than five
// bytes, field number 0, wire types 6 and 7, a length past the end, a length below 2^35 in more than five bytes, a
// group without its own end. ResourceExhausted: groups nested more than `max_depth` deep. (The reader skips groups
// without recursion.) Bits of a varint past the 64th, and of a tag past the 32nd, are dropped. protobuf's C++ parser
// does the same, but refuses lengths from 2^31 on. Source: protobuf.dev/programming-guides/encoding.

#ifndef TENSORCASK_SERIALIZE_PROTOWIRE_WIRE_READER_H_
#define TENSORCASK_SERIALIZE_PROTOWIRE_WIRE_READER_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kGroup = 3, kFixed32 = 5 };

class WireReader {
 public:
  struct Field {
    uint32_t number = 0;
    WireType type = WireType::kVarint;
    uint64_t value = 0;       // kVarint, kFixed64, kFixed32
    absl::string_view bytes;  // kBytes: the content; kGroup: all between its tags
    uint64_t position = 0;    // the position of the tag, from the start of the message
  };

  explicit WireReader(absl::string_view message, int max_depth = 64) : message_(message), max_depth_(max_depth) {}

  // Reads the next field. False at the end, and on an error, which status() then returns.
  bool Next(Field* field) { return NextShort(field) || NextGeneral(field); }
  const absl::Status& status() const { return status_; }

 private:
  static constexpr size_t kMaxShortVarint = 8;  // with its tag

  // Reads a field whose tag and length take one byte each, and whose varint takes seven or fewer. Most fields of small
  // messages are such; an index of a million tensors has ten million of them. False, and nothing is read, for others.
  bool NextShort(Field* field) {
    const size_t left = message_.size() - position_;
    if (left < 2 || !status_.ok()) return false;
    const char* const bytes = message_.data() + position_;
    const auto tag = static_cast<uint8_t>(bytes[0]);
    const auto second = static_cast<uint8_t>(bytes[1]);
    if (tag < 8 || tag >= 0x80) return false;
    size_t field_bytes = 2;
    uint64_t value = 0;
    absl::string_view content;
    switch (static_cast<WireType>(tag & 7)) {
      case WireType::kVarint:
        value = second & 0x7f;
        while (static_cast<uint8_t>(bytes[field_bytes - 1]) >= 0x80) {
          if (field_bytes == left || field_bytes == kMaxShortVarint) return false;
          value |= static_cast<uint64_t>(bytes[field_bytes] & 0x7f) << (7 * (field_bytes - 1));
          ++field_bytes;
        }
        break;
      case WireType::kBytes:
        if (second >= 0x80 || second > left - 2) return false;
        content = absl::string_view(bytes + 2, second);
        field_bytes += second;
        break;
      case WireType::kFixed32:
        field_bytes = 1 + sizeof(uint32_t);
        if (left < field_bytes) return false;
        value = LoadLittleEndian<uint32_t>(bytes + 1);
        break;
      default:
        return false;
    }
    field->number = tag >> 3;
    field->type = static_cast<WireType>(tag & 7);
    field->value = value;
    field->bytes = content;
    field->position = position_;
    position_ += field_bytes;
    return true;
  }

  bool NextGeneral(Field* field);  // for fields of any form
  bool Fail(absl::string_view what);
  bool FailTooDeep();
  absl::string_view rest() const { return message_.substr(position_); }
  bool ReadTag(uint32_t* tag);
  bool ReadValue(uint32_t tag, Field* field);  // for any type but groups
  bool SkipGroup(uint32_t number, absl::string_view* content);

  absl::string_view message_;
  size_t position_ = 0;
  int max_depth_;
  absl::Status status_;
};

namespace internal {

// For a WireReader over bytes that CheckMessage has passed (message_rules.h), which has bounded how deep they nest.
inline constexpr int kAnyDepth = std::numeric_limits<int>::max();

// Calls fn(field) for each field of a message. Requires: CheckMessage has passed `message`.
template <typename Fn>
void ForEachField(absl::string_view message, Fn&& fn) {
  WireReader reader(message, kAnyDepth);
  for (WireReader::Field field; reader.Next(&field);) fn(field);
}

}  // namespace internal
}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PROTOWIRE_WIRE_READER_H_
