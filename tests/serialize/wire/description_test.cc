#include "tensorcask/serialize/wire/description.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/reference.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

// Keeps books: blocks are rounded up to 4096 bytes, and numbered from 1.
class BookAllocator final : public Allocator {
 public:
  absl::string_view name() const override { return "books"; }
  void* Allocate(size_t bytes) override {
    ++allocations_;
    return CpuAllocator::Default()->Allocate(bytes);
  }
  void Deallocate(void* block, size_t bytes) override { CpuAllocator::Default()->Deallocate(block, bytes); }
  BlockInfo Describe(const void* block) const override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kAlignment, 0u);
    return {4096, allocations_};
  }

 private:
  int64_t allocations_ = 0;
};

TEST(DescribeTensor, OfItsRoot) {
  const RefPtr<Allocator> books = MakeRef<BookAllocator>();
  const Tensor tensor = *Tensor::Zeros(DType::kInt16, TensorShape({4, 5}), books);
  TensorDescription description;
  description.mutable_allocation_description()->set_allocation_id(99);  // is cleared
  DescribeTensor(tensor, &description);
  EXPECT_EQ(description.dtype(), DT_INT16);
  ASSERT_EQ(description.shape().dim_size(), 2);
  EXPECT_EQ(description.shape().dim(1).size(), 5);
  const AllocationDescription& allocation = description.allocation_description();
  EXPECT_EQ(allocation.requested_bytes(), 40);
  EXPECT_EQ(allocation.allocated_bytes(), 4096);
  EXPECT_EQ(allocation.allocator_name(), "books");
  EXPECT_EQ(allocation.allocation_id(), 1);
  EXPECT_TRUE(allocation.has_single_reference());
  EXPECT_EQ(allocation.ptr(), reinterpret_cast<uintptr_t>(tensor.data<int16_t>()));

  // A slice is described by the whole, which others see now.
  const Tensor slice = *tensor.Slice(1, 3);
  TensorDescription of_slice;
  DescribeTensor(slice, &of_slice);
  EXPECT_EQ(of_slice.shape().dim(0).size(), 2);
  EXPECT_EQ(of_slice.allocation_description().requested_bytes(), 40);
  EXPECT_EQ(of_slice.allocation_description().ptr(), allocation.ptr());
  EXPECT_FALSE(of_slice.allocation_description().has_single_reference());
  TensorDescription of_view;
  DescribeTensor(*TensorView(tensor).Transpose(0, 1), &of_view);
  EXPECT_EQ(of_view.shape().dim(0).size(), 5);
  EXPECT_EQ(of_view.allocation_description().ptr(), allocation.ptr());
}

TEST(DescribeTensor, WithoutMemoryOrBooks) {
  TensorDescription description;
  DescribeTensor(*Tensor::Zeros(DType::kFloat32, TensorShape({0, 3})), &description);
  EXPECT_EQ(description.shape().dim_size(), 2);
  EXPECT_FALSE(description.has_allocation_description());
  DescribeTensor(*Tensor::FromBuffer(DType::kInt8, TensorShape(), TensorBuffer::MakeWithoutData(1, "lost")),
                 &description);
  EXPECT_FALSE(description.has_allocation_description());
  // A dtype that TensorFlow's readers would stumble over.
  DescribeTensor(*Tensor::Zeros(DType::kFloat4E2m1, TensorShape({2})), &description);
  EXPECT_EQ(description.dtype(), DT_INVALID);
  const AllocationDescription& allocation = description.allocation_description();
  EXPECT_EQ(allocation.allocator_name(), "cpu");
  EXPECT_EQ(allocation.requested_bytes(), 2);
  EXPECT_EQ(allocation.allocated_bytes(), 0);
  EXPECT_EQ(allocation.allocation_id(), 0);
  float value = 1;
  DescribeTensor(*Tensor::FromExternal(DType::kFloat32, TensorShape(), &value, sizeof(value), nullptr), &description);
  EXPECT_EQ(description.allocation_description().allocator_name(), "");
  EXPECT_FALSE(description.allocation_description().has_single_reference());
  EXPECT_EQ(description.allocation_description().ptr(), reinterpret_cast<uintptr_t>(&value));
}

TEST(DescribeAllocation, CountsTheReference) {
  Tensor tensor = *Tensor::Zeros(DType::kInt16, TensorShape({4, 5}));
  const void* const data = tensor.data<int16_t>();
  const TensorReference reference(*tensor.Slice(1, 2));
  AllocationDescription description;
  DescribeAllocation(reference, &description);
  EXPECT_EQ(description.requested_bytes(), 40);
  EXPECT_EQ(description.ptr(), reinterpret_cast<uintptr_t>(data));
  EXPECT_FALSE(description.has_single_reference());
  tensor = Tensor();
  DescribeAllocation(reference, &description);
  EXPECT_TRUE(description.has_single_reference());
  DescribeAllocation(TensorReference(), &description);
  EXPECT_EQ(description.ByteSizeLong(), 0u);
}

}  // namespace
}  // namespace tensorcask
