#include "tensorcask/tensor/strided/internal/differences.h"

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::internal {
namespace {

// Calls fn(number, a's element, b's element) in row-major order until fn returns false. Requires: equal dims and
// dtypes, readable data.
template <typename Fn>
void ForEachPair(const TensorView& a, const TensorView& b, size_t element_bytes, Fn&& fn) {
  const int64_t count = a.num_elements();
  if (count == 0) return;
  const auto* const a_data = static_cast<const char*>(a.buffer()->data());
  const auto* const b_data = static_cast<const char*>(b.buffer()->data());
  const auto size = static_cast<int64_t>(element_bytes);
  absl::InlinedVector<int64_t, 8> index(static_cast<size_t>(a.rank()), 0);
  int64_t a_at = a.offset();
  int64_t b_at = b.offset();
  for (int64_t number = 0; number < count; ++number) {
    if (!fn(number, a_data + a_at * size, b_data + b_at * size)) return;
    for (int axis = a.rank(); axis-- > 0;) {
      int64_t& i = index[static_cast<size_t>(axis)];
      a_at += a.strides()[static_cast<size_t>(axis)];
      b_at += b.strides()[static_cast<size_t>(axis)];
      if (++i < a.dims()[static_cast<size_t>(axis)]) break;
      a_at -= i * a.strides()[static_cast<size_t>(axis)];
      b_at -= i * b.strides()[static_cast<size_t>(axis)];
      i = 0;
    }
  }
}

// An element as a complex number; a real one has the imaginary part 0.
struct Number {
  long double real = 0;
  long double imaginary = 0;

  bool IsNan() const { return std::isnan(real) || std::isnan(imaginary); }
  bool IsFinite() const { return std::isfinite(real) && std::isfinite(imaginary); }
  long double Magnitude() const { return imaginary == 0 ? std::fabs(real) : std::hypot(real, imaginary); }
  friend bool operator==(const Number& a, const Number& b) { return a.real == b.real && a.imaginary == b.imaginary; }
};

template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
long double RealOf(T value) {
  return static_cast<long double>(value);
}
template <typename Format>
long double RealOf(SmallFloat<Format> value) {
  return static_cast<float>(value);
}
template <typename Int, int kTag>
long double RealOf(TaggedInt<Int, kTag> value) {
  return value.value;
}
template <typename Int, int kBits>
long double RealOf(SubByteInt<Int, kBits> value) {
  return value.value();
}
template <typename T>
Number NumberOf(T value) {
  return {RealOf(value), 0};
}
template <typename Part>
Number NumberOf(std::complex<Part> value) {
  return {value.real(), value.imag()};
}

template <typename T>
Number NumberAt(const char* element) {
  // Bools are compared as bytes, because external memory may hold other values than 0 and 1.
  std::conditional_t<std::is_same_v<T, bool>, uint8_t, T> value;
  std::memcpy(static_cast<void*>(&value), element, sizeof(value));
  return NumberOf(value);
}

// The number of low bits that are compared. The other bits may have any value in bytes from outside.
template <typename T>
struct BitsThatCount {
  static constexpr int kBits = 8 * sizeof(T);
};
template <typename Int, int kSize>
struct BitsThatCount<SubByteInt<Int, kSize>> {
  static constexpr int kBits = kSize;
};
template <typename Format>
struct BitsThatCount<SmallFloat<Format>> {
  static constexpr int kBits = Format::kExponentBits + Format::kMantissaBits + (Format::kSigned ? 1 : 0);
};

template <typename T>
bool SameBits(const char* a, const char* b) {
  constexpr int kBits = BitsThatCount<T>::kBits;
  if constexpr (kBits < 8) {
    return ((static_cast<unsigned>(*a) ^ static_cast<unsigned>(*b)) & ((1u << kBits) - 1)) == 0;
  } else {
    return std::memcmp(a, b, sizeof(T)) == 0;
  }
}

long double AllowedDistance(const Tolerance& tolerance, const Number& expected) {
  return static_cast<long double>(tolerance.atol) + static_cast<long double>(tolerance.rtol) * expected.Magnitude();
}

bool IsClose(const Tolerance& tolerance, const Number& actual, const Number& expected, long double distance) {
  if (expected.IsFinite() && distance <= AllowedDistance(tolerance, expected)) return true;
  return actual == expected || (tolerance.nans == Nans::kEqual && actual.IsNan() && expected.IsNan());
}

void AddDifference(int64_t number, Differences* result) {
  if (result->num_different == 0) result->first = number;
  ++result->num_different;
}

template <typename T>
Differences DifferencesOfNumbers(const TensorView& actual, const TensorView& expected,
                                 const std::optional<Tolerance>& tolerance, Search search) {
  Differences result;
  if (!tolerance && actual.IsContiguous() && expected.IsContiguous() && actual.bytes() == expected.bytes()) {
    return result;
  }
  long double largest = 0;
  ForEachPair(actual, expected, sizeof(T), [&](int64_t number, const char* a, const char* b) {
    if (!tolerance && SameBits<T>(a, b)) return true;
    const Number found = NumberAt<T>(a);
    const Number wanted = NumberAt<T>(b);
    const long double distance =
        found == wanted ? 0 : Number{found.real - wanted.real, found.imaginary - wanted.imaginary}.Magnitude();
    if (distance > largest) {
      largest = distance;
      result.largest_at = number;
    }
    if (tolerance && IsClose(*tolerance, found, wanted, distance)) return true;
    if (tolerance && result.num_different == 0) {
      result.first_are_nans = found.IsNan() && wanted.IsNan();
      if (wanted.IsFinite() && !std::isnan(distance)) {
        result.first_distance = static_cast<double>(distance);
        result.first_allowed = static_cast<double>(AllowedDistance(*tolerance, wanted));
      }
    }
    AddDifference(number, &result);
    return search == Search::kAll;
  });
  result.largest = static_cast<double>(largest);
  return result;
}

template <typename T>
Differences DifferencesOfObjects(const TensorView& actual, const TensorView& expected, Search search) {
  Differences result;
  ForEachPair(actual, expected, sizeof(T), [&](int64_t number, const char* a, const char* b) {
    if (*reinterpret_cast<const T*>(a) == *reinterpret_cast<const T*>(b)) return true;
    AddDifference(number, &result);
    return search == Search::kAll;
  });
  return result;
}

}  // namespace

Differences FindDifferences(const TensorView& actual, const TensorView& expected,
                            const std::optional<Tolerance>& tolerance, Search search) {
  if (IsObject(actual.dtype())) {
    return VisitObjectDType(actual.dtype(), [&](auto tag) {
      return DifferencesOfObjects<typename decltype(tag)::type>(actual, expected, search);
    });
  }
  Differences result;
  // Cannot fail: a tensor has no other dtypes.
  VisitDType(actual.dtype(), [&](auto tag) {
    result = DifferencesOfNumbers<typename decltype(tag)::type>(actual, expected, tolerance, search);
    return absl::OkStatus();
  }).IgnoreError();
  return result;
}

}  // namespace tensorcask::internal
