#include "tensorcask/tensor/base/check.h"

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

TEST(Check, PassesWhenTrue) {
  int evaluations = 0;
  CASK_CHECK(++evaluations == 1, "counts");
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckDeathTest, PrintsPlaceConditionAndMessage) {
  const int axis = 3;
  EXPECT_DEATH(CASK_CHECK(axis < 2, "axis outside the shape"),
               "check_test\\.cc:[0-9]+: check failed: axis < 2: axis outside the shape");
}

TEST(CheckDeathTest, PrintsIndexAxisAndSize) {
  EXPECT_DEATH(internal::IndexCheckFailed("a.cc", 12, 7, 1, 3),
               "a\\.cc:12: check failed: index 7 of axis 1 is outside \\[0, 3\\)");
}

TEST(Check, DebugCheckDoesNotEvaluateInReleaseBuilds) {
  int evaluations = 0;
  CASK_DCHECK(++evaluations == 1, "counts");
#ifdef NDEBUG
  EXPECT_EQ(evaluations, 0);
#else
  EXPECT_EQ(evaluations, 1);
#endif
}

}  // namespace
}  // namespace tensorcask
