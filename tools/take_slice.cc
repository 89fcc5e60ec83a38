#include "tensorcask/tools/take_slice.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::tools {
namespace {

// Calls copy(source index, destination index, count) for each run of elements that lie side by side in both.
template <typename CopyRun>
void ForEachRun(const TensorShape& from, const TensorShape& to, const TensorSlice& slice, CopyRun copy) {
  if (to.num_elements() == 0) return;
  const int rank = from.rank();
  if (rank == 0) {
    copy(int64_t{0}, int64_t{0}, int64_t{1});
    return;
  }
  DimVector strides(static_cast<size_t>(rank), 1);
  for (int axis = rank - 2; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = strides[static_cast<size_t>(axis) + 1] * from.dim(axis + 1);
  }
  const int64_t run = to.dim(rank - 1);
  DimVector index(static_cast<size_t>(rank), 0);  // in `to`; the last axis is the run
  for (int64_t done = 0; done < to.num_elements(); done += run) {
    int64_t source = 0;
    for (int axis = 0; axis < rank; ++axis) {
      source += (index[static_cast<size_t>(axis)] + slice.extent(axis).start) * strides[static_cast<size_t>(axis)];
    }
    copy(source, done, run);
    for (int axis = rank - 2; axis >= 0; --axis) {
      if (++index[static_cast<size_t>(axis)] < to.dim(axis)) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
}

}  // namespace

absl::StatusOr<Tensor> TakeSlice(const Tensor& tensor, const TensorSlice& slice) {
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(tensor.shape()));
  CASK_ASSIGN_OR_RETURN(Tensor result, Tensor::Create(tensor.dtype(), shape));
  if (shape.num_elements() == 0) return result;
  if (const size_t size = tensor.element_size(); size != 0) {
    const char* const from = tensor.bytes().data();
    char* const to = result.mutable_bytes().data();
    ForEachRun(tensor.shape(), shape, slice, [&](int64_t source, int64_t destination, int64_t count) {
      std::memcpy(to + static_cast<size_t>(destination) * size, from + static_cast<size_t>(source) * size,
                  static_cast<size_t>(count) * size);
    });
  } else {
    const std::string* const from = tensor.data<std::string>();
    std::string* const to = result.mutable_data<std::string>();
    ForEachRun(tensor.shape(), shape, slice, [&](int64_t source, int64_t destination, int64_t count) {
      std::copy(from + source, from + source + count, to + destination);
    });
  }
  return result;
}

}  // namespace tensorcask::tools
