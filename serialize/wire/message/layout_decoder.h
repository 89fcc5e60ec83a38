// Decodes the strides of a message: where its elements are in the content (FORMAT.md section 2.4). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_LAYOUT_DECODER_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_LAYOUT_DECODER_H_

#include "absl/status/statusor.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {

// The layout of a tensor of `shape` over its content; row-major if there are no strides.
// Errors: InvalidArgument unless the N elements are at N different positions from 0 to N - 1.
absl::StatusOr<Layout> DecodeLayout(const ExtensionFields& extension, const TensorShape& shape);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_LAYOUT_DECODER_H_
