// Sums and counts over elements, in one pass.
//
//   ElementTotals totals;
//   CASK_RETURN_IF_ERROR(totals.Add(block));   // more than once
//   totals.mean();

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_ELEMENT_TOTALS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_ELEMENT_TOTALS_H_

#include <cstddef>
#include <cstdint>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::archive {

// True for the dtypes that ElementTotals takes: bools, integers, floats, quantised integers.
bool HasOrder(DType dtype);
// True for those of which ElementTotals gives an exact range.
bool HasExactRange(DType dtype);

// Sums are of differences to the first finite element, in double, so that a large mean does not hide a small spread.
struct ElementTotals {
  uint64_t count = 0;
  uint64_t zeros = 0;
  uint64_t nans = 0;
  uint64_t infinities = 0;
  uint64_t subnormals = 0;
  bool has_origin = false;
  double origin = 0;  // the first finite element
  double sum = 0;     // the sum of (x - origin) over finite elements
  double squares = 0;
  double min = 0;  // that of finite elements, if has_origin
  double max = 0;
  // The same of int64 and uint64 elements, of which a double holds not all.
  absl::int128 exact_min = 0;
  absl::int128 exact_max = 0;

  // Requires: `block` is row-major, HasOrder(block.dtype()). Errors: ResourceExhausted.
  absl::Status Add(const TensorView& block);

  uint64_t finite() const { return count - nans - infinities; }
  // NaN if a sum overflows.
  double mean() const;
  double standard_deviation() const;
};

// For tests: the portable code and the vector code give the same counts, minimum and maximum.
void AddFloatsPortable(const float* data, size_t size, ElementTotals* totals);
void AddFloats(const float* data, size_t size, ElementTotals* totals);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_ELEMENT_TOTALS_H_
