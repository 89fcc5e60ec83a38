// The front end for message objects: see tensor_fields.h. Internal.
//
// Templates over any class with the field names of TensorProto, so that a project can use TensorFlow's own messages.
// Such a class need not have the field `extension`: protobuf then keeps the extension as bytes in the unknown fields,
// where these templates find it.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_PROTO_FIELDS_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_PROTO_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::internal {

// True if the class has the field `extension`.
template <typename Message, typename = void>
inline constexpr bool kHasExtension = false;
template <typename Message>
inline constexpr bool kHasExtension<Message, std::void_t<decltype(std::declval<const Message&>().extension())>> = true;

inline bool IsUnknownExtension(const google::protobuf::UnknownField& field) {
  return field.number() == static_cast<int>(kExtensionNumber) &&
         field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED;
}

// Errors: InvalidArgument if the unknown fields of `message` (not of nested messages) have a field number of `rules`:
// the field came with a wrong wire type. With `extension_may_be_unknown` the extension may be there, as bytes.
inline absl::Status CheckUnknown(const google::protobuf::Message& message, const MessageRules& rules,
                                 absl::string_view name, bool extension_may_be_unknown = false) {
  const google::protobuf::UnknownFieldSet& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const FieldRule* rule = rules.Find(static_cast<uint32_t>(unknown.field(i).number()));
    if (rule == nullptr || (extension_may_be_unknown && IsUnknownExtension(unknown.field(i)))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", rule->name, " came with a wrong wire type, so its value is lost"));
  }
  return absl::OkStatus();
}

// Calls fn(bytes) for each extension among the unknown fields of `message` until it returns false.
template <typename Fn>
void ForEachUnknownExtension(const google::protobuf::Message& message, Fn&& fn) {
  const google::protobuf::UnknownFieldSet& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (!IsUnknownExtension(unknown.field(i))) continue;
    const absl::string_view bytes = unknown.field(i).length_delimited();
    if (!fn(bytes)) return;
  }
}

// Errors: InvalidArgument if the text of a `string` field is not UTF-8. A parser refuses such text, but a message that
// was built in memory may have any bytes.
inline absl::Status CheckText(absl::string_view name, absl::string_view text) {
  if (IsUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is not UTF-8"));
}

template <typename Shape>
absl::Status ReadShape(const Shape& message, ShapeFields* fields) {
  CASK_RETURN_IF_ERROR(CheckUnknown(message, kShapeRules, "tensor_shape"));
  for (const auto& dim : message.dim()) {
    CASK_RETURN_IF_ERROR(CheckUnknown(dim, kDimRules, "dim"));
    CASK_RETURN_IF_ERROR(CheckText("dim: name", dim.name()));
    fields->Add(dim.size());
  }
  fields->unknown_rank = message.unknown_rank();
  return absl::OkStatus();
}

template <typename Extension>
absl::Status ReadExtension(const Extension& message, ExtensionFields* fields) {
  CASK_RETURN_IF_ERROR(CheckUnknown(message, kExtensionRules, "extension"));
  CASK_RETURN_IF_ERROR(CheckText("extension: device", message.device()));
  for (const auto& attribute : message.attributes()) {
    CASK_RETURN_IF_ERROR(CheckUnknown(attribute, kAttributeRules, "attributes"));
  }
  fields->name = absl::string_view(message.name().data(), message.name().size());
  fields->device = absl::string_view(message.device().data(), message.device().size());
  fields->dtype = message.dtype();
  for (const int64_t stride : message.strides()) fields->AddStride(stride);
  fields->requires_grad = message.requires_grad();
  fields->storage_offset = message.storage_offset();
  fields->memory_format = message.memory_format();
  fields->crc32c = message.crc32c();
  fields->has_payload = !message.payload().empty();
  fields->payload = absl::string_view(message.payload().data(), message.payload().size());
  return absl::OkStatus();
}

// Reads the extension of a tensor message from its field or from the unknown fields; no parser has checked the bytes in
// unknown fields. Errors: those of CheckMessage.
template <typename Tensor>
absl::Status ReadExtensionOf(const Tensor& message, int max_depth, ExtensionFields* fields) {
  if constexpr (kHasExtension<Tensor>) {
    return ReadExtension(message.extension(), fields);
  } else {
    absl::Status status;
    ForEachUnknownExtension(message, [&](absl::string_view bytes) {
      status = Annotate(CheckMessage(bytes, kExtensionRules, max_depth - 1), "extension");
      if (!status.ok()) return false;
      MergeExtension(bytes, fields);
      return true;
    });
    return status;
  }
}

// The levels of messages of a TensorShapeProto: itself, and its dims.
template <typename Shape>
int ShapeDepth(const Shape& shape) {
  return shape.dim_size() > 0 ? 2 : 1;
}

// The next three functions find in `message`, and in all messages nested in it, what CheckMessage finds in bytes: wrong
// wire types, text that is not UTF-8, and messages nested deeper than `max_depth`.
// Errors: InvalidArgument; ResourceExhausted for the depth.
template <typename Resource>
absl::Status CheckResourceMessage(const Resource& message, int max_depth) {
  if (max_depth < 0) return TooDeep();
  CASK_RETURN_IF_ERROR(CheckUnknown(message, kResourceRules, "resource_handle_val"));
  CASK_RETURN_IF_ERROR(CheckText("resource_handle_val: device", message.device()));
  CASK_RETURN_IF_ERROR(CheckText("resource_handle_val: container", message.container()));
  CASK_RETURN_IF_ERROR(CheckText("resource_handle_val: name", message.name()));
  CASK_RETURN_IF_ERROR(CheckText("resource_handle_val: maybe_type_name", message.maybe_type_name()));
  for (const auto& part : message.dtypes_and_shapes()) {
    CASK_RETURN_IF_ERROR(CheckUnknown(part, kDtypeAndShapeRules, "dtypes_and_shapes"));
    if (max_depth < (part.has_shape() ? 1 + ShapeDepth(part.shape()) : 1)) return TooDeep();
    ShapeFields shape;
    CASK_RETURN_IF_ERROR(ReadShape(part.shape(), &shape));
  }
  return absl::OkStatus();
}

template <typename Variant>
absl::Status CheckVariantMessage(const Variant& message, int max_depth);

template <typename Tensor>
absl::Status CheckTensorMessage(const Tensor& message, int max_depth) {
  if (max_depth < (message.has_tensor_shape() ? ShapeDepth(message.tensor_shape()) : 0)) return TooDeep();
  CASK_RETURN_IF_ERROR(CheckUnknown(message, kTensorRules, "the message", !kHasExtension<Tensor>));
  if constexpr (kHasExtension<Tensor>) {
    const int attributes_depth = message.extension().attributes_size() > 0 ? 2 : 1;
    if (message.has_extension() && max_depth < attributes_depth) return TooDeep();
  }
  ShapeFields shape;
  CASK_RETURN_IF_ERROR(ReadShape(message.tensor_shape(), &shape));
  ExtensionFields extension;
  CASK_RETURN_IF_ERROR(ReadExtensionOf(message, max_depth, &extension));
  for (const auto& resource : message.resource_handle_val()) {
    CASK_RETURN_IF_ERROR(CheckResourceMessage(resource, max_depth - 1));
  }
  for (const auto& variant : message.variant_val()) {
    CASK_RETURN_IF_ERROR(CheckVariantMessage(variant, max_depth - 1));
  }
  return absl::OkStatus();
}

template <typename Variant>
absl::Status CheckVariantMessage(const Variant& message, int max_depth) {
  if (max_depth < 0) return TooDeep();
  CASK_RETURN_IF_ERROR(CheckUnknown(message, kVariantRules, "variant_val"));
  CASK_RETURN_IF_ERROR(CheckText("variant_val: type_name", message.type_name()));
  for (const auto& tensor : message.tensors()) {
    CASK_RETURN_IF_ERROR(CheckTensorMessage(tensor, max_depth - 1));
  }
  return absl::OkStatus();
}

// Errors: InvalidArgument for a message of 2 GiB or more, which protobuf does not serialize.
inline absl::Status CheckSize(const google::protobuf::Message& message, absl::string_view name) {
  constexpr size_t kMaxBytes = std::numeric_limits<int32_t>::max();
  const size_t bytes = message.ByteSizeLong();
  if (bytes <= kMaxBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " has ", bytes, " bytes; a message holds ", kMaxBytes));
}

// Calls visit(run) with each message, serialized, until it returns false.
template <typename Messages>
void VisitMessages(const Messages& messages, TensorFields::Visitor visit) {
  std::string bytes;
  for (const auto& message : messages) {
    bytes.clear();
    static_cast<void>(message.AppendToString(&bytes));  // cannot fail: proto3, and less than 2 GiB
    ValueRun run;
    run.bytes = bytes;
    if (!visit(run)) return;
  }
}

// The fields of `message`, which must outlive this and not change.
template <typename Message>
class ProtoTensorFields final : public TensorFields {
 public:
  explicit ProtoTensorFields(const Message* message) : message_(*message) {}

  // Errors: those of CheckTensorMessage.
  absl::Status Read(int max_depth) {
    CASK_RETURN_IF_ERROR(CheckTensorMessage(message_, max_depth));
    for (const auto& resource : message_.resource_handle_val()) {
      CASK_RETURN_IF_ERROR(CheckSize(resource, "resource_handle_val"));
    }
    for (const auto& variant : message_.variant_val()) CASK_RETURN_IF_ERROR(CheckSize(variant, "variant_val"));
    CASK_RETURN_IF_ERROR(ReadShape(message_.tensor_shape(), &shape));
    CASK_RETURN_IF_ERROR(ReadExtensionOf(message_, max_depth, &extension));
    dtype = static_cast<int32_t>(message_.dtype());
    content = absl::string_view(message_.tensor_content().data(), message_.tensor_content().size());
    for (uint32_t number = kFirstValueField; number <= kLastValueField; ++number) {
      const auto field = static_cast<ValueField>(number);
      mutable_count(field) = Count(field);
    }
    return absl::OkStatus();
  }

  void ForEachAttribute(AttributeVisitor visit) const override {
    if constexpr (kHasExtension<Message>) {
      for (const auto& attribute : message_.extension().attributes()) {
        if (!visit(attribute.key(), attribute.value())) return;
      }
    } else {
      ForEachUnknownExtension(message_, [&visit](absl::string_view bytes) { return ForEachAttributeOf(bytes, visit); });
    }
  }

  void ForEachRun(ValueField field, Visitor visit) const override {
    switch (field) {
      case ValueField::kFloat:
        return VisitArray(message_.float_val(), visit);
      case ValueField::kDouble:
        return VisitArray(message_.double_val(), visit);
      case ValueField::kInt:
        return VisitArray(message_.int_val(), visit);
      case ValueField::kScomplex:
        return VisitArray(message_.scomplex_val(), visit);
      case ValueField::kInt64:
        return VisitArray(message_.int64_val(), visit);
      case ValueField::kBool:
        return VisitArray(message_.bool_val(), visit);
      case ValueField::kDcomplex:
        return VisitArray(message_.dcomplex_val(), visit);
      case ValueField::kHalf:
        return VisitArray(message_.half_val(), visit);
      case ValueField::kUint32:
        return VisitArray(message_.uint32_val(), visit);
      case ValueField::kUint64:
        return VisitArray(message_.uint64_val(), visit);
      case ValueField::kFloat8:
        return VisitArray(message_.float8_val(), visit);
      case ValueField::kString: {
        ValueRun run;
        for (const auto& value : message_.string_val()) {
          run.bytes = absl::string_view(value.data(), value.size());
          if (!visit(run)) return;
        }
        return;
      }
      case ValueField::kResource:
        return VisitMessages(message_.resource_handle_val(), visit);
      case ValueField::kVariant:
        return VisitMessages(message_.variant_val(), visit);
    }
  }

 private:
  template <typename Array>
  static void VisitArray(const Array& array, Visitor visit) {
    ValueRun run;
    run.form = ValueRun::Form::kArray;
    run.data = array.data();
    run.count = static_cast<size_t>(array.size());
    if (run.count > 0) visit(run);
  }

  size_t Count(ValueField field) const {
    size_t count = 0;
    switch (field) {
      case ValueField::kString:
        return static_cast<size_t>(message_.string_val_size());
      case ValueField::kResource:
        return static_cast<size_t>(message_.resource_handle_val_size());
      case ValueField::kVariant:
        return static_cast<size_t>(message_.variant_val_size());
      default:
        ForEachRun(field, [&count](const ValueRun& run) {
          count += run.count;
          return true;
        });
        return count;
    }
  }

  const Message& message_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_PROTO_FIELDS_H_
