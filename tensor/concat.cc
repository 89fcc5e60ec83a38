#include "tensorcask/tensor/concat.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/concat_parts.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask {
namespace {

constexpr size_t kMaxPieces = 1 << 20;  // Layout::kMaxPieces of the floor above

// One block of elements in every row: the first `start` elements after the beginning of the tensor, the others `row`
// elements apart.
struct BlockInRows {
  int64_t start;
  int64_t row;
};

// Copies `rows` blocks of `block` > 0 elements. Both tensors have elements, of one dtype.
void CopyBlocks(const Tensor& from, BlockInRows source, Tensor& to, BlockInRows target, int64_t block, int64_t rows) {
  if (block == source.row && block == target.row) block *= std::exchange(rows, 1);  // the blocks are adjacent
  const auto copy = [&](const auto* in, auto* out, int64_t units) {
    in += source.start * units;
    out += target.start * units;
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(in + i * source.row * units, block * units, out + i * target.row * units);
    }
  };
  if (IsObject(to.dtype())) {
    VisitObjectDType(to.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      copy(from.data<T>(), to.mutable_data<T>(), 1);
    });
  } else {
    copy(from.bytes().data(), to.mutable_bytes().data(), static_cast<int64_t>(to.element_size()));
  }
}

int64_t Product(const TensorShape& shape, int begin_axis, int end_axis) {
  int64_t product = 1;
  for (int axis = begin_axis; axis < end_axis; ++axis) product *= shape.dim(axis);
  return product;
}

absl::Status CheckReadable(const Tensor& tensor) {
  return tensor.buffer() ? tensor.buffer()->CheckReadable() : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> Concat(absl::Span<const Tensor> tensors, int64_t axis, const RefPtr<Allocator>& allocator) {
  if (tensors.empty()) return absl::InvalidArgumentError("Concat: no tensors, so no dtype and no shape");
  CASK_ASSIGN_OR_RETURN(const int joined_axis, internal::CheckedAxis("Concat", tensors[0].shape(), axis));
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, internal::JoinedShape(tensors, joined_axis));
  for (const Tensor& tensor : tensors) CASK_RETURN_IF_ERROR(CheckReadable(tensor));
  CASK_ASSIGN_OR_RETURN(Tensor whole, Tensor::Create(tensors[0].dtype(), shape, allocator));
  if (whole.num_elements() == 0) return whole;
  CASK_RETURN_IF_ERROR(whole.EnsureMutable());
  const int64_t rows = Product(shape, 0, joined_axis);
  const int64_t row = whole.num_elements() / rows;
  int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.num_elements() == 0) continue;
    const int64_t block = tensor.num_elements() / rows;
    CopyBlocks(tensor, {0, block}, whole, {start, row}, block, rows);
    start += block;
  }
  return whole;
}

absl::StatusOr<std::vector<Tensor>> Split(const Tensor& tensor, absl::Span<const int64_t> sizes, int64_t axis,
                                          const RefPtr<Allocator>& allocator) {
  CASK_ASSIGN_OR_RETURN(const int split_axis, internal::CheckedAxis("Split", tensor.shape(), axis));
  if (sizes.size() > kMaxPieces) {
    return absl::ResourceExhaustedError(absl::StrCat("Split along axis ", split_axis, " of shape ",
                                                     tensor.shape().ToString(), ": ", sizes.size(), " pieces; at most ",
                                                     kMaxPieces));
  }
  int64_t left = tensor.dim(split_axis);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto refused = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("Split along axis ", split_axis, " of shape ",
                                                     tensor.shape().ToString(), ": size ", i, " is ", sizes[i], why));
    };
    if (sizes[i] < 0) return refused("; sizes are not negative");
    if (sizes[i] > left) return refused(absl::StrCat("; only ", left, " are left"));
    left -= sizes[i];
  }
  if (left > 0) {
    return absl::InvalidArgumentError(absl::StrCat("Split along axis ", split_axis, " of shape ",
                                                   tensor.shape().ToString(), ": the sizes leave ", left, " over"));
  }

  std::vector<Tensor> parts;
  parts.reserve(sizes.size());
  if (split_axis == 0) {
    int64_t start = 0;
    for (const int64_t size : sizes) {
      CASK_ASSIGN_OR_RETURN(Tensor part, tensor.Slice(start, start + size));
      parts.push_back(std::move(part));
      start += size;
    }
    return parts;
  }

  CASK_RETURN_IF_ERROR(CheckReadable(tensor));
  const int64_t rows = Product(tensor.shape(), 0, split_axis);
  int64_t start = 0;
  for (const int64_t size : sizes) {
    TensorShape shape = tensor.shape();
    CASK_RETURN_IF_ERROR(shape.SetDim(split_axis, size));
    CASK_ASSIGN_OR_RETURN(Tensor part, Tensor::Create(tensor.dtype(), shape, allocator));
    if (part.num_elements() > 0) {
      CASK_RETURN_IF_ERROR(part.EnsureMutable());
      const int64_t block = part.num_elements() / rows;
      CopyBlocks(tensor, {start, tensor.num_elements() / rows}, part, {0, block}, block, rows);
      start += block;
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace tensorcask
