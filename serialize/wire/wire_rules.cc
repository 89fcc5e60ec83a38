#include "tensorcask/serialize/wire/wire_rules.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace tensorcask::internal {
namespace {

using Kind = FieldRule::Kind;

// The messages of proto/, field by field.
constexpr FieldRule kDimFields[] = {{1, "size", Kind::kVarint}, {2, "name", Kind::kUtf8}};
constexpr FieldRule kShapeFields[] = {{2, "dim", Kind::kMessage, &kDimRules}, {3, "unknown_rank", Kind::kVarint}};
constexpr FieldRule kExtentFields[] = {{1, "start", Kind::kVarint}, {2, "length", Kind::kVarint}};
constexpr FieldRule kSliceFields[] = {{1, "extent", Kind::kMessage, &kExtentRules}};
constexpr FieldRule kAttributeFields[] = {{AttributeField::kKey, "key", Kind::kBytes},
                                          {AttributeField::kValue, "value", Kind::kBytes}};
constexpr FieldRule kExtensionFields[] = {
    {ExtensionField::kName, "name", Kind::kBytes},
    {ExtensionField::kDevice, "device", Kind::kUtf8},
    {ExtensionField::kDType, "dtype", Kind::kVarint},
    {ExtensionField::kStrides, "strides", Kind::kPackedVarint},
    {ExtensionField::kStorageOffset, "storage_offset", Kind::kVarint},
    {ExtensionField::kMemoryFormat, "memory_format", Kind::kVarint},
    {ExtensionField::kRequiresGrad, "requires_grad", Kind::kVarint},
    {ExtensionField::kCrc32c, "crc32c", Kind::kFixed32},
    {ExtensionField::kAttributes, "attributes", Kind::kMessage, &kAttributeRules},
    {ExtensionField::kPayload, "payload", Kind::kBytes},
};
constexpr FieldRule kDtypeAndShapeFields[] = {{DtypeAndShapeField::kDType, "dtype", Kind::kVarint},
                                              {DtypeAndShapeField::kShape, "shape", Kind::kMessage, &kShapeRules}};
constexpr FieldRule kResourceFields[] = {
    {ResourceField::kDevice, "device", Kind::kUtf8},
    {ResourceField::kContainer, "container", Kind::kUtf8},
    {ResourceField::kName, "name", Kind::kUtf8},
    {ResourceField::kHashCode, "hash_code", Kind::kVarint},
    {ResourceField::kMaybeTypeName, "maybe_type_name", Kind::kUtf8},
    {ResourceField::kDtypesAndShapes, "dtypes_and_shapes", Kind::kMessage, &kDtypeAndShapeRules},
};
constexpr FieldRule kVariantFields[] = {{VariantField::kTypeName, "type_name", Kind::kUtf8},
                                        {VariantField::kMetadata, "metadata", Kind::kBytes},
                                        {VariantField::kTensors, "tensors", Kind::kMessage, &kTensorRules}};
constexpr FieldRule kTensorFields[] = {
    {1, "dtype", Kind::kVarint},
    {2, "tensor_shape", Kind::kMessage, &kShapeRules},
    {3, "version_number", Kind::kVarint},
    {4, "tensor_content", Kind::kBytes},
    {5, "float_val", Kind::kPackedFixed32},
    {6, "double_val", Kind::kPackedFixed64},
    {7, "int_val", Kind::kPackedVarint},
    {8, "string_val", Kind::kBytes},
    {9, "scomplex_val", Kind::kPackedFixed32},
    {10, "int64_val", Kind::kPackedVarint},
    {11, "bool_val", Kind::kPackedVarint},
    {12, "dcomplex_val", Kind::kPackedFixed64},
    {13, "half_val", Kind::kPackedVarint},
    {14, "resource_handle_val", Kind::kMessage, &kResourceRules},
    {15, "variant_val", Kind::kMessage, &kVariantRules},
    {16, "uint32_val", Kind::kPackedVarint},
    {17, "uint64_val", Kind::kPackedVarint},
    {18, "float8_val", Kind::kBytes},
    {kExtensionNumber, "extension", Kind::kMessage, &kExtensionRules},
};

// The wire type of one value of `kind`.
WireType SingleType(Kind kind) {
  switch (kind) {
    case Kind::kVarint:
    case Kind::kPackedVarint:
      return WireType::kVarint;
    case Kind::kFixed32:
    case Kind::kPackedFixed32:
      return WireType::kFixed32;
    case Kind::kPackedFixed64:
      return WireType::kFixed64;
    case Kind::kBytes:
    case Kind::kUtf8:
    case Kind::kMessage:
      break;
  }
  return WireType::kBytes;
}

bool IsPacked(Kind kind) {
  return kind == Kind::kPackedVarint || kind == Kind::kPackedFixed32 || kind == Kind::kPackedFixed64;
}

const char* TypeName(WireType type) {
  switch (type) {
    case WireType::kVarint:
      return "a varint";
    case WireType::kFixed64:
      return "a 64-bit number";
    case WireType::kBytes:
      return "bytes";
    case WireType::kGroup:
      return "a group";
    case WireType::kFixed32:
      break;
  }
  return "a 32-bit number";
}

// What is wrong with the bytes of a field that is no message; null if nothing.
const char* FaultOfBytes(const FieldRule& rule, absl::string_view bytes) {
  switch (rule.kind) {
    case Kind::kUtf8:
      return IsUtf8(bytes) ? nullptr : "is not UTF-8";
    case Kind::kPackedVarint:
      return ForEachVarint(bytes, [](uint64_t) { return true; }) ? nullptr : "does not hold whole varints";
    case Kind::kPackedFixed32:
      return bytes.size() % 4 == 0 ? nullptr : "does not hold whole 32-bit numbers";
    case Kind::kPackedFixed64:
      return bytes.size() % 8 == 0 ? nullptr : "does not hold whole 64-bit numbers";
    default:
      return nullptr;
  }
}

absl::Status Inside(const FieldRule& rule, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(rule.name, ": ", status.message()));
}

}  // namespace

const MessageRules kTensorRules = {kTensorFields};
const MessageRules kShapeRules = {kShapeFields};
const MessageRules kDimRules = {kDimFields};
const MessageRules kSliceRules = {kSliceFields};
const MessageRules kExtentRules = {kExtentFields};
const MessageRules kExtensionRules = {kExtensionFields};
const MessageRules kAttributeRules = {kAttributeFields};
const MessageRules kResourceRules = {kResourceFields};
const MessageRules kDtypeAndShapeRules = {kDtypeAndShapeFields};
const MessageRules kVariantRules = {kVariantFields};

const FieldRule* MessageRules::Find(uint32_t number) const {
  for (const FieldRule& rule : fields) {
    if (rule.number == number) return &rule;
  }
  return nullptr;
}

bool WireTypeFits(const FieldRule& rule, WireType type) {
  return type == SingleType(rule.kind) || (type == WireType::kBytes && IsPacked(rule.kind));
}

absl::Status TooDeep() {
  return absl::ResourceExhaustedError("messages in messages, deeper than the limit max_depth allows");
}

absl::Status CheckMessage(absl::string_view bytes, const MessageRules& rules, int max_depth) {
  if (max_depth < 0) return TooDeep();
  WireReader reader(bytes, max_depth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    const FieldRule* rule = rules.Find(field.number);
    if (rule == nullptr) continue;
    if (!WireTypeFits(*rule, field.type)) {
      return absl::InvalidArgumentError(absl::StrCat(rule->name, " at byte ", field.position, " is ",
                                                     TypeName(field.type), " on the wire; wanted ",
                                                     TypeName(SingleType(rule->kind))));
    }
    if (rule->kind == Kind::kMessage) {
      const absl::Status status = CheckMessage(field.bytes, *rule->message, max_depth - 1);
      if (!status.ok()) return Inside(*rule, status);
    } else if (field.type == WireType::kBytes) {
      const char* fault = FaultOfBytes(*rule, field.bytes);
      if (fault != nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(rule->name, " at byte ", field.position, " ", fault));
      }
    }
  }
  return reader.status();
}

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x80) {
      ++i;
      continue;
    }
    // The number of bytes that follow, and the range of the first of them, which rules out longer spellings,
    // surrogates (U+D800 to U+DFFF) and what lies past U+10FFFF.
    size_t followers = 0;
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    if (byte >= 0xc2 && byte <= 0xdf) {
      followers = 1;
    } else if (byte >= 0xe0 && byte <= 0xef) {
      followers = 2;
      if (byte == 0xe0) low = 0xa0;
      if (byte == 0xed) high = 0x9f;
    } else if (byte >= 0xf0 && byte <= 0xf4) {
      followers = 3;
      if (byte == 0xf0) low = 0x90;
      if (byte == 0xf4) high = 0x8f;
    } else {
      return false;
    }
    if (text.size() - i <= followers) return false;
    for (size_t k = 1; k <= followers; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if (next < low || next > high) return false;
      low = 0x80;
      high = 0xbf;
    }
    i += followers + 1;
  }
  return true;
}

}  // namespace tensorcask::internal
