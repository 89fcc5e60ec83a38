// The front end for message objects: see tensor_fields.h. Internal.
//
// Templates over any class with the field names of TensorProto, so that a project with TensorFlow's own messages can
// use it, too.

#ifndef TENSORCASK_SERIALIZE_WIRE_PROTO_FIELDS_H_
#define TENSORCASK_SERIALIZE_WIRE_PROTO_FIELDS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/serialize/wire/wire_rules.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::internal {

// Errors: InvalidArgument if a number that `rules` know is among the unknown fields of `message` (not of those in it):
// it came with a wrong wire type.
inline absl::Status CheckUnknown(const google::protobuf::Message& message, const MessageRules& rules,
                                 absl::string_view name) {
  const google::protobuf::UnknownFieldSet& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const FieldRule* rule = rules.Find(static_cast<uint32_t>(unknown.field(i).number()));
    if (rule != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", rule->name, " came with a wrong wire type, so that it was not understood"));
    }
  }
  return absl::OkStatus();
}

template <typename Shape>
absl::Status ReadShape(const Shape& message, ShapeFields* fields) {
  CASK_RETURN_IF_ERROR(CheckUnknown(message, kShapeRules, "tensor_shape"));
  for (const auto& dim : message.dim()) {
    CASK_RETURN_IF_ERROR(CheckUnknown(dim, kDimRules, "dim"));
    fields->Add(dim.size());
  }
  fields->unknown_rank = message.unknown_rank();
  return absl::OkStatus();
}

template <typename Extension>
absl::Status ReadExtension(const Extension& message, ExtensionFields* fields) {
  CASK_RETURN_IF_ERROR(CheckUnknown(message, kExtensionRules, "extension"));
  for (const auto& attribute : message.attributes()) {
    CASK_RETURN_IF_ERROR(CheckUnknown(attribute, kAttributeRules, "attributes"));
  }
  fields->dtype = message.dtype();
  fields->has_strides = message.strides_size() > 0;
  fields->storage_offset = message.storage_offset();
  fields->memory_format = message.memory_format();
  fields->crc32c = message.crc32c();
  fields->has_payload = !message.payload().empty();
  return absl::OkStatus();
}

template <typename Resource>
absl::Status CheckResource(const Resource& message) {
  CASK_RETURN_IF_ERROR(CheckUnknown(message, kResourceRules, "resource_handle_val"));
  for (const auto& part : message.dtypes_and_shapes()) {
    CASK_RETURN_IF_ERROR(CheckUnknown(part, kDtypeAndShapeRules, "dtypes_and_shapes"));
    ShapeFields shape;
    CASK_RETURN_IF_ERROR(ReadShape(part.shape(), &shape));
  }
  return absl::OkStatus();
}

// Looks for wrong wire types in `message` and all messages in it. Errors: InvalidArgument; ResourceExhausted for
// variants nested deeper than `max_depth` messages.
template <typename Tensor>
absl::Status CheckTensorMessage(const Tensor& message, int max_depth) {
  CASK_RETURN_IF_ERROR(CheckUnknown(message, kTensorRules, "the message"));
  for (const auto& resource : message.resource_handle_val()) CASK_RETURN_IF_ERROR(CheckResource(resource));
  for (const auto& variant : message.variant_val()) {
    if (max_depth < 1) return TooDeep();
    CASK_RETURN_IF_ERROR(CheckUnknown(variant, kVariantRules, "variant_val"));
    for (const auto& tensor : variant.tensors()) {
      if (max_depth < 2) return TooDeep();
      ShapeFields shape;
      CASK_RETURN_IF_ERROR(ReadShape(tensor.tensor_shape(), &shape));
      ExtensionFields extension;
      CASK_RETURN_IF_ERROR(ReadExtension(tensor.extension(), &extension));
      CASK_RETURN_IF_ERROR(CheckTensorMessage(tensor, max_depth - 2));
    }
  }
  return absl::OkStatus();
}

// The fields of `message`, which must outlive this and not change.
template <typename Message>
class ProtoTensorFields final : public TensorFields {
 public:
  explicit ProtoTensorFields(const Message* message) : message_(*message) {}

  // Errors: as CheckTensorMessage.
  absl::Status Read(int max_depth) {
    CASK_RETURN_IF_ERROR(CheckTensorMessage(message_, max_depth));
    CASK_RETURN_IF_ERROR(ReadShape(message_.tensor_shape(), &shape));
    CASK_RETURN_IF_ERROR(ReadExtension(message_.extension(), &extension));
    dtype = static_cast<int32_t>(message_.dtype());
    content = absl::string_view(message_.tensor_content().data(), message_.tensor_content().size());
    for (uint32_t number = kFirstValueField; number <= kLastValueField; ++number) {
      const auto field = static_cast<ValueField>(number);
      mutable_count(field) = Count(field);
    }
    return absl::OkStatus();
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
      case ValueField::kVariant:
        return;
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

#endif  // TENSORCASK_SERIALIZE_WIRE_PROTO_FIELDS_H_
