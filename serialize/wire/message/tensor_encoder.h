// Plans and measures the message for a tensor, and then writes it. Internal.
//
//   CASK_ASSIGN_OR_RETURN(const MessagePlan plan, PlanMessage(view, metadata, options));
//   WriteMessage(plan, out);                                  // out.size() is plan.total_bytes
//
// A message has three parts: the header, the data, and the tail with the extension. A caller that sends the data
// directly from the tensor writes only header and tail. In the encoded form the payload is the data: it ends the
// extension, so the other fields of the extension are in the header.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_ENCODER_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_ENCODER_H_

#include <cstdint>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/serialize/wire/message/internal/value_traits.h"
#include "tensorcask/serialize/wire/message/object_encoder.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

inline constexpr uint32_t kContentNumber = 4;  // the number of tensor_content

struct MessagePlan {
  // A view, of any shape, whose elements in row-major order are written. In the encoded form: the payload, as uint8.
  TensorView data;
  DType dtype = DType::kInvalid;  // that of the tensor, and so is the shape
  TensorShape shape;
  ExtensionContent extension;
  Representation representation = Representation::kContent;

  uint64_t shape_bytes = 0;  // the size of the TensorShapeProto
  uint64_t data_bytes = 0;   // the size of tensor_content or of the packed values; for objects with tags and lengths
  uint64_t extension_bytes = 0;           // the size of the TensorExtension; 0: no extension
  uint64_t total_bytes = 0;               // the size of the whole message
  uint32_t data_number = kContentNumber;  // the field that holds the data; it is absent if data_bytes is 0
  uint32_t crc32c = 0;                    // that of the elements; set only for the encoded form with a checksum

  int dtype_number() const { return extension.dtype_number != 0 ? 0 : DTypeNumber(dtype); }  // the value of field 1
  bool is_encoded() const { return extension.payload_bytes > 0; }
  // True if each value is a field with a tag of its own.
  bool has_object_fields() const { return IsObject(data.dtype()) && data_number != kContentNumber; }
  // The parts before the data (with the tag and length of the data) and after it.
  uint64_t header_bytes() const { return total_bytes - data_bytes - tail_bytes(); }
  uint64_t tail_bytes() const;
};

// Allocates memory only for a copy on the host of a tensor on a device; for a payload; for a row-major copy of a
// strided view of objects or of values for typed fields; and for a copy of elements that other code may write to
// (changing_memory.h), if they go to typed fields or to a payload with a checksum. The message may contain `max_depth`
// levels of messages.
// Errors: FailedPrecondition for a buffer without data; InvalidArgument, naming the field, for metadata that `view`
// cannot have, for an element of 4 GiB or more, which tensor_content cannot hold, and as MeasureObject; those of
// EncodePayload; ResourceExhausted; errors of the device.
absl::StatusOr<MessagePlan> PlanMessage(const TensorView& view, const TensorMetadata& metadata,
                                        const EncodeOptions& options, int max_depth = kMaxWrittenDepth);

// The same without a payload, whatever options.payload says.
absl::StatusOr<MessagePlan> PlanPlainMessage(const TensorView& view, const TensorMetadata& metadata,
                                             const EncodeOptions& options, int max_depth = kMaxWrittenDepth);

// The plan of a message whose data the caller writes: a row-major tensor of this dtype and shape, in the plain form, or
// for own dtypes in the extension-only form. plan.data is empty. Requires: the dtype has a fixed size; `metadata`
// outlives the plan. Errors: InvalidArgument for metadata that the tensor cannot have, and for 2^63 bytes and more.
absl::StatusOr<MessagePlan> PlanFrame(DType dtype, const TensorShape& shape, const TensorMetadata& metadata);

// Writes the message. Requires: out.size() is plan.total_bytes.
void WriteMessage(const MessagePlan& plan, absl::Span<char> out);

// Write the parts of the message; each returns the end. WriteData sets *crc to the crc32c of the elements if WriteTail
// writes a checksum.
char* WriteHeader(const MessagePlan& plan, char* out);
char* WriteData(const MessagePlan& plan, char* out, uint32_t* crc);
char* WriteTail(const MessagePlan& plan, uint32_t crc, char* out);

// Calls fn(ValueTraits<T>(), scalars) with the elements of `tensor` as a span of Traits::Scalar.
// Requires: a fixed-size dtype of TensorFlow; tensor.IsContiguous().
template <typename Fn>
void VisitScalars(const TensorView& tensor, Fn&& fn) {
  VisitDType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kHasValueTraits<T>) {
      using Scalar = typename ValueTraits<T>::Scalar;
      const auto* scalars = reinterpret_cast<const Scalar*>(tensor.bytes().data());
      fn(ValueTraits<T>(), absl::Span<const Scalar>(scalars, tensor.bytes().size() / sizeof(Scalar)));
    }
    return absl::OkStatus();
  }).IgnoreError();
}

// A value as protobuf writes it in a varint: negative numbers as 64 bits.
template <typename Value>
uint64_t VarintFromValue(Value value) {
  if constexpr (std::is_signed_v<Value>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    return value;
  }
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_ENCODER_H_
