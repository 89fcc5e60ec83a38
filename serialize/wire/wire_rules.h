// What our messages look like on the wire, as tables, and the check that bytes are such a message. Internal.
//
//   CASK_RETURN_IF_ERROR(CheckMessage(bytes, kTensorRules, options.limits.max_depth));
//   // from here on a WireReader over `bytes`, and over the messages in it, cannot fail
//
// Bytes pass if protobuf's parser takes them and no known field has a wrong wire type. (protobuf takes such a field for
// an unknown one, so that content sent with a wrong type would silently count as absent: zeros.)

#ifndef TENSORCASK_SERIALIZE_WIRE_WIRE_RULES_H_
#define TENSORCASK_SERIALIZE_WIRE_WIRE_RULES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/wire/wire_reader.h"

namespace tensorcask::internal {

struct MessageRules;

struct FieldRule {
  enum class Kind : uint8_t {
    kVarint,
    kFixed32,
    kBytes,
    kUtf8,          // proto3's `string`: protobuf refuses other bytes
    kPackedVarint,  // repeated numbers stand packed in one field of bytes, or each in a field of its own
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

// Numbers of fields that several files know, message by message (proto/).
inline constexpr uint32_t kExtensionNumber = 4096;  // of `extension` in TensorProto and BundleEntryProto
struct ExtensionField {
  static constexpr uint32_t kName = 1;
  static constexpr uint32_t kDevice = 2;
  static constexpr uint32_t kDType = 3;
  static constexpr uint32_t kStrides = 4;
  static constexpr uint32_t kStorageOffset = 5;
  static constexpr uint32_t kMemoryFormat = 6;
  static constexpr uint32_t kRequiresGrad = 7;
  static constexpr uint32_t kCrc32c = 8;
  static constexpr uint32_t kAttributes = 9;
  static constexpr uint32_t kPayload = 10;
};
struct AttributeField {
  static constexpr uint32_t kKey = 1;
  static constexpr uint32_t kValue = 2;
};
struct ResourceField {
  static constexpr uint32_t kDevice = 1;
  static constexpr uint32_t kContainer = 2;
  static constexpr uint32_t kName = 3;
  static constexpr uint32_t kHashCode = 4;
  static constexpr uint32_t kMaybeTypeName = 5;
  static constexpr uint32_t kDtypesAndShapes = 6;
};
struct DtypeAndShapeField {
  static constexpr uint32_t kDType = 1;
  static constexpr uint32_t kShape = 2;
};
struct VariantField {
  static constexpr uint32_t kTypeName = 1;
  static constexpr uint32_t kMetadata = 2;
  static constexpr uint32_t kTensors = 3;
};

extern const MessageRules kTensorRules;
extern const MessageRules kShapeRules;
extern const MessageRules kDimRules;
extern const MessageRules kSliceRules;
extern const MessageRules kExtentRules;
extern const MessageRules kExtensionRules;
extern const MessageRules kAttributeRules;
extern const MessageRules kResourceRules;
extern const MessageRules kDtypeAndShapeRules;
extern const MessageRules kVariantRules;

// Errors: InvalidArgument, naming the field and its place; ResourceExhausted for messages more than `max_depth` deep in
// others.
absl::Status CheckMessage(absl::string_view bytes, const MessageRules& rules, int max_depth);

// The error for messages in messages past the limit.
absl::Status TooDeep();

// True if a field of wire type `type` may hold what `rule` says.
bool WireTypeFits(const FieldRule& rule, WireType type);

// Calls visit(value) for each varint of a packed field; false if the bytes are not whole varints.
template <typename Fn>
bool ForEachVarint(absl::string_view bytes, Fn&& visit) {
  while (!bytes.empty()) {
    const auto first = static_cast<uint8_t>(bytes.front());
    uint64_t value = first;
    if (first < 0x80) {
      bytes.remove_prefix(1);
    } else if (!WireReader::ReadVarint(&bytes, &value)) {
      return false;
    }
    if (!visit(value)) break;
  }
  return true;
}

// True for well-formed UTF-8: shortest forms, no surrogates, at most U+10FFFF (RFC 3629).
bool IsUtf8(absl::string_view text);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_WIRE_RULES_H_
