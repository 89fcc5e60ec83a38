// What a report says of the elements of one tensor: exact counts and moments, and an evenly spaced sample.
//
//   TensorProfiler profiler(entry, ProfileDetail());
//   while (...) CASK_RETURN_IF_ERROR(profiler.Add(block.elements));   // row-major, in order
//   const TensorProfile profile = profiler.Finish();
//
// The sample is a lattice: counts[i] indices of axis i, of which number k is floor(k * dim / counts[i]). A tensor of at
// most ProfileDetail::sample elements is its own sample. So one can ask for the mean of each row, and any two axes make
// a picture.

#ifndef TENSORCASK_SERIALIZE_REPORT_INTERNAL_TENSOR_PROFILE_H_
#define TENSORCASK_SERIALIZE_REPORT_INTERNAL_TENSOR_PROFILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/element_totals.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::report {

// How much a report keeps of each tensor.
struct ProfileDetail {
  int64_t sample = 65536;  // elements, at least 1
  int bins = 64;           // parts of the histogram; 0: none
  int64_t picture = 4096;  // elements of the heat map; 0: none
  int64_t groups = 64;     // for each axis, for mean and spread; 0: none
  int64_t few = 64;        // a tensor of at most so many elements has all of them in the page

  // For a report of this many tensors: a page of 10,000 stays below 3 MB.
  static ProfileDetail For(size_t num_tensors);
};

// How many indices of each axis a lattice of at most `most` elements has. Requires: most >= 1.
std::vector<int64_t> LatticeCounts(absl::Span<const int64_t> dims, int64_t most);
// Index number `k` of `count` along an axis.
int64_t LatticeIndex(int64_t k, int64_t count, int64_t dim);

struct TensorProfile {
  bool is_numeric = false;  // false: only `hash` is set
  archive::ElementTotals totals;
  uint64_t saturated = 0;  // elements that are the largest finite number of a float of at most 16 bits, or its negative
  int64_t dead_rows = -1;  // indices of axis 0 whose elements are all zero; -1: the tensor has fewer than two axes
  int64_t dead_columns = -1;  // along axis 1 of a matrix; -1: not counted
  // The hash of all elements. Tensors of one dtype and shape with the same hash have the same elements (in one
  // process).
  std::array<uint64_t, 2> hash = {};
  std::vector<int64_t> counts;  // how many points of the lattice, along each axis
  std::vector<double> sample;   // row-major

  double norm() const;  // the square root of the sum of squares of finite elements
};

class TensorProfiler {
 public:
  TensorProfiler(DType dtype, const TensorShape& shape, const ProfileDetail& detail);

  // Errors: ResourceExhausted.
  absl::Status Add(const TensorView& block);
  TensorProfile Finish();

 private:
  absl::Status AddSample(const TensorView& block);
  void CountZeroLines(const TensorView& block);
  void PassLinesWithoutZeros(int64_t count);
  void CountSaturated(const TensorView& block);
  void AdvanceLattice();

  const DType dtype_;
  const std::vector<int64_t> dims_;
  TensorProfile profile_;
  int64_t offset_ = 0;  // elements before the next block
  // The next element of the lattice.
  std::vector<int64_t> place_;
  std::vector<int64_t> strides_;
  int64_t next_ = 0;  // its number in the tensor
  bool sample_is_complete_ = false;
  double largest_ = 0;  // finite number of the dtype; 0: saturation is not counted
  int64_t row_elements_ = 0;
  bool row_is_dead_ = true;
  std::vector<uint8_t> column_bits_;  // or-ed elements of each column of a matrix
};

// The mean and the spread of the sample at each index of one axis, of which at most `groups` groups are made.
struct AxisProfile {
  std::vector<double> means;
  std::vector<double> spreads;
};
AxisProfile ProfileAxis(const TensorProfile& profile, size_t axis, int64_t groups);

// Moves the values that Quantile(values, q) needs of each q of `qs`, which ascend, to where sorting would move them.
void SelectForQuantiles(absl::Span<const double> qs, absl::Span<double> values);

// The quantile of sorted values, as NumPy's quantile (method "linear") gives it. Requires: not empty, 0 <= q <= 1.
double Quantile(absl::Span<const double> sorted, double q);

// How many of `values` lie in each of `bins` equal parts of [low, high]; the last part includes `high`. Other values,
// and those that are not finite, are not counted.
std::vector<uint64_t> Histogram(absl::Span<const double> values, double low, double high, int bins);

}  // namespace tensorcask::report

#endif  // TENSORCASK_SERIALIZE_REPORT_INTERNAL_TENSOR_PROFILE_H_
