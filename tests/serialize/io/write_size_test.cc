#include "tensorcask/serialize/io/internal/write_size.h"

#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"

namespace tensorcask::internal {
namespace {

constexpr size_t kLarge = size_t{512} << 10;

// The time to write so many bytes, in nanoseconds.
uint64_t Fast(size_t bytes) { return bytes / 5; }  // 5 GB/s
uint64_t Slow(size_t bytes) { return 3 * bytes; }

TEST(WriteSize, WritesStayWholeWhileTheyAreFast) {
  WriteSize size;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(size.Of(kLarge), kLarge);
    size.Took(kLarge, Fast(kLarge));
  }
}

TEST(WriteSize, EachSlowWriteChangesTheSize) {
  WriteSize size;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(size.Of(kLarge), kLarge);
    size.Took(kLarge, Slow(kLarge));
    ASSERT_EQ(size.Of(kLarge), WriteSize::kMiddleBytes);
    EXPECT_EQ(size.Of(100), 100u);
    size.Took(WriteSize::kMiddleBytes, Slow(WriteSize::kMiddleBytes));
    ASSERT_EQ(size.Of(kLarge), WriteSize::kSmallBytes);
    size.Took(WriteSize::kSmallBytes, Slow(WriteSize::kSmallBytes));
  }
}

TEST(WriteSize, LargeWritesAreTriedAgain) {
  WriteSize size;
  size.Took(kLarge, Slow(kLarge));
  for (uint64_t written = 0; written < WriteSize::kRetryBytes; written += WriteSize::kMiddleBytes) {
    ASSERT_EQ(size.Of(kLarge), WriteSize::kMiddleBytes) << written;
    size.Took(WriteSize::kMiddleBytes, Fast(WriteSize::kMiddleBytes));
  }
  EXPECT_EQ(size.Of(kLarge), kLarge);
}

TEST(WriteSize, ASlowDiskGetsLargeWrites) {
  WriteSize size;
  for (int i = 0; i < WriteSize::kSlowDisk; ++i) {
    const size_t now = size.Of(kLarge);
    size.Took(now, Slow(now));
  }
  uint64_t written = 0;
  for (; size.Of(kLarge) == kLarge; written += kLarge) size.Took(kLarge, Slow(kLarge));
  EXPECT_EQ(written, WriteSize::kRetryBytes + kLarge);  // and then it is asked again
  EXPECT_EQ(size.Of(kLarge), WriteSize::kMiddleBytes);
}

TEST(WriteSize, AFastWriteBetweenSlowOnesIsNoSlowDisk) {
  WriteSize size;
  for (int i = 0; i < 10 * WriteSize::kSlowDisk; ++i) {
    const size_t now = size.Of(kLarge);
    const bool is_fast = i % (WriteSize::kSlowDisk - 1) == 0;
    size.Took(now, is_fast ? Fast(now) : Slow(now));
    ASSERT_EQ(size.Of(kLarge) == now, is_fast) << i;
  }
}

TEST(WriteSize, SlowIsBelowAGigabyteASecond) {
  WriteSize size;
  const uint64_t limit = (kLarge >> 10) * WriteSize::kSlowNanosecondsPerKiB;
  size.Took(kLarge, limit);
  EXPECT_EQ(size.Of(kLarge), kLarge);
  size.Took(kLarge, limit + 1);
  EXPECT_EQ(size.Of(kLarge), WriteSize::kMiddleBytes);
}

TEST(WriteSize, AShortWriteIsJudgedByWhatItWrote) {
  WriteSize size;
  size.Took(kLarge / 2, Fast(kLarge));
  EXPECT_EQ(size.Of(kLarge), kLarge);
  size.Took(kLarge / 8, Slow(kLarge / 8));
  EXPECT_EQ(size.Of(kLarge), WriteSize::kMiddleBytes);
}

}  // namespace
}  // namespace tensorcask::internal
