// Converts elements from one dtype to another, for any pair of layouts.
//
//   absl::Status status = Convert(floats, &halves);                                   // dims equal, dtypes any
//   absl::StatusOr<TensorView> bytes = ConvertTo(*floats.Transpose(0, 1), DType::kInt8);   // in a new buffer
//
// The result is the value of the new dtype that is nearest to the old value:
//
//   to \ from       integer                 float                              complex      bool
//   integer         saturates               truncates towards 0, saturates;    real part    0 or 1
//                                           NaN gives 0
//   float           to nearest, ties to even; too large: infinity where the    real part    0 or 1
//                   type has it, else its largest finite value, sign kept; NaN stays NaN
//   complex         (value, 0)              (value, 0)                         each part    0 or 1
//   bool            value != 0              value != 0 (NaN: true)             either part  same
//
// Each value is rounded once, for every pair: float64 to bfloat16 does not go through float32. Quantised dtypes (qint8
// ...) count as their integers, sub-byte integers as their value. Values that a small float cannot represent follow
// float_types.h: NaN gives -0 in float6 and float4; zero and negative numbers give NaN in float8_e8m0fnu. Equal dtypes
// are copied bit by bit. Objects (strings, resources, variants) are not converted.

#ifndef TENSORCASK_TENSOR_STRIDED_CONVERT_H_
#define TENSORCASK_TENSOR_STRIDED_CONVERT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// Assigns to each element of *to the converted element of `from` with the same index. Overlap and errors are as in
// copy.h, except that dtypes may differ; Unimplemented for objects (strings, resources, variants), unless both sides
// have the same dtype.
absl::Status Convert(const TensorView& from, TensorView* to, const CopyOptions& options = {});
inline absl::Status Convert(const TensorView& from, Tensor* to, const CopyOptions& options = {}) {
  TensorView view = *to;
  return Convert(from, &view, options);
}

// The same, to a new buffer in the order of Layout::Dense(format).
absl::StatusOr<TensorView> ConvertTo(const TensorView& from, DType dtype, MemoryFormat format = MemoryFormat::kPreserve,
                                     const CopyOptions& options = {},
                                     const RefPtr<Allocator>& allocator = CpuAllocator::Default());

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_CONVERT_H_
