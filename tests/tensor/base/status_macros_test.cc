#include "tensorcask/tensor/base/status_macros.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;

absl::Status Passes(const absl::Status& status, bool* went_on) {
  CASK_RETURN_IF_ERROR(status);
  *went_on = true;
  return absl::OkStatus();
}

absl::StatusOr<int> Sum(absl::StatusOr<std::unique_ptr<int>> a, const absl::StatusOr<int>& b) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<int> left, std::move(a));
  CASK_ASSIGN_OR_RETURN(int right, b);
  return *left + right;
}

TEST(StatusMacros, ReturnIfError) {
  bool went_on = false;
  EXPECT_OK(Passes(absl::OkStatus(), &went_on));
  EXPECT_TRUE(went_on);
  went_on = false;
  EXPECT_THAT(Passes(absl::DataLossError("short"), &went_on), StatusIs(absl::StatusCode::kDataLoss, "short"));
  EXPECT_FALSE(went_on);
}

TEST(StatusMacros, AssignOrReturn) {
  ASSERT_OK_AND_ASSIGN(const int sum, Sum(std::make_unique<int>(2), 3));
  EXPECT_EQ(sum, 5);
  EXPECT_THAT(Sum(absl::NotFoundError("a"), 3), StatusIs(absl::StatusCode::kNotFound, "a"));
  EXPECT_THAT(Sum(std::make_unique<int>(2), absl::NotFoundError("b")), StatusIs(absl::StatusCode::kNotFound, "b"));
}

}  // namespace
}  // namespace tensorcask
