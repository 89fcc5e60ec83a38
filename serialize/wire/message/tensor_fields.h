// The fields of a TensorProto before they are checked. Two front ends fill them, one from serialized bytes
// (wire_fields.h) and one from message objects (proto_fields.h); one decoder reads them (tensor_decoder.h). Internal.
//
// The struct holds only numbers and views. The values of repeated fields stay in the message and are visited in runs.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_FIELDS_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_FIELDS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/partial_shape.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::internal {

// The fields of TensorProto that hold values, by number.
enum class ValueField : uint8_t {
  kFloat = 5,
  kDouble = 6,
  kInt = 7,
  kString = 8,
  kScomplex = 9,
  kInt64 = 10,
  kBool = 11,
  kDcomplex = 12,
  kHalf = 13,
  kResource = 14,
  kVariant = 15,
  kUint32 = 16,
  kUint64 = 17,
  kFloat8 = 18,
};
inline constexpr uint32_t kFirstValueField = 5;
inline constexpr uint32_t kLastValueField = 18;

inline bool IsValueField(uint32_t number) { return number >= kFirstValueField && number <= kLastValueField; }

// Values of one field, one after the other.
struct ValueRun {
  enum class Form : uint8_t {
    kArray,   // `count` values at `data`, in the C++ type of the field (float, int32_t, bool ...; float8: bytes)
    kPacked,  // `bytes` as on the wire
    kOne,     // one value: a number in `number` (its bits, or as a varint), a string or message in `bytes`
  };
  Form form = Form::kOne;
  const void* data = nullptr;
  size_t count = 1;
  absl::string_view bytes;
  uint64_t number = 0;
};

// The fields of TensorExtension except its attributes, which are visited (TensorFields::ForEachAttribute).
struct ExtensionFields {
  static constexpr size_t kMaxStrides = TensorShape::kMaxRank;

  absl::string_view name;
  absl::string_view device;
  int32_t dtype = 0;
  DimVector strides;  // those of the first kMaxStrides axes
  size_t num_strides = 0;
  int64_t storage_offset = 0;
  int32_t memory_format = 0;
  bool requires_grad = false;
  uint32_t crc32c = 0;  // masked; 0: not given
  bool has_payload = false;
  absl::string_view payload;

  void AddStride(int64_t stride) {
    if (strides.size() < kMaxStrides) strides.push_back(stride);
    ++num_strides;
  }
};

// The sizes in a TensorShapeProto.
struct ShapeFields {
  DimVector dims;  // those of the first kMaxDims axes
  size_t num_axes = 0;
  bool unknown_rank = false;

  static constexpr size_t kMaxDims = TensorShape::kMaxRank;

  void Add(int64_t size) {
    if (dims.size() < kMaxDims) dims.push_back(size);
    ++num_axes;
  }
};

// Errors: InvalidArgument, naming the axis, for what TensorShape refuses, and for unknown_rank unless `lenient`.
absl::StatusOr<TensorShape> ShapeFromFields(const ShapeFields& fields, bool lenient);

// The shape with unknown dims as -1.
// Errors: InvalidArgument for what PartialTensorShape refuses, and for dims beside unknown_rank.
absl::StatusOr<PartialTensorShape> PartialShapeFromFields(const ShapeFields& fields);

// "float_val"
absl::string_view ValueFieldName(ValueField field);

class TensorFields {
 public:
  // Receives one run; returns false to stop.
  using Visitor = absl::FunctionRef<bool(const ValueRun& run)>;

  // Receives one attribute; returns false to stop.
  using AttributeVisitor = absl::FunctionRef<bool(absl::string_view key, absl::string_view value)>;

  virtual ~TensorFields() = default;

  // Visits the runs of `field` in order. Resources and variants come one by one, as serialized messages.
  virtual void ForEachRun(ValueField field, Visitor visit) const = 0;

  // Visits the attributes of the extension in their order.
  virtual void ForEachAttribute(AttributeVisitor visit) const = 0;

  size_t count(ValueField field) const { return counts_[static_cast<size_t>(field) - kFirstValueField]; }

  int32_t dtype = 0;
  ShapeFields shape;
  absl::string_view content;
  bool messages_are_checked = false;  // the messages of resources and variants have passed CheckMessage
  ExtensionFields extension;

 protected:
  size_t& mutable_count(ValueField field) { return counts_[static_cast<size_t>(field) - kFirstValueField]; }

 private:
  std::array<size_t, kLastValueField - kFirstValueField + 1> counts_{};  // how many values each field has
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_FIELDS_H_
