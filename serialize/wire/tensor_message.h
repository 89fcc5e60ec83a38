// Tensors to and from any message class with the field names of TensorProto: TensorFlow's own class, or a class that a
// project generated from its copy of tensor.proto.
//
//   tensorflow::TensorProto proto;
//   CASK_RETURN_IF_ERROR(EncodeTensor(view, {}, &proto));
//   CASK_ASSIGN_OR_RETURN(Tensor same, DecodeTensor(proto));
//
// Each function does the same as the function of this name in tensor_codec.h, with the same bytes on the wire. The
// class must have fields 1 to 18, and must not use the lite runtime. If it has no field `extension`, then metadata,
// checksums, the extension-only and the encoded form are kept in its unknown fields. protobuf preserves unknown fields
// when it copies, parses and serializes a message. (TensorFlow drops them when it converts the message to a tensor and
// back.)

#ifndef TENSORCASK_SERIALIZE_WIRE_TENSOR_MESSAGE_H_
#define TENSORCASK_SERIALIZE_WIRE_TENSOR_MESSAGE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "google/protobuf/message.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/serialize/wire/message/object_encoder.h"
#include "tensorcask/serialize/wire/message/proto_fields.h"
#include "tensorcask/serialize/wire/message/tensor_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_encoder.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask {
namespace internal {

inline constexpr uint64_t kMaxProtobufBytes = std::numeric_limits<int32_t>::max();  // the size limit of a message

// The repeated field of each kind of value.
template <ValueField kField, typename Message>
auto* MutableValues(Message* message) {
  if constexpr (kField == ValueField::kFloat) return message->mutable_float_val();
  if constexpr (kField == ValueField::kDouble) return message->mutable_double_val();
  if constexpr (kField == ValueField::kInt) return message->mutable_int_val();
  if constexpr (kField == ValueField::kScomplex) return message->mutable_scomplex_val();
  if constexpr (kField == ValueField::kInt64) return message->mutable_int64_val();
  if constexpr (kField == ValueField::kBool) return message->mutable_bool_val();
  if constexpr (kField == ValueField::kDcomplex) return message->mutable_dcomplex_val();
  if constexpr (kField == ValueField::kHalf) return message->mutable_half_val();
  if constexpr (kField == ValueField::kUint32) return message->mutable_uint32_val();
  if constexpr (kField == ValueField::kUint64) return message->mutable_uint64_val();
}

template <typename Message>
void SetValues(const TensorView& tensor, Message* out) {
  VisitScalars(tensor, [out](auto traits, auto scalars) {
    using Traits = decltype(traits);
    if (scalars.empty()) return;
    if constexpr (Traits::kForm == ValueForm::kByte) {
      out->set_float8_val(scalars.data(), scalars.size());
    } else {
      auto* values = MutableValues<Traits::kField>(out);
      // Fewer than 2^31: each takes at least one byte of the message, whose size was checked.
      values->Reserve(static_cast<int>(scalars.size()));
      auto* added = values->AddNAlreadyReserved(static_cast<int>(scalars.size()));
      if constexpr (Traits::kForm == ValueForm::kFixed) {
        std::memcpy(added, scalars.data(), scalars.size() * sizeof(scalars[0]));
      } else {
        for (const auto scalar : scalars) *added++ = Traits::ToValue(scalar);
      }
    }
  });
}

template <typename Message>
void SetExtension(const MessagePlan& plan, uint32_t crc, Message* out) {
  if (plan.extension_bytes == 0) return;
  const ExtensionContent& content = plan.extension;
  if constexpr (kHasExtension<Message>) {
    auto* extension = out->mutable_extension();
    const TensorMetadata& metadata = *content.metadata;
    extension->set_name(metadata.name);
    if (metadata.device != Device()) extension->set_device(metadata.device.ToString());
    extension->set_dtype(content.dtype_number);
    for (const int64_t stride : content.strides) extension->add_strides(stride);
    extension->set_storage_offset(content.storage_offset);
    extension->set_memory_format(static_cast<int32_t>(metadata.memory_format));
    extension->set_requires_grad(metadata.requires_grad);
    if (content.checksum) extension->set_crc32c(StoredCrc32c(crc));
    if (plan.is_encoded()) extension->set_payload(plan.data.bytes().data(), plan.data_bytes);
    for (const auto& [key, value] : metadata.attributes) {
      auto* attribute = extension->add_attributes();
      attribute->set_key(key);
      attribute->set_value(value);
    }
  } else {
    std::string bytes(plan.extension_bytes, '\0');
    char* const end = WriteExtension(content, crc, &bytes[0]);
    if (plan.is_encoded()) std::memcpy(end, plan.data.bytes().data(), plan.data_bytes);
    out->GetReflection()->MutableUnknownFields(out)->AddLengthDelimited(kExtensionNumber, bytes);
  }
}

template <typename Message>
absl::Status FillMessage(const MessagePlan& plan, Message* out);

inline absl::Status AddObject(const std::string& text, std::string* out) {
  *out = text;
  return absl::OkStatus();
}

template <typename Message>
absl::Status AddObject(const ResourceHandle& handle, Message* out) {
  out->set_device(handle.device);
  out->set_container(handle.container);
  out->set_name(handle.name);
  out->set_hash_code(handle.hash_code);
  out->set_maybe_type_name(handle.maybe_type_name);
  for (const ResourceHandle::DtypeAndShape& part : handle.dtypes_and_shapes) {
    auto* added = out->add_dtypes_and_shapes();
    added->set_dtype(static_cast<decltype(added->dtype())>(DTypeNumber(part.dtype)));
    auto* shape = added->mutable_shape();
    for (const int64_t size : part.shape.dims()) shape->add_dim()->set_size(size);
    shape->set_unknown_rank(!part.shape.has_rank());
  }
  return absl::OkStatus();
}

template <typename Message>
absl::Status AddObject(const Variant& variant, Message* out) {
  out->set_type_name(variant.type_name);
  out->set_metadata(variant.metadata);
  const TensorMetadata none;
  EncodeOptions options;
  options.representation = Representation::kValues;
  for (const Tensor& tensor : variant.tensors) {
    CASK_ASSIGN_OR_RETURN(const MessagePlan plan, PlanMessage(tensor, none, options));
    CASK_RETURN_IF_ERROR(FillMessage(plan, out->add_tensors()));
  }
  return absl::OkStatus();
}

template <typename T, typename Message>
absl::Status AddObjects(absl::Span<const T> objects, Message* out) {
  for (const T& object : objects) {
    if constexpr (kDTypeOf<T> == DType::kString) {
      CASK_RETURN_IF_ERROR(AddObject(object, out->add_string_val()));
    } else if constexpr (kDTypeOf<T> == DType::kResource) {
      CASK_RETURN_IF_ERROR(AddObject(object, out->add_resource_handle_val()));
    } else {
      CASK_RETURN_IF_ERROR(AddObject(object, out->add_variant_val()));
    }
  }
  return absl::OkStatus();
}

template <typename Message>
absl::Status FillMessage(const MessagePlan& plan, Message* out) {
  const TensorView& data = plan.data;
  if (plan.total_bytes > kMaxProtobufBytes) {
    return absl::InvalidArgumentError(absl::StrCat(DTypeName(plan.dtype), " ", plan.shape.ToString(), " takes ",
                                                   plan.total_bytes, " bytes; a protobuf message holds ",
                                                   kMaxProtobufBytes, ": use EncodeTensorTo, or a checkpoint"));
  }
  if (plan.dtype_number() != 0) out->set_dtype(static_cast<decltype(out->dtype())>(plan.dtype_number()));
  auto* shape = out->mutable_tensor_shape();
  for (int axis = 0; axis < plan.shape.rank(); ++axis) shape->add_dim()->set_size(plan.shape.dim(axis));
  uint32_t crc = plan.crc32c;
  if (plan.is_encoded()) {
    SetExtension(plan, crc, out);
    return absl::OkStatus();
  }
  if (plan.representation == Representation::kContent) {
    if (plan.data_bytes > 0) {
      CASK_RETURN_IF_ERROR(SetContent(data, plan.data_bytes, out->mutable_tensor_content()));
    }
  } else if (IsObject(data.dtype())) {
    CASK_RETURN_IF_ERROR(VisitObjects(data, [out](auto objects) { return AddObjects(objects, out); }));
  } else {
    SetValues(data, out);
  }
  if (plan.extension.checksum) {
    crc = plan.representation == Representation::kContent ? ExtendCrc32c(0, out->tensor_content()) : TensorCrc32c(data);
  }
  SetExtension(plan, crc, out);
  return absl::OkStatus();
}

template <typename Message>
absl::Status EncodeMessage(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options,
                           Message* out) {
  out->Clear();
  CASK_ASSIGN_OR_RETURN(const MessagePlan plan, PlanMessage(view, metadata, options));
  absl::Status status = FillMessage(plan, out);
  if (!status.ok()) out->Clear();
  return status;
}

template <typename Message>
absl::StatusOr<Tensor> DecodeMessage(const Message& message, const DecodeOptions& options) {
  ProtoTensorFields<Message> fields(&message);
  CASK_RETURN_IF_ERROR(fields.Read(options.limits.max_depth));
  return TensorDecoder(fields, options).Decode();
}

template <typename Message>
absl::StatusOr<DecodedTensor> DecodeMessageWithMetadata(const Message& message, const DecodeOptions& options) {
  ProtoTensorFields<Message> fields(&message);
  CASK_RETURN_IF_ERROR(fields.Read(options.limits.max_depth));
  return TensorDecoder(fields, options).DecodeWithMetadata();
}

template <typename Message>
using EnableIfMessage = std::enable_if_t<std::is_base_of_v<google::protobuf::Message, Message>, int>;

}  // namespace internal

template <typename Message, internal::EnableIfMessage<Message> = 0>
absl::Status EncodeTensor(const TensorView& view, const EncodeOptions& options, Message* out) {
  return internal::EncodeMessage(view, TensorMetadata(), options, out);
}

template <typename Message, internal::EnableIfMessage<Message> = 0>
absl::Status EncodeTensor(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options,
                          Message* out) {
  return internal::EncodeMessage(view, metadata, options, out);
}

template <typename Message, internal::EnableIfMessage<Message> = 0>
absl::StatusOr<Tensor> DecodeTensor(const Message& message, const DecodeOptions& options = {}) {
  return internal::DecodeMessage(message, options);
}

template <typename Message, internal::EnableIfMessage<Message> = 0>
absl::StatusOr<DecodedTensor> DecodeTensorWithMetadata(const Message& message, const DecodeOptions& options = {}) {
  return internal::DecodeMessageWithMetadata(message, options);
}

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_TENSOR_MESSAGE_H_
