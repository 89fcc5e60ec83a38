// The vector kernels of copy_kernels.h, written once. Included by copy_kernels_avx2.cc and copy_kernels_avx512.cc, each
// of which first defines, in its unnamed namespace,
//
//   CASK_TARGET    the attribute that compiles a function for its instructions
//   Vector         its widest register, kBytes bytes of memory in lanes of 16:
//     Load, Store, Stream (to aligned memory, past the caches)
//     UnpackLow<n>(a, b), UnpackHigh<n>(a, b)   in each lane, elements of n bytes of the half, a's and b's in turns
//     StoreLane<lane>(to)
//     Even<n>(a, b)     elements of n bytes with even numbers, a's and then b's
//     Reverse<n>(a)     elements of n bytes, last one first
//
// Not a header of its own: no guard, no namespace.

#if defined(__clang__)
#define CASK_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CASK_UNROLL _Pragma("GCC unroll 16")
#endif

// One lane alone, for what is narrower than a Vector.
struct Lane {
  static constexpr int64_t kBytes = 16;
  __m128i bits;

  CASK_TARGET static Lane Load(const char* from) { return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))}; }
  template <int kElement>
  CASK_TARGET static Lane UnpackLow(Lane a, Lane b) {
    if constexpr (kElement == 1) return {_mm_unpacklo_epi8(a.bits, b.bits)};
    if constexpr (kElement == 2) return {_mm_unpacklo_epi16(a.bits, b.bits)};
    if constexpr (kElement == 4) return {_mm_unpacklo_epi32(a.bits, b.bits)};
    if constexpr (kElement == 8) return {_mm_unpacklo_epi64(a.bits, b.bits)};
  }
  template <int kElement>
  CASK_TARGET static Lane UnpackHigh(Lane a, Lane b) {
    if constexpr (kElement == 1) return {_mm_unpackhi_epi8(a.bits, b.bits)};
    if constexpr (kElement == 2) return {_mm_unpackhi_epi16(a.bits, b.bits)};
    if constexpr (kElement == 4) return {_mm_unpackhi_epi32(a.bits, b.bits)};
    if constexpr (kElement == 8) return {_mm_unpackhi_epi64(a.bits, b.bits)};
  }
  template <int kLane>
  CASK_TARGET void StoreLane(char* to) const {
    static_assert(kLane == 0);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bits);
  }
};

// `kRows` rows of V::kBytes bytes, where kRows elements fill a lane, to V::kBytes / kElement rows of one lane each.
//
// Interleaving the first half of a list with the second moves the highest bit of each element's number to the lowest
// place; for kRows rows of kRows elements (in each lane), log2(kRows) times that is the transposition.
template <typename V, int kElement>
CASK_TARGET inline void TransposeBlock(const char* from, int64_t from_step, char* to, int64_t to_step) {
  constexpr int kRows = 16 / kElement;
  V rows[kRows];
  CASK_UNROLL
  for (int i = 0; i < kRows; ++i) rows[i] = V::Load(from + i * from_step);
  if constexpr (kRows > 1) {
    CASK_UNROLL
    for (int stage = 1; stage < kRows; stage *= 2) {
      V mixed[kRows];
      CASK_UNROLL
      for (int i = 0; i < kRows / 2; ++i) {
        mixed[2 * i] = V::template UnpackLow<kElement>(rows[i], rows[i + kRows / 2]);
        mixed[2 * i + 1] = V::template UnpackHigh<kElement>(rows[i], rows[i + kRows / 2]);
      }
      CASK_UNROLL
      for (int i = 0; i < kRows; ++i) rows[i] = mixed[i];
    }
  }
  CASK_UNROLL
  for (int i = 0; i < kRows; ++i) {
    rows[i].template StoreLane<0>(to + i * to_step);
    if constexpr (V::kBytes >= 32) rows[i].template StoreLane<1>(to + (kRows + i) * to_step);
    if constexpr (V::kBytes >= 64) {
      rows[i].template StoreLane<2>(to + (2 * kRows + i) * to_step);
      rows[i].template StoreLane<3>(to + (3 * kRows + i) * to_step);
    }
  }
}

template <int kElement>
CASK_TARGET void Transpose(const char* from, int64_t from_inner, char* to, int64_t to_outer, int64_t inner,
                           int64_t outer) {
  constexpr int64_t kRows = 16 / kElement;
  constexpr int64_t kWide = Vector::kBytes / kElement;
  if (inner < kRows || outer < kRows) {
    return CopyElements<kElement>(from, from_inner, kElement, to, kElement, to_outer, inner, outer);
  }
  // What is left at an edge is done by a last block that starts early: it writes some elements again.
  for (int64_t next = 0; next < inner; next += kRows) {
    const int64_t i = next <= inner - kRows ? next : inner - kRows;
    const char* const from_row = from + i * from_inner;
    char* const to_column = to + i * kElement;
    int64_t o = 0;
    for (; o <= outer - kWide; o += kWide) {
      TransposeBlock<Vector, kElement>(from_row + o * kElement, from_inner, to_column + o * to_outer, to_outer);
    }
    for (; o < outer; o += kRows) {
      const int64_t start = o <= outer - kRows ? o : outer - kRows;
      TransposeBlock<Lane, kElement>(from_row + start * kElement, from_inner, to_column + start * to_outer, to_outer);
    }
  }
}

template <int kElement>
CASK_TARGET void Gather(const char* from, int64_t from_step, char* to, int64_t count) {
  constexpr int64_t kWide = Vector::kBytes / kElement;
  int64_t i = 0;
  if (from_step == 2 * kElement) {
    // An element follows those taken, so that the one behind the last of them is there to be read.
    for (; i < count - kWide; i += kWide) {
      const char* const pairs = from + i * from_step;
      Vector::Store(to + i * kElement,
                    Vector::template Even<kElement>(Vector::Load(pairs), Vector::Load(pairs + Vector::kBytes)));
    }
  } else if (from_step == -kElement) {
    for (; i <= count - kWide; i += kWide) {
      const char* const last = from + (i + kWide - 1) * from_step;
      Vector::Store(to + i * kElement, Vector::template Reverse<kElement>(Vector::Load(last)));
    }
  } else if (from_step == 0 && count >= kWide) {
    alignas(Vector::kBytes) char repeated[Vector::kBytes];
    for (int64_t j = 0; j < kWide; ++j) std::memcpy(repeated + j * kElement, from, kElement);
    const Vector all = Vector::Load(repeated);
    for (; i <= count - kWide; i += kWide) Vector::Store(to + i * kElement, all);
  }
  for (; i < count; ++i) std::memcpy(to + i * kElement, from + i * from_step, kElement);
}

CASK_TARGET void Stream(const char* from, char* to, int64_t bytes) {
  const auto head = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % kCacheLine);
  if (bytes < head + kCacheLine) return static_cast<void>(std::memcpy(to, from, static_cast<size_t>(bytes)));
  CopyShort(from, to, head);
  int64_t i = head;
  for (; i <= bytes - kCacheLine; i += kCacheLine) {
    CASK_UNROLL
    for (int64_t part = 0; part < kCacheLine; part += Vector::kBytes) {
      Vector::Stream(to + i + part, Vector::Load(from + i + part));
    }
  }
  CopyShort(from + i, to + i, bytes - i);
}

void FinishStream() { _mm_sfence(); }

template <int kElement>
constexpr CopyKernels kKernels = {CopyElements<kElement>, Transpose<kElement>, Gather<kElement>, Stream, FinishStream};
