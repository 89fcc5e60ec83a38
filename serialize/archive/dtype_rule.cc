#include "tensorcask/serialize/archive/dtype_rule.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/glob.h"

namespace tensorcask {

namespace {

// Whether integers of this dtype have no sign, and their bits: {true, 4} for uint4.
std::pair<bool, int> IntegerRange(DType dtype) {
  absl::string_view name = DTypeName(dtype);
  absl::ConsumePrefix(&name, "q");
  const bool is_unsigned = absl::ConsumePrefix(&name, "u");
  int bits = 0;
  const bool is_integer = absl::ConsumePrefix(&name, "int") && absl::SimpleAtoi(name, &bits);
  CASK_CHECK(is_integer, "a name such as uint4");
  return {is_unsigned, bits};
}

}  // namespace

DTypeKind KindOf(DType dtype) {
  if (dtype == DType::kBool) return DTypeKind::kBool;
  if (IsInteger(dtype)) return DTypeKind::kInteger;
  if (IsFloating(dtype)) return DTypeKind::kFloating;
  if (IsComplex(dtype)) return DTypeKind::kComplex;
  return IsQuantized(dtype) ? DTypeKind::kQuantized : DTypeKind::kObject;
}

bool MayChangeValues(DType from, DType to) {
  if (KindOf(from) != KindOf(to)) return true;
  if (!IsInteger(from) && !IsQuantized(from)) return false;
  const auto [is_unsigned, bits] = IntegerRange(from);
  const auto [to_unsigned, to_bits] = IntegerRange(to);
  return is_unsigned == to_unsigned ? to_bits < bits : to_unsigned || to_bits <= bits;
}

bool DTypeRule::Takes(const std::string& name, DType found) const {
  const DTypeKind kind = KindOf(found);
  const auto is_rounded = [](DTypeKind of) { return of == DTypeKind::kFloating || of == DTypeKind::kComplex; };
  if (from.has_value() && *from != kind) return false;
  if (!from.has_value() && !any_kind && is_rounded(KindOf(dtype)) && !is_rounded(kind)) return false;
  return MatchesGlob(glob, name);
}

DTypeRule MakeDTypeRule(absl::string_view pattern, DType dtype) {
  constexpr std::pair<absl::string_view, std::optional<DTypeKind>> kKinds[] = {
      {"bool:", DTypeKind::kBool},       {"int:", DTypeKind::kInteger},         {"float:", DTypeKind::kFloating},
      {"complex:", DTypeKind::kComplex}, {"quantized:", DTypeKind::kQuantized}, {"any:", std::nullopt}};
  DTypeRule rule;
  for (const auto& [word, kind] : kKinds) {
    if (!absl::StartsWith(pattern, word)) continue;
    rule.from = kind;
    rule.any_kind = !kind.has_value();
    pattern.remove_prefix(word.size());
    break;
  }
  rule.glob = std::string(pattern);
  rule.dtype = dtype;
  return rule;
}

}  // namespace tensorcask
