#include "tensorcask/tensor/base/process_error.h"

#include "gtest/gtest.h"

namespace tensorcask::internal {
namespace {

TEST(ProcessError, IsToldFromOthersOfItsCode) {
  EXPECT_FALSE(IsProcessError(absl::OkStatus()));
  const absl::Status other = absl::ResourceExhaustedError("past max_depth 64");
  const absl::Status ours = ProcessError(absl::ResourceExhaustedError("no memory"));
  EXPECT_FALSE(IsProcessError(other));
  EXPECT_TRUE(IsProcessError(ours));
  EXPECT_EQ(ours.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ours.message(), "no memory");
  EXPECT_EQ(Prefixed("w", Prefixed("m.ckpt", other)).message(), "w: m.ckpt: past max_depth 64");
  EXPECT_FALSE(IsProcessError(Prefixed("w", other)));
  EXPECT_EQ(Prefixed("w", ours).message(), "w: no memory");
  EXPECT_EQ(Prefixed("w", ours).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(IsProcessError(Prefixed("m.ckpt", Prefixed("w", ours))));
}

}  // namespace
}  // namespace tensorcask::internal
