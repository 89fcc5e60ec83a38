#include "tensorcask/tensor/strided/compare.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/strided/internal/differences.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {
namespace {

bool IsReadable(const TensorView& view) { return !view.buffer() || view.buffer()->CheckReadable().ok(); }

bool IsSameView(const TensorView& a, const TensorView& b) {
  return a.buffer() == b.buffer() && a.layout() == b.layout();
}

bool Agree(const TensorView& a, const TensorView& b, const std::optional<internal::Tolerance>& tolerance) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.num_elements() == 0) return true;
  if (!IsReadable(a) || !IsReadable(b)) return IsSameView(a, b);
  return internal::FindDifferences(a, b, tolerance, internal::Search::kFirst).num_different == 0;
}

}  // namespace

bool Equal(const TensorView& a, const TensorView& b) { return Agree(a, b, std::nullopt); }

bool AllClose(const TensorView& actual, const TensorView& expected, double rtol, double atol, Nans nans) {
  if (!(rtol >= 0 && atol >= 0)) {
    internal::CheckFailed(__FILE__, __LINE__, "rtol >= 0 && atol >= 0",
                          absl::StrCat("AllClose: rtol is ", rtol, " and atol is ", atol).c_str());
  }
  return Agree(actual, expected, internal::Tolerance{rtol, atol, nans});
}

}  // namespace tensorcask
