// What is stored of a tensor, in a message or in a file: which elements in which order, and what the guarded form says
// of them (FORMAT.md section 3). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_STORED_ELEMENTS_H_
#define TENSORCASK_SERIALIZE_WIRE_STORED_ELEMENTS_H_

#include "absl/status/status.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/extension_writer.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

// Errors: InvalidArgument, naming the field, for metadata that `view` cannot have.
absl::Status CheckMetadata(const TensorView& view, const TensorMetadata& metadata);

// Sets *data, whose elements in row-major order are what is stored of `view`, whatever its shape; and for the guarded
// form extension->dtype_number, with it strides and storage_offset if the layout is not row-major. Takes no memory for
// elements. Requires: a dtype of fixed size; *extension says nothing of the three. Errors: as Layout::Dense, which a
// view in memory cannot meet.
absl::Status PlanElements(const TensorView& view, StoredLayout layout, TensorView* data, ExtensionContent* extension);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_STORED_ELEMENTS_H_
