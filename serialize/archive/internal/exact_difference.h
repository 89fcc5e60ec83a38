// The exact difference of two numbers, also where no dtype holds both.
//
//   ExactSum one = ExactDifference(int64_t{9007199254740993}, 9007199254740992.0);   // 1: as doubles they are equal
//   bool is_different = one.IsAbove(tolerance);
//
// An int64_t or uint64_t is exactly the sum of two doubles, and so is a + b of any two doubles: the rounded sum and its
// rounding error, which is a double (Knuth, TAOCP 2, 4.2.2, theorem C).

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_EXACT_DIFFERENCE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_EXACT_DIFFERENCE_H_

#include <type_traits>

namespace tensorcask::archive {

// The number high + low. high is a double nearest to it, or infinite if the number is beyond the range of double. low
// is rounded, too, but its sign is right.
struct ExactSum {
  double high = 0;
  double low = 0;

  bool IsAbove(double limit) const { return high > limit || (high == limit && low > 0); }
};

inline ExactSum Add(double a, double b) {
  const double sum = a + b;
  const double b_in_sum = sum - a;
  return {sum, (a - (sum - b_in_sum)) + (b - b_in_sum)};
}

template <typename T>
ExactSum Exactly(T x) {
  if constexpr (std::is_integral_v<T>) {
    constexpr double kTwoTo32 = 4294967296;
    return Add(static_cast<double>(x >> 32) * kTwoTo32, static_cast<double>(x & 0xffffffff));
  } else {
    return {static_cast<double>(x), 0};
  }
}

// a - b. A and B: float, double, or integers of 64 bits. NaN and infinite numbers: high is a - b in double.
template <typename A, typename B>
ExactSum ExactDifference(A a, B b) {
  const ExactSum left = Exactly(a);
  const ExactSum right = Exactly(b);
  const ExactSum first = Add(left.high, -right.high);
  if constexpr (std::is_floating_point_v<A> && std::is_floating_point_v<B>) return first;
  const ExactSum second = Add(first.high, left.low - right.low);  // whole numbers up to 2^10: exact
  return Add(second.high, first.low + second.low);
}

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_EXACT_DIFFERENCE_H_
