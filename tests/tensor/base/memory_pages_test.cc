#include "tensorcask/tensor/base/memory_pages.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "gtest/gtest.h"

namespace tensorcask::internal {
namespace {

TEST(MemoryPages, ArePagesOfZerosToWrite) {
  const size_t page = PageBytes();
  EXPECT_GE(page, 4096u);
  EXPECT_EQ(page & (page - 1), 0u);
  for (const PageUse use : {PageUse::kMemory, PageUse::kSparseMemory}) {
    const size_t bytes = 3 * page;
    auto* const start = static_cast<uint8_t*>(MapPages(bytes, use));
    ASSERT_NE(start, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % page, 0u);
    EXPECT_TRUE(std::all_of(start, start + bytes, [](uint8_t byte) { return byte == 0; }));
    std::fill(start, start + bytes, uint8_t{7});
    UnmapPages(start, bytes);
  }
}

TEST(MemoryPages, TooManyAreRefused) { EXPECT_EQ(MapPages(SIZE_MAX / 2, PageUse::kMemory), nullptr); }

TEST(MemoryPagesDeathTest, AddressesHaveNoMemory) {
#if defined(__SANITIZE_THREAD__)
  const size_t bytes = size_t{1} << 38;  // ThreadSanitizer leaves no more
#else
  const size_t bytes = size_t{1} << 40;  // more than the machine has
#endif
  auto* const start = static_cast<volatile char*>(MapPages(bytes, PageUse::kAddresses));
  ASSERT_NE(start, nullptr);
  EXPECT_DEATH(start[0] = 1, "");
  UnmapPages(const_cast<char*>(start), bytes);
}

TEST(MemoryPages, TheMachineHasMoreThanIsFree) {
  const std::optional<uint64_t> total = MachineMemoryBytes();
  const std::optional<uint64_t> free = FreeMemoryBytes();
  ASSERT_TRUE(total.has_value());
  EXPECT_GT(*total, uint64_t{16} << 20);
  EXPECT_LE(free.value_or(0), *total);
}

TEST(MemoryPages, UnknownAdviceIsRefused) {
  void* const page = MapPages(PageBytes(), PageUse::kMemory);
  ASSERT_NE(page, nullptr);
  errno = 0;
  EXPECT_EQ(AdviseMemory(page, PageBytes(), -1), -1);
  EXPECT_EQ(errno, EINVAL);
  UnmapPages(page, PageBytes());
}

}  // namespace
}  // namespace tensorcask::internal
