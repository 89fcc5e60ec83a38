#include "tensorcask/tensor/float_types.h"

#include <type_traits>

#include "tensorcask/tensor/float_types_inl.h"

namespace tensorcask {
namespace internal {

template <typename Format>
typename Format::Bits BitsFromFloat(float value) {
  return BitsFromFloatInline<Format>(value);
}

template <typename Format>
float FloatFromBits(typename Format::Bits bits) {
  return FloatFromBitsInline<Format>(bits);
}

#define CASK_INSTANTIATE(T)                                       \
  template T::Format::Bits BitsFromFloat<T::Format>(float value); \
  template float FloatFromBits<T::Format>(T::Format::Bits bits);  \
  static_assert(std::is_trivial_v<T> && sizeof(T) == sizeof(T::Bits), #T);

CASK_INSTANTIATE(float16)
CASK_INSTANTIATE(bfloat16)
CASK_INSTANTIATE(float8_e5m2)
CASK_INSTANTIATE(float8_e4m3)
CASK_INSTANTIATE(float8_e3m4)
CASK_INSTANTIATE(float8_e4m3fn)
CASK_INSTANTIATE(float8_e4m3fnuz)
CASK_INSTANTIATE(float8_e4m3b11fnuz)
CASK_INSTANTIATE(float8_e5m2fnuz)
CASK_INSTANTIATE(float8_e8m0fnu)
CASK_INSTANTIATE(float6_e2m3)
CASK_INSTANTIATE(float6_e3m2)
CASK_INSTANTIATE(float4_e2m1)
#undef CASK_INSTANTIATE

}  // namespace internal
}  // namespace tensorcask
