// An allocator that fails on request, and counts blocks that were not freed.
//
//   RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>(/*fail_at=*/2);
//   Tensor a = *Tensor::Create(DType::kInt8, TensorShape({100}), allocator);   // the first call succeeds
//   Tensor::Create(DType::kInt8, TensorShape({100}), allocator)                // ResourceExhausted
//   allocator->live_blocks()                                                   // 1

#ifndef TENSORCASK_TESTS_SUPPORT_FAILING_ALLOCATOR_H_
#define TENSORCASK_TESTS_SUPPORT_FAILING_ALLOCATOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"

namespace tensorcask::testing {

class FailingAllocator final : public Allocator {
 public:
  // Call number `fail_at` (from 1) gives null, and so do those after it if `for_good`; 0: none does.
  explicit FailingAllocator(int64_t fail_at = 0, bool for_good = false) : fail_at_(fail_at), for_good_(for_good) {}
  ~FailingAllocator() override { EXPECT_EQ(live_blocks(), 0) << "an allocator outlives its blocks"; }

  absl::string_view name() const override { return "failing"; }

  void* Allocate(size_t bytes) override {
    EXPECT_GT(bytes, 0u);
    const int64_t call = ++calls_;
    if (fail_at_ > 0 && (call == fail_at_ || (for_good_ && call > fail_at_))) return nullptr;
    void* const block = CpuAllocator::Default()->Allocate(bytes);
    if (block == nullptr) return nullptr;
    ++live_blocks_;
    live_bytes_ += static_cast<int64_t>(bytes);
    return block;
  }
  void Deallocate(void* block, size_t bytes) override {
    --live_blocks_;
    live_bytes_ -= static_cast<int64_t>(bytes);
    CpuAllocator::Default()->Deallocate(block, bytes);
  }

  int64_t calls() const { return calls_; }
  int64_t live_blocks() const { return live_blocks_; }
  int64_t live_bytes() const { return live_bytes_; }

 private:
  const int64_t fail_at_;
  const bool for_good_;
  std::atomic<int64_t> calls_{0};
  std::atomic<int64_t> live_blocks_{0};
  std::atomic<int64_t> live_bytes_{0};
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_FAILING_ALLOCATOR_H_
