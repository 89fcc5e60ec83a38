#include "tensorcask/serialize/wire/message/object_decoder.h"

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/tensor_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::internal {
namespace {

std::string Text(absl::string_view bytes) { return std::string(bytes.data(), bytes.size()); }

absl::StatusOr<ResourceHandle::DtypeAndShape> DecodePart(absl::string_view message) {
  int32_t number = 0;
  ShapeFields fields;
  ForEachField(message, [&](const WireReader::Field& field) {
    if (field.number == DtypeAndShapeField::kDType)
      number = static_cast<int32_t>(field.value);  // as protobuf: the low 32 bits
    if (field.number == DtypeAndShapeField::kShape) MergeShape(field.bytes, &fields);
  });
  ResourceHandle::DtypeAndShape part;
  if (number != 0) {
    const std::optional<DType> dtype = DTypeFromNumber(number);
    if (!dtype || number >= kFirstOwnDTypeNumber) {
      return absl::InvalidArgumentError(absl::StrCat("dtype is ", number, "; wanted one of TensorFlow's, 0 to 32"));
    }
    part.dtype = *dtype;
  }
  CASK_ASSIGN_OR_RETURN(part.shape, PartialShapeFromFields(fields));
  return part;
}

// The bytes of a handle on top of the object itself.
int64_t BytesInResource(absl::string_view message) {
  size_t bytes = 0;
  ForEachField(message, [&bytes](const WireReader::Field& field) {
    if (field.number != ResourceField::kDtypesAndShapes) {
      bytes += field.bytes.size();
      return;
    }
    bytes += sizeof(ResourceHandle::DtypeAndShape) + field.bytes.size() / 2 * sizeof(int64_t);  // a dim takes 2 or more
  });
  return static_cast<int64_t>(bytes);
}

// Calls fn(decoder) for the tensors of a variant until it returns an error.
template <typename Fn>
absl::Status ForEachTensor(absl::string_view message, const ObjectDecoding& decoding, MessageQuota* quota, Fn&& fn) {
  absl::Status status;
  size_t index = 0;
  ForEachField(message, [&](const WireReader::Field& field) {
    if (field.number != VariantField::kTensors || !status.ok()) return;
    WireTensorFields fields;
    fields.ReadChecked(field.bytes);
    TensorDecoder decoder(fields, decoding.options, decoding.max_depth - 1, quota);
    status = fn(decoder);
    if (!status.ok()) status = Annotate(status, absl::StrCat("tensors[", index, "]"));
    ++index;
  });
  return status;
}

}  // namespace

// ---- Resources ------------------------------------------------------------------------------------------------------

absl::Status CheckObject(TypeTag<ResourceHandle>, absl::string_view bytes, const ObjectDecoding& decoding) {
  if (!decoding.is_checked) CASK_RETURN_IF_ERROR(CheckMessage(bytes, kResourceRules, decoding.max_depth));
  CASK_ANNOTATE_IF_ERROR(decoding.quota->Charge(BytesInResource(bytes), 0), "a resource");
  ResourceHandle handle;  // no larger than was just charged, and gone with this call
  return DecodeObject(bytes, decoding, &handle);
}

absl::Status DecodeObject(absl::string_view bytes, const ObjectDecoding&, ResourceHandle* out) {
  ResourceHandle handle;
  size_t num_parts = 0;
  ForEachField(bytes, [&num_parts](const WireReader::Field& field) {
    num_parts += field.number == ResourceField::kDtypesAndShapes ? 1 : 0;
  });
  handle.dtypes_and_shapes.reserve(num_parts);
  absl::Status status;
  ForEachField(bytes, [&](const WireReader::Field& field) {
    switch (field.number) {
      case ResourceField::kDevice:
        handle.device = Text(field.bytes);
        break;
      case ResourceField::kContainer:
        handle.container = Text(field.bytes);
        break;
      case ResourceField::kName:
        handle.name = Text(field.bytes);
        break;
      case ResourceField::kHashCode:
        handle.hash_code = field.value;
        break;
      case ResourceField::kMaybeTypeName:
        handle.maybe_type_name = Text(field.bytes);
        break;
      case ResourceField::kDtypesAndShapes: {
        if (!status.ok()) break;
        absl::StatusOr<ResourceHandle::DtypeAndShape> part = DecodePart(field.bytes);
        if (part.ok()) {
          handle.dtypes_and_shapes.push_back(*std::move(part));
        } else {
          status = Annotate(part.status(), absl::StrCat("dtypes_and_shapes[", handle.dtypes_and_shapes.size(), "]"));
        }
        break;
      }
      default:
        break;
    }
  });
  if (status.ok()) *out = std::move(handle);
  return status;
}

// ---- Variants -------------------------------------------------------------------------------------------------------

absl::Status CheckObject(TypeTag<Variant>, absl::string_view bytes, const ObjectDecoding& decoding) {
  if (!decoding.is_checked) CASK_RETURN_IF_ERROR(CheckMessage(bytes, kVariantRules, decoding.max_depth));
  size_t text_bytes = 0;
  int64_t num_tensors = 0;
  ForEachField(bytes, [&](const WireReader::Field& field) {
    if (field.number == VariantField::kTensors) {
      ++num_tensors;
    } else {
      text_bytes += field.bytes.size();
    }
  });
  const std::optional<int64_t> tensor_bytes = CheckedMul(num_tensors, kNestedTensorBytes);
  CASK_ANNOTATE_IF_ERROR(
      decoding.quota->Charge(tensor_bytes ? CheckedAdd(*tensor_bytes, static_cast<int64_t>(text_bytes)) : tensor_bytes,
                             0),
      absl::StrCat("a variant with ", num_tensors, " tensors"));
  return ForEachTensor(bytes, decoding, decoding.quota, [](TensorDecoder& decoder) { return decoder.Check(); });
}

absl::Status DecodeObject(absl::string_view bytes, const ObjectDecoding& decoding, Variant* out) {
  Variant variant;
  size_t num_tensors = 0;
  ForEachField(bytes, [&](const WireReader::Field& field) {
    if (field.number == VariantField::kTypeName) variant.type_name = Text(field.bytes);
    if (field.number == VariantField::kMetadata) variant.metadata = Text(field.bytes);
    if (field.number == VariantField::kTensors) ++num_tensors;
  });
  variant.tensors.reserve(num_tensors);
  CASK_RETURN_IF_ERROR(ForEachTensor(bytes, decoding, nullptr, [&variant](TensorDecoder& decoder) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(Tensor tensor, decoder.DecodeChecked());
    variant.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }));
  *out = std::move(variant);
  return absl::OkStatus();
}

}  // namespace tensorcask::internal
