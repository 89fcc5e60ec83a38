// Converting elements from one dtype to another, in any pair of layouts.
//
//   absl::Status status = Convert(floats, &halves);                                   // dims equal, dtypes any
//   absl::StatusOr<TensorView> bytes = ConvertTo(*floats.Transpose(0, 1), DType::kInt8);   // in memory of its own
//
// The value that comes out is the one of the new dtype that is nearest to the old one:
//
//   to \ from       integer                 float                              complex      bool
//   integer         saturates               truncates towards 0, saturates;    real part    0 or 1
//                                           NaN gives 0
//   float           to nearest, ties to even; too large: infinity where the    real part    0 or 1
//                   type has it, else its largest finite value, sign kept; NaN stays NaN
//   complex         (value, 0)              (value, 0)                         each part    0 or 1
//   bool            value != 0              value != 0 (NaN: true)             either part  same
//
// Each value is rounded once, whatever the pair: float64 to bfloat16 is not by way of float32. Quantised dtypes (qint8
// ...) count as their integers; sub-byte integers as their value. What a small float has no number for is as in
// float_types.h: NaN gives -0 in float6 and float4; zero and negative numbers give NaN in float8_e8m0fnu. Equal dtypes
// are copied bit by bit. Objects (strings, resources, variants) are not converted.

#ifndef TENSORCASK_TENSOR_STRIDED_CONVERT_H_
#define TENSORCASK_TENSOR_STRIDED_CONVERT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// Assigns each element of *to from that of equal index of `from`, converted. Overlap and errors as copy.h, but for
// dtypes; Unimplemented for objects (strings, resources, variants), unless the dtype stays.
absl::Status Convert(const TensorView& from, TensorView* to, const CopyOptions& options = {});

// The same in fresh memory, in the order of Layout::Dense(format).
absl::StatusOr<TensorView> ConvertTo(const TensorView& from, DType dtype, MemoryFormat format = MemoryFormat::kPreserve,
                                     const CopyOptions& options = {},
                                     const RefPtr<Allocator>& allocator = CpuAllocator::Default());

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_CONVERT_H_
