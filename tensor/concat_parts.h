// The checks of Concat for its parts, tensors or views. Internal.

#ifndef TENSORCASK_TENSOR_CONCAT_PARTS_H_
#define TENSORCASK_TENSOR_CONCAT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::internal {

// `axis`, counted from 0. Errors: InvalidArgument for a scalar, or if it is outside.
inline absl::StatusOr<int> CheckedAxis(absl::string_view what, const TensorShape& shape, int64_t axis) {
  if (shape.rank() == 0) return absl::InvalidArgumentError(absl::StrCat(what, ": a scalar has no axis"));
  if (axis < -shape.rank() || axis >= shape.rank()) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": axis ", axis, " is outside shape ", shape.ToString()));
  }
  return static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
}

// The shape of all `parts`, Tensors or TensorViews, joined along `axis`, after comparing them.
// Errors: InvalidArgument as Concat. Requires: `parts` is not empty, and `axis` is an axis of the first part.
template <typename Part>
absl::StatusOr<TensorShape> JoinedShape(absl::Span<const Part> parts, int axis) {
  const Part& first = parts[0];
  DimVector dims = first.shape().dims();
  int64_t& joined = dims[static_cast<size_t>(axis)];
  for (size_t i = 1; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const auto refused = [&](auto... why) {
      return absl::InvalidArgumentError(absl::StrCat("Concat along axis ", axis, ": tensor ", i, " ", why...));
    };
    if (part.dtype() != first.dtype()) {
      return refused("is ", DTypeName(part.dtype()), ", tensor 0 is ", DTypeName(first.dtype()));
    }
    if (part.rank() != first.rank()) {
      return refused("has rank ", part.rank(), " (", part.shape().ToString(), "), tensor 0 has rank ", first.rank(),
                     " (", first.shape().ToString(), ")");
    }
    for (int other = 0; other < first.rank(); ++other) {
      if (other == axis || part.dim(other) == first.dim(other)) continue;
      return refused("has ", part.dim(other), " on axis ", other, " (", part.shape().ToString(), "), tensor 0 has ",
                     first.dim(other), " (", first.shape().ToString(), ")");
    }
    const std::optional<int64_t> sum = CheckedAdd(joined, part.dim(axis));
    if (!sum) return refused("has ", part.dim(axis), " on that axis: the sum exceeds 2^63-1");
    joined = *sum;
  }
  absl::StatusOr<TensorShape> shape = TensorShape::Create(dims);
  if (shape.ok()) return shape;
  return absl::InvalidArgumentError(absl::StrCat("Concat along axis ", axis, ": ", shape.status().message()));
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_CONCAT_PARTS_H_
