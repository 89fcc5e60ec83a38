#include "tensorcask/tensor/base/checked_math.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr uint64_t kUnsignedMax = std::numeric_limits<uint64_t>::max();

// All are usable when the program is compiled.
static_assert(CheckedMul<int64_t>(3, 4) == int64_t{12});
static_assert(!CheckedAdd(kMax, 1).has_value());
static_assert(RangeFits(0, 0, 0));

TEST(CheckedMath, SignedEdges) {
  EXPECT_EQ(CheckedAdd(kMax, 0), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMin, -1), std::nullopt);
  EXPECT_EQ(CheckedSub(kMin, 1), std::nullopt);
  EXPECT_EQ(CheckedSub<int64_t>(0, kMin), std::nullopt);
  EXPECT_EQ(CheckedSub<int64_t>(-1, kMin), kMax);
  EXPECT_EQ(CheckedMul(kMin, -1), std::nullopt);
  EXPECT_EQ(CheckedMul(kMin, 1), kMin);
  EXPECT_EQ(CheckedMul(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(CheckedMul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
}

TEST(CheckedMath, UnsignedEdges) {
  EXPECT_EQ(CheckedAdd(kUnsignedMax, 1), std::nullopt);
  EXPECT_EQ(CheckedSub<uint64_t>(0, 1), std::nullopt);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedMul(kUnsignedMax, 1), kUnsignedMax);
}

TEST(CheckedMath, NarrowTypesOverflowInTheirOwnWidth) {
  EXPECT_EQ(CheckedAdd<int8_t>(127, 1), std::nullopt);
  EXPECT_EQ(CheckedMul<uint8_t>(16, 16), std::nullopt);
  EXPECT_EQ(CheckedMul<uint8_t>(15, 17), uint8_t{255});
}

TEST(CheckedMath, CastsKeepTheValueOrFail) {
  EXPECT_EQ((CheckedCast<uint64_t>(int64_t{-1})), std::nullopt);
  EXPECT_EQ((CheckedCast<int64_t>(kUnsignedMax)), std::nullopt);
  EXPECT_EQ((CheckedCast<int64_t>(kUnsignedMax >> 1)), kMax);
  EXPECT_EQ((CheckedCast<uint8_t>(256)), std::nullopt);
  EXPECT_EQ((CheckedCast<uint8_t>(255)), uint8_t{255});
  EXPECT_EQ((CheckedCast<int8_t>(int64_t{-129})), std::nullopt);
  EXPECT_EQ((CheckedCast<int8_t>(int64_t{-128})), int8_t{-128});
}

TEST(CheckedMath, AlignsUp) {
  EXPECT_EQ(CheckedAlignUp(0, 64), 0u);
  EXPECT_EQ(CheckedAlignUp(1, 64), 64u);
  EXPECT_EQ(CheckedAlignUp(64, 64), 64u);
  EXPECT_EQ(CheckedAlignUp(10, 3), 12u);
  EXPECT_EQ(CheckedAlignUp(kUnsignedMax - 63, 64), kUnsignedMax - 63);
  EXPECT_EQ(CheckedAlignUp(kUnsignedMax - 62, 64), std::nullopt);
}

TEST(CheckedMath, RangesNeverWrap) {
  EXPECT_TRUE(RangeFits(10, 0, 10));
  EXPECT_FALSE(RangeFits(11, 0, 10));
  EXPECT_TRUE(RangeFits(4, 6, 10));
  EXPECT_FALSE(RangeFits(5, 6, 10));
  EXPECT_FALSE(RangeFits(5, kUnsignedMax, 10));  // the sum wraps to 4
  EXPECT_FALSE(RangeFits(kUnsignedMax, 2, 10));
  EXPECT_TRUE(RangeFits(0, kUnsignedMax, kUnsignedMax));
}

}  // namespace
}  // namespace tensorcask
