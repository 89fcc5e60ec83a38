#include "tensorcask/tensor/strided/copy_strided.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/axes_internal.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {
namespace {

template <size_t kBytes>
void CopyBytes(const Axes& axes, const char* from_base, int64_t from, char* to_base, int64_t to) {
  constexpr auto kSize = static_cast<int64_t>(kBytes);
  ForEachRun(axes, from, to, [&](int64_t from, int64_t to, int64_t count, int64_t from_step, int64_t to_step) {
    if (from_step == 1 && to_step == 1) {
      std::memcpy(to_base + to * kSize, from_base + from * kSize, static_cast<size_t>(count) * kBytes);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to_base + (to + i * to_step) * kSize, from_base + (from + i * from_step) * kSize, kBytes);
    }
  });
}

void CopyStrings(const Axes& axes, const std::string* from_base, int64_t from, std::string* to_base, int64_t to) {
  ForEachRun(axes, from, to, [&](int64_t from, int64_t to, int64_t count, int64_t from_step, int64_t to_step) {
    for (int64_t i = 0; i < count; ++i) to_base[to + i * to_step] = from_base[from + i * from_step];
  });
}

}  // namespace

void CopyStrided(DType dtype, const void* from_base, const Layout& from, void* to_base, const Layout& to) {
  CASK_CHECK(from.dims() == to.dims(), "CopyStrided: the dims differ");
  if (to.num_elements() == 0) return;
  const Axes axes = MergedAxes(from, to);
  if (dtype == DType::kString) {
    CopyStrings(axes, static_cast<const std::string*>(from_base), from.offset(), static_cast<std::string*>(to_base),
                to.offset());
    return;
  }
  const auto copy = [&](auto copy_bytes) {
    copy_bytes(axes, static_cast<const char*>(from_base), from.offset(), static_cast<char*>(to_base), to.offset());
  };
  switch (ElementSize(dtype)) {
    case 1:
      return copy(CopyBytes<1>);
    case 2:
      return copy(CopyBytes<2>);
    case 4:
      return copy(CopyBytes<4>);
    case 8:
      return copy(CopyBytes<8>);
    case 16:
      return copy(CopyBytes<16>);
    default:
      CASK_CHECK(false, "CopyStrided: elements of this size do not exist");
  }
}

}  // namespace tensorcask::internal
