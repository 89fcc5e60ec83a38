// Integer arithmetic that reports overflow instead of wrapping: for every number that came from outside.
//
//   std::optional<int64_t> bytes = CheckedMul(num_elements, element_size);
//   if (!bytes) return absl::InvalidArgumentError("...");
//
// A range inside a file is compared by subtraction: see RangeFits.

#ifndef TENSORCASK_TENSOR_BASE_CHECKED_MATH_H_
#define TENSORCASK_TENSOR_BASE_CHECKED_MATH_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "tensorcask/tensor/base/cxx17.h"

namespace tensorcask {

// a + b, a - b, a * b; empty if the exact result does not fit T.
template <typename T>
constexpr std::optional<T> CheckedAdd(T a, std::common_type_t<T> b) {
  T result{};
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <typename T>
constexpr std::optional<T> CheckedSub(T a, std::common_type_t<T> b) {
  T result{};
  if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <typename T>
constexpr std::optional<T> CheckedMul(T a, std::common_type_t<T> b) {
  T result{};
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// `value` as a To; empty if To cannot hold it (a negative number in an unsigned type, say).
template <typename To, typename From>
constexpr std::optional<To> CheckedCast(From value) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>, "CheckedCast is for integers");
  To result{};
  if (__builtin_add_overflow(value, From{0}, &result)) return std::nullopt;
  return result;
}

// `value` rounded up to a multiple of `alignment` (> 0); empty on overflow.
constexpr std::optional<uint64_t> CheckedAlignUp(uint64_t value, uint64_t alignment) {
  const uint64_t remainder = value % alignment;
  return remainder == 0 ? std::optional<uint64_t>(value) : CheckedAdd(value, alignment - remainder);
}

// True if [offset, offset + length) lies inside [0, total); never overflows.
constexpr bool RangeFits(uint64_t offset, uint64_t length, uint64_t total) {
  return offset <= total && length <= total - offset;
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_CHECKED_MATH_H_
