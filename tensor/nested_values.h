// Makes tensors from values in nested lists, whose rank and dtype are known only at run time.
//
//   absl::StatusOr<Tensor> t = TensorFromValues({{1, 2}, {3, 4}});   // int32 [2,2]
//   TensorFromValues({{1, 2.5}, {3, 4}});                            // float64 [2,2]
//   TensorFromValues({{1, 300}}, DType::kUint8);   // InvalidArgument: values[0][1] is 300; uint8 holds 0 to 255
//   std::vector<NestedValues> row;                 // lists of a length known at run time
//   for (int i = 0; i < n; ++i) row.push_back(i);
//   t = TensorFromValues(std::move(row));          // int32 [n]
//
// A value is a bool, an integer, a float, a double, a std::complex of these, or text (any bytes). A list holds values
// and lists. A single value is a scalar; the lists of one level are the rows of an axis.
//
// Without a dtype, TensorFromValues uses the smallest dtype that holds all C++ types among the values. Only the types
// count, not the values: as NumPy's result_type, but for all values at once, so that their order does not matter.
//
//   all of one type                int is int32, int64_t int64, float float32, double float64, text string, ...
//   bool with numbers              as the numbers alone
//   integers                       the wider; with both signs, the smallest signed one that holds both
//   integers up to 16 bits, float  float32
//   wider integers, float          float64; so is anything with double
//   with complex                   complex64 where the rest would fit float32, else complex128
//   none                           float32: {} is [0], {{}, {}} is [2,0]
//
// With a dtype, each value is converted and must fit. For an integer dtype, the value is an integer in its range; for
// bool, 0 or 1. For a floating dtype, a value may be rounded, but not to infinity or past the largest number of the
// dtype; nan and infinities need a dtype that has them. A complex value that becomes real has no imaginary part. Text
// is never converted.
//
// Errors of TensorFromValues: InvalidArgument, naming the path of the value (values[1][0]), if lists of one level have
// different lengths or are mixed with values; if the lists are too deep; if text is mixed with numbers, or, without a
// dtype, uint64_t with signed integers; if a value does not fit the dtype. ResourceExhausted if the memory cannot be
// allocated. For a dtype that no tensor has: the error of Tensor::Create.
//
// Lists may be at most TensorShape::kMaxRank deep. A deeper list is dropped when it is made, so that neither copying
// nor destroying runs out of stack; TensorFromValues then returns the error.
//
// For one NestedValues x, write NestedValues(x) for a copy and NestedValues(NestedValues::List{x}) for a list of it:
// compilers do not agree about {x}.

#ifndef TENSORCASK_TENSOR_NESTED_VALUES_H_
#define TENSORCASK_TENSOR_NESTED_VALUES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

class NestedValues {
 private:
  // Types of std::is_integral that are characters and not numbers.
  template <typename T>
  static constexpr bool kIsLetter = std::is_same_v<T, char> || std::is_same_v<T, wchar_t> ||
                                    std::is_same_v<T, char16_t> || std::is_same_v<T, char32_t>;

 public:
  using List = std::vector<NestedValues>;

  NestedValues() : NestedValues(List()) {}  // the empty list
  // Not inline: GCC 12 would warn of uninitialised lists in values that hold no list.
  NestedValues(const NestedValues&);
  NestedValues(NestedValues&&) noexcept;
  NestedValues& operator=(const NestedValues&);
  NestedValues& operator=(NestedValues&&) noexcept;
  ~NestedValues();

  // NOLINTBEGIN(google-explicit-constructor): so that literals are values
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T> && !kIsLetter<T>, int> = 0>
  NestedValues(T value) : dtype_(DTypeOfNumber<T>()), held_(Widest<T>(value)) {}
  template <typename T, std::enable_if_t<kIsLetter<T>, int> = 0>
  NestedValues(T letter) = delete;  // text is "a"; a number is static_cast<int8_t>('a')
  NestedValues(std::complex<float> value) : dtype_(DType::kComplex64), held_(std::complex<double>(value)) {}
  NestedValues(std::complex<double> value) : dtype_(DType::kComplex128), held_(value) {}
  NestedValues(std::string text) : dtype_(DType::kString), held_(std::move(text)) {}
  NestedValues(const char* text) : NestedValues(std::string(text)) {}  // Requires: not null
  NestedValues(absl::string_view text) : NestedValues(std::string(text)) {}
  NestedValues(std::nullptr_t) = delete;
  NestedValues(std::initializer_list<NestedValues> list) : NestedValues(List(list)) {}
  NestedValues(List list);
  // NOLINTEND(google-explicit-constructor)

  // The value: bools and unsigned integers as uint64_t, float as double, for every dtype.
  using Held = std::variant<int64_t, uint64_t, double, std::complex<double>, std::string, List>;
  const Held& held() const { return held_; }
  bool is_list() const { return std::holds_alternative<List>(held_); }
  DType dtype() const { return dtype_; }  // that of the value's C++ type; kInvalid for a list
  // The depth of nesting: 0 for a value, 1 for a list of values; more than kMaxRank for a list that was dropped.
  int depth() const { return depth_; }

 private:
  // long long and long are two types for the same numbers; one of them is int64_t.
  template <typename T>
  static constexpr DType DTypeOfNumber() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      static_assert(sizeof(T) <= sizeof(int64_t), "no dtype is as wide");
      constexpr DType kSigned[] = {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};
      constexpr DType kUnsigned[] = {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};
      constexpr int kWidth = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
      return std::is_signed_v<T> ? kSigned[kWidth] : kUnsigned[kWidth];
    } else {
      return kDTypeOf<T>;  // does not compile for long double
    }
  }
  template <typename T>
  using Widest = std::conditional_t<std::is_floating_point_v<T>, double,
                                    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

  DType dtype_ = DType::kInvalid;
  int depth_ = 0;
  Held held_;
};

// The tensor of `values`, by the rules above. (Tensor::FromValues is for literals of one type up to rank 3. It cannot
// fail, and its deduction of T leaves no room for an overload.)
absl::StatusOr<Tensor> TensorFromValues(const NestedValues& values, std::optional<DType> dtype = std::nullopt);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_NESTED_VALUES_H_
