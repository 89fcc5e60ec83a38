// Where a box of elements stands in the bytes of a stored tensor: arithmetic, no bytes.
//
//   Layout from = ..., to = ...;                     // of equal dims: in the file, and in memory
//   CASK_RETURN_IF_ERROR(SortAxes(&from, &to));      // now row-major order is the order of the file
//   for (ElementRuns runs(from); ...; ) runs.Next(max_elements)

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_ELEMENT_RUNS_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_ELEMENT_RUNS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::checkpoint {

// Turns and orders the axes of both alike, so that those of *from have positive steps that do not grow: elements in
// row-major order are then in the order of their numbers in *from. Axes of size 1 go. Requires: equal dims; there are
// elements; *from is a part of a dense layout.
absl::Status SortAxes(Layout* from, Layout* to);

// The numbers of a layout's elements in row-major order, as stretches of neighbours. Requires: it comes from SortAxes.
class ElementRuns {
 public:
  explicit ElementRuns(const Layout& from);

  struct Run {
    int64_t first;
    int64_t count;
  };
  // The next stretch, or as much of it as max_elements allow. Requires: there are elements left.
  Run Next(int64_t max_elements);

 private:
  DimVector dims_;  // of the axes outside a stretch
  DimVector strides_;
  DimVector index_;     // there
  int64_t length_ = 1;  // of a stretch
  int64_t start_;       // of this one
  int64_t done_ = 0;    // of it
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_ELEMENT_RUNS_H_
