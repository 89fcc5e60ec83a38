#include "tensorcask/tensor/memory/numa_allocator.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Policy = NumaAllocator::Policy;

// What the allocator asked for last, and what the call answers.
int answer = 0;
size_t bound_bytes = 0;
uint64_t bound_mask = 0;
Policy bound_policy = Policy::kBind;

int FakeBind(void*, size_t bytes, Policy policy, uint64_t node_mask) {
  bound_bytes = bytes;
  bound_mask = node_mask;
  bound_policy = policy;
  return answer;
}

TEST(NumaAllocator, BindsWholePagesToItsNodes) {
  answer = 0;
  NumaAllocator::Options options;
  options.nodes = {0, 5, 63};
  options.policy = Policy::kInterleave;
  const auto allocator = NumaAllocator::Create(options, &FakeBind).value();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100000}, CpuAllocator::kHugePageBlock + 1}) {
    void* const block = allocator->Allocate(bytes);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % Allocator::kAlignment, 0u);
    EXPECT_GE(bound_bytes, bytes);
    EXPECT_EQ(bound_bytes % 4096, 0u);
    EXPECT_EQ(bound_mask, (uint64_t{1} << 63) | 0x21);
    EXPECT_EQ(bound_policy, Policy::kInterleave);
    std::memset(block, 1, bytes);
    allocator->Deallocate(block, bytes);
  }
}

TEST(NumaAllocator, GivesNullIfThePolicyOrTheMemoryIsRefused) {
  answer = 0;
  NumaAllocator::Options options;
  options.nodes = {0};
  const auto allocator = NumaAllocator::Create(options, &FakeBind).value();
  EXPECT_EQ(allocator->Allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(allocator->Allocate(PTRDIFF_MAX), nullptr);
  answer = ENOMEM;
  EXPECT_EQ(allocator->Allocate(100), nullptr);
}

TEST(NumaAllocator, ErrorsSayWhatIsMissing) {
  NumaAllocator::Options options;
  answer = 0;
  EXPECT_THAT(NumaAllocator::Create(options, &FakeBind).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no NUMA nodes")));
  for (const int node : {-1, 64}) {
    options.nodes = {node};
    EXPECT_THAT(NumaAllocator::Create(options, &FakeBind).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("between 0 and 63")));
  }
  options.nodes = {0};
  answer = ENOSYS;
  EXPECT_THAT(NumaAllocator::Create(options, &FakeBind).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("has no mbind")));
  answer = EPERM;
  EXPECT_THAT(NumaAllocator::Create(options, &FakeBind).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("forbids mbind")));
  answer = EINVAL;
  EXPECT_THAT(NumaAllocator::Create(options, &FakeBind).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("do not exist")));
}

TEST(NumaAllocator, OnThisSystem) {
  NumaAllocator::Options options;
  options.nodes = {0};
  const auto allocator = NumaAllocator::Create(options);
  if (absl::IsUnimplemented(allocator.status())) GTEST_SKIP() << allocator.status();
  ASSERT_TRUE(allocator.ok()) << allocator.status();
  void* const block = (*allocator)->Allocate(100000);
  ASSERT_NE(block, nullptr);
  std::memset(block, 7, 100000);
  EXPECT_EQ(static_cast<const char*>(block)[99999], 7);
  (*allocator)->Deallocate(block, 100000);
}

}  // namespace
}  // namespace tensorcask
