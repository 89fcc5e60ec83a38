// From the extension of a message to where its elements stand (FORMAT.md section 2.4). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_LAYOUT_DECODER_H_
#define TENSORCASK_SERIALIZE_WIRE_LAYOUT_DECODER_H_

#include "absl/status/statusor.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {

// The layout of a tensor of `shape` over its content; row-major if there are no strides.
// Errors: InvalidArgument unless each element has a place of its own, from 0 on, and each place an element.
absl::StatusOr<Layout> DecodeLayout(const ExtensionFields& extension, const TensorShape& shape);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_LAYOUT_DECODER_H_
