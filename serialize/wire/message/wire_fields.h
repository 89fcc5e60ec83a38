// The front end for serialized messages: see tensor_fields.h. Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_WIRE_FIELDS_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_WIRE_FIELDS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"

namespace tensorcask::internal {

// The fields of a serialized TensorProto, with protobuf's rules for fields that come more than once: the last number or
// bytes count, repeated fields are concatenated, messages are merged. `message` must outlive this object, which copies
// nothing: it finds runs by reading the message again.
class WireTensorFields final : public TensorFields {
 public:
  // Errors: those of CheckMessage.
  absl::Status Read(absl::string_view message, int max_depth);
  // Requires: CheckMessage has passed `message`.
  void ReadChecked(absl::string_view message);

  void ForEachRun(ValueField field, Visitor visit) const override;
  void ForEachAttribute(AttributeVisitor visit) const override;

 private:
  absl::string_view message_;
};

// The fields of a serialized TensorExtension by itself. `message` must outlive this object.
class WireExtensionFields final : public TensorFields {
 public:
  // Errors: those of CheckMessage.
  absl::Status Read(absl::string_view message, int max_depth);

  void ForEachRun(ValueField, Visitor) const override {}  // there are none
  void ForEachAttribute(AttributeVisitor visit) const override;

 private:
  absl::string_view message_;
};

// Merges a serialized TensorShapeProto into *shape. Requires: CheckMessage has passed `message`.
void MergeShape(absl::string_view message, ShapeFields* shape);

// Merges a serialized TensorExtension into *fields. Requires: CheckMessage has passed `message`.
void MergeExtension(absl::string_view message, ExtensionFields* fields);
// Visits the attributes in it. Returns false if `visit` stopped. Requires: CheckMessage has passed `message`.
bool ForEachAttributeOf(absl::string_view message, TensorFields::AttributeVisitor visit);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_WIRE_FIELDS_H_
