// The messages of proto/ as tables for CheckMessage (protowire/message_rules.h), and the numbers of their fields.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_RULES_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_RULES_H_

#include <cstdint>

#include "tensorcask/serialize/protowire/message_rules.h"

namespace tensorcask::internal {

// The numbers of fields that several files use, by message (proto/).
inline constexpr uint32_t kExtensionNumber = 4096;  // the number of `extension` in TensorProto and BundleEntryProto
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

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_RULES_H_
