#include "tensorcask/serialize/wire/message/tensor_rules.h"

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

}  // namespace tensorcask::internal
