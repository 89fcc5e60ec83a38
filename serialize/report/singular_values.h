// The singular values of a matrix.
//
//   CASK_ASSIGN_OR_RETURN(const std::vector<double> values, SingularValues(weights, [] { return true; }));
//
// Householder's reflections make the matrix bidiagonal, and bisection finds the values of that: their error is
// about 1e-15 of the largest one. Time grows with the cube of the shorter side.

#ifndef TENSORCASK_SERIALIZE_REPORT_SINGULAR_VALUES_H_
#define TENSORCASK_SERIALIZE_REPORT_SINGULAR_VALUES_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

constexpr int64_t kMostSingularRows = 4096;  // and columns

// The singular values, the largest first, as many as the shorter side has elements. `go_on` is called often; false ends
// with Cancelled. Errors: InvalidArgument for another rank, a longer side, elements that are not numbers or not finite;
// ResourceExhausted.
absl::StatusOr<std::vector<double>> SingularValues(const TensorView& matrix, absl::FunctionRef<bool()> go_on);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_REPORT_SINGULAR_VALUES_H_
