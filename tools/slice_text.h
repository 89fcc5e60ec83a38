// The text of --slice: TensorFlow's "0,2:-" (START,LENGTH or '-' for each axis) or Python's "0:2,:" and "[0:2, 3]".

#ifndef TENSORCASK_TOOLS_SLICE_TEXT_H_
#define TENSORCASK_TOOLS_SLICE_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::tools {

// Errors: Misuse (console.h) if `text` is neither; with both forms in the message.
absl::Status CheckSliceText(const std::string& text);

// The slice of a tensor of this shape. In Python's form numbers below 0 count from the end, and axes that are left out
// at the end are whole. Errors: as CheckSliceText; OutOfRange if it selects nothing.
absl::StatusOr<TensorSlice> ParseSliceText(const std::string& text, const TensorShape& shape);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SLICE_TEXT_H_
