#include "tensorcask/serialize/wire/wire_fields.h"

#include <algorithm>
#include <limits>

#include "tensorcask/serialize/wire/wire_reader.h"
#include "tensorcask/serialize/wire/wire_rules.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::internal {
namespace {

// The bytes have passed CheckMessage in all functions here, so the readers cannot fail; groups are as deep as it
// allowed.
constexpr int kAnyDepth = std::numeric_limits<int>::max();

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

// How many numbers a packed field of `bytes` holds.
size_t CountPacked(FieldRule::Kind kind, absl::string_view bytes) {
  switch (kind) {
    case FieldRule::Kind::kPackedFixed32:
      return bytes.size() / 4;
    case FieldRule::Kind::kPackedFixed64:
      return bytes.size() / 8;
    default:  // varints: each ends in the one byte without the high bit
      return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0x80) == 0; }));
  }
}

}  // namespace

absl::Status WireTensorFields::Read(absl::string_view message, int max_depth) {
  CASK_RETURN_IF_ERROR(CheckMessage(message, kTensorRules, max_depth));
  message_ = message;
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
      case 4096:
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
  return reader.status();
}

void WireTensorFields::ForEachRun(ValueField value_field, Visitor visit) const {
  if (count(value_field) == 0) return;
  const auto number = static_cast<uint32_t>(value_field);
  ValueRun last;  // of float8_val, which is no repeated field
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
    const bool packed = field.type == WireType::kBytes && value_field != ValueField::kString;
    run.form = packed ? ValueRun::Form::kPacked : ValueRun::Form::kOne;
    if (!visit(run)) return;
  }
  if (value_field == ValueField::kFloat8) visit(last);
}

void MergeExtension(absl::string_view message, ExtensionFields* fields) {
  WireReader reader(message, kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    switch (field.number) {
      case 3:
        fields->dtype = static_cast<int32_t>(field.value);
        break;
      case 4:
        fields->has_strides = fields->has_strides || field.type == WireType::kVarint || !field.bytes.empty();
        break;
      case 5:
        fields->storage_offset = static_cast<int64_t>(field.value);
        break;
      case 6:
        fields->memory_format = static_cast<int32_t>(field.value);
        break;
      case 8:
        fields->crc32c = static_cast<uint32_t>(field.value);
        break;
      case 10:
        fields->has_payload = !field.bytes.empty();
        break;
      default:
        break;
    }
  }
}

}  // namespace tensorcask::internal
