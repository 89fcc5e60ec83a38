#include "tensorcask/serialize/archive/element_totals.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#ifdef __x86_64__
// GCC 12 reports the deliberately undefined registers inside its own intrinsics (its bug 105593).
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/strided/convert.h"

namespace tensorcask::archive {
namespace {

void SetOrigin(double value, ElementTotals* totals) {
  totals->has_origin = true;
  totals->origin = totals->min = totals->max = value;
}

// For integers of 64 bits. Requires: `size` is not 0.
template <typename T>
void AddExactRange(const T* data, size_t size, ElementTotals* totals) {
  T min = data[0];
  T max = data[0];
  for (size_t i = 1; i < size; ++i) {
    min = std::min(min, data[i]);
    max = std::max(max, data[i]);
  }
  totals->exact_min = totals->has_origin ? std::min<absl::int128>(totals->exact_min, min) : min;
  totals->exact_max = totals->has_origin ? std::max<absl::int128>(totals->exact_max, max) : max;
}

template <typename T>
void AddScalars(const T* data, size_t size, ElementTotals* totals) {
  if constexpr (std::is_integral_v<T> && sizeof(T) == sizeof(int64_t)) AddExactRange(data, size, totals);
  totals->count += size;
  for (size_t i = 0; i < size; ++i) {
    const T x = data[i];
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(x)) {
        ++totals->nans;
        continue;
      }
      if (std::isinf(x)) {
        ++totals->infinities;
        continue;
      }
      if (x != 0 && std::abs(x) < std::numeric_limits<T>::min()) ++totals->subnormals;
    }
    if (x == T{0}) ++totals->zeros;
    const auto value = static_cast<double>(x);
    if (!totals->has_origin) SetOrigin(value, totals);
    totals->min = std::min(totals->min, value);
    totals->max = std::max(totals->max, value);
    const double distance = value - totals->origin;
    totals->sum += distance;
    totals->squares += distance * distance;
  }
}

#ifdef __x86_64__
constexpr size_t kLanes = 8;

__attribute__((target("avx2"))) inline uint64_t SumLanes(__m256i counts) {
  int32_t lanes[kLanes];
  std::memcpy(lanes, &counts, sizeof(lanes));
  uint64_t sum = 0;
  for (const int32_t lane : lanes) sum += static_cast<uint32_t>(-lane);  // each match counted -1
  return sum;
}

__attribute__((target("avx2"))) inline double SumLanes(__m256d sums) {
  double lanes[kLanes / 2];
  std::memcpy(lanes, &sums, sizeof(lanes));
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

// Requires: totals->has_origin; size is a multiple of kLanes, below 2^31.
__attribute__((target("avx2"))) void AddFloatsAvx2(const float* data, size_t size, ElementTotals* totals) {
  const auto origin = static_cast<float>(totals->origin);
  const __m256 origins = _mm256_set1_ps(origin);
  const __m256d wide_origins = _mm256_set1_pd(origin);
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const __m256i infinity = _mm256_set1_epi32(0x7f800000);
  const __m256i smallest_normal = _mm256_set1_epi32(0x00800000);
  __m256i zeros = _mm256_setzero_si256();
  __m256i small = zeros;  // zeros and subnormals
  __m256i nans = zeros;
  __m256i infinities = zeros;
  __m256 min = origins;
  __m256 max = origins;
  __m256d sum0 = _mm256_setzero_pd();
  __m256d sum1 = sum0;
  __m256d squares0 = sum0;
  __m256d squares1 = sum0;
  for (size_t i = 0; i < size; i += kLanes) {
    const __m256 x = _mm256_loadu_ps(data + i);
    const __m256i bits = _mm256_and_si256(_mm256_castps_si256(x), magnitude);
    const __m256i is_finite = _mm256_cmpgt_epi32(infinity, bits);
    zeros = _mm256_add_epi32(zeros, _mm256_cmpeq_epi32(bits, _mm256_setzero_si256()));
    small = _mm256_add_epi32(small, _mm256_cmpgt_epi32(smallest_normal, bits));
    nans = _mm256_add_epi32(nans, _mm256_cmpgt_epi32(bits, infinity));
    infinities = _mm256_add_epi32(infinities, _mm256_cmpeq_epi32(bits, infinity));
    const __m256 y = _mm256_blendv_ps(origins, x, _mm256_castsi256_ps(is_finite));
    min = _mm256_min_ps(min, y);
    max = _mm256_max_ps(max, y);
    const __m256d low = _mm256_sub_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(y)), wide_origins);
    const __m256d high = _mm256_sub_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(y, 1)), wide_origins);
    sum0 = _mm256_add_pd(sum0, low);
    sum1 = _mm256_add_pd(sum1, high);
    squares0 = _mm256_add_pd(squares0, _mm256_mul_pd(low, low));
    squares1 = _mm256_add_pd(squares1, _mm256_mul_pd(high, high));
  }
  totals->count += size;
  totals->zeros += SumLanes(zeros);
  totals->subnormals += SumLanes(small) - SumLanes(zeros);
  totals->nans += SumLanes(nans);
  totals->infinities += SumLanes(infinities);
  totals->sum += SumLanes(_mm256_add_pd(sum0, sum1));
  totals->squares += SumLanes(_mm256_add_pd(squares0, squares1));
  float lanes[2][kLanes];
  _mm256_storeu_ps(lanes[0], min);
  _mm256_storeu_ps(lanes[1], max);
  totals->min = std::min<double>(totals->min, *std::min_element(lanes[0], lanes[0] + kLanes));
  totals->max = std::max<double>(totals->max, *std::max_element(lanes[1], lanes[1] + kLanes));
}

constexpr size_t kWideLanes = 16;

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) inline double SumLanes(__m512d sums) {
  double lanes[kWideLanes / 2];
  std::memcpy(lanes, &sums, sizeof(lanes));
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

__attribute__((target("popcnt"))) inline uint64_t Count(uint16_t mask) {
  return static_cast<uint64_t>(__builtin_popcount(mask));
}

// Requires: totals->has_origin; size is a multiple of kWideLanes.
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt"))) void AddFloatsAvx512(const float* data,
                                                                                          size_t size,
                                                                                          ElementTotals* totals) {
  constexpr int kNan = 0x81;  // quiet, signalling
  constexpr int kZero = 0x06;
  constexpr int kInfinity = 0x18;
  constexpr int kSubnormal = 0x20;
  const auto origin = static_cast<float>(totals->origin);
  const __m512 origins = _mm512_set1_ps(origin);
  const __m512d wide_origins = _mm512_set1_pd(origin);
  __m512 min = origins;
  __m512 max = origins;
  __m512d sum0 = _mm512_setzero_pd();
  __m512d sum1 = sum0;
  __m512d squares0 = sum0;
  __m512d squares1 = sum0;
  for (size_t i = 0; i < size; i += kWideLanes) {
    __m512 x = _mm512_loadu_ps(data + i);
    if (_mm512_fpclass_ps_mask(x, kNan | kZero | kInfinity | kSubnormal) != 0) {  // rare in most tensors
      const __mmask16 nans = _mm512_fpclass_ps_mask(x, kNan);
      const __mmask16 infinities = _mm512_fpclass_ps_mask(x, kInfinity);
      totals->nans += Count(nans);
      totals->infinities += Count(infinities);
      totals->zeros += Count(_mm512_fpclass_ps_mask(x, kZero));
      totals->subnormals += Count(_mm512_fpclass_ps_mask(x, kSubnormal));
      x = _mm512_mask_mov_ps(x, static_cast<__mmask16>(nans | infinities), origins);
    }
    min = _mm512_min_ps(min, x);
    max = _mm512_max_ps(max, x);
    const __m512d low = _mm512_sub_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(x)), wide_origins);
    const __m512d high = _mm512_sub_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)), wide_origins);
    sum0 = _mm512_add_pd(sum0, low);
    sum1 = _mm512_add_pd(sum1, high);
    squares0 = _mm512_fmadd_pd(low, low, squares0);
    squares1 = _mm512_fmadd_pd(high, high, squares1);
  }
  totals->count += size;
  totals->sum += SumLanes(_mm512_add_pd(sum0, sum1));
  totals->squares += SumLanes(_mm512_add_pd(squares0, squares1));
  float lanes[2][kWideLanes];
  _mm512_storeu_ps(lanes[0], min);
  _mm512_storeu_ps(lanes[1], max);
  totals->min = std::min<double>(totals->min, *std::min_element(lanes[0], lanes[0] + kWideLanes));
  totals->max = std::max<double>(totals->max, *std::max_element(lanes[1], lanes[1] + kWideLanes));
}
#endif

// Sums over integers of one byte.
struct ByteSums {
  uint64_t zeros = 0;
  int min = std::numeric_limits<int>::max();
  int max = std::numeric_limits<int>::min();
  int64_t sum = 0;
  uint64_t squares = 0;
};

template <typename T>
void SumBytes(const T* data, size_t size, ByteSums* sums) {
  for (size_t i = 0; i < size; ++i) {
    const int x = data[i];
    sums->zeros += x == 0 ? 1 : 0;
    sums->min = std::min(sums->min, x);
    sums->max = std::max(sums->max, x);
    sums->sum += x;
    sums->squares += static_cast<uint64_t>(x * x);
  }
}

#ifdef __x86_64__
constexpr size_t kByteLanes = 32;
constexpr size_t kMostBytes = kByteLanes * 4096;  // what one call may add: 32-bit sums of squares hold it

template <typename Sum, typename Lanes>
__attribute__((target("avx2"))) inline int64_t AddLanes(Lanes lanes) {
  Sum each[sizeof(lanes) / sizeof(Sum)];
  std::memcpy(each, &lanes, sizeof(lanes));
  int64_t sum = 0;
  for (const Sum one : each) sum += static_cast<int64_t>(one);
  return sum;
}

// Requires: size is a multiple of kByteLanes, not 0, at most kMostBytes.
template <typename T>
__attribute__((target("avx2,popcnt"))) void SumBytesAvx2(const T* data, size_t size, ByteSums* sums) {
  constexpr bool kSigned = std::is_signed_v<T>;
  const __m256i zero = _mm256_setzero_si256();
  const __m256i flip = kSigned ? _mm256_set1_epi8(static_cast<char>(0x80)) : zero;  // to unsigned, in order
  __m256i least = _mm256_set1_epi8(static_cast<char>(0xff));                        // flipped, likewise most
  __m256i most = zero;
  __m256i sum = zero;
  __m256i squares = zero;
  for (size_t i = 0; i < size; i += kByteLanes) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i));
    sums->zeros += static_cast<uint64_t>(
        __builtin_popcount(static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, zero)))));
    const __m256i flipped = _mm256_xor_si256(x, flip);
    least = _mm256_min_epu8(least, flipped);
    most = _mm256_max_epu8(most, flipped);
    sum = _mm256_add_epi64(sum, _mm256_sad_epu8(flipped, zero));
    const __m128i low = _mm256_castsi256_si128(x);
    const __m128i high = _mm256_extracti128_si256(x, 1);
    const __m256i wide_low = kSigned ? _mm256_cvtepi8_epi16(low) : _mm256_cvtepu8_epi16(low);
    const __m256i wide_high = kSigned ? _mm256_cvtepi8_epi16(high) : _mm256_cvtepu8_epi16(high);
    squares = _mm256_add_epi32(squares, _mm256_madd_epi16(wide_low, wide_low));
    squares = _mm256_add_epi32(squares, _mm256_madd_epi16(wide_high, wide_high));
  }
  constexpr int kOffset = kSigned ? 128 : 0;
  uint8_t lanes[2][kByteLanes];
  std::memcpy(lanes[0], &least, kByteLanes);
  std::memcpy(lanes[1], &most, kByteLanes);
  sums->min = std::min(sums->min, *std::min_element(lanes[0], lanes[0] + kByteLanes) - kOffset);
  sums->max = std::max(sums->max, *std::max_element(lanes[1], lanes[1] + kByteLanes) - kOffset);
  sums->sum += AddLanes<int64_t>(sum) - kOffset * static_cast<int64_t>(size);
  sums->squares += static_cast<uint64_t>(AddLanes<int32_t>(squares));
}
#endif

// Integers of one byte: their sums are exact, and so the difference to the origin is taken at the end.
template <typename T>
void AddBytes(const T* data, size_t size, ElementTotals* totals) {
  if (!totals->has_origin) SetOrigin(data[0], totals);
  ByteSums sums;
  size_t done = 0;
#ifdef __x86_64__
  while (GetCpuFeatures().avx2 && size - done >= kByteLanes) {
    const size_t some = std::min(kMostBytes, (size - done) / kByteLanes * kByteLanes);
    SumBytesAvx2(data + done, some, &sums);
    done += some;
  }
#endif
  SumBytes(data + done, size - done, &sums);
  const auto n = static_cast<double>(size);
  const auto sum = static_cast<double>(sums.sum);
  totals->count += size;
  totals->zeros += sums.zeros;
  totals->min = std::min<double>(totals->min, sums.min);
  totals->max = std::max<double>(totals->max, sums.max);
  totals->sum += sum - n * totals->origin;
  totals->squares += static_cast<double>(sums.squares) - 2 * totals->origin * sum + n * totals->origin * totals->origin;
}

// The type of a float or an integer of fewer than 8 bits, in one byte.
template <typename T, typename = void>
struct ByteType {
  static constexpr bool kIsSmall = false;
};
template <typename T>
struct ByteType<T, std::enable_if_t<sizeof(T) == 1 && (T::Format::kExponentBits > 0)>> {
  static constexpr bool kIsSmall = true;
  static double Value(uint8_t bits) { return static_cast<float>(T::FromBits(bits)); }
  static double SmallestNormal() {  // 0: the type has no subnormal numbers
    return T::Format::kMantissaBits == 0 ? 0 : std::ldexp(1.0, 1 - T::Format::kBias);
  }
};
template <typename T>
struct ByteType<T, std::enable_if_t<(T::kBits < 8)>> {
  static constexpr bool kIsSmall = true;
  static double Value(uint8_t bits) { return T::FromBits(bits).value(); }
  static double SmallestNormal() { return 0; }
};

// Counts how often each byte occurs, and adds its value as often.
template <typename T>
void AddByValue(const uint8_t* data, size_t size, ElementTotals* totals) {
  uint64_t counts[256] = {};
  for (size_t i = 0; i < size; ++i) ++counts[data[i]];
  totals->count += size;
  for (int bits = 0; bits < 256; ++bits) {
    const uint64_t count = counts[bits];
    if (count == 0) continue;
    const double value = ByteType<T>::Value(static_cast<uint8_t>(bits));
    if (std::isnan(value)) {
      totals->nans += count;
      continue;
    }
    if (std::isinf(value)) {
      totals->infinities += count;
      continue;
    }
    if (value == 0) {
      totals->zeros += count;
    } else if (std::abs(value) < ByteType<T>::SmallestNormal()) {
      totals->subnormals += count;
    }
    if (!totals->has_origin) SetOrigin(value, totals);
    totals->min = std::min(totals->min, value);
    totals->max = std::max(totals->max, value);
    const double distance = value - totals->origin;
    totals->sum += static_cast<double>(count) * distance;
    totals->squares += static_cast<double>(count) * distance * distance;
  }
}

// Of 16-bit floats, which are converted before they are added: elements with this exponent 0 and another mantissa.
uint64_t CountSubnormals16(const TensorView& block, uint16_t exponent) {
  const absl::string_view bytes = block.bytes();
  uint64_t count = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += sizeof(uint16_t)) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + i, sizeof(bits));
    count += (bits & exponent) == 0 && (bits & 0x7fff) != 0 ? 1 : 0;
  }
  return count;
}

}  // namespace

void AddFloatsPortable(const float* data, size_t size, ElementTotals* totals) { AddScalars(data, size, totals); }

void AddFloats(const float* data, size_t size, ElementTotals* totals) {
#ifdef __x86_64__
  if (GetCpuFeatures().avx2) {
    constexpr size_t kMost = size_t{1} << 30;
    size_t done = 0;
    while (done < size && !totals->has_origin) {  // up to the first finite element
      AddScalars(data + done, 1, totals);
      ++done;
    }
    if (GetCpuFeatures().avx512) {
      const size_t some = (size - done) / kWideLanes * kWideLanes;
      AddFloatsAvx512(data + done, some, totals);
      done += some;
    }
    while (size - done >= kLanes) {
      const size_t some = std::min(kMost, (size - done) / kLanes * kLanes);
      AddFloatsAvx2(data + done, some, totals);
      done += some;
    }
    return AddScalars(data + done, size - done, totals);
  }
#endif
  AddScalars(data, size, totals);
}

bool HasOrder(DType dtype) { return ElementSize(dtype) > 0 && !IsComplex(dtype); }
bool HasExactRange(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kUint64; }

absl::Status ElementTotals::Add(const TensorView& block) {
  const auto size = static_cast<size_t>(block.num_elements());
  if (size == 0) return absl::OkStatus();
  switch (block.dtype()) {
    case DType::kFloat32:
      AddFloats(block.data<float>(), size, this);
      return absl::OkStatus();
    case DType::kFloat64:
      AddScalars(block.data<double>(), size, this);
      return absl::OkStatus();
    case DType::kInt64:
      AddScalars(block.data<int64_t>(), size, this);
      return absl::OkStatus();
    case DType::kUint64:
      AddScalars(block.data<uint64_t>(), size, this);
      return absl::OkStatus();
    case DType::kInt32:
      AddScalars(block.data<int32_t>(), size, this);
      return absl::OkStatus();
    case DType::kBool:
    case DType::kUint8:
    case DType::kQuint8:
      AddBytes(reinterpret_cast<const uint8_t*>(block.bytes().data()), size, this);
      return absl::OkStatus();
    case DType::kInt8:
    case DType::kQint8:
      AddBytes(reinterpret_cast<const int8_t*>(block.bytes().data()), size, this);
      return absl::OkStatus();
    case DType::kUint32:
    case DType::kQint32: {
      CASK_ASSIGN_OR_RETURN(const TensorView wide, ConvertTo(block, DType::kFloat64));
      AddScalars(wide.data<double>(), size, this);
      return absl::OkStatus();
    }
    default:
      break;
  }
  bool is_added = false;
  CASK_RETURN_IF_ERROR(VisitDType(block.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (ByteType<T>::kIsSmall) {
      AddByValue<T>(reinterpret_cast<const uint8_t*>(block.bytes().data()), size, this);
      is_added = true;
    }
    return absl::OkStatus();
  }));
  if (is_added) return absl::OkStatus();
  // Every other number is a float32 exactly.
  CASK_ASSIGN_OR_RETURN(const TensorView wide, ConvertTo(block, DType::kFloat32));
  const uint64_t before = subnormals;
  AddFloats(wide.data<float>(), size, this);
  if (block.dtype() == DType::kFloat16) subnormals = before + CountSubnormals16(block, 0x7c00);
  return absl::OkStatus();
}

double ElementTotals::mean() const {
  if (!std::isfinite(sum)) return NAN;
  return finite() == 0 ? 0 : origin + sum / static_cast<double>(finite());
}

double ElementTotals::standard_deviation() const {
  if (!std::isfinite(squares)) return NAN;
  if (finite() == 0) return 0;
  const auto n = static_cast<double>(finite());
  return std::sqrt(std::max(0.0, squares / n - (sum / n) * (sum / n)));
}

}  // namespace tensorcask::archive
