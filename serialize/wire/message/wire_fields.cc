#include "tensorcask/serialize/wire/message/wire_fields.h"

#include <algorithm>

#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::internal {
namespace {

// In all functions here the bytes have passed CheckMessage, so the readers cannot fail.

// How many numbers a packed field of `bytes` holds.
size_t CountPacked(FieldRule::Kind kind, absl::string_view bytes) {
  switch (kind) {
    case FieldRule::Kind::kPackedFixed32:
      return bytes.size() / 4;
    case FieldRule::Kind::kPackedFixed64:
      return bytes.size() / 8;
    default:  // varints: the last byte of each is the only one without the high bit
      return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0x80) == 0; }));
  }
}

}  // namespace

absl::Status WireTensorFields::Read(absl::string_view message, int max_depth) {
  CASK_RETURN_IF_ERROR(CheckMessage(message, kTensorRules, max_depth));
  ReadChecked(message);
  return absl::OkStatus();
}

void WireTensorFields::ReadChecked(absl::string_view message) {
  message_ = message;
  messages_are_checked = true;
  WireReader reader(message, kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    switch (field.number) {
      case 1:
        dtype = static_cast<int32_t>(field.value);  // as protobuf: the low 32 bits
        break;
      case 2:
        MergeShape(field.bytes, &shape);
        break;
      case 4:
        content = field.bytes;
        break;
      case static_cast<uint32_t>(ValueField::kFloat8):
        mutable_count(ValueField::kFloat8) = field.bytes.size();
        break;
      case kExtensionNumber:
        MergeExtension(field.bytes, &extension);
        break;
      default:
        if (!IsValueField(field.number)) break;
        size_t& count = mutable_count(static_cast<ValueField>(field.number));
        const FieldRule::Kind kind = kTensorRules.Find(field.number)->kind;
        const bool packed =
            field.type == WireType::kBytes && kind != FieldRule::Kind::kBytes && kind != FieldRule::Kind::kMessage;
        count += packed ? CountPacked(kind, field.bytes) : 1;
    }
  }
}

void WireTensorFields::ForEachRun(ValueField value_field, Visitor visit) const {
  if (count(value_field) == 0) return;
  const auto number = static_cast<uint32_t>(value_field);
  ValueRun last;  // for float8_val, which is not a repeated field
  WireReader reader(message_, kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    if (field.number != number) continue;
    ValueRun run;
    run.bytes = field.bytes;
    run.number = field.value;
    if (value_field == ValueField::kFloat8) {
      run.form = ValueRun::Form::kArray;
      run.data = field.bytes.data();
      run.count = field.bytes.size();
      last = run;
      continue;
    }
    const FieldRule::Kind kind = kTensorRules.Find(number)->kind;
    const bool packed =
        field.type == WireType::kBytes && kind != FieldRule::Kind::kBytes && kind != FieldRule::Kind::kMessage;
    run.form = packed ? ValueRun::Form::kPacked : ValueRun::Form::kOne;
    if (!visit(run)) return;
  }
  if (value_field == ValueField::kFloat8) visit(last);
}

void WireTensorFields::ForEachAttribute(AttributeVisitor visit) const {
  WireReader reader(message_, kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    if (field.number == kExtensionNumber && !ForEachAttributeOf(field.bytes, visit)) return;
  }
}

absl::Status WireExtensionFields::Read(absl::string_view message, int max_depth) {
  CASK_RETURN_IF_ERROR(CheckMessage(message, kExtensionRules, max_depth));
  message_ = message;
  MergeExtension(message, &extension);
  return absl::OkStatus();
}

void WireExtensionFields::ForEachAttribute(AttributeVisitor visit) const { ForEachAttributeOf(message_, visit); }

void MergeShape(absl::string_view message, ShapeFields* shape) {
  WireReader reader(message, kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    if (field.number == 2) {
      int64_t size = 0;
      WireReader dim(field.bytes, kAnyDepth);
      WireReader::Field part;
      while (dim.Next(&part)) {
        if (part.number == 1) size = static_cast<int64_t>(part.value);
      }
      shape->Add(size);
    } else if (field.number == 3) {
      shape->unknown_rank = field.value != 0;
    }
  }
}

void MergeExtension(absl::string_view message, ExtensionFields* fields) {
  WireReader reader(message, kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    switch (field.number) {
      case ExtensionField::kName:
        fields->name = field.bytes;
        break;
      case ExtensionField::kDevice:
        fields->device = field.bytes;
        break;
      case ExtensionField::kDType:
        fields->dtype = static_cast<int32_t>(field.value);
        break;
      case ExtensionField::kStrides:
        if (field.type == WireType::kVarint) {
          fields->AddStride(static_cast<int64_t>(field.value));
        } else {
          ForEachVarint(field.bytes, [fields](uint64_t stride) {
            fields->AddStride(static_cast<int64_t>(stride));
            return true;
          });
        }
        break;
      case ExtensionField::kStorageOffset:
        fields->storage_offset = static_cast<int64_t>(field.value);
        break;
      case ExtensionField::kMemoryFormat:
        fields->memory_format = static_cast<int32_t>(field.value);
        break;
      case ExtensionField::kRequiresGrad:
        fields->requires_grad = field.value != 0;
        break;
      case ExtensionField::kCrc32c:
        fields->crc32c = static_cast<uint32_t>(field.value);
        break;
      case ExtensionField::kPayload:
        fields->has_payload = !field.bytes.empty();
        fields->payload = field.bytes;
        break;
      default:
        break;
    }
  }
}

bool ForEachAttributeOf(absl::string_view message, TensorFields::AttributeVisitor visit) {
  WireReader reader(message, kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    if (field.number != ExtensionField::kAttributes) continue;
    absl::string_view key;
    absl::string_view value;
    WireReader attribute(field.bytes, kAnyDepth);
    WireReader::Field part;
    while (attribute.Next(&part)) {
      if (part.number == AttributeField::kKey) key = part.bytes;
      if (part.number == AttributeField::kValue) value = part.bytes;
    }
    if (!visit(key, value)) return false;
  }
  return true;
}

}  // namespace tensorcask::internal
