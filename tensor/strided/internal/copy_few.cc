#include "tensorcask/tensor/strided/internal/copy_few.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/attributes.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {
namespace {

// By four: a shorter loop takes twice as long at some addresses of its code.
template <size_t kBytes>
inline void CopyRow(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t count) {
  for (; count >= 4; count -= 4, from += 4 * from_step, to += 4 * to_step) {
    std::memcpy(to, from, kBytes);
    std::memcpy(to + to_step, from + from_step, kBytes);
    std::memcpy(to + 2 * to_step, from + 2 * from_step, kBytes);
    std::memcpy(to + 3 * to_step, from + 3 * from_step, kBytes);
  }
  if (count >= 2) {
    std::memcpy(to, from, kBytes);
    std::memcpy(to + to_step, from + from_step, kBytes);
    from += 2 * from_step;
    to += 2 * to_step;
  }
  if (count % 2 != 0) std::memcpy(to, from, kBytes);
}

// Separate, so that the loops over one axis and two need no memory for their variables.
template <size_t kBytes>
ABSL_ATTRIBUTE_NOINLINE void CopyManyAxes(const char* from, const Layout& layout, char* to, const int64_t* to_strides,
                                          int64_t from_step, int64_t to_step) {
  constexpr auto kSize = static_cast<int64_t>(kBytes);
  const int64_t* const dims = layout.dims().data();
  const int64_t* const from_strides = layout.strides().data();
  const int last = layout.rank() - 1;
  int64_t index[kFewAxes] = {};
  while (true) {
    CopyRow<kBytes>(from, from_step, to, to_step, dims[last]);
    int axis = last;
    while (true) {
      if (--axis < 0) return;
      if (++index[axis] < dims[axis]) break;
      from -= from_strides[axis] * (dims[axis] - 1) * kSize;
      to -= to_strides[axis] * (dims[axis] - 1) * kSize;
      index[axis] = 0;
    }
    from += from_strides[axis] * kSize;
    to += to_strides[axis] * kSize;
  }
}

template <size_t kBytes>
void Copy(const char* from, const Layout& layout, char* to, const int64_t* to_strides) {
  constexpr auto kSize = static_cast<int64_t>(kBytes);
  const int64_t* const dims = layout.dims().data();
  const int64_t* const from_strides = layout.strides().data();
  // A row is the last axis. The strides of an axis of one element are arbitrary, so that a product could overflow.
  const int last = layout.rank() - 1;
  if (last < 0) return static_cast<void>(std::memcpy(to, from, kBytes));
  const int64_t count = dims[last];
  const int64_t from_step = count == 1 ? 0 : from_strides[last] * kSize;
  const int64_t to_step = count == 1 ? 0 : to_strides[last] * kSize;
  if (last == 0) return CopyRow<kBytes>(from, from_step, to, to_step, count);
  if (last == 1) {
    const int64_t rows = dims[0];
    const int64_t from_row = rows == 1 ? 0 : from_strides[0] * kSize;
    const int64_t to_row = rows == 1 ? 0 : to_strides[0] * kSize;
    if (rows <= count) {
      for (int64_t i = 0; i < rows; ++i)
        CopyRow<kBytes>(from + i * from_row, from_step, to + i * to_row, to_step, count);
    } else {  // the long loop inside
      for (int64_t i = 0; i < count; ++i)
        CopyRow<kBytes>(from + i * from_step, from_row, to + i * to_step, to_row, rows);
    }
    return;
  }
  CopyManyAxes<kBytes>(from, layout, to, to_strides, from_step, to_step);
}

}  // namespace

// Aligned, because short loops take longer at some addresses of their code.
__attribute__((aligned(64))) void CopyFewElements(size_t element_bytes, const char* from, const Layout& layout,
                                                  char* to, absl::Span<const int64_t> to_strides) {
  switch (element_bytes) {
    case 1:
      return Copy<1>(from, layout, to, to_strides.data());
    case 2:
      return Copy<2>(from, layout, to, to_strides.data());
    case 4:
      return Copy<4>(from, layout, to, to_strides.data());
    case 8:
      return Copy<8>(from, layout, to, to_strides.data());
    default:
      return Copy<16>(from, layout, to, to_strides.data());
  }
}

}  // namespace tensorcask::internal
