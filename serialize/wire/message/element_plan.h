// Decides how a tensor is stored in a message or file: the order of the elements, and the fields of the extension-only
// form (FORMAT.md section 3). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_ELEMENT_PLAN_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_ELEMENT_PLAN_H_

#include "absl/status/status.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

// Errors: InvalidArgument, naming the field, for metadata that `view`, or a tensor of this dtype and shape, cannot
// have.
absl::Status CheckMetadata(const TensorView& view, const TensorMetadata& metadata);
absl::Status CheckMetadata(DType dtype, const TensorShape& shape, const TensorMetadata& metadata);

// Sets *data to a view, of any shape, whose elements in row-major order are the elements to store. For the
// extension-only form it also sets extension->dtype_number and, if the layout is not row-major, strides and
// storage_offset. Allocates no memory for elements. Requires: a dtype of fixed size; these three fields of *extension
// are at their defaults. Errors: those of Layout::Dense, which do not occur for a view in memory.
absl::Status PlanElements(const TensorView& view, StoredLayout layout, TensorView* data, ExtensionContent* extension);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_ELEMENT_PLAN_H_
