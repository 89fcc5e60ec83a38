// The layout of the message that holds a tensor, measured before it is written. Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_TENSOR_ENCODER_H_
#define TENSORCASK_SERIALIZE_WIRE_TENSOR_ENCODER_H_

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/value_traits.h"
#include "tensorcask/serialize/wire/wire_writer.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/strided/maybe_owned.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

struct MessageLayout {
  uint64_t shape_bytes = 0;  // of the TensorShapeProto
  uint64_t data_bytes = 0;   // of tensor_content, or of the packed values; string_val: with tags and lengths
  uint64_t total_bytes = 0;  // of the whole message, with the extension if there is one
  uint32_t data_number = 4;  // the field that holds the data; it is absent if data_bytes is 0
};

// What the functions below want: `view` itself, or a row-major copy if more than bytes are to be taken from it.
// Errors: ResourceExhausted; FailedPrecondition for a buffer without data.
absl::StatusOr<MaybeOwned<TensorView>> ReadyToEncode(const TensorView& view, const EncodeOptions& options);

// Errors: Unimplemented for dtypes that have no plain form; InvalidArgument for a string that tensor_content cannot
// hold.
absl::StatusOr<MessageLayout> LayOutMessage(const TensorView& tensor, const EncodeOptions& options);

// Writes the message. Requires: out.size() is layout.total_bytes.
void WriteMessage(const TensorView& tensor, const EncodeOptions& options, const MessageLayout& layout,
                  absl::Span<char> out);

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

#endif  // TENSORCASK_SERIALIZE_WIRE_TENSOR_ENCODER_H_
