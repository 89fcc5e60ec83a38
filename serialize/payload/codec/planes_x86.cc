// The kernels of planes_kernels.h in registers of 32 bytes, and some in 64. They are called only where the processor
// has CpuFeatures::avx2, and those that have a target of their own where it has vbmi2.

#include "tensorcask/serialize/payload/codec/planes_avx2.h"
#include "tensorcask/serialize/payload/codec/planes_kernels.h"
#include "tensorcask/serialize/payload/codec/planes_zeros.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/simd.h"

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>

#define CASK_VBMI2 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,popcnt")))

namespace tensorcask::internal {
namespace {

// ---- Differences ----------------------------------------------------------------------------------------------------

template <int kBytes, NumberOrder kOrder>
CASK_AVX2 size_t ComputeDifferences(const uint8_t* numbers, const uint8_t* base, size_t count, uint8_t* differences) {
  constexpr size_t kNumbers = 32 / kBytes;
  size_t done = 0;
  for (; count - done >= kNumbers; done += kNumbers) {
    const __m256i number = Ordered<kBytes, kOrder>(LoadBytes(numbers + done * kBytes));
    const __m256i from = Ordered<kBytes, kOrder>(LoadBytes(base + done * kBytes));
    StoreBytes(differences + done * kBytes, Zigzag<kBytes>(Subtract<kBytes>(number, from)));
  }
  return done;
}

template <int kBytes, NumberOrder kOrder>
CASK_AVX2 size_t AddDifferences(const uint8_t* differences, const uint8_t* base, size_t count, uint8_t* numbers) {
  constexpr size_t kNumbers = 32 / kBytes;
  size_t done = 0;
  for (; count - done >= kNumbers; done += kNumbers) {
    const __m256i difference = Unzigzag<kBytes>(LoadBytes(differences + done * kBytes));
    const __m256i from = Ordered<kBytes, kOrder>(LoadBytes(base + done * kBytes));
    StoreBytes(numbers + done * kBytes, Unordered<kBytes, kOrder>(Add<kBytes>(from, difference)));
  }
  return done;
}

// ---- Planes ---------------------------------------------------------------------------------------------------------

// The list of kBytes registers that hold the numbers has, in each lane of 16 bytes, those of 16 numbers: the first
// lanes of all registers numbers 0 to 15, the second ones numbers 16 to 31. So a register with plane i holds 32 bytes
// in order.
constexpr size_t kBlock = 32;  // numbers

struct Register {
  __m256i bits;

  template <int kElement>
  CASK_AVX2 static Register UnpackLow(Register a, Register b) {
    return {internal::UnpackLow<kElement>(a.bits, b.bits)};
  }
  template <int kElement>
  CASK_AVX2 static Register UnpackHigh(Register a, Register b) {
    return {internal::UnpackHigh<kElement>(a.bits, b.bits)};
  }
};
CASK_DEFINE_INTERLEAVE(CASK_AVX2)

// In each lane, byte 0 of the numbers, then byte 1 of each ...
template <int kBytes>
CASK_AVX2 inline __m256i GroupBytes(__m256i a) {
  __m128i order = _mm_setzero_si128();
  if constexpr (kBytes == 2) order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  if constexpr (kBytes == 4) order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  if constexpr (kBytes == 8) order = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(order));
}

// One block; planes lie plane_step apart.
template <int kBytes, bool kRotate>
CASK_AVX2 inline void SplitBlock(const uint8_t* numbers, uint8_t* planes, size_t plane_step) {
  const auto* const lanes = reinterpret_cast<const __m128i*>(numbers);
  Register list[kBytes];
  CASK_UNROLL
  for (int i = 0; i < kBytes; ++i) {
    list[i].bits = _mm256_loadu2_m128i(lanes + kBytes + i, lanes + i);
    if constexpr (kRotate) list[i].bits = RotateLeft<kBytes>(list[i].bits);
    if constexpr (kBytes > 1) list[i].bits = GroupBytes<kBytes>(list[i].bits);
  }
  if constexpr (kBytes > 1) {
    CASK_UNROLL
    for (int stage = 1; stage < kBytes; stage *= 2) Interleave<Register, 16 / kBytes, kBytes>(list);
  }
  CASK_UNROLL
  for (int i = 0; i < kBytes; ++i) StoreBytes(planes + i * plane_step, list[i].bits);
}

template <int kBytes, bool kRotate>
CASK_AVX2 size_t Split(const uint8_t* numbers, size_t count, uint8_t* planes) {
  size_t done = 0;
  if constexpr (kBytes == 8) {
    // Eight planes whose distance is a power of two evict each other's lines, and the numbers, from the first-level
    // cache. So whole lines of each plane are built in a buffer first.
    constexpr size_t kRun = 128;
    uint8_t run[kBytes * kRun];
    for (; count - done >= kRun; done += kRun) {
      for (size_t j = 0; j < kRun; j += kBlock) {
        SplitBlock<kBytes, kRotate>(numbers + (done + j) * kBytes, run + j, kRun);
      }
      for (int i = 0; i < kBytes; ++i) std::memcpy(planes + i * count + done, run + i * kRun, kRun);
    }
  }
  for (; count - done >= kBlock; done += kBlock) {
    SplitBlock<kBytes, kRotate>(numbers + done * kBytes, planes + done, count);
  }
  return done;
}

template <int kBytes, bool kRotated, bool kNonTemporal>
CASK_AVX2 size_t Join(const PlaneSource* planes, size_t count, uint8_t* numbers) {
  uint8_t constants[kBytes][kBlock];
  const uint8_t* from[kBytes];  // steps over a plane, or stays where one block of constants is
  size_t step[kBytes];
  for (int i = 0; i < kBytes; ++i) {
    const bool constant = planes[i].bytes == nullptr;
    if (constant) std::memset(constants[i], planes[i].constant, kBlock);
    from[i] = constant ? constants[i] : planes[i].bytes;
    step[i] = constant ? 0 : kBlock;
  }
  size_t done = 0;
  for (; count - done >= kBlock; done += kBlock) {
    auto* const lanes = reinterpret_cast<__m128i*>(numbers + done * kBytes);
    Register list[kBytes];
    CASK_UNROLL
    for (int i = 0; i < kBytes; ++i) {
      list[i].bits = LoadBytes(from[i]);
      from[i] += step[i];
    }
    CASK_UNROLL
    for (int stage = 1; stage < kBytes; stage *= 2) Interleave<Register, 1, kBytes>(list);
    CASK_UNROLL
    for (int i = 0; i < kBytes; ++i) {
      if constexpr (kRotated) list[i].bits = RotateRight<kBytes>(list[i].bits);
      if constexpr (kNonTemporal) {
        _mm_stream_si128(lanes + i, _mm256_castsi256_si128(list[i].bits));
        _mm_stream_si128(lanes + kBytes + i, _mm256_extracti128_si256(list[i].bits, 1));
      } else {
        _mm256_storeu2_m128i(lanes + kBytes + i, lanes + i, list[i].bits);
      }
    }
  }
  if constexpr (kNonTemporal) _mm_sfence();
  return done;
}

// ---- Zero bitmap ----------------------------------------------------------------------------------------------------

// Moves eight numbers (four of 8 bytes) as `row` says. Reads and writes that many.
template <int kBytes>
CASK_AVX2 inline void Arrange(const uint8_t* from, const uint8_t* row, uint8_t* to) {
  const __m128i places = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row));
  if constexpr (kBytes == 1) {
    const __m128i numbers = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(numbers, places));
  }
  if constexpr (kBytes == 2) {  // place p in bytes is 2p and 2p + 1; kEmpty stays negative
    const __m128i twice = _mm_mullo_epi16(_mm_cvtepi8_epi16(places), _mm_set1_epi16(0x0202));
    const __m128i bytes = _mm_add_epi16(twice, _mm_set1_epi16(0x0100));
    const __m128i numbers = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(numbers, bytes));
  }
  if constexpr (kBytes >= 4) {
    __m256i words = _mm256_cvtepi8_epi32(places);
    if constexpr (kBytes == 8) {  // the same in words of 4 bytes
      words = _mm256_shuffle_epi32(_mm256_cvtepi8_epi64(places), 0xa0);
      words = _mm256_add_epi32(_mm256_add_epi32(words, words), _mm256_set1_epi64x(int64_t{1} << 32));
    }
    const __m256i moved = _mm256_permutevar8x32_epi32(LoadBytes(from), words);
    StoreBytes(to, _mm256_andnot_si256(_mm256_srai_epi32(words, 31), moved));
  }
}

// A bit for each of eight numbers: 1 if it is not 0.
template <int kBytes>
CASK_AVX2 inline uint32_t NonzeroBits(const uint8_t* numbers) {
  uint32_t zeros = 0;
  if constexpr (kBytes == 1) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(numbers));
    zeros = static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(eight, _mm_setzero_si128())));
  }
  if constexpr (kBytes == 2) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers));
    const __m128i is_zero = _mm_cmpeq_epi16(eight, _mm_setzero_si128());
    zeros = static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(is_zero, is_zero)));
  }
  if constexpr (kBytes == 4) {
    zeros = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(IsZero<4>(LoadBytes(numbers)))));
  }
  if constexpr (kBytes == 8) {
    const int low = _mm256_movemask_pd(_mm256_castsi256_pd(IsZero<8>(LoadBytes(numbers))));
    const int high = _mm256_movemask_pd(_mm256_castsi256_pd(IsZero<8>(LoadBytes(numbers + 32))));
    zeros = static_cast<uint32_t>(low | high << 4);
  }
  return ~zeros & 0xff;
}

// Eight numbers at a time.
template <int kSize>
struct Step {
  static constexpr size_t kBytes = kSize;
  static constexpr size_t kNumbers = 8;

  // Both return how many are not 0.
  CASK_AVX2 static size_t Compact(const uint8_t* numbers, uint8_t* mask, uint8_t* dense) {
    const uint32_t bits = NonzeroBits<kBytes>(numbers);
    *mask = static_cast<uint8_t>(bits);
    if constexpr (kBytes < 8) {
      Arrange<kBytes>(numbers, kDense.rows[bits], dense);
    } else {  // by fours
      Arrange<kBytes>(numbers, kDense.rows[bits & 15], dense);
      Arrange<kBytes>(numbers + 32, kDense.rows[bits >> 4], dense + _mm_popcnt_u32(bits & 15) * kBytes);
    }
    return static_cast<size_t>(_mm_popcnt_u32(bits));
  }
  CASK_AVX2 static size_t PutBack(const uint8_t* mask, const uint8_t* dense, uint8_t* numbers) {
    const uint32_t bits = *mask;
    if constexpr (kBytes < 8) {
      Arrange<kBytes>(dense, kSparse.rows[bits], numbers);
    } else {
      Arrange<kBytes>(dense, kSparse.rows[bits & 15], numbers);
      Arrange<kBytes>(dense + _mm_popcnt_u32(bits & 15) * kBytes, kSparse.rows[bits >> 4], numbers + 32);
    }
    return static_cast<size_t>(_mm_popcnt_u32(bits));
  }
};

// 64 bytes at a time.
template <int kSize>
struct WideStep {
  static constexpr size_t kBytes = kSize;
  static constexpr size_t kNumbers = 64 / kBytes;

  CASK_VBMI2 static size_t Compact(const uint8_t* numbers, uint8_t* mask, uint8_t* dense) {
    const __m512i all = _mm512_loadu_si512(numbers);
    uint64_t bits = 0;
    if constexpr (kBytes == 1) {
      bits = _mm512_test_epi8_mask(all, all);
      _mm512_storeu_si512(dense, _mm512_maskz_compress_epi8(bits, all));
    }
    if constexpr (kBytes == 2) {
      bits = _mm512_test_epi16_mask(all, all);
      _mm512_storeu_si512(dense, _mm512_maskz_compress_epi16(static_cast<__mmask32>(bits), all));
    }
    if constexpr (kBytes == 4) {
      bits = _mm512_test_epi32_mask(all, all);
      _mm512_storeu_si512(dense, _mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), all));
    }
    if constexpr (kBytes == 8) {
      bits = _mm512_test_epi64_mask(all, all);
      _mm512_storeu_si512(dense, _mm512_maskz_compress_epi64(static_cast<__mmask8>(bits), all));
    }
    std::memcpy(mask, &bits, kNumbers / 8);
    return static_cast<size_t>(_mm_popcnt_u64(bits));
  }
  CASK_VBMI2 static size_t PutBack(const uint8_t* mask, const uint8_t* dense, uint8_t* numbers) {
    uint64_t bits = 0;
    std::memcpy(&bits, mask, kNumbers / 8);
    __m512i all = _mm512_loadu_si512(dense);
    if constexpr (kBytes == 1) all = _mm512_maskz_expand_epi8(bits, all);
    if constexpr (kBytes == 2) all = _mm512_maskz_expand_epi16(static_cast<__mmask32>(bits), all);
    if constexpr (kBytes == 4) all = _mm512_maskz_expand_epi32(static_cast<__mmask16>(bits), all);
    if constexpr (kBytes == 8) all = _mm512_maskz_expand_epi64(static_cast<__mmask8>(bits), all);
    _mm512_storeu_si512(numbers, all);
    return static_cast<size_t>(_mm_popcnt_u64(bits));
  }
};

template <int kBytes>
CASK_AVX2 __attribute__((flatten)) CountedBlocks CompactNonzeros(const uint8_t* numbers, size_t count, uint8_t* mask,
                                                                 uint8_t* dense) {
  return CompactSteps<Step<kBytes>>(numbers, count, mask, dense);
}
template <int kBytes>
CASK_VBMI2 __attribute__((flatten)) CountedBlocks WideCompactNonzeros(const uint8_t* numbers, size_t count,
                                                                      uint8_t* mask, uint8_t* dense) {
  return CompactSteps<WideStep<kBytes>>(numbers, count, mask, dense);
}
template <int kBytes>
CASK_AVX2 __attribute__((flatten)) CountedBlocks ExpandZeros(const uint8_t* mask, const uint8_t* dense,
                                                             size_t dense_count, size_t count, uint8_t* numbers) {
  return PutSteps<Step<kBytes>>(mask, dense, dense_count, count, numbers);
}
template <int kBytes>
CASK_VBMI2 __attribute__((flatten)) CountedBlocks WideExpandZeros(const uint8_t* mask, const uint8_t* dense,
                                                                  size_t dense_count, size_t count, uint8_t* numbers) {
  return PutSteps<WideStep<kBytes>>(mask, dense, dense_count, count, numbers);
}

template <int kBytes>
CASK_AVX2 CountedBlocks CountZeros(const uint8_t* numbers, size_t count) {
  constexpr size_t kNumbers = 32 / kBytes;
  size_t zero_bytes = 0;
  size_t done = 0;
  for (; count - done >= kNumbers; done += kNumbers) {
    const auto zeros = static_cast<uint32_t>(_mm256_movemask_epi8(IsZero<kBytes>(LoadBytes(numbers + done * kBytes))));
    zero_bytes += static_cast<size_t>(_mm_popcnt_u32(zeros));
  }
  return {done, done - zero_bytes / kBytes};
}

// ---- Bits -----------------------------------------------------------------------------------------------------------

CASK_AVX2 size_t PackBools(const uint8_t* bools, size_t count, uint8_t* bits, uint8_t* seen) {
  __m256i all = _mm256_setzero_si256();
  size_t done = 0;
  for (; count - done >= 32; done += 32) {
    const __m256i bytes = LoadBytes(bools + done);
    all = _mm256_or_si256(all, bytes);
    const int word = _mm256_movemask_epi8(_mm256_slli_epi16(bytes, 7));
    std::memcpy(bits + done / 8, &word, 4);
  }
  uint8_t each[32];
  StoreBytes(each, all);
  for (const uint8_t byte : each) *seen |= byte;
  return done;
}

CASK_AVX2 size_t UnpackBools(const uint8_t* bits, size_t count, uint8_t* bools) {
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  size_t done = 0;
  for (; count - done >= 32; done += 32) {
    int word;
    std::memcpy(&word, bits + done / 8, 4);
    const __m256i kept = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of), bit_of);
    StoreBytes(bools + done, _mm256_min_epu8(kept, _mm256_set1_epi8(1)));
  }
  return done;
}

CASK_AVX2 size_t CountBits(const uint8_t* bytes, size_t size) {
  size_t bits = 0;
  size_t done = 0;
  for (; size - done >= 8; done += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + done, 8);
    bits += static_cast<size_t>(_mm_popcnt_u64(word));
  }
  for (; done < size; ++done) bits += static_cast<size_t>(_mm_popcnt_u32(bytes[done]));
  return bits;
}

// ---- Choice ---------------------------------------------------------------------------------------------------------

constexpr NumberOrder kFloat = NumberOrder::kFloat;
constexpr NumberOrder kInteger = NumberOrder::kInteger;
template <int kBytes, bool kWide>
constexpr BlockKernels kKernels = {
    {Split<kBytes, false>, Split<kBytes, true>},
    {{Join<kBytes, false, false>, Join<kBytes, false, true>}, {Join<kBytes, true, false>, Join<kBytes, true, true>}},
    kWide ? WideCompactNonzeros<kBytes> : CompactNonzeros<kBytes>,
    kWide ? WideExpandZeros<kBytes> : ExpandZeros<kBytes>,
    CountZeros<kBytes>,
    {ComputeDifferences<kBytes, kFloat>, ComputeDifferences<kBytes, kInteger>},
    {AddDifferences<kBytes, kFloat>, AddDifferences<kBytes, kInteger>},
    PackBools,
    UnpackBools,
    CountBits,
};
template <bool kWide>
constexpr BlockKernels kAllKernels[4] = {kKernels<1, kWide>, kKernels<2, kWide>, kKernels<4, kWide>,
                                         kKernels<8, kWide>};

}  // namespace

const BlockKernels* FindBlockKernels(int number_bytes) {
  const CpuFeatures& features = GetCpuFeatures();
  if (!features.avx2) return nullptr;
  const int index = __builtin_ctz(static_cast<unsigned>(number_bytes));
  return features.vbmi2 ? &kAllKernels<true>[index] : &kAllKernels<false>[index];
}

}  // namespace tensorcask::internal

#elif !defined(__aarch64__)  // whose kernels are in planes_neon.cc

namespace tensorcask::internal {

const BlockKernels* FindBlockKernels(int number_bytes) {
  static_cast<void>(number_bytes);
  return nullptr;
}

}  // namespace tensorcask::internal

#endif  // defined(__x86_64__)
