#include "tensorcask/serialize/archive/dtype_rule.h"

#include <utility>

#include "absl/strings/match.h"
#include "tensorcask/tensor/base/glob.h"

namespace tensorcask {

DTypeKind KindOf(DType dtype) {
  if (dtype == DType::kBool) return DTypeKind::kBool;
  if (IsInteger(dtype)) return DTypeKind::kInteger;
  if (IsFloating(dtype)) return DTypeKind::kFloating;
  if (IsComplex(dtype)) return DTypeKind::kComplex;
  return IsQuantized(dtype) ? DTypeKind::kQuantized : DTypeKind::kObject;
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
