// Which tensors a conversion gives another dtype.
//
//   const DTypeRule rule = MakeDTypeRule("int:*step", DType::kFloat64);
//   rule.Takes("global_step", DType::kInt64);   // true
//   rule.Takes("first_step", DType::kFloat32);  // false: a floating tensor
//
// A rule for a floating or complex dtype takes only floating and complex tensors unless it names a kind: integers are
// counters, indices and sizes, which bfloat16 would round (46900 becomes 46848). Rules for other dtypes take all kinds.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_DTYPE_RULE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_DTYPE_RULE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

enum class DTypeKind { kBool, kInteger, kFloating, kComplex, kQuantized, kObject };

DTypeKind KindOf(DType dtype);  // kObject: strings and all others without elements of a fixed size

// True if numbers of `from` become numbers of another kind, or integers of a range that does not hold all of them:
// int64 46900 becomes int8 127. Floating numbers of fewer bits are only rounded.
bool MayChangeValues(DType from, DType to);

struct DTypeRule {
  std::string glob;  // a shell pattern (tensor/base/glob.h): * also matches '/'
  DType dtype = DType::kInvalid;
  std::optional<DTypeKind> from = std::nullopt;  // takes only tensors of this kind
  bool any_kind = false;                         // takes tensors of all kinds, if `from` is not set

  // True if the rule applies to the tensor of this name and dtype.
  bool Takes(const std::string& name, DType found) const;
};

// A rule from its text: a pattern, or "KIND:" and a pattern. KIND is bool, int, float, complex, quantized or any.
DTypeRule MakeDTypeRule(absl::string_view pattern, DType dtype);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_DTYPE_RULE_H_
