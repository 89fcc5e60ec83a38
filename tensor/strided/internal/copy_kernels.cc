#include "tensorcask/tensor/strided/internal/copy_kernels.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::internal {
namespace {

template <size_t kBytes>
void Transpose(const char* from, int64_t from_inner, char* to, int64_t to_outer, int64_t inner, int64_t outer,
               const Planes& planes) {
  CopyElements<kBytes>(from, from_inner, kBytes, to, kBytes, to_outer, inner, outer, planes);
}

template <size_t kBytes>
void Gather(const char* from, int64_t from_step, char* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * static_cast<int64_t>(kBytes), from + i * from_step, kBytes);
}

void Rows(const char* from, int64_t from_outer, char* to, int64_t to_outer, int64_t bytes, int64_t outer) {
  for (; outer > 0; --outer, from += from_outer, to += to_outer) CopyShort(from, to, bytes);
}

// Copies pairs that are adjacent in the destination, with one store for each.
template <size_t kBytes>
void CopyPairs(const char* from, int64_t from_inner, int64_t from_outer, char* to, int64_t to_outer, int64_t outer,
               const Planes& planes) {
  using Element = std::conditional_t<kBytes == 1, uint8_t, std::conditional_t<kBytes == 2, uint16_t, uint32_t>>;
  using Pair = std::conditional_t<kBytes == 1, uint16_t, std::conditional_t<kBytes == 2, uint32_t, uint64_t>>;
  for (int64_t plane = 0; plane < planes.count; ++plane, from += planes.from, to += planes.to) {
    const char* from_pair = from;
    char* to_pair = to;
    for (int64_t o = 0; o < outer; ++o, from_pair += from_outer, to_pair += to_outer) {
      const auto first = LoadLittleEndian<Element>(from_pair);
      const auto second = static_cast<Pair>(LoadLittleEndian<Element>(from_pair + from_inner));
      StoreLittleEndian<Pair>(static_cast<Pair>(second << (8 * kBytes) | first), to_pair);
    }
  }
}

template <size_t kBytes>
constexpr CopyKernels kScalar = {
    CopyElements<kBytes>, Transpose<kBytes>, Gather<kBytes>, Rows, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

template <size_t kBytes>
void CopyElements(const char* from, int64_t from_inner, int64_t from_outer, char* to, int64_t to_inner,
                  int64_t to_outer, int64_t inner, int64_t outer, const Planes& planes) {
  if constexpr (kBytes <= 4) {
    if (inner == 2 && to_inner == kBytes) {
      return CopyPairs<kBytes>(from, from_inner, from_outer, to, to_outer, outer, planes);
    }
  }
  if (inner < outer) {  // makes the long loop the inner one
    std::swap(from_inner, from_outer);
    std::swap(to_inner, to_outer);
    std::swap(inner, outer);
  }
  for (int64_t plane = 0; plane < planes.count; ++plane, from += planes.from, to += planes.to) {
    for (int64_t o = 0; o < outer; ++o) {
      const char* const from_row = from + o * from_outer;
      char* const to_row = to + o * to_outer;
      const auto copy = [&](int64_t i) { std::memcpy(to_row + i * to_inner, from_row + i * from_inner, kBytes); };
      int64_t i = 0;
      for (; i <= inner - 4; i += 4) {  // by four: a shorter loop takes twice as long at some addresses of its code
        copy(i);
        copy(i + 1);
        copy(i + 2);
        copy(i + 3);
      }
      for (; i < inner; ++i) copy(i);
    }
  }
}

template void CopyElements<1>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t, const Planes&);
template void CopyElements<2>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t, const Planes&);
template void CopyElements<4>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t, const Planes&);
template void CopyElements<8>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t, const Planes&);
template void CopyElements<16>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t, const Planes&);

const CopyKernels kScalarCopyKernels[5] = {kScalar<1>, kScalar<2>, kScalar<4>, kScalar<8>, kScalar<16>};

const CopyKernels& KernelsFor(size_t element_bytes, const CpuFeatures& features) {
  CASK_CHECK(
      element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8 || element_bytes == 16,
      "KernelsFor: elements of this size do not exist");
  const int index = __builtin_ctzll(element_bytes);
#if defined(__x86_64__)
  if (features.avx512) return kAvx512CopyKernels[index];
  if (features.avx2) return kAvx2CopyKernels[index];
#elif defined(__aarch64__)
  if (features.neon) return kNeonCopyKernels[index];
#else
  static_cast<void>(features);
#endif
  return kScalarCopyKernels[index];
}

}  // namespace tensorcask::internal
