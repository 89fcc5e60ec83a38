// What copies and conversions of few elements share: so few that a call or a plan would take longer than the work.
// Internal.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

inline constexpr int64_t kFewElements = 256;

// As Layout::IsContiguous, for layouts with elements.
inline bool IsRowMajor(const Layout& layout) {
  const int64_t* const dims = layout.dims().data();
  const int64_t* const strides = layout.strides().data();
  int64_t dense = 1;
  for (int axis = layout.rank() - 1; axis >= 0; --axis) {
    if (dims[axis] != 1 && strides[axis] != dense) return false;
    dense *= dims[axis];
  }
  return true;
}

// True if the elements of both are few, of a fixed size, dense and row-major in memory of the host. Requires: equal
// dims.
inline bool AreFewAndDense(const TensorView& from, const TensorView& to) {
  const auto is_of_host = [](const TensorView& view) {
    const TensorBuffer::Kind kind = view.buffer()->kind();
    return kind != TensorBuffer::Kind::kNoData && kind != TensorBuffer::Kind::kDevice;
  };
  const int64_t count = to.num_elements();
  return count > 0 && count <= kFewElements && !IsObject(from.dtype()) && !IsObject(to.dtype()) &&
         IsRowMajor(from.layout()) && IsRowMajor(to.layout()) && is_of_host(from) && is_of_host(to);
}

// Copies `bytes` bytes to where the two may overlap. At most 64 need no call.
inline void MoveShort(const char* from, char* to, size_t bytes) {
  struct Words {
    uint64_t words[4];
  };
  const auto both_ends = [&](auto word) {  // two words, which may overlap; both are read before one is written
    decltype(word) last;
    std::memcpy(&word, from, sizeof(word));
    std::memcpy(&last, from + bytes - sizeof(last), sizeof(last));
    std::memcpy(to, &word, sizeof(word));
    std::memcpy(to + bytes - sizeof(last), &last, sizeof(last));
  };
  if (bytes > 64) return static_cast<void>(std::memmove(to, from, bytes));
  if (bytes >= 32) return both_ends(Words());
  if (bytes >= 16) return both_ends(static_cast<unsigned __int128>(0));
  if (bytes >= 8) return both_ends(uint64_t{0});
  if (bytes >= 4) return both_ends(uint32_t{0});
  if (bytes >= 2) return both_ends(uint16_t{0});
  if (bytes == 1) *to = *from;
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_
