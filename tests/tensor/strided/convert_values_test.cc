// What Convert makes of each value, for all pairs of dtypes.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/internal/convert_kernels.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

static_assert(std::numeric_limits<long double>::digits >= 64, "the oracle needs every int64, uint64 and double");

const DType kDTypes[] = {
#define CASK_ENTRY(id, number, T, name) DType::id,
    CASK_FIXED_SIZE_DTYPES(CASK_ENTRY)
#undef CASK_ENTRY
};

template <typename T>
struct IsSmallFloat : std::false_type {};
template <typename Format>
struct IsSmallFloat<SmallFloat<Format>> : std::true_type {};
template <typename T>
struct IsSubByte : std::false_type {};
template <typename Int, int kBits>
struct IsSubByte<SubByteInt<Int, kBits>> : std::true_type {};
template <typename T>
struct IsTagged : std::false_type {};
template <typename Int, int kTag>
struct IsTagged<TaggedInt<Int, kTag>> : std::true_type {};
template <typename T>
struct IsComplexType : std::false_type {};
template <typename Part>
struct IsComplexType<std::complex<Part>> : std::true_type {};

// ---- The oracle: exact values, and the definition of the nearest one ------------------------------------------------

struct Value {
  long double real = 0;
  long double imaginary = 0;
};

template <typename T>
Value Decode(const char* bytes) {
  T element;
  std::memcpy(&element, bytes, sizeof(T));
  if constexpr (IsSmallFloat<T>::value) {
    return {static_cast<float>(element), 0};
  } else if constexpr (IsSubByte<T>::value) {
    return {static_cast<long double>(element.value()), 0};
  } else if constexpr (IsTagged<T>::value) {
    return {static_cast<long double>(element.value), 0};
  } else if constexpr (IsComplexType<T>::value) {
    return {element.real(), element.imag()};
  } else {
    return {static_cast<long double>(element), 0};
  }
}

// The finite numbers of a small float that are not negative, by value; bits rise with them.
template <typename T>
const std::vector<long double>& Magnitudes() {
  static const std::vector<long double> magnitudes = [] {
    using Format = typename T::Format;
    std::vector<long double> values;
    const uint32_t count = 1u << (Format::kExponentBits + Format::kMantissaBits);
    for (uint32_t bits = 0; bits < count; ++bits) {
      const auto value = static_cast<float>(T::FromBits(static_cast<typename T::Bits>(bits)));
      if (!std::isfinite(value)) break;
      values.push_back(value);
    }
    return values;
  }();
  return magnitudes;
}

// What is wrong with `got` as the small float for `value`; empty if nothing.
template <typename T>
std::string WrongSmallFloat(long double value, T got) {
  using Format = typename T::Format;
  const std::vector<long double>& magnitudes = Magnitudes<T>();
  const int sign_shift = Format::kExponentBits + Format::kMantissaBits;
  const uint32_t sign = std::signbit(value) ? 1u << sign_shift : 0;
  const bool got_nan = std::isnan(static_cast<float>(got));
  const bool no_such_number = !Format::kSigned && (std::signbit(value) || value == 0);
  if (std::isnan(value) || no_such_number) {
    const bool right = Format::kNonFinite == NonFinite::kNone ? got.bits() == 1u << sign_shift : got_nan;
    return right ? "" : "not what NaN becomes";
  }
  const long double magnitude = std::abs(value);
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), magnitude);
  uint32_t nearest = static_cast<uint32_t>(above - magnitudes.begin());
  if (above == magnitudes.end()) {
    const size_t last = magnitudes.size() - 1;
    // What follows the largest number at half its step would round to even, which is past it.
    const bool too_large = magnitude >= magnitudes[last] + (magnitudes[last] - magnitudes[last - 1]) / 2;
    nearest = static_cast<uint32_t>(Format::kNonFinite == NonFinite::kIeee && too_large ? last + 1 : last);
  } else if (*above != magnitude && nearest > 0) {
    const long double down = magnitude - magnitudes[nearest - 1];
    const long double up = *above - magnitude;
    if (down < up || (down == up && (nearest - 1) % 2 == 0)) --nearest;
  }
  uint32_t bits = Format::kSigned ? sign | nearest : nearest;
  if (Format::kNonFinite == NonFinite::kNanNegZero && nearest == 0) bits = 0;
  return got.bits() == bits ? "" : absl::StrCat("not bits ", bits, " but ", got.bits());
}

template <typename Int>
Int NearestInt(long double value, long double smallest, long double largest) {
  if (std::isnan(value)) return 0;
  return static_cast<Int>(std::min(std::max(std::trunc(value), smallest), largest));
}

template <typename Float>
std::string WrongFloat(long double value, Float got) {
  const auto wanted = static_cast<Float>(value);  // the x87 unit rounds once
  if (std::isnan(value)) return std::isnan(got) ? "" : "not NaN";
  return std::memcmp(&wanted, &got, sizeof(Float)) == 0 ? "" : absl::StrCat("not ", wanted, " but ", got);
}

template <typename T>
std::string WrongElement(const Value& value, const char* bytes) {
  T got;
  std::memcpy(&got, bytes, sizeof(T));
  if constexpr (IsSmallFloat<T>::value) {
    return WrongSmallFloat<T>(value.real, got);
  } else if constexpr (std::is_floating_point_v<T>) {
    return WrongFloat<T>(value.real, got);
  } else if constexpr (IsComplexType<T>::value) {
    return WrongFloat(value.real, got.real()) + WrongFloat(value.imaginary, got.imag());
  } else if constexpr (std::is_same_v<T, bool>) {
    const bool wanted = value.real != 0 || value.imaginary != 0;
    return static_cast<uint8_t>(*bytes) == (wanted ? 1 : 0) ? "" : "not the truth";
  } else if constexpr (IsSubByte<T>::value) {
    const int64_t smallest = T::FromBits(1u << (T::kBits - 1)).value() < 0 ? -(1 << (T::kBits - 1)) : 0;
    const auto wanted = NearestInt<int64_t>(value.real, smallest, smallest + (1 << T::kBits) - 1);
    const bool clean = static_cast<uint8_t>(*bytes) < (1 << T::kBits);
    return wanted == got.value() && clean ? "" : absl::StrCat("not ", wanted, " but ", int{got.value()});
  } else if constexpr (IsTagged<T>::value) {
    return WrongElement<decltype(got.value)>(value, bytes);
  } else {
    const T wanted = NearestInt<T>(value.real, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    return wanted == got ? "" : absl::StrCat("not ", wanted, " but ", got);
  }
}

// ---- Inputs ---------------------------------------------------------------------------------------------------------

// A number of type T near `value`.
template <typename T>
T Near(long double value) {
  if constexpr (std::is_integral_v<T>) {
    return NearestInt<T>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  } else {
    return static_cast<T>(value);
  }
}

// Numbers at which conversions change: powers of two, halves, limits of all types, and their neighbours.
std::vector<long double> Boundaries() {
  std::vector<long double> values = {0,
                                     -0.0L,
                                     0.5L,
                                     0.99999L,
                                     448,
                                     464,
                                     464.1L,
                                     240,
                                     248,
                                     15.5L,
                                     30,
                                     57344,
                                     61440,
                                     65504,
                                     65519,
                                     65520,
                                     0x1.fep127L,
                                     0x1.ffp127L,
                                     0x1.fffffep127L,
                                     0x1.ffffffp127L,
                                     6,
                                     7.5L,
                                     28};
  for (int exponent = -150; exponent <= 129; ++exponent) {
    for (const long double mantissa : {1.0L, 1.5L, 1.75L, 1.25L, 1.125L, 1.0625L, 1.00390625L, 1.01171875L}) {
      values.push_back(std::ldexp(mantissa, exponent));
    }
  }
  for (const int exponent : {-1074, -1073, -1022, 1023}) values.push_back(std::ldexp(1.0L, exponent));
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) {
    for (const long double step : {0x1p-9L, 0x1p-12L, 0x1p-23L, 0x1p-24L, 0x1p-30L, 0x1p-52L, 0x1p-60L}) {
      values.push_back(values[i] * (1 + step));
      values.push_back(values[i] * (1 - step));
    }
    values.push_back(values[i] + 1);
    values.push_back(values[i] - 1);
  }
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  values.push_back(std::numeric_limits<long double>::infinity());
  values.push_back(-std::numeric_limits<long double>::infinity());
  values.push_back(std::numeric_limits<long double>::quiet_NaN());
  return values;
}

template <typename T>
void Append(T element, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&element), sizeof(T));
}

// Elements of type T: all bit patterns up to 16 bits, else boundaries and random bits.
template <typename T>
std::string Inputs() {
  std::string bytes;
  std::mt19937_64 random(sizeof(T));
  if constexpr (std::is_same_v<T, bool>) {
    for (int i = 0; i < 200; ++i) bytes.push_back(static_cast<char>(random() % 2));
  } else if constexpr (sizeof(T) <= 2) {
    uint32_t patterns = 1u << (8 * sizeof(T));
    if constexpr (IsSmallFloat<T>::value) {
      using Format = typename T::Format;
      patterns = 1u << (Format::kExponentBits + Format::kMantissaBits + (Format::kSigned ? 1 : 0));
    }
    for (uint32_t bits = 0; bits < patterns; ++bits) bytes.append(reinterpret_cast<const char*>(&bits), sizeof(T));
  } else {
    static const std::vector<long double> boundaries = Boundaries();
    for (const long double value : boundaries) {
      if constexpr (IsComplexType<T>::value) {
        using Part = typename T::value_type;
        const long double other = boundaries[random() % boundaries.size()];
        Append(T(Near<Part>(value), random() % 2 == 0 ? Part{0} : Near<Part>(other)), &bytes);
      } else if constexpr (IsTagged<T>::value) {
        Append(T(Near<decltype(T::value)>(value)), &bytes);
      } else {
        Append(Near<T>(value), &bytes);
      }
    }
    for (int i = 0; i < 5000; ++i) {
      char element[16];
      for (size_t at = 0; at < sizeof(T); at += 4) {
        const auto word = static_cast<uint32_t>(random());
        std::memcpy(element + at, &word, 4);
      }
      bytes.append(element, sizeof(T));
    }
  }
  return bytes;
}

TensorView VectorOf(DType dtype, const std::string& bytes) {
  Tensor tensor = *Tensor::Create(dtype, TensorShape({static_cast<int64_t>(bytes.size() / ElementSize(dtype))}));
  std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
  return tensor;
}

std::string InputsOf(DType dtype) {
  std::string bytes;
  EXPECT_OK(VisitDType(dtype, [&](auto tag) {
    bytes = Inputs<typename decltype(tag)::type>();
    return absl::OkStatus();
  }));
  return bytes;
}

// ---- Values ---------------------------------------------------------------------------------------------------------

class ConvertFrom : public ::testing::TestWithParam<DType> {};

TEST_P(ConvertFrom, GivesTheNearestValueOfEachDType) {
  const DType from = GetParam();
  const TensorView inputs = VectorOf(from, InputsOf(from));
  const auto count = static_cast<size_t>(inputs.num_elements());
  const char* const source = static_cast<const char*>(inputs.buffer()->data());
  std::vector<Value> values(count);
  ASSERT_OK(VisitDType(from, [&](auto tag) {
    using From = typename decltype(tag)::type;
    for (size_t i = 0; i < count; ++i) values[i] = Decode<From>(source + i * sizeof(From));
    return absl::OkStatus();
  }));
  for (const DType to : kDTypes) {
    SCOPED_TRACE(DTypeName(to));
    ASSERT_OK_AND_ASSIGN(const TensorView converted, ConvertTo(inputs, to));
    EXPECT_EQ(converted.dtype(), to);
    const char* const target = static_cast<const char*>(converted.buffer()->data());
    if (from == to) {
      EXPECT_EQ(std::memcmp(source, target, count * ElementSize(to)), 0);
      continue;
    }
    int wrong = 0;
    ASSERT_OK(VisitDType(to, [&](auto tag) {
      using To = typename decltype(tag)::type;
      for (size_t i = 0; i < count && wrong < 5; ++i) {
        const std::string why = WrongElement<To>(values[i], target + i * sizeof(To));
        if (why.empty()) continue;
        ++wrong;
        ADD_FAILURE() << static_cast<double>(values[i].real) << " + " << static_cast<double>(values[i].imaginary)
                      << "i, element " << i << ": " << why;
      }
      return absl::OkStatus();
    }));
  }
}

// Beside the middle between two numbers of the smaller type, by less than a float or a double can tell.
TEST_P(ConvertFrom, RoundsOnce) {
  const DType from = GetParam();
  if (from != DType::kFloat64 && from != DType::kInt64 && from != DType::kUint64) return;
  std::mt19937_64 random(1);
  for (const DType to : kDTypes) {
    SCOPED_TRACE(DTypeName(to));
    ASSERT_OK(VisitDType(to, [&](auto tag) {
      using To = typename decltype(tag)::type;
      if constexpr (IsSmallFloat<To>::value) {
        const std::vector<long double>& magnitudes = Magnitudes<To>();
        std::string bytes;
        for (int i = 0; i < 4000; ++i) {
          const size_t at = random() % (magnitudes.size() - 1);
          const long double middle = (magnitudes[at] + magnitudes[at + 1]) / 2;
          const long double step = std::ldexp(middle, -static_cast<int>(20 + random() % 43));
          const long double value = middle + static_cast<long double>(static_cast<int>(random() % 3) - 1) * step;
          if (from == DType::kFloat64) Append(static_cast<double>(random() % 2 == 0 ? value : -value), &bytes);
          if (from == DType::kInt64) Append(Near<int64_t>(random() % 2 == 0 ? value : -value), &bytes);
          if (from == DType::kUint64) Append(Near<uint64_t>(value), &bytes);
        }
        const TensorView inputs = VectorOf(from, bytes);
        CASK_ASSIGN_OR_RETURN(const TensorView converted, ConvertTo(inputs, to));
        for (size_t i = 0; i < bytes.size() / 8; ++i) {
          const Value value = from == DType::kFloat64 ? Decode<double>(&bytes[i * 8])
                              : from == DType::kInt64 ? Decode<int64_t>(&bytes[i * 8])
                                                      : Decode<uint64_t>(&bytes[i * 8]);
          EXPECT_EQ(WrongSmallFloat(value.real, converted.data<To>()[i]), "") << static_cast<double>(value.real);
        }
      }
      return absl::OkStatus();
    }));
  }
}

TEST_P(ConvertFrom, GivesTheSameBitsOnEachProcessor) {
  const DType from = GetParam();
  const std::string bytes = InputsOf(from);
  const size_t count = bytes.size() / ElementSize(from) - 1;  // so that the loops have a rest
  const CpuFeatures& features = GetCpuFeatures();
  for (const DType to : kDTypes) {
    std::string scalar(count * ElementSize(to), '\1');
    internal::Conversion::Find(from, to, CpuFeatures()).Run(bytes.data(), &scalar[0], count);
    for (const char* level : {"avx2", "avx512"}) {
      std::string vector(count * ElementSize(to), '\2');
      internal::Conversion::Find(from, to, internal::LimitFeatures(features, level))
          .Run(bytes.data(), &vector[0], count);
      EXPECT_TRUE(vector == scalar) << DTypeName(to) << " on " << level;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, ConvertFrom, ::testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace tensorcask
