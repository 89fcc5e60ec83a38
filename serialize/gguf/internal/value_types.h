// The types of values in GGUF metadata (FORMAT.md section 3), by their number in a file.

#ifndef TENSORCASK_SERIALIZE_GGUF_INTERNAL_VALUE_TYPES_H_
#define TENSORCASK_SERIALIZE_GGUF_INTERNAL_VALUE_TYPES_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask::gguf {

struct ValueType {
  ValueKind kind;
  int bits;  // the width of a number, and of a bool in a file; 0 for texts and arrays
  absl::string_view name;
};

inline constexpr ValueType kValueTypes[] = {
    {ValueKind::kUint, 8, "uint8"},     {ValueKind::kInt, 8, "int8"},     {ValueKind::kUint, 16, "uint16"},
    {ValueKind::kInt, 16, "int16"},     {ValueKind::kUint, 32, "uint32"}, {ValueKind::kInt, 32, "int32"},
    {ValueKind::kFloat, 32, "float32"}, {ValueKind::kBool, 8, "bool"},    {ValueKind::kText, 0, "text"},
    {ValueKind::kList, 0, "array"},     {ValueKind::kUint, 64, "uint64"}, {ValueKind::kInt, 64, "int64"},
    {ValueKind::kFloat, 64, "float64"},
};
inline constexpr uint32_t kArrayType = 9;

inline constexpr absl::string_view kAlignmentKey = "general.alignment";  // a uint32
inline constexpr uint64_t kDefaultAlignment = 32;
inline constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
inline constexpr uint64_t kMaxKeyNameBytes = 65535;
inline constexpr uint32_t kMaxRank = 4;
inline constexpr uint64_t kLongName = 64;  // from this size on ggml has no room for the name of a tensor

// The key of the padding, which an edit adds (FORMAT.md section 3.4).
inline constexpr absl::string_view kPaddingKey = "tensorcask.padding";

// True for the padding: a text of spaces. Another value of its key is that of an ordinary key.
inline bool IsPadding(absl::string_view name, absl::string_view text) {
  return name == kPaddingKey && text.find_first_not_of(' ') == absl::string_view::npos;
}
inline bool IsPadding(absl::string_view name, Value value) {
  return value.kind() == ValueKind::kText && IsPadding(name, value.text());
}

// True for the keys that say which part of a model a file is.
inline bool IsSplitKey(absl::string_view name) {
  return name == "split.no" || name == "split.count" || name == "split.tensors.count";
}

// The number of a float32 with these bits, and back. A conversion of the processor would change a signalling NaN.
inline double NumberOfFloat(uint32_t bits) {
  float narrow;
  std::memcpy(&narrow, &bits, sizeof narrow);
  if (!std::isnan(narrow)) return static_cast<double>(narrow);
  const uint64_t wide = uint64_t{bits & 0x80000000} << 32 | uint64_t{0x7ff} << 52 | uint64_t{bits & 0x7fffff} << 29;
  double number;
  std::memcpy(&number, &wide, sizeof number);
  return number;
}
inline uint32_t BitsOfFloat(double number) {
  const auto narrow = static_cast<float>(number);
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  uint64_t wide;
  std::memcpy(&wide, &number, sizeof wide);
  const auto payload = static_cast<uint32_t>(wide >> 29 & 0x7fffff);
  return std::isnan(number) && payload != 0 ? (bits & 0xff800000) | payload : bits;
}

// True for values that general.alignment may have.
inline constexpr bool IsAlignment(uint64_t value) {
  return value != 0 && (value & (value - 1)) == 0 && value <= kMaxAlignment;
}

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_INTERNAL_VALUE_TYPES_H_
