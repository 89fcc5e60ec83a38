#include "tensorcask/tensor/nested_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

using Nodes = std::vector<const NestedValues*>;

// ---- Text for errors ------------------------------------------------------------------------------------------------

// "values[1][0]": the node of number `index` below axes of these dims, row-major.
std::string Path(absl::Span<const int64_t> dims, size_t index) {
  constexpr size_t kShown = 16;
  DimVector indices(dims.size());
  for (size_t axis = dims.size(); axis-- > 0;) {
    indices[axis] = static_cast<int64_t>(index % static_cast<size_t>(dims[axis]));
    index /= static_cast<size_t>(dims[axis]);
  }
  std::string path = "values";
  for (size_t axis = 0; axis < dims.size() && axis < kShown; ++axis) absl::StrAppend(&path, "[", indices[axis], "]");
  return dims.size() > kShown ? path + "..." : path;
}

// The fewest digits that read back to the same number.
std::string NumberText(double value) {
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

struct ToText {
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(uint64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return NumberText(value); }
  std::string operator()(std::complex<double> value) const {
    return absl::StrCat(NumberText(value.real()), std::signbit(value.imag()) ? "" : "+", NumberText(value.imag()), "j");
  }
  std::string operator()(const std::string& text) const { return Quoted(text, 32); }
  std::string operator()(const NestedValues::List& list) const {
    return absl::StrCat("a list of ", list.size(), list.size() == 1 ? " entry" : " entries");
  }
};
std::string Describe(const NestedValues& values) { return std::visit(ToText(), values.held()); }

// ---- Shape ----------------------------------------------------------------------------------------------------------

struct Leaves {
  DimVector dims;
  Nodes values;  // row-major

  absl::Status Refused(size_t index, const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(Path(dims, index), " is ", Describe(*values[index]), why));
  }
};

// Works level by level, without recursion, so that deep nesting uses no stack.
absl::StatusOr<Leaves> FindLeaves(const NestedValues& root) {
  if (root.depth() > TensorShape::kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("values has more than ", TensorShape::kMaxRank, " lists in lists, which is the highest rank"));
  }
  Leaves leaves;
  leaves.values = {&root};
  while (!leaves.values.empty() && leaves.values[0]->is_list()) {
    const size_t length = std::get<NestedValues::List>(leaves.values[0]->held()).size();
    Nodes below;
    for (size_t i = 0; i < leaves.values.size(); ++i) {
      const NestedValues& node = *leaves.values[i];
      const auto* const list = std::get_if<NestedValues::List>(&node.held());
      if (list == nullptr || list->size() != length) {
        return leaves.Refused(i, absl::StrCat("; ", Path(leaves.dims, 0), " is ", Describe(*leaves.values[0])));
      }
      for (const NestedValues& entry : *list) below.push_back(&entry);
    }
    leaves.dims.push_back(static_cast<int64_t>(length));
    leaves.values = std::move(below);
  }
  for (size_t i = 0; i < leaves.values.size(); ++i) {
    if (!leaves.values[i]->is_list()) continue;
    return leaves.Refused(i, absl::StrCat("; ", Path(leaves.dims, 0), " is ", Describe(*leaves.values[0])));
  }
  return leaves;
}

// ---- The dtype that holds all ---------------------------------------------------------------------------------------

absl::StatusOr<DType> CommonDType(const Leaves& leaves) {
  // Bits of the widest of each kind; 0: none.
  size_t signed_bits = 0;
  size_t unsigned_bits = 0;
  size_t float_bits = 0;
  bool has_complex = false;
  size_t first_signed = 0;
  size_t first_uint64 = 0;
  for (size_t i = 0; i < leaves.values.size(); ++i) {
    const DType dtype = leaves.values[i]->dtype();
    if ((dtype == DType::kString) != (leaves.values[0]->dtype() == DType::kString)) {
      return leaves.Refused(i, absl::StrCat("; ", Path(leaves.dims, 0), " is ", Describe(*leaves.values[0]),
                                            ": text and numbers have no dtype in common"));
    }
    const size_t bits = ElementSize(dtype) * 8;
    if (IsComplex(dtype)) {
      has_complex = true;
      float_bits = std::max(float_bits, bits / 2);
    } else if (IsFloating(dtype)) {
      float_bits = std::max(float_bits, bits);
    } else if (IsInteger(dtype) && std::holds_alternative<int64_t>(leaves.values[i]->held())) {
      if (signed_bits == 0) first_signed = i;
      signed_bits = std::max(signed_bits, bits);
    } else if (IsInteger(dtype)) {
      if (bits == 64 && unsigned_bits < 64) first_uint64 = i;
      unsigned_bits = std::max(unsigned_bits, bits);
    }
  }
  if (leaves.values.empty()) return DType::kFloat32;
  if (leaves.values[0]->dtype() == DType::kString) return DType::kString;
  if (float_bits > 0) {
    const bool small = float_bits == 32 && signed_bits <= 16 && unsigned_bits <= 16;
    if (has_complex) return small ? DType::kComplex64 : DType::kComplex128;
    return small ? DType::kFloat32 : DType::kFloat64;
  }
  if (signed_bits > 0) {
    if (unsigned_bits == 64) {
      return leaves.Refused(first_uint64, absl::StrCat(" in uint64; ", Path(leaves.dims, first_signed),
                                                       " is of a signed type: no integer dtype holds both"));
    }
    switch (std::max(signed_bits, 2 * unsigned_bits)) {
      case 8:
        return DType::kInt8;
      case 16:
        return DType::kInt16;
      case 32:
        return DType::kInt32;
      default:
        return DType::kInt64;
    }
  }
  switch (unsigned_bits) {
    case 0:
      return DType::kBool;
    case 8:
      return DType::kUint8;
    case 16:
      return DType::kUint16;
    case 32:
      return DType::kUint32;
    default:
      return DType::kUint64;
  }
}

// ---- Values of a given dtype ----------------------------------------------------------------------------------------

// A signed or unsigned integer of 64 bits, as bits and a sign.
struct Integer {
  uint64_t bits;
  bool negative;
};

// The value as an integer; empty if it is not an integer.
struct ToInteger {
  std::optional<Integer> operator()(int64_t value) const { return Integer{static_cast<uint64_t>(value), value < 0}; }
  std::optional<Integer> operator()(uint64_t value) const { return Integer{value, false}; }
  std::optional<Integer> operator()(double value) const {
    if (value != std::trunc(value)) return std::nullopt;  // nan, too
    if (value >= 0 && value < 0x1p64) return (*this)(static_cast<uint64_t>(value));
    if (value < 0 && value >= -0x1p63) return (*this)(static_cast<int64_t>(value));
    return std::nullopt;
  }
  std::optional<Integer> operator()(std::complex<double> value) const {
    return value.imag() == 0 ? (*this)(value.real()) : std::nullopt;
  }
  template <typename Other>
  std::optional<Integer> operator()(const Other&) const {
    return std::nullopt;
  }
};

// The float next to `value` whose last bit is 1, unless one is equal: rounding it once more, to at most 22 bits, gives
// what rounding `value` would. (Boldo and Melquiond, "When double rounding is odd", 2005.)
float ToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (nearest == value || std::isnan(value)) return nearest;
  uint32_t bits;
  std::memcpy(&bits, &nearest, sizeof(bits));
  if (bits % 2 == 1) return nearest;
  const float infinity = std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, value > nearest ? infinity : -infinity);
}
// The same for integers: those of more than 53 bits first become a double whose last bit is 1.
float ToOdd(uint64_t value) {
  if (value >> 53 != 0) value = (value & ~uint64_t{0xfff}) | (uint64_t{(value & 0xfff) != 0} << 11);
  return ToOdd(static_cast<double>(value));
}
float ToOdd(int64_t value) {
  return value < 0 ? -ToOdd(uint64_t{0} - static_cast<uint64_t>(value)) : ToOdd(static_cast<uint64_t>(value));
}

// Converts a value to an element of each kind of dtype. Make returns false if the value does not fit.
template <typename T, typename = void>
struct Maker;

template <typename T>
struct Maker<T, std::enable_if_t<std::is_integral_v<T>>> {  // bool, too
  static constexpr const char* kWhat = "the integers ";
  static constexpr int64_t kLow = int64_t{std::numeric_limits<T>::min()};
  static constexpr uint64_t kHigh = static_cast<uint64_t>(std::numeric_limits<T>::max());
  static std::string Range() { return absl::StrCat(kLow, " to ", kHigh); }
  static bool Make(const NestedValues::Held& value, T* out) {
    const std::optional<Integer> integer = std::visit(ToInteger(), value);
    if (!integer) return false;
    if (integer->negative ? static_cast<int64_t>(integer->bits) < kLow : integer->bits > kHigh) return false;
    *out = static_cast<T>(integer->bits);
    return true;
  }
};

template <typename Int, int kTag>
struct Maker<TaggedInt<Int, kTag>> : Maker<Int> {
  static bool Make(const NestedValues::Held& value, TaggedInt<Int, kTag>* out) {
    return Maker<Int>::Make(value, &out->value);
  }
};

template <typename Int, int kBits>
struct Maker<SubByteInt<Int, kBits>> {
  static constexpr const char* kWhat = Maker<Int>::kWhat;
  static constexpr int kLow = std::is_signed_v<Int> ? -(1 << (kBits - 1)) : 0;
  static constexpr int kHigh = kLow + (1 << kBits) - 1;
  static std::string Range() { return absl::StrCat(kLow, " to ", kHigh); }
  static bool Make(const NestedValues::Held& value, SubByteInt<Int, kBits>* out) {
    Int integer;
    if (!Maker<Int>::Make(value, &integer) || integer < kLow || integer > kHigh) return false;
    *out = SubByteInt<Int, kBits>(integer);
    return true;
  }
};

// Real numbers: of float and double, and of the narrower floats.
template <typename Real>
struct RealNumbers {
  static Real Nearest(double value) { return static_cast<Real>(value); }
  static Real Nearest(int64_t value) { return static_cast<Real>(value); }
  static Real Nearest(uint64_t value) { return static_cast<Real>(value); }
  static double Value(Real number) { return static_cast<double>(number); }
  static constexpr bool kSaturates = false;
  static double Lowest() { return static_cast<double>(std::numeric_limits<Real>::lowest()); }
  static double Largest() { return static_cast<double>(std::numeric_limits<Real>::max()); }
};
template <typename Format>
struct RealNumbers<SmallFloat<Format>> {
  using Real = SmallFloat<Format>;
  template <typename Number>
  static Real Nearest(Number value) {
    return Real(ToOdd(value));
  }
  static double Value(Real number) { return static_cast<double>(static_cast<float>(number)); }
  static constexpr bool kSaturates = Format::kNonFinite == NonFinite::kNone;
  // Searches all bit patterns, at most 65536, only to write an error message.
  static double Lowest() {
    double lowest = 0;
    for (uint32_t bits = 0; bits <= std::numeric_limits<typename Format::Bits>::max(); ++bits) {
      const double value = Value(Real::FromBits(static_cast<typename Format::Bits>(bits)));
      if (std::isfinite(value)) lowest = std::min(lowest, value);
    }
    return lowest;
  }
  static double Largest() {
    if constexpr (kSaturates) {
      return Value(Real::FromBits((1 << (Format::kExponentBits + Format::kMantissaBits)) - 1));
    }
    double largest = 0;
    for (uint32_t bits = 0; bits <= std::numeric_limits<typename Format::Bits>::max(); ++bits) {
      const double value = Value(Real::FromBits(static_cast<typename Format::Bits>(bits)));
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    return largest;
  }
};

template <typename Real, typename Number>
bool MakeReal(Number number, Real* out) {
  using Numbers = RealNumbers<Real>;
  *out = Numbers::Nearest(number);
  const double given = static_cast<double>(number);
  const double made = Numbers::Value(*out);
  if (std::isnan(given)) return std::isnan(made);
  if (std::isinf(given)) return made == given;
  return std::isfinite(made) && (!Numbers::kSaturates || std::abs(given) <= Numbers::Largest());
}

template <typename Real>
std::string RangeOfReal() {
  return absl::StrCat(NumberText(RealNumbers<Real>::Lowest()), " to ", NumberText(RealNumbers<Real>::Largest()));
}

template <typename Real, typename>
struct Maker {
  static constexpr const char* kWhat = "the real numbers ";
  static std::string Range() { return RangeOfReal<Real>(); }
  static bool Make(const NestedValues::Held& value, Real* out) {
    return std::visit(
        [out](const auto& held) {
          using Held = std::decay_t<decltype(held)>;
          if constexpr (std::is_arithmetic_v<Held>) return MakeReal(held, out);
          if constexpr (std::is_same_v<Held, std::complex<double>>)
            return held.imag() == 0 && MakeReal(held.real(), out);
          return false;
        },
        value);
  }
};

template <typename Part>
struct Maker<std::complex<Part>> {
  static constexpr const char* kWhat = "complex numbers with parts ";
  static std::string Range() { return RangeOfReal<Part>(); }
  static bool Make(const NestedValues::Held& value, std::complex<Part>* out) {
    Part parts[2] = {0, 0};
    const auto* const number = std::get_if<std::complex<double>>(&value);
    const bool fits = number == nullptr ? Maker<Part>::Make(value, &parts[0])
                                        : MakeReal(number->real(), &parts[0]) && MakeReal(number->imag(), &parts[1]);
    *out = {parts[0], parts[1]};
    return fits;
  }
};

template <typename T>
absl::Status Fill(const Leaves& leaves, T* out) {
  for (size_t i = 0; i < leaves.values.size(); ++i) {
    const NestedValues& value = *leaves.values[i];
    if (Maker<T>::Make(value.held(), &out[i])) continue;
    // The message says of 2.5 that it is not an integer; of 300 it need not say that it is one.
    return leaves.Refused(i, absl::StrCat("; ", DTypeName(kDTypeOf<T>), " holds ",
                                          IsInteger(value.dtype()) ? "" : Maker<T>::kWhat, Maker<T>::Range()));
  }
  return absl::OkStatus();
}

absl::Status Fill(const Leaves& leaves, std::string* out) {
  for (size_t i = 0; i < leaves.values.size(); ++i) {
    const auto* const text = std::get_if<std::string>(&leaves.values[i]->held());
    if (text == nullptr) return leaves.Refused(i, "; string holds text");
    out[i] = *text;
  }
  return absl::OkStatus();
}

}  // namespace

NestedValues::NestedValues(const NestedValues&) = default;
NestedValues::NestedValues(NestedValues&&) noexcept = default;
NestedValues& NestedValues::operator=(const NestedValues&) = default;
NestedValues& NestedValues::operator=(NestedValues&&) noexcept = default;
NestedValues::~NestedValues() = default;

NestedValues::NestedValues(List list) : depth_(1) {
  for (const NestedValues& entry : list) depth_ = std::max(depth_, entry.depth_ + 1);
  if (depth_ > TensorShape::kMaxRank) {
    depth_ = TensorShape::kMaxRank + 1;  // so that the list around this one is dropped as well, and no number overflows
    list.clear();
  }
  held_ = std::move(list);
}

absl::StatusOr<Tensor> TensorFromValues(const NestedValues& values, std::optional<DType> dtype) {
  CASK_ASSIGN_OR_RETURN(const Leaves leaves, FindLeaves(values));
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(leaves.dims));
  if (!dtype) {
    CASK_ASSIGN_OR_RETURN(dtype, CommonDType(leaves));
  }
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(*dtype, shape));
  if (tensor.num_elements() == 0) return tensor;
  if (*dtype == DType::kString) {
    CASK_RETURN_IF_ERROR(Fill(leaves, tensor.mutable_data<std::string>()));
  } else {
    CASK_RETURN_IF_ERROR(VisitDType(*dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      return Fill(leaves, tensor.mutable_data<T>());
    }));
  }
  return tensor;
}

}  // namespace tensorcask
