#include "tensorcask/serialize/exchange/deadline.h"

#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tensorcask {
namespace {

TEST(Deadline, CountsDown) {
  const Deadline soon = absl::Milliseconds(20);
  EXPECT_FALSE(soon.is_never());
  EXPECT_GT(soon.poll_timeout_ms(), 0);
  EXPECT_LE(soon.poll_timeout_ms(), 20);
  absl::SleepFor(absl::Milliseconds(21));
  EXPECT_EQ(soon.poll_timeout_ms(), 0);
  EXPECT_EQ(soon.remaining(), absl::ZeroDuration());
}

TEST(Deadline, Extremes) {
  EXPECT_TRUE(Deadline::Never().is_never());
  EXPECT_EQ(Deadline::Never().poll_timeout_ms(), -1);
  EXPECT_EQ(Deadline::Never().remaining(), absl::InfiniteDuration());
  EXPECT_EQ(Deadline(-absl::InfiniteDuration()).poll_timeout_ms(), 0);
  EXPECT_EQ(Deadline(absl::ZeroDuration()).remaining(), absl::ZeroDuration());
  EXPECT_TRUE(Deadline(absl::Hours(24 * 365 * 300)).is_never());
  EXPECT_EQ(Deadline(absl::Hours(24 * 365)).poll_timeout_ms(), INT32_MAX);
  EXPECT_EQ(Deadline(absl::Microseconds(1500)).poll_timeout_ms(), 2) << "rounded up";
}

}  // namespace
}  // namespace tensorcask
