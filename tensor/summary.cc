#include "tensorcask/tensor/summary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask {
namespace {

// Shown of one string.
constexpr size_t kMaxStringBytes = 256;

// ---- One number -----------------------------------------------------------------------------------------------------

// digits * 10^exponent
struct Decimal {
  int64_t digits = 0;
  int exponent = 0;
};

std::string DecimalText(const Decimal& decimal) { return absl::StrCat(decimal.digits, "e", decimal.exponent); }

template <typename T>
T Parse(absl::string_view text) {
  T value{};
  absl::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// `magnitude` (finite, > 0) rounded to `num_digits` significant digits.
Decimal RoundToDigits(double magnitude, int num_digits) {
  std::array<char, 64> text;  // d.ddde-XXX
  const std::to_chars_result result =
      std::to_chars(text.data(), text.data() + text.size(), magnitude, std::chars_format::scientific, num_digits - 1);
  Decimal decimal;
  const char* at = text.data();
  for (; *at != 'e'; ++at) {
    if (*at != '.') decimal.digits = decimal.digits * 10 + (*at - '0');
  }
  ++at;
  if (*at == '+') ++at;  // std::from_chars takes no plus
  std::from_chars(at, result.ptr, decimal.exponent);
  decimal.exponent -= num_digits - 1;
  return decimal;
}

// A decimal of `num_digits` digits as text: fixed or scientific, whichever is shorter, as std::to_chars chooses.
// `magnitude` is the exact number: if fixed notation has room for all of its digits, they are shown.
std::string ShorterNotation(const Decimal& decimal, int num_digits, double magnitude) {
  const std::string digits = absl::StrCat(decimal.digits);
  const int point = decimal.exponent + num_digits;  // 0.ddd * 10^point
  std::string fixed;
  if (point >= num_digits) {
    std::array<char, 64> text;
    const std::to_chars_result result =
        std::to_chars(text.data(), text.data() + text.size(), magnitude, std::chars_format::fixed, 0);
    if (result.ec == std::errc()) fixed.assign(text.data(), result.ptr);
  } else if (point > 0) {
    fixed = absl::StrCat(digits.substr(0, static_cast<size_t>(point)), ".", digits.substr(static_cast<size_t>(point)));
  } else {
    fixed = absl::StrCat("0.", std::string(static_cast<size_t>(-point), '0'), digits);
  }

  const int power = point - 1;  // d.dd * 10^power
  std::string scientific = digits.substr(0, 1);
  if (num_digits > 1) absl::StrAppend(&scientific, ".", digits.substr(1));
  absl::StrAppend(&scientific, power < 0 ? "e-" : "e+", std::abs(power) < 10 ? "0" : "", std::abs(power));
  return !fixed.empty() && fixed.size() <= scientific.size() ? fixed : scientific;
}

template <typename Format>
bool IsLargestFinite(SmallFloat<Format> magnitude) {
  using Number = SmallFloat<Format>;
  using Bits = typename Number::Bits;
  constexpr unsigned kMagnitudeMask = (1u << (Format::kExponentBits + Format::kMantissaBits)) - 1;
  const unsigned bits = magnitude.bits() & kMagnitudeMask;
  return bits == kMagnitudeMask || !std::isfinite(static_cast<float>(Number::FromBits(static_cast<Bits>(bits + 1))));
}

template <typename Format>
float RoundToFormat(float value) {
  return static_cast<float>(SmallFloat<Format>(value));
}

// The shortest decimal from which a number of a small format comes back when it is read as a float and rounded to that
// format. `is_largest`: the magnitude is the largest finite one of the format. One function for all formats.
std::string FloatText(float value, bool is_largest, float (*round_to_format)(float)) {
  if (std::isnan(value)) return "nan";
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + "inf";
  if (value == 0) return sign + "0";

  const float magnitude = std::fabs(value);
  const double exact = magnitude;
  for (int num_digits = 1;; ++num_digits) {
    // Also tries the neighbours of the nearest decimal: at a power of two, the numbers above are farther apart than
    // those below. A type without infinity reads any larger number as its largest, so such a text would mislead.
    const Decimal nearest = RoundToDigits(exact, num_digits);
    std::string best;
    double best_distance = 0;
    for (const int64_t step : {0, -1, 1}) {
      const Decimal candidate = {nearest.digits + step, nearest.exponent};
      const std::string text = DecimalText(candidate);
      if (candidate.digits <= 0 || absl::StrCat(candidate.digits).size() != static_cast<size_t>(num_digits)) continue;
      if (round_to_format(Parse<float>(text)) != magnitude) continue;
      const double parsed = Parse<double>(text);
      if (is_largest && parsed > exact) continue;
      const double distance = std::fabs(parsed - exact);
      if (!best.empty() && distance >= best_distance) continue;
      best = ShorterNotation(candidate, num_digits, exact);
      best_distance = distance;
    }
    if (!best.empty()) return sign + best;
    CASK_CHECK(num_digits < 17, "a small float has at most 17 digits");
  }
}

template <typename T, typename = std::enable_if_t<std::is_floating_point_v<T>>>
std::string NumberText(T value) {
  if (std::isnan(value)) return "nan";  // without the sign that to_chars shows
  std::array<char, 64> text;
  const std::to_chars_result result = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), result.ptr);
}
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>, typename = void>
std::string NumberText(T value) {
  return absl::StrCat(+value);  // + makes a number of a char
}
template <typename Format>
std::string NumberText(SmallFloat<Format> value) {
  return FloatText(static_cast<float>(value), IsLargestFinite(value), RoundToFormat<Format>);
}
template <typename Int, int kTag>
std::string NumberText(TaggedInt<Int, kTag> value) {
  return NumberText(value.value);
}
template <typename Int, int kBits>
std::string NumberText(SubByteInt<Int, kBits> value) {
  return NumberText(value.value());
}
template <typename T>
std::string NumberText(std::complex<T> value) {
  const std::string imaginary = NumberText(value.imag());
  return absl::StrCat(NumberText(value.real()), imaginary[0] == '-' ? "" : "+", imaginary, "j");
}

std::string ObjectText(const std::string& text) { return Quoted(text, kMaxStringBytes); }
std::string ObjectText(const ResourceHandle& handle) {
  std::string text = absl::StrCat("<resource ", Quoted(handle.name, kMaxStringBytes));
  if (!handle.container.empty()) absl::StrAppend(&text, " in ", Quoted(handle.container, kMaxStringBytes));
  if (!handle.device.empty()) absl::StrAppend(&text, " on ", Quoted(handle.device, kMaxStringBytes));
  return text + ">";
}
std::string ObjectText(const Variant& variant) {
  const size_t tensors = variant.tensors.size();
  if (tensors == 0 && variant.type_name.empty() && variant.metadata.empty()) return "<variant>";
  return absl::StrCat("<variant ", Quoted(variant.type_name, kMaxStringBytes), ", ", variant.metadata.size(),
                      " bytes, ", tensors, tensors == 1 ? " tensor>" : " tensors>");
}

// The element at index `index` of `base`. Compiled for size: it has a case for each dtype, and texts need no speed.
std::string ElementText(DType dtype, const void* base, int64_t index) {
  if (IsObject(dtype)) {
    return VisitObjectDType(
        dtype, [&](auto tag) { return ObjectText(static_cast<const typename decltype(tag)::type*>(base)[index]); });
  }
  const char* const element = static_cast<const char*>(base) + index * static_cast<int64_t>(ElementSize(dtype));
  if (dtype == DType::kBool)
    return *element != 0 ? "true" : "false";  // read as a byte, which may be other than 0 and 1
  std::string text;
  const absl::Status status = VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) {
      T value;
      std::memcpy(&value, element, sizeof(T));  // external memory may hold any bits, so no typed access
      text = NumberText(value);
    }
    return absl::OkStatus();
  });
  CASK_CHECK(status.ok(), "every element that is not an object has a fixed size");
  return text;
}

// ---- Nested brackets ------------------------------------------------------------------------------------------------

class Summary {
 public:
  Summary(const internal::StridedElements& elements, const SummaryOptions& options)
      : elements_(elements), options_(options) {}

  std::string Run() {
    if (std::find(elements_.dims.begin(), elements_.dims.end(), 0) != elements_.dims.end()) return "[]";
    AppendAxis(0, elements_.offset);
    return std::move(text_);
  }

 private:
  bool exhausted() const { return options_.max_entries >= 0 && shown_ >= options_.max_elements; }

  // All elements of the axes from `axis` on, from element `first`.
  void AppendAxis(size_t axis, int64_t first) {
    if (axis == elements_.dims.size()) {
      text_ += ElementText(elements_.dtype, elements_.base, first);
      ++shown_;
      return;
    }
    const int64_t dim = elements_.dims[axis];
    // Compared by subtraction: twice max_entries may overflow.
    const bool shorten = options_.max_entries >= 0 && options_.max_entries < dim - options_.max_entries;
    text_ += '[';
    for (int64_t i = 0; i < dim; ++i) {
      if (i > 0) AppendSeparator(axis);
      if (exhausted()) {
        text_ += "...";
        break;
      }
      if (shorten && i == options_.max_entries) {
        text_ += "...";
        i = dim - options_.max_entries - 1;
        continue;
      }
      AppendAxis(axis + 1, first + i * elements_.strides[axis]);
    }
    text_ += ']';
  }

  void AppendSeparator(size_t axis) {
    const size_t inner_axes = elements_.dims.size() - 1 - axis;
    if (!options_.multiline || inner_axes == 0) {
      text_ += ' ';
      return;
    }
    text_.append(inner_axes, '\n');
    text_.append(axis + 1, ' ');
  }

  const internal::StridedElements& elements_;
  const SummaryOptions& options_;
  int64_t shown_ = 0;
  std::string text_;
};

}  // namespace

std::string SummarizeValue(const Tensor& tensor, const SummaryOptions& options) {
  const absl::Status readable = tensor.buffer() ? tensor.buffer()->CheckReadable() : absl::OkStatus();
  if (!readable.ok()) return absl::StrCat("<", absl::string_view(readable.message()), ">");
  const DimVector dims = tensor.shape().dims();
  DimVector strides(dims.size());
  int64_t inner = 1;  // does not overflow: TensorShape checks the product
  for (size_t axis = dims.size(); axis-- > 0; inner *= std::max(dims[axis], int64_t{1})) strides[axis] = inner;
  const void* const base = tensor.buffer() ? tensor.buffer()->data() : nullptr;
  return internal::SummarizeElements({tensor.dtype(), base, dims, strides, /*offset=*/0}, options);
}

std::string internal::SummarizeElements(const StridedElements& elements, const SummaryOptions& options) {
  return Summary(elements, options).Run();
}

std::string ElementToString(const Tensor& tensor, int64_t index) {
  CASK_CHECK(index >= 0 && index < tensor.num_elements(), "ElementToString: no such element");
  return ElementText(tensor.dtype(), tensor.buffer()->data(), index);
}

// ---- Of class Tensor ------------------------------------------------------------------------------------------------

std::string Tensor::SummarizeValue(int64_t max_entries) const {
  SummaryOptions options;
  options.max_entries = max_entries < 0 ? -1 : std::numeric_limits<int64_t>::max();  // at each end of an axis
  options.max_elements = max_entries;                                                // in all
  return tensorcask::SummarizeValue(*this, options);
}

std::string Tensor::ToString() const {
  return absl::StrCat(DTypeName(dtype()), " ", shape_.ToString(), ": ", tensorcask::SummarizeValue(*this));
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.ToString(); }

}  // namespace tensorcask
