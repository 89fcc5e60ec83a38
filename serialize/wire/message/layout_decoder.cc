#include "tensorcask/serialize/wire/message/layout_decoder.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::internal {

absl::StatusOr<Layout> DecodeLayout(const ExtensionFields& extension, const TensorShape& shape) {
  if (extension.num_strides == 0) return Layout::RowMajor(shape);
  if (extension.num_strides != static_cast<size_t>(shape.rank())) {
    return absl::InvalidArgumentError(
        absl::StrCat("extension: strides has ", extension.num_strides, " numbers; the shape is ", shape.ToString()));
  }
  CASK_ASSIGN_OR_ANNOTATE(Layout layout, Layout::Create(shape.dims(), extension.strides, extension.storage_offset),
                          "extension: strides");
  // Each position in the content belongs to exactly one element: no byte is skipped, and no byte is read twice.
  const Layout::Range bounds = layout.bounds();
  if (bounds.begin != 0 || bounds.end != layout.num_elements() || !layout.IsNonOverlappingAndDense()) {
    return absl::InvalidArgumentError(absl::StrCat("extension: strides and storage_offset, ", layout.ToString(),
                                                   ", do not give each of ", layout.num_elements(),
                                                   " elements a position of its own, from 0 on"));
  }
  if (layout.num_elements() == 0 && extension.storage_offset != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("extension: storage_offset is ", extension.storage_offset, " in a tensor without elements"));
  }
  return layout;
}

}  // namespace tensorcask::internal
