#include "tensorcask/serialize/wire/description.h"

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {
namespace {

void DescribeRoot(const TensorBuffer& root, bool has_single_reference, AllocationDescription* out) {
  const absl::string_view name = root.allocator_name();
  const Allocator::BlockInfo block = root.block_info();
  out->set_requested_bytes(static_cast<int64_t>(root.size_bytes()));
  out->set_allocated_bytes(static_cast<int64_t>(block.allocated_bytes));
  out->set_allocator_name(name.data(), name.size());
  out->set_allocation_id(block.allocation_id);
  out->set_has_single_reference(has_single_reference);
  out->set_ptr(reinterpret_cast<uintptr_t>(root.data()));
}

void Describe(DType dtype, const TensorShape& shape, const TensorBuffer* buffer, TensorDescription* out) {
  out->Clear();
  if (DTypeNumber(dtype) < kFirstOwnDTypeNumber) out->set_dtype(static_cast<DataType>(DTypeNumber(dtype)));
  EncodeShape(shape, out->mutable_shape());
  if (buffer == nullptr || !buffer->CheckReadable().ok()) return;
  DescribeRoot(*buffer->root(), buffer->IsExclusive(), out->mutable_allocation_description());
}

}  // namespace

void DescribeTensor(const Tensor& tensor, TensorDescription* out) {
  Describe(tensor.dtype(), tensor.shape(), tensor.buffer().get(), out);
}

void DescribeTensor(const TensorView& view, TensorDescription* out) {
  Describe(view.dtype(), view.shape(), view.buffer().get(), out);
}

void DescribeAllocation(const TensorReference& reference, AllocationDescription* out) {
  out->Clear();
  const TensorBuffer* const root = reference.root().get();
  if (root == nullptr || !root->CheckReadable().ok()) return;
  DescribeRoot(*root, root->IsExclusive(), out);
}

}  // namespace tensorcask
