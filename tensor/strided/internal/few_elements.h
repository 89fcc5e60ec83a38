// What copies and conversions of few elements share: so few that the usual checks would take longer than the work.
// Internal.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

inline constexpr int64_t kFewElements = 4096;

// Two views with equal dims, the destination row-major, with few axes and few elements of a fixed size in memory of the
// host. That of the destination is writable (TensorBuffer::HasWritableMemory), unless the elements are the same.
struct FewElements {
  enum class Kind : uint8_t {
    kNo,       // none of these
    kDense,    // the source is row-major, too
    kStrided,  // it is not, and the elements of either side have at most strided_bytes
  };

  ABSL_ATTRIBUTE_ALWAYS_INLINE FewElements(const TensorView& from, const TensorView& to, size_t strided_bytes)
      : count(to.num_elements()),
        from_size(ElementSize(from.dtype())),
        to_size(from.dtype() == to.dtype() ? from_size : ElementSize(to.dtype())) {
    const int rank = to.rank();
    if (count <= 0 || count > kFewElements || from.rank() != rank || from_size == 0 || to_size == 0) return;
    if (rank > Layout::kInlineRank) return;  // more axes are on the heap; without them the compiler knows the address
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
    if (!is_dense && static_cast<size_t>(count) * std::max(from_size, to_size) > strided_bytes) return;
    if (!IsOfHost(from) || !IsOfHost(to)) return;
    from_first = static_cast<const char*>(from.buffer()->data()) + from.offset() * static_cast<int64_t>(from_size);
    to_first = static_cast<const char*>(to.buffer()->data()) + to.offset() * static_cast<int64_t>(to_size);
    if (from_first != to_first && !to.buffer()->HasWritableMemory()) return;
    kind = is_dense ? Kind::kDense : Kind::kStrided;
  }

  // True if elements of the two may share bytes, also through different buffers.
  bool MayOverlap(const TensorView& from, const TensorView& to) const {
    int64_t before = 0;  // steps from the element at index 0, 0 ... to the first one, and to the last one
    int64_t behind = count - 1;
    if (kind == Kind::kStrided) {
      // Usually the two buffers do not overlap.
      const auto from_start = reinterpret_cast<uintptr_t>(from.buffer()->data());
      const auto to_start = reinterpret_cast<uintptr_t>(to.buffer()->data());
      if (from_start + from.buffer()->size_bytes() <= to_start || to_start + to.buffer()->size_bytes() <= from_start) {
        return false;
      }
      const int64_t* const dims = from.dims().data();
      const int64_t* const strides = from.strides().data();
      behind = 0;
      for (int axis = 0; axis < from.rank(); ++axis) {
        const int64_t length = (dims[axis] - 1) * strides[axis];
        (length < 0 ? before : behind) += length;
      }
    }
    const auto from_bytes = static_cast<int64_t>(from_size);
    const auto from_address = reinterpret_cast<uintptr_t>(from_first);
    const auto to_address = reinterpret_cast<uintptr_t>(to_first);
    return from_address + static_cast<uintptr_t>(before * from_bytes) <
               to_address + static_cast<uintptr_t>(count) * to_size &&
           to_address < from_address + static_cast<uintptr_t>((behind + 1) * from_bytes);
  }

  // to_first, for writing. Requires: not kNo; from_first is another address.
  char* WritableFirst(TensorView* to) const {
    static_cast<void>(to->buffer()->mutable_data());  // counts the write; the memory is writable where it is
    return const_cast<char*>(to_first);
  }

  Kind kind = Kind::kNo;
  int64_t count;
  size_t from_size;  // the size of an element, in bytes
  size_t to_size;
  // Unless kNo:
  const char* from_first = nullptr;  // the elements at index 0, 0 ...
  const char* to_first = nullptr;

 private:
  static bool IsOfHost(const TensorView& view) {
    const TensorBuffer::Kind kind = view.buffer()->kind();
    return kind != TensorBuffer::Kind::kNoData && kind != TensorBuffer::Kind::kDevice;
  }
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_
