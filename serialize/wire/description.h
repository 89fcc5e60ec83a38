// Describes a tensor and its memory without the elements, for logs and step statistics.
//
//   TensorDescription description;
//   DescribeTensor(tensor.Slice(0, 2).value(), &description);
//   // dtype, shape [2,...]; allocation_description: the buffer of the whole tensor, of which the slice is a part
//
// All functions clear *out first. `allocation_description` describes the root buffer; a tensor without memory has none.
// Its fields:
//   requested_bytes                 the size of the root buffer
//   allocator_name                  empty for memory that no allocator of this library gave
//   allocated_bytes, allocation_id  if the allocator knows them (Allocator::Describe)
//   ptr                             the address
//   has_single_reference            no other tensor or view refers to this memory (TensorBuffer::IsExclusive)
// A dtype that TensorFlow lacks is described as 0.
//
// Source: FillDescription of Tensor, TensorReference and TensorBuffer in tensorflow/core/framework. TensorFlow sets
// has_single_reference only if the allocator tracks its allocations.

#ifndef TENSORCASK_SERIALIZE_WIRE_DESCRIPTION_H_
#define TENSORCASK_SERIALIZE_WIRE_DESCRIPTION_H_

#include "tensorcask/tensor/base/cxx17.h"

#include "tensorcask/proto/tensor_description.pb.h"
#include "tensorcask/tensor/reference.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

void DescribeTensor(const Tensor& tensor, TensorDescription* out);
void DescribeTensor(const TensorView& view, TensorDescription* out);

// *out stays empty for an empty reference. has_single_reference counts the reference itself.
void DescribeAllocation(const TensorReference& reference, AllocationDescription* out);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_DESCRIPTION_H_
