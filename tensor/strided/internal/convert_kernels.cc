#include "tensorcask/tensor/strided/internal/convert_kernels.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/simd.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/float_types_inl.h"
#include "tensorcask/tensor/strided/internal/convert_values.h"
#include "tensorcask/tensor/strided/internal/copy_kernels.h"

namespace tensorcask::internal {
namespace {

// ---- Steps ----------------------------------------------------------------------------------------------------------

// The wide type that holds the values of a dtype during a conversion.
enum Wide { kFloat, kDouble, kInt, kUint };
template <Wide>
struct WideType;
template <>
struct WideType<kFloat> {
  using type = float;
};
template <>
struct WideType<kDouble> {
  using type = double;
};
template <>
struct WideType<kInt> {
  using type = int64_t;
};
template <>
struct WideType<kUint> {
  using type = uint64_t;
};

// For each element type T: its wide type, and Load and Store if T is another type. kNarrow: Store rounds, so a value is
// rounded to odd before it.
template <typename T, typename Enable = void>
struct Element;

template <typename T, Wide kWideType>
struct WholeElement {
  static constexpr Wide kWide = kWideType;
  static constexpr bool kIsWide = true;
  static constexpr bool kNarrow = false;
};
template <>
struct Element<float> : WholeElement<float, kFloat> {};
template <>
struct Element<double> : WholeElement<double, kDouble> {};
template <>
struct Element<int64_t> : WholeElement<int64_t, kInt> {};
template <>
struct Element<uint64_t> : WholeElement<uint64_t, kUint> {};

template <typename FormatType>
struct Element<SmallFloat<FormatType>> {
  using T = SmallFloat<FormatType>;
  static constexpr Wide kWide = kFloat;
  static constexpr bool kIsWide = false;
  static constexpr bool kNarrow = true;
  static float Load(T value) { return FloatFromBitsInline<FormatType>(value.bits()); }
  static T Store(float value) { return NearestSmallFloat<T>(value); }
};

template <typename T>
struct Element<T, std::enable_if_t<std::is_integral_v<T> && (sizeof(T) < 8) && !std::is_same_v<T, bool>>> {
  static constexpr Wide kWide = kInt;
  static constexpr bool kIsWide = false;
  static constexpr bool kNarrow = false;
  static int64_t Load(T value) { return value; }
  static T Store(int64_t value) { return Saturated<T>(value); }
};

template <>
struct Element<bool> {
  static constexpr Wide kWide = kInt;
  static constexpr bool kIsWide = false;
  static constexpr bool kNarrow = false;
  static int64_t Load(bool value) { return value ? 1 : 0; }
  static bool Store(int64_t value) { return value != 0; }
};

template <typename Int, int kBits>
struct Element<SubByteInt<Int, kBits>> {
  using T = SubByteInt<Int, kBits>;
  static constexpr Wide kWide = kInt;
  static constexpr bool kIsWide = false;
  static constexpr bool kNarrow = false;
  static int64_t Load(T value) { return value.value(); }
  static T Store(int64_t value) {
    constexpr int64_t kValues = int64_t{1} << kBits;
    constexpr int64_t kSmallest = std::is_signed_v<Int> ? -kValues / 2 : 0;
    return T(static_cast<Int>(std::min(std::max(value, kSmallest), kSmallest + kValues - 1)));
  }
};

template <typename Part>
struct Element<std::complex<Part>> {
  static constexpr Wide kWide = Element<Part>::kWide;
  static constexpr bool kIsWide = false;
  static constexpr bool kNarrow = false;
  static Part Load(std::complex<Part> value) { return value.real(); }
  static std::complex<Part> Store(Part value) { return {value, 0}; }
};

// An operation of a loop: From, To and Apply.
template <typename FromType, typename ToType>
struct Operation {
  using From = FromType;
  using To = ToType;
};

template <typename T>
struct LoadOf : Operation<T, typename WideType<Element<T>::kWide>::type> {
  static auto Apply(T value) { return Element<T>::Load(value); }
};
template <typename T>
struct StoreOf : Operation<typename WideType<Element<T>::kWide>::type, T> {
  static T Apply(typename WideType<Element<T>::kWide>::type value) { return Element<T>::Store(value); }
};

// Between wide types. To a float that is rounded once more: see OddFloat.
template <typename FromType, typename ToType, bool kOdd = false>
struct Widened : Operation<FromType, ToType> {
  static ToType Apply(FromType value) {
    if constexpr (kOdd && std::is_same_v<FromType, double>) {
      return OddFloat(value);
    } else if constexpr (kOdd) {
      return OddFloat(OddDouble(value));
    } else if constexpr (std::is_floating_point_v<ToType>) {
      return static_cast<ToType>(value);
    } else if constexpr (std::is_floating_point_v<FromType>) {
      return Truncated<ToType>(static_cast<double>(value));
    } else if constexpr (std::is_signed_v<FromType>) {
      return static_cast<ToType>(std::max(value, FromType{0}));
    } else {
      return static_cast<ToType>(std::min(value, static_cast<FromType>(std::numeric_limits<ToType>::max())));
    }
  }
};

// Frequent pairs in one step.
template <typename Int>
struct FloatToInt : Operation<float, Int> {
  static Int Apply(float value) { return Truncated<Int>(value); }
};
template <typename Int>
struct IntToFloat : Operation<Int, float> {
  static float Apply(Int value) { return static_cast<float>(value); }
};
template <typename FromPart, typename ToPart>
struct BothParts : Operation<std::complex<FromPart>, std::complex<ToPart>> {
  static std::complex<ToPart> Apply(std::complex<FromPart> value) {
    return {static_cast<ToPart>(value.real()), static_cast<ToPart>(value.imag())};
  }
};
template <typename T>
struct Truth : Operation<T, bool> {
  static bool Apply(T value) { return value != 0; }
};
template <typename Part>
struct EitherPart : Operation<std::complex<Part>, bool> {
  static bool Apply(std::complex<Part> value) { return value.real() != 0 || value.imag() != 0; }
};

// ---- Loops ----------------------------------------------------------------------------------------------------------

// Kernels process whole pieces of two fixed lengths. Compilers vectorise such loops at every level of optimisation, and
// no operation needs code for a remainder.
constexpr size_t kLongPiece = 64;
constexpr size_t kPiece = 16;
constexpr size_t kLargestElement = 16;  // bytes

template <typename Op>
inline __attribute__((always_inline)) void Loop(const typename Op::From* __restrict from,
                                                typename Op::To* __restrict to, size_t count) {
  size_t done = 0;
  for (; done + kLongPiece <= count; done += kLongPiece) {
    for (size_t i = 0; i < kLongPiece; ++i) to[done + i] = Op::Apply(from[done + i]);
  }
  for (; done < count; done += kPiece) {
    for (size_t i = 0; i < kPiece; ++i) to[done + i] = Op::Apply(from[done + i]);
  }
}

template <typename Op>
__attribute__((flatten)) void LoopScalar(const void* from, void* to, size_t count) {
  Loop<Op>(static_cast<const typename Op::From*>(from), static_cast<typename Op::To*>(to), count);
}
#if defined(__x86_64__)
template <typename Op>
__attribute__((flatten, target("avx2"))) void LoopAvx2(const void* from, void* to, size_t count) {
  Loop<Op>(static_cast<const typename Op::From*>(from), static_cast<typename Op::To*>(to), count);
}
#if defined(__clang__)
#define CASK_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"
#else  // which would take half of the register
#define CASK_AVX512 "avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#endif
template <typename Op>
__attribute__((flatten, target(CASK_AVX512))) void LoopAvx512(const void* from, void* to, size_t count) {
  Loop<Op>(static_cast<const typename Op::From*>(from), static_cast<typename Op::To*>(to), count);
}
#undef CASK_AVX512
#endif

template <typename Op>
ConvertStep StepOf(const CpuFeatures& features) {
  ConvertKernel run = LoopScalar<Op>;
#if defined(__x86_64__)
  if (features.avx2) run = LoopAvx2<Op>;
  if (features.avx512) run = LoopAvx512<Op>;
#endif
  (void)features;
  return {run, sizeof(typename Op::To)};
}

#if defined(__x86_64__)
// The processor has instructions for float16.
__attribute__((target("avx2,f16c"))) void StoreHalvesAvx2(const void* from, void* to, size_t count) {
  const auto* const floats = static_cast<const float*>(from);
  auto* const halves = static_cast<float16*>(to);
  for (size_t i = 0; i < count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(floats + i), _MM_FROUND_TO_NEAREST_INT));
  }
}
__attribute__((target("avx2,f16c"))) void LoadHalvesAvx2(const void* from, void* to, size_t count) {
  const auto* const halves = static_cast<const float16*>(from);
  auto* const floats = static_cast<float*>(to);
  for (size_t i = 0; i < count; i += 8) {
    _mm256_storeu_ps(floats + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i))));
  }
}

// A separate function, so that the loop below needs no stack frame.
__attribute__((noinline, cold)) void StoreSubnormalBfloat16s(const float* from, bfloat16* to, size_t count) {
  if (count % kPiece == 0) return LoopAvx512<StoreOf<bfloat16>>(from, to, count);
  for (size_t i = 0; i < count; ++i) to[i] = Element<bfloat16>::Store(from[i]);
}

// Twice the magnitude's bits, less 1: below 0x00ffffff for subnormal numbers alone, since 0 wraps around.
__attribute__((target("avx512f"))) inline __m512i MagnitudeOrder(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  return _mm512_sub_epi32(_mm512_add_epi32(bits, bits), _mm512_set1_epi32(1));
}

// The same register as another type.
template <typename To, typename From>
__attribute__((target("avx512f"), always_inline)) inline To Bits(From from) {
  To to;
  static_assert(sizeof(to) == sizeof(from));
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// The mask of the first `count` elements of 16, of all for more.
inline __mmask16 FirstOf16(size_t count) {
  return static_cast<__mmask16>(count >= kPiece ? 0xffff : (1u << count) - 1);
}

// The processor has an instruction for bfloat16, which treats subnormal numbers as zeros. They are looked for as
// integers, because instructions for floats may treat them as zeros, too; among 64 numbers only if a result is zero.
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))) void StoreBfloat16s(const void* from, void* to,
                                                                                             size_t count) {
  const auto* const floats = static_cast<const float*>(from);
  auto* const results = static_cast<bfloat16*>(to);
  const __m512i subnormals = _mm512_set1_epi32(0x00ffffff);
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  size_t i = 0;
  for (; i + kLongPiece <= count; i += kLongPiece) {
    const __m512 a = _mm512_loadu_ps(floats + i);
    const __m512 b = _mm512_loadu_ps(floats + i + 16);
    const __m512 c = _mm512_loadu_ps(floats + i + 32);
    const __m512 d = _mm512_loadu_ps(floats + i + 48);
    const __m512i first = Bits<__m512i>(_mm512_cvtne2ps_pbh(b, a));
    const __m512i second = Bits<__m512i>(_mm512_cvtne2ps_pbh(d, c));
    _mm512_storeu_si512(results + i, first);
    _mm512_storeu_si512(results + i + 32, second);
    if ((_mm512_testn_epi16_mask(first, magnitude) | _mm512_testn_epi16_mask(second, magnitude)) == 0) continue;
    const __m512i least = _mm512_min_epu32(_mm512_min_epu32(MagnitudeOrder(a), MagnitudeOrder(b)),
                                           _mm512_min_epu32(MagnitudeOrder(c), MagnitudeOrder(d)));
    if (_mm512_cmplt_epu32_mask(least, subnormals) != 0) {
      StoreSubnormalBfloat16s(floats + i, results + i, kLongPiece);
    }
  }
  for (; i < count; i += kPiece) {
    const __mmask16 some = FirstOf16(count - i);
    const __m512 values = _mm512_maskz_loadu_ps(some, floats + i);
    _mm256_mask_storeu_epi16(results + i, some, Bits<__m256i>(_mm512_cvtneps_pbh(values)));
    if (_mm512_cmplt_epu32_mask(MagnitudeOrder(values), subnormals) != 0) {
      StoreSubnormalBfloat16s(floats + i, results + i, std::min(count - i, kPiece));
    }
  }
}

__attribute__((target("avx512f"))) inline __m512i WidenedBfloat16s(__m256i bits) {
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) void LoadBfloat16s(const void* from, void* to,
                                                                                 size_t count) {
  const auto* const halves = static_cast<const bfloat16*>(from);
  auto* const floats = static_cast<float*>(to);
  size_t i = 0;
  for (; i + kPiece <= count; i += kPiece) {
    _mm512_storeu_si512(floats + i, WidenedBfloat16s(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + i))));
  }
  if (i == count) return;
  const __mmask16 some = FirstOf16(count - i);
  _mm512_mask_storeu_epi32(floats + i, some, WidenedBfloat16s(_mm256_maskz_loadu_epi16(some, halves + i)));
}
#elif defined(__aarch64__)
void StoreHalvesNeon(const void* from, void* to, size_t count) {
  const auto* const floats = static_cast<const float*>(from);
  auto* const halves = static_cast<uint16_t*>(to);
  for (size_t i = 0; i < count; i += 4) {
    vst1_u16(halves + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(floats + i))));
  }
}
void LoadHalvesNeon(const void* from, void* to, size_t count) {
  const auto* const halves = static_cast<const uint16_t*>(from);
  auto* const floats = static_cast<float*>(to);
  for (size_t i = 0; i < count; i += 4) {
    vst1q_f32(floats + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves + i))));
  }
}
#endif

// ---- Choice ---------------------------------------------------------------------------------------------------------

constexpr ConvertStep kNoStep = {nullptr, 0};

struct ElementSteps {
  Wide wide;
  bool narrow;
  ConvertStep load;
  ConvertStep store;
};

template <typename T>
ElementSteps StepsOfType(const CpuFeatures& features) {
#if defined(__x86_64__)
  if (std::is_same_v<T, bfloat16> && features.avx512) {
    const ConvertStep store = {StoreBfloat16s, sizeof(bfloat16), /*takes_any_count=*/true};
    return {kFloat,
            true,
            {LoadBfloat16s, sizeof(float), /*takes_any_count=*/true},
            features.bf16 ? store : StepOf<StoreOf<bfloat16>>(features)};
  }
  if (std::is_same_v<T, float16> && features.avx2) {
    return {kFloat, true, {LoadHalvesAvx2, sizeof(float)}, {StoreHalvesAvx2, sizeof(float16)}};
  }
#elif defined(__aarch64__)
  if (std::is_same_v<T, float16> && features.neon) {
    return {kFloat, true, {LoadHalvesNeon, sizeof(float)}, {StoreHalvesNeon, sizeof(float16)}};
  }
#endif
  if constexpr (Element<T>::kIsWide) {
    return {Element<T>::kWide, Element<T>::kNarrow, kNoStep, kNoStep};
  } else {
    return {Element<T>::kWide, Element<T>::kNarrow, StepOf<LoadOf<T>>(features), StepOf<StoreOf<T>>(features)};
  }
}

// A quantised dtype is treated as its integer type.
template <typename T>
struct PlainType {
  using type = T;
};
template <typename Int, int kTag>
struct PlainType<TaggedInt<Int, kTag>> {
  using type = Int;
};

ElementSteps StepsOf(DType dtype, const CpuFeatures& features) {
  switch (dtype) {
#define CASK_CASE(id, number, T, name) \
  case DType::id:                      \
    return StepsOfType<PlainType<T>::type>(features);
    CASK_FIXED_SIZE_DTYPES(CASK_CASE)
#undef CASK_CASE
    default:
      CASK_CHECK(false, "Conversion: the dtype has no fixed size");
  }
}

template <typename From>
ConvertStep WideStepFrom(Wide to, bool narrow, const CpuFeatures& features) {
  switch (to) {
    case kFloat:
      if constexpr (!std::is_same_v<From, float>) {
        if (narrow) return StepOf<Widened<From, float, /*kOdd=*/true>>(features);
        return StepOf<Widened<From, float>>(features);
      }
      break;
    case kDouble:
      if constexpr (!std::is_same_v<From, double>) return StepOf<Widened<From, double>>(features);
      break;
    case kInt:
      if constexpr (!std::is_same_v<From, int64_t>) return StepOf<Widened<From, int64_t>>(features);
      break;
    case kUint:
      if constexpr (!std::is_same_v<From, uint64_t>) return StepOf<Widened<From, uint64_t>>(features);
      break;
  }
  return kNoStep;
}

ConvertStep WideStep(Wide from, Wide to, bool narrow, const CpuFeatures& features) {
  switch (from) {
    case kFloat:
      return WideStepFrom<float>(to, narrow, features);
    case kDouble:
      return WideStepFrom<double>(to, narrow, features);
    case kInt:
      return WideStepFrom<int64_t>(to, narrow, features);
    case kUint:
      return WideStepFrom<uint64_t>(to, narrow, features);
  }
  return kNoStep;
}

// To bool. (Not through integers, which would turn 0.5 into 0.)
ConvertStep TruthStep(Wide from, const CpuFeatures& features) {
  switch (from) {
    case kFloat:
      return StepOf<Truth<float>>(features);
    case kDouble:
      return StepOf<Truth<double>>(features);
    case kInt:
      return StepOf<Truth<int64_t>>(features);
    case kUint:
      return StepOf<Truth<uint64_t>>(features);
  }
  return kNoStep;
}

// The pairs that are converted in one step.
ConvertStep DirectStep(DType from, DType to, const CpuFeatures& features) {
  const auto is = [&](DType a, DType b) { return from == a && to == b; };
  if (is(DType::kFloat32, DType::kInt8)) return StepOf<FloatToInt<int8_t>>(features);
  if (is(DType::kFloat32, DType::kUint8)) return StepOf<FloatToInt<uint8_t>>(features);
  if (is(DType::kFloat32, DType::kInt32)) return StepOf<FloatToInt<int32_t>>(features);
  if (is(DType::kInt8, DType::kFloat32)) return StepOf<IntToFloat<int8_t>>(features);
  if (is(DType::kUint8, DType::kFloat32)) return StepOf<IntToFloat<uint8_t>>(features);
  if (is(DType::kInt32, DType::kFloat32)) return StepOf<IntToFloat<int32_t>>(features);
  if (is(DType::kComplex64, DType::kComplex128)) return StepOf<BothParts<float, double>>(features);
  if (is(DType::kComplex128, DType::kComplex64)) return StepOf<BothParts<double, float>>(features);
  if (is(DType::kComplex64, DType::kBool)) return StepOf<EitherPart<float>>(features);
  if (is(DType::kComplex128, DType::kBool)) return StepOf<EitherPart<double>>(features);
  return kNoStep;
}

DType PlainDType(DType dtype) {
  switch (dtype) {
#define CASK_CASE(id, number, T, name) \
  case DType::id:                      \
    return kDTypeOf<PlainType<T>::type>;
    CASK_FIXED_SIZE_DTYPES(CASK_CASE)
#undef CASK_CASE
    default:
      return dtype;
  }
}

constexpr std::array kFixedSizeDTypes = {
#define CASK_LIST(id, number, T, name) DType::id,
    CASK_FIXED_SIZE_DTYPES(CASK_LIST)
#undef CASK_LIST
};
// The position of each in that list, by its number.
constexpr std::array<uint8_t, 256> kRows = [] {
  std::array<uint8_t, 256> rows = {};
  for (size_t i = 0; i < kFixedSizeDTypes.size(); ++i) {
    rows[static_cast<size_t>(kFixedSizeDTypes[i])] = static_cast<uint8_t>(i);
  }
  return rows;
}();
size_t RowOf(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

Conversion Conversion::Find(DType from, DType to, const CpuFeatures& features) {
  from = PlainDType(from);
  to = PlainDType(to);
  Conversion conversion;
  conversion.from_size_ = ElementSize(from);
  if (from == to) return conversion;
  conversion.Add(DirectStep(from, to, features));
  if (conversion.num_steps_ > 0) return conversion;
  const ElementSteps source = StepsOf(from, features);
  conversion.Add(source.load);
  if (to == DType::kBool) {
    conversion.Add(TruthStep(source.wide, features));
    return conversion;
  }
  const ElementSteps target = StepsOf(to, features);
  conversion.Add(WideStep(source.wide, target.wide, target.narrow, features));
  conversion.Add(target.store);
  return conversion;
}

const Conversion& Conversion::OfThisProcessor(DType from, DType to) {
  using Table = std::array<std::array<Conversion, kFixedSizeDTypes.size()>, kFixedSizeDTypes.size()>;
  static const Table& table = *[] {
    auto* const made = new Table();
    for (const DType of : kFixedSizeDTypes) {
      for (const DType result : kFixedSizeDTypes) {
        (*made)[RowOf(of)][RowOf(result)] = Find(of, result, GetCpuFeatures());
      }
    }
    return made;
  }();
  return table[RowOf(from)][RowOf(to)];
}

void Conversion::RunAny(const void* from, void* to, size_t count, Stream stream) const {
  if (num_steps_ == 0) {
    std::memcpy(to, from, count * from_size_);
    return;
  }
  const size_t whole = count / kPiece * kPiece;
  if (num_steps_ == 1 && whole == count && stream == nullptr) return steps_[0].run(from, to, count);
  if (whole > 0) RunPieces(from, to, whole, stream);
  if (whole == count) return;
  const size_t to_size = steps_[num_steps_ - 1].to_size;
  if (whole > 0 && stream == nullptr) {
    // The last piece again, from where it ends with the last element: equal values give equal bytes.
    const size_t start = count - kPiece;
    return RunPieces(static_cast<const char*>(from) + start * from_size_, static_cast<char*>(to) + start * to_size,
                     kPiece, /*stream=*/nullptr);
  }
  // The remainder is padded to a whole piece.
  alignas(64) char last_from[kPiece * kLargestElement] = {};
  alignas(64) char last_to[kPiece * kLargestElement];
  const auto rest = static_cast<int64_t>(count - whole);
  CopyShort(static_cast<const char*>(from) + whole * from_size_, last_from, rest * static_cast<int64_t>(from_size_));
  RunPieces(last_from, last_to, kPiece, /*stream=*/nullptr);
  CopyShort(last_to, static_cast<char*>(to) + whole * to_size, rest * static_cast<int64_t>(to_size));
}

void Conversion::RunPieces(const void* from, void* to, size_t count, Stream stream) const {
  if (num_steps_ == 1 && stream == nullptr) return steps_[0].run(from, to, count);
  // Intermediate values stay in the first-level cache.
  constexpr size_t kLargestBlock = 8 * kLongPiece;
  alignas(64) char blocks[2][kLargestBlock * kLargestElement];
  // A block is short, and whole cache lines of results, if one step reads the source and a stream writes the results:
  // longer bursts of reads and writes take longer. Measured, ms for 32 Mi elements:
  //
  //   by blocks of bytes; 512+: with prefetches   Zen 4                      Zen 5                 Sapphire Rapids
  //   float32 to bfloat16                         256: 5.9, 768: 5.2,        768: 4.8, 512+: 3.9   768: 17, 512+: 11
  //                                               2048: 7.4, 8192: 6.6
  //   float64 to float32                          768: 11.4, 4096: 17.6      768: 11.3, 512+: 8.2  768: 33, 512+: 23
  //   float32 to float16                          -                          768: 4.3, 512+: 3.8   768: 14, 512+: 13
  //   bfloat16 to float32                         -                          768: 5.6, 512+: 4.0   768: 9.6, 512+: 10
  const auto ahead = static_cast<uintptr_t>(GetCpuTuning().prefetch_ahead_bytes);
  const size_t streamed_bytes = ahead > 0 ? 512 : 768;
  const bool is_short = stream != nullptr && num_steps_ == 1;
  const size_t to_size = steps_[num_steps_ - 1].to_size;
  size_t block_size = is_short ? std::min(streamed_bytes / from_size_, kLargestBlock) : kLargestBlock;
  if (block_size * to_size % static_cast<size_t>(kCacheLine) != 0)
    block_size = (block_size + kLongPiece - 1) / kLongPiece * kLongPiece;
  for (size_t done = 0; done < count; done += block_size) {
    const size_t block = std::min(block_size, count - done);
    const void* at = static_cast<const char*>(from) + done * from_size_;
    char* const target = static_cast<char*>(to) + done * to_size;
    if (is_short && ahead > 0) {  // after the last element, the processor ignores the prefetch
      const uintptr_t next = reinterpret_cast<uintptr_t>(at) + ahead;
      for (size_t line = 0; line < block * from_size_; line += static_cast<size_t>(kCacheLine)) {
        __builtin_prefetch(reinterpret_cast<const void*>(next + line));
      }
    }
    for (size_t i = 0; i < num_steps_; ++i) {
      const bool in_place = i + 1 == num_steps_ && stream == nullptr;
      void* const out = in_place ? target : blocks[i % 2];
      steps_[i].run(at, out, block);
      at = out;
    }
    if (stream != nullptr) stream(static_cast<const char*>(at), target, static_cast<int64_t>(block * to_size));
  }
}

}  // namespace tensorcask::internal
