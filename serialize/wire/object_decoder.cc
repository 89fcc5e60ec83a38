#include "tensorcask/serialize/wire/object_decoder.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/tensor_decoder.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/serialize/wire/wire_fields.h"
#include "tensorcask/serialize/wire/wire_reader.h"
#include "tensorcask/serialize/wire/wire_rules.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/process_error.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/partial_shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::internal {
namespace {

// All messages here have passed CheckMessage, so the readers cannot fail; groups are as deep as it allowed.
constexpr int kAnyDepth = std::numeric_limits<int>::max();

template <typename Fn>
void ForEachField(absl::string_view message, Fn&& fn) {
  WireReader reader(message, kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) fn(field);
}

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
  if (fields.unknown_rank) {
    if (fields.num_axes == 0) return part;
    return absl::InvalidArgumentError(absl::StrCat("shape says unknown_rank and has ", fields.num_axes, " dims"));
  }
  if (fields.num_axes > ShapeFields::kMaxDims) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape has ", fields.num_axes, " dims; a tensor has at most ", ShapeFields::kMaxDims));
  }
  absl::StatusOr<PartialTensorShape> shape = PartialTensorShape::Create(fields.dims);
  if (!shape.ok()) return absl::InvalidArgumentError(absl::StrCat("shape: ", shape.status().message()));
  part.shape = *std::move(shape);
  return part;
}

// What the handle takes beside itself.
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

absl::Status Inside(size_t index, const absl::Status& status) {
  return Prefixed(absl::StrCat("tensors[", index, "]"), status);
}

// Calls fn(decoder) for the tensors of a variant until it returns an error.
template <typename Fn>
absl::Status ForEachTensor(absl::string_view message, const ObjectDecoding& decoding, DecodeBudget* budget, Fn&& fn) {
  absl::Status status;
  size_t index = 0;
  ForEachField(message, [&](const WireReader::Field& field) {
    if (field.number != VariantField::kTensors || !status.ok()) return;
    WireTensorFields fields;
    fields.ReadChecked(field.bytes);
    TensorDecoder decoder(fields, decoding.options, decoding.max_depth - 1, budget);
    status = fn(decoder);
    if (!status.ok()) status = Inside(index, status);
    ++index;
  });
  return status;
}

}  // namespace

absl::Status DecodeBudget::Charge(std::optional<int64_t> more_bytes, std::optional<int64_t> more_unbacked,
                                  const DecodeLimits& limits, absl::FunctionRef<std::string()> what) {
  const auto number = [](std::optional<int64_t> n, const char* otherwise) {
    return n ? absl::StrCat(*n) : std::string(otherwise);
  };
  const std::optional<int64_t> all_bytes = more_bytes ? CheckedAdd(bytes, *more_bytes) : std::nullopt;
  if (!all_bytes || *all_bytes > limits.max_message_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(what(), " decodes to ", number(more_bytes, "more than 2^63"),
                                                     " bytes",
                                                     bytes == 0 ? "" : absl::StrCat(", beside ", bytes, " before"),
                                                     "; the limit max_message_bytes is ", limits.max_message_bytes));
  }
  const std::optional<int64_t> all_unbacked = more_unbacked ? CheckedAdd(unbacked, *more_unbacked) : std::nullopt;
  if (!all_unbacked || *all_unbacked > limits.max_unbacked_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what(), " decodes to ", *more_bytes, " bytes, ", number(more_unbacked, "most"),
                     " of them filled in", unbacked == 0 ? "" : absl::StrCat(", beside ", unbacked, " before"),
                     "; the limit max_unbacked_bytes is ", limits.max_unbacked_bytes));
  }
  bytes = *all_bytes;
  unbacked = *all_unbacked;
  return absl::OkStatus();
}

// ---- Resources ------------------------------------------------------------------------------------------------------

absl::Status CheckObject(TypeTag<ResourceHandle>, absl::string_view bytes, const ObjectDecoding& decoding) {
  if (!decoding.is_checked) CASK_RETURN_IF_ERROR(CheckMessage(bytes, kResourceRules, decoding.max_depth));
  CASK_RETURN_IF_ERROR(decoding.budget->Charge(BytesInResource(bytes), 0, decoding.options.limits,
                                               [] { return std::string("a resource"); }));
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
          status = absl::Status(
              part.status().code(),
              absl::StrCat("dtypes_and_shapes[", handle.dtypes_and_shapes.size(), "]: ", part.status().message()));
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
  CASK_RETURN_IF_ERROR(decoding.budget->Charge(
      tensor_bytes ? CheckedAdd(*tensor_bytes, static_cast<int64_t>(text_bytes)) : tensor_bytes, 0,
      decoding.options.limits, [num_tensors] { return absl::StrCat("a variant with ", num_tensors, " tensors"); }));
  return ForEachTensor(bytes, decoding, decoding.budget, [](TensorDecoder& decoder) { return decoder.Check(); });
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
