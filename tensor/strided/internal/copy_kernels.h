// The inner loops of strided copies, for elements of 1, 2, 4, 8 and 16 bytes. Internal; copy.h is the public interface.
//
//   const CopyKernels& kernels = KernelsFor(/*element_bytes=*/4, GetCpuFeatures());
//   kernels.gather(from, /*from_step=*/8, to, 1000);   // every second float
//
// Steps are in bytes. Those of the source may be negative or 0, those between rows of the destination negative.
// Addresses need no alignment. Source and destination do not overlap. The kernels of all instruction sets write the
// same bytes: those of the elements. They read nothing before the first and after the last element.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_KERNELS_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensorcask/tensor/base/cpu.h"

namespace tensorcask::internal {

inline constexpr int64_t kCacheLine = 64;  // bytes

// Equal rectangles, one after the other.
struct Planes {
  int64_t count = 1;
  int64_t from = 0;  // steps from one to the next, in bytes
  int64_t to = 0;
};

// A rectangle of elements: `inner` of them in each of `outer` rows, with a step for each direction and side.
struct CopyKernels {
  // to[o * to_outer + i * to_inner] = from[o * from_outer + i * from_inner], in each plane. The longer of the two loops
  // is the inner one, except for pairs.
  void (*elements)(const char* from, int64_t from_inner, int64_t from_outer, char* to, int64_t to_inner,
                   int64_t to_outer, int64_t inner, int64_t outer, const Planes& planes);
  // The same for a destination that is dense along `inner` and a source that is dense along `outer`: a transpose.
  void (*transpose)(const char* from, int64_t from_inner, char* to, int64_t to_outer, int64_t inner, int64_t outer,
                    const Planes& planes);
  // `count` elements, from_step apart, to a dense run.
  void (*gather)(const char* from, int64_t from_step, char* to, int64_t count);
  // `outer` rows of `bytes` bytes each.
  void (*rows)(const char* from, int64_t from_outer, char* to, int64_t to_outer, int64_t bytes, int64_t outer);
  // The next four use non-temporal stores for whole cache lines. Call finish_stream() once afterwards, before another
  // thread reads the result. All five are null on processors without such stores.
  void (*stream)(const char* from, char* to, int64_t bytes);  // copies bytes
  // As `rows`. Prefetches the source min(ahead, bytes) bytes ahead, across the gap into the next row; these addresses
  // need not exist. 0: no prefetch.
  void (*stream_rows)(const char* from, int64_t from_outer, char* to, int64_t to_outer, int64_t bytes, int64_t outer,
                      int64_t ahead);
  void (*stream_gather)(const char* from, int64_t from_step, char* to, int64_t count);
  // As `transpose` for `outer` rows that start at cache lines, and whole cache lines of each: the elements of `inner`
  // are a multiple of theirs. Goes along `inner` first. Prefetches the bytes that lie `ahead` bytes after those of the
  // source; they need not exist.
  void (*transpose_lines)(const char* from, int64_t from_inner, char* to, int64_t to_outer, int64_t inner,
                          int64_t outer, int64_t ahead);
  void (*finish_stream)();
};

// Requires: element_bytes is 1, 2, 4, 8 or 16, and the processor has `features`.
const CopyKernels& KernelsFor(size_t element_bytes, const CpuFeatures& features);

// The tables that KernelsFor chooses from: [log2(element_bytes)].
extern const CopyKernels kScalarCopyKernels[5];
#if defined(__x86_64__)
extern const CopyKernels kAvx2CopyKernels[5];
extern const CopyKernels kAvx512CopyKernels[5];
#elif defined(__aarch64__)
extern const CopyKernels kNeonCopyKernels[5];
#endif

// The portable kernels. The others use them for blocks that are too small for vectors.
template <size_t kBytes>
void CopyElements(const char* from, int64_t from_inner, int64_t from_outer, char* to, int64_t to_inner,
                  int64_t to_outer, int64_t inner, int64_t outer, const Planes& planes);
extern template void CopyElements<1>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t,
                                     const Planes&);
extern template void CopyElements<2>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t,
                                     const Planes&);
extern template void CopyElements<4>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t,
                                     const Planes&);
extern template void CopyElements<8>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t,
                                     const Planes&);
extern template void CopyElements<16>(const char*, int64_t, int64_t, char*, int64_t, int64_t, int64_t, int64_t,
                                      const Planes&);

// memmove, inlined for short lengths.
inline void CopyShort(const char* from, char* to, int64_t bytes) {
  const auto both_ends = [&](auto word) {  // two words that may overlap; both are read before one is written
    decltype(word) last;
    std::memcpy(&word, from, sizeof(word));
    std::memcpy(&last, from + bytes - sizeof(last), sizeof(last));
    std::memcpy(to, &word, sizeof(word));
    std::memcpy(to + bytes - sizeof(last), &last, sizeof(last));
  };
  struct TwoWords {
    uint64_t words[2];
  };
  struct FourWords {
    uint64_t words[4];
  };
  if (bytes > 64) {
    std::memmove(to, from, static_cast<size_t>(bytes));
  } else if (bytes >= 32) {
    both_ends(FourWords());
  } else if (bytes >= 16) {
    both_ends(TwoWords());
  } else if (bytes >= 8) {
    both_ends(uint64_t{0});
  } else if (bytes >= 4) {
    both_ends(uint32_t{0});
  } else if (bytes >= 2) {
    both_ends(uint16_t{0});
  } else if (bytes == 1) {
    *to = *from;
  }
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_KERNELS_H_
