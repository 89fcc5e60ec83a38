// Checks that bytes are a protobuf message of a given type. The type is a table of its fields.
//
//   constexpr FieldRule kPointFields[] = {{1, "x", FieldRule::Kind::kVarint}, {2, "name", FieldRule::Kind::kUtf8}};
//   const MessageRules kPointRules = {kPointFields};
//   CASK_RETURN_IF_ERROR(CheckMessage(bytes, kPointRules, limits.max_depth));
//   // from here on a WireReader over `bytes`, and over the messages in it, cannot fail
//
// Bytes pass if protobuf's parser accepts them and no known field has a wrong wire type. (protobuf treats a field with
// a wrong wire type as unknown. Tensor content with a wrong wire type would then count as absent, which means zeros.)

#ifndef TENSORCASK_SERIALIZE_PROTOWIRE_MESSAGE_RULES_H_
#define TENSORCASK_SERIALIZE_PROTOWIRE_MESSAGE_RULES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::internal {

struct MessageRules;

struct FieldRule {
  enum class Kind : uint8_t {
    kVarint,
    kFixed32,
    kBytes,
    kUtf8,          // proto3's `string`: protobuf refuses other bytes
    kPackedVarint,  // repeated numbers: packed in one field of bytes, or one field each
    kPackedFixed32,
    kPackedFixed64,
    kMessage,
  };
  uint32_t number;
  const char* name;
  Kind kind;
  const MessageRules* message = nullptr;  // for kMessage
};

struct MessageRules {
  absl::Span<const FieldRule> fields;

  const FieldRule* Find(uint32_t number) const;  // null if there is no such field
};

// Errors: InvalidArgument, naming the field and its position; ResourceExhausted for messages nested deeper than
// `max_depth`.
absl::Status CheckMessage(absl::string_view bytes, const MessageRules& rules, int max_depth);

// The error for messages nested deeper than the limit.
absl::Status TooDeep();

// True if `rule` allows the wire type `type`.
bool WireTypeFits(const FieldRule& rule, WireType type);

// Calls visit(value) for each varint of a packed field until it returns false. Returns false if the bytes are not
// complete varints.
template <typename Fn>
bool ForEachVarint(absl::string_view bytes, Fn&& visit) {
  while (!bytes.empty()) {
    const auto first = static_cast<uint8_t>(bytes.front());
    uint64_t value = first;
    if (first < 0x80) {
      bytes.remove_prefix(1);
    } else if (!ParseVarint(&bytes, &value)) {
      return false;
    }
    if (!visit(value)) break;
  }
  return true;
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_PROTOWIRE_MESSAGE_RULES_H_
