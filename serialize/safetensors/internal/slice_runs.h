// Where the elements of a slice lie among those of the tensor: runs of neighbours, all of the same length.
//
//   SliceRuns runs(TensorShape({4, 10}), *TensorSlice::Parse("1,2:3,5"), TensorShape({2, 5}));
//   runs.count();    // 2
//   runs.length();   // 5
//   runs.Next();     // 13; then 23

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_SLICE_RUNS_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_SLICE_RUNS_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::safetensors {

class SliceRuns {
 public:
  // Requires: `part` is slice.Apply(shape).
  SliceRuns(const TensorShape& shape, const TensorSlice& slice, const TensorShape& part);

  int64_t count() const { return count_; }    // 0 for a slice without elements
  int64_t length() const { return length_; }  // elements of each run
  int64_t first() const { return first_; }    // element that begins the first run, counted in row-major order
  int64_t last() const;                       // the last run
  // The element that begins the next run; they grow. Requires: called at most count() times.
  int64_t Next();

 private:
  int64_t count_ = 1;
  int64_t length_ = 1;
  int64_t first_ = 0;
  absl::InlinedVector<int64_t, 6> dims_;  // of the axes outside a run, innermost first
  absl::InlinedVector<int64_t, 6> strides_;
  absl::InlinedVector<int64_t, 6> index_;
};

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_SLICE_RUNS_H_
