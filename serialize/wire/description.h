// What a tensor and its memory look like, without the elements: for logs and step statistics.
//
//   TensorDescription description;
//   DescribeTensor(tensor.Slice(0, 2).value(), &description);
//   // dtype, shape [2,...]; allocation_description: that of the whole tensor, of which the slice is a part
//
// Both clear *out first. `allocation_description` is always of the root buffer, and there is none for a tensor without
// memory. In it: requested_bytes, the size of the root; allocator_name, empty for memory that is not ours;
// allocated_bytes and allocation_id, if the allocator knows them (Allocator::Describe); ptr, its address;
// has_single_reference, if nobody else can see this memory and it is ours (TensorBuffer::IsExclusive). A dtype that
// TensorFlow lacks is described as 0.
//
// Source: FillDescription of Tensor, TensorReference and TensorBuffer in tensorflow/core/framework; there the reference
// counts only under an allocator that keeps books.

#ifndef TENSORCASK_SERIALIZE_WIRE_DESCRIPTION_H_
#define TENSORCASK_SERIALIZE_WIRE_DESCRIPTION_H_

#include "tensorcask/proto/tensor_description.pb.h"
#include "tensorcask/tensor/reference.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

void DescribeTensor(const Tensor& tensor, TensorDescription* out);
void DescribeTensor(const TensorView& view, TensorDescription* out);

// Nothing for a reference of nothing. The reference itself is one of those that are counted.
void DescribeAllocation(const TensorReference& reference, AllocationDescription* out);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_DESCRIPTION_H_
