// What copies and conversions of few elements share: so few that the usual checks would take longer than the work.
// Internal.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/internal/copy_few.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

inline constexpr int64_t kFewElements = 4096;

// Two views with equal dims, the destination row-major, and few elements of a fixed size in memory of the host.
struct FewElements {
  enum class Kind : uint8_t {
    kNo,       // none of these
    kDense,    // the source is row-major, too
    kStrided,  // it is not, and has at most max_strided elements
  };

  ABSL_ATTRIBUTE_ALWAYS_INLINE FewElements(const TensorView& from, const TensorView& to, int64_t max_strided)
      : count(to.num_elements()),
        from_size(ElementSize(from.dtype())),
        to_size(from.dtype() == to.dtype() ? from_size : ElementSize(to.dtype())) {
    const int rank = to.rank();
    if (count <= 0 || count > kFewElements || from.rank() != rank || from_size == 0 || to_size == 0) return;
    // One loop compares the dims and checks both strides; calls for each would take longer.
    const int64_t* const dims = to.dims().data();
    const int64_t* const from_dims = from.dims().data();
    const int64_t* const strides = to.strides().data();
    const int64_t* const from_strides = from.strides().data();
    bool is_dense = true;
    int64_t dense = 1;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t dim = dims[axis];
      if (from_dims[axis] != dim) return;
      if (dim == 1) continue;
      if (strides[axis] != dense) return;
      is_dense = is_dense && from_strides[axis] == dense;
      dense *= dim;
    }
    if (!is_dense && (count > max_strided || rank > kFewAxes)) return;
    if (IsOfHost(from) && IsOfHost(to)) kind = is_dense ? Kind::kDense : Kind::kStrided;
  }

  // The elements at index 0, 0 ...
  const char* First(const TensorView& from) const {
    return static_cast<const char*>(from.buffer()->data()) + from.offset() * static_cast<int64_t>(from_size);
  }
  char* MutableFirst(TensorView* to) const {
    return static_cast<char*>(to->buffer()->mutable_data()) + to->offset() * static_cast<int64_t>(to_size);
  }

  // True if the elements of the two may share bytes, also through different buffers.
  bool MayOverlap(const TensorView& from, const TensorView& to) const {
    int64_t first = 0;
    int64_t last = count - 1;
    if (kind != Kind::kDense) {
      const int64_t* const dims = from.dims().data();
      const int64_t* const strides = from.strides().data();
      last = 0;
      for (int axis = 0; axis < from.rank(); ++axis) {
        const int64_t length = (dims[axis] - 1) * strides[axis];
        (length < 0 ? first : last) += length;
      }
    }
    const auto from_start = reinterpret_cast<uintptr_t>(First(from));
    const auto to_start =
        reinterpret_cast<uintptr_t>(to.buffer()->data()) + static_cast<uintptr_t>(to.offset()) * to_size;
    return from_start + static_cast<uintptr_t>(first) * from_size <
               to_start + static_cast<uintptr_t>(count) * to_size &&
           to_start < from_start + static_cast<uintptr_t>(last + 1) * from_size;
  }

  Kind kind = Kind::kNo;
  int64_t count;
  size_t from_size;  // of an element, in bytes
  size_t to_size;

 private:
  static bool IsOfHost(const TensorView& view) {
    const TensorBuffer::Kind kind = view.buffer()->kind();
    return kind != TensorBuffer::Kind::kNoData && kind != TensorBuffer::Kind::kDevice;
  }
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_
