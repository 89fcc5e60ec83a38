#include "tensorcask/serialize/wire/layout_decoder.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tensorcask::internal {

absl::StatusOr<Layout> DecodeLayout(const ExtensionFields& extension, const TensorShape& shape) {
  if (extension.num_strides == 0) return Layout::RowMajor(shape);
  if (extension.num_strides != static_cast<size_t>(shape.rank())) {
    return absl::InvalidArgumentError(
        absl::StrCat("extension: strides has ", extension.num_strides, " numbers; the shape is ", shape.ToString()));
  }
  absl::StatusOr<Layout> layout = Layout::Create(shape.dims(), extension.strides, extension.storage_offset);
  if (!layout.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("extension: strides: ", layout.status().message()));
  }
  // Each place of the content is one element, so that no byte goes unread and none is read twice.
  const Layout::Range bounds = layout->bounds();
  if (bounds.begin != 0 || bounds.end != layout->num_elements() || !layout->IsNonOverlappingAndDense()) {
    return absl::InvalidArgumentError(absl::StrCat("extension: strides and storage_offset, ", layout->ToString(),
                                                   ", do not give each of ", layout->num_elements(),
                                                   " elements a place of its own from 0 on"));
  }
  if (layout->num_elements() == 0 && extension.storage_offset != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("extension: storage_offset is ", extension.storage_offset, " in a tensor without elements"));
  }
  return layout;
}

}  // namespace tensorcask::internal
