// Compares two views element by element, for Equal, AllClose and the matchers of tests/fixture.
//
//   const Differences found = FindDifferences(actual, expected, Tolerance{/*rtol=*/1e-5, /*atol=*/0});
//   found.num_different, found.first      // how many elements; the row-major number of the first

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_DIFFERENCES_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_DIFFERENCES_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

// The rule of AllClose (compare.h).
struct Tolerance {
  double rtol = 0;
  double atol = 0;
  Nans nans = Nans::kDiffer;
};

struct Differences {
  int64_t num_different = 0;
  int64_t first = 0;  // the row-major number of the first element that differs
  // For that element, if there is a tolerance: the distance of the two values, and the distance allowed. NaN if a value
  // is NaN or the expected one is infinite.
  double first_distance = std::numeric_limits<double>::quiet_NaN();
  double first_allowed = std::numeric_limits<double>::quiet_NaN();
  bool first_are_nans = false;  // both values are NaN
  double largest = 0;           // the largest distance of all elements; infinite ones count, NaN does not
  int64_t largest_at = 0;
};

enum class Search : uint8_t { kAll, kFirst };  // kFirst: stops at the first difference

// Compares bit by bit if `tolerance` is empty. Objects are compared by ==, whatever the tolerance.
// Requires: equal dtypes and dims; both buffers have data.
Differences FindDifferences(const TensorView& actual, const TensorView& expected,
                            const std::optional<Tolerance>& tolerance, Search search = Search::kAll);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_DIFFERENCES_H_
