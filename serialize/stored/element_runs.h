// Computes where the elements of a slice lie in the bytes of a stored tensor. Arithmetic only; reads nothing.
//
//   Layout from = ..., to = ...;                     // with equal dims: in the file, and in memory
//   CASK_RETURN_IF_ERROR(SortAxes(&from, &to));      // now row-major order is the order of the file
//   for (ElementRuns runs(from); ...; ) runs.Next(max_elements)

#ifndef TENSORCASK_SERIALIZE_STORED_ELEMENT_RUNS_H_
#define TENSORCASK_SERIALIZE_STORED_ELEMENT_RUNS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::stored {

// Flips and permutes the axes of both layouts in the same way, so that the strides of *from are positive and do not
// increase. Elements in row-major order then have increasing positions in *from. Removes axes of size 1. Requires:
// equal dims; there are elements; *from is a part of a dense layout.
absl::Status SortAxes(Layout* from, Layout* to);

// The positions of a layout's elements in row-major order, as runs of adjacent ones. Requires: SortAxes made the
// layout.
class ElementRuns {
 public:
  explicit ElementRuns(const Layout& from);

  struct Run {
    int64_t first;
    int64_t count;
  };
  // The next run, cut to max_elements. Requires: there are elements left.
  Run Next(int64_t max_elements);

 private:
  DimVector dims_;  // the axes outside a run
  DimVector strides_;
  DimVector index_;     // where the current run is on these axes
  int64_t length_ = 1;  // elements of each run
  int64_t start_;       // position of the first element of the current run
  int64_t done_ = 0;    // elements of the current run
};

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_ELEMENT_RUNS_H_
