#include "tensorcask/tensor/allocator.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tests/support/failing_allocator.h"

namespace tensorcask {
namespace {

uintptr_t Address(const void* block) { return reinterpret_cast<uintptr_t>(block); }

TEST(CpuAllocator, AlignsBlocksOfAnySize) {
  const RefPtr<Allocator>& allocator = CpuAllocator::Default();
  EXPECT_EQ(allocator->name(), "cpu");
  for (const size_t bytes :
       {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1000}, size_t{4096}, CpuAllocator::kHugePageBlock - 1}) {
    SCOPED_TRACE(bytes);
    void* const block = allocator->Allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(Address(block) % Allocator::kAlignment, 0u);
    std::memset(block, 0xab, bytes);
    allocator->Deallocate(block, bytes);
  }
}

TEST(CpuAllocator, AlignsLargeBlocksToHugePages) {
  for (const size_t bytes : {CpuAllocator::kHugePageBlock, CpuAllocator::kHugePageBlock + 1, size_t{33} << 20}) {
    SCOPED_TRACE(bytes);
    void* const block = CpuAllocator::Default()->Allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(Address(block) % CpuAllocator::kHugePageBytes, 0u);
    std::memset(block, 0xab, bytes);
    CpuAllocator::Default()->Deallocate(block, bytes);
  }
}

TEST(CpuAllocator, WorksWithoutHugePages) {
  CpuAllocator::Options options;
  options.huge_pages = false;
  const RefPtr<Allocator> allocator = CpuAllocator::Make(options);
  void* const block = allocator->Allocate(CpuAllocator::kHugePageBlock);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(Address(block) % Allocator::kAlignment, 0u);
  std::memset(block, 0xab, CpuAllocator::kHugePageBlock);
  allocator->Deallocate(block, CpuAllocator::kHugePageBlock);
}

TEST(CpuAllocator, GivesNullForWhatCannotBeHad) {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 63, size_t{PTRDIFF_MAX} + 1, size_t{PTRDIFF_MAX}}) {
    EXPECT_EQ(CpuAllocator::Default()->Allocate(bytes), nullptr) << bytes;
  }
}

TEST(CpuAllocator, DefaultIsOneObject) { EXPECT_EQ(CpuAllocator::Default(), CpuAllocator::Default()); }

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Resident memory of this process in bytes (proc(5), statm, second field).
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

// A block between two others, as the C library would keep it; many sizes, as it keeps more after the first is freed.
TEST(CpuAllocator, LargeBlocksGiveTheirPagesBack) {
  if (ResidentBytes() == 0) GTEST_SKIP() << "no /proc";
  const RefPtr<Allocator>& allocator = CpuAllocator::Default();
  constexpr size_t kBytes = size_t{16} << 20;
  for (int round = 0; round < 3; ++round) {
    void* const before = allocator->Allocate(kBytes);
    void* const block = allocator->Allocate(kBytes);
    void* const behind = allocator->Allocate(kBytes);
    ASSERT_TRUE(before != nullptr && block != nullptr && behind != nullptr);
    std::memset(before, 1, kBytes);
    std::memset(block, 1, kBytes);
    std::memset(behind, 1, kBytes);
    const int64_t with_block = ResidentBytes();
    allocator->Deallocate(block, kBytes);
    EXPECT_LT(ResidentBytes(), with_block - static_cast<int64_t>(kBytes) * 3 / 4);
    allocator->Deallocate(before, kBytes);
    allocator->Deallocate(behind, kBytes);
  }
}
#endif

TEST(CpuAllocator, FillsFreshMemoryWhenAsked) {
  for (const size_t bytes : {1, 3, 4, 1000, 5 << 20}) {
    for (const auto fill : {CpuAllocator::Fill::kZero, CpuAllocator::Fill::kJunk}) {
      SCOPED_TRACE(bytes);
      CpuAllocator::Options options;
      options.fill = fill;
      const RefPtr<Allocator> allocator = CpuAllocator::Make(options);
      for (int round = 0; round < 2; ++round) {  // the second block may be the first one again
        auto* const block = static_cast<unsigned char*>(allocator->Allocate(bytes));
        ASSERT_NE(block, nullptr);
        for (size_t i = 0; i < bytes; ++i) {
          const uint32_t wanted = fill == CpuAllocator::Fill::kZero ? 0 : CpuAllocator::kJunkWord >> i % 4 * 8 & 0xff;
          ASSERT_EQ(block[i], wanted) << "byte " << i;
        }
        std::memset(block, 0x55, bytes);
        allocator->Deallocate(block, bytes);
      }
    }
  }
}

TEST(FailingAllocator, FailsOnceOrForGood) {
  testing::FailingAllocator once(2);
  testing::FailingAllocator for_good(2, true);
  for (testing::FailingAllocator* allocator : {&once, &for_good}) {
    void* const first = allocator->Allocate(10);
    EXPECT_NE(first, nullptr);
    EXPECT_EQ(allocator->Allocate(10), nullptr);
    EXPECT_EQ(allocator->live_blocks(), 1);
    EXPECT_EQ(allocator->live_bytes(), 10);
    allocator->Deallocate(first, 10);
  }
  void* const third = once.Allocate(10);
  EXPECT_NE(third, nullptr);
  once.Deallocate(third, 10);
  EXPECT_EQ(for_good.Allocate(10), nullptr);
}

}  // namespace
}  // namespace tensorcask
