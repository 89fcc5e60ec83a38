// Reads the fields of a serialized protobuf message, one after the other, trusting nothing.
//
//   WireReader reader(bytes);
//   WireReader::Field field;
//   while (reader.Next(&field)) {
//     if (field.number == 4 && field.type == WireType::kBytes) content = field.bytes;
//   }
//   CASK_RETURN_IF_ERROR(reader.status());
//
// Refused with InvalidArgument and the position: a varint of more than ten bytes or cut short, a tag of more than five
// bytes, field number 0, wire types 6 and 7, a length past the end, a length below 2^35 spelled with more than five
// bytes, a group that is not closed by its own end (groups are skipped without recursion, nested at most `max_depth`
// deep). Bits of a varint past the 64th, and of a tag past the 32nd, are dropped. That is what protobuf's C++ parser
// does, except that lengths from 2^31 are taken here. Source: protobuf.dev/programming-guides/encoding.

#ifndef TENSORCASK_SERIALIZE_WIRE_WIRE_READER_H_
#define TENSORCASK_SERIALIZE_WIRE_WIRE_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kGroup = 3, kFixed32 = 5 };

class WireReader {
 public:
  struct Field {
    uint32_t number = 0;
    WireType type = WireType::kVarint;
    uint64_t value = 0;       // kVarint, kFixed64, kFixed32
    absl::string_view bytes;  // kBytes: the content; kGroup: all between its tags
    uint64_t position = 0;    // of the tag, from the start of the message
  };

  explicit WireReader(absl::string_view message, int max_depth = 64) : message_(message), max_depth_(max_depth) {}

  // The next field; false at the end or on an error, which status() then tells.
  bool Next(Field* field);
  const absl::Status& status() const { return status_; }

  // One varint from the front of *bytes, which moves past it; false if it is cut short or longer than ten bytes.
  static bool ReadVarint(absl::string_view* bytes, uint64_t* value) {
    if (bytes->empty() || static_cast<uint8_t>(bytes->front()) >= 0x80) return ReadLongVarint(bytes, value);
    *value = static_cast<uint8_t>(bytes->front());  // one byte, as most are
    bytes->remove_prefix(1);
    return true;
  }

 private:
  static bool ReadLongVarint(absl::string_view* bytes, uint64_t* value);
  bool Fail(absl::string_view what);
  absl::string_view rest() const { return message_.substr(position_); }
  bool ReadTag(uint32_t* tag);
  bool ReadValue(uint32_t tag, Field* field);  // of any type but groups
  bool SkipGroup(uint32_t number, absl::string_view* content);

  absl::string_view message_;
  size_t position_ = 0;
  int max_depth_;
  absl::Status status_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_WIRE_READER_H_
