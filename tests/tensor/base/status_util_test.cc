#include "tensorcask/tensor/base/status_util.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace tensorcask {
namespace {

TEST(ProcessError, IsToldFromOthersOfItsCode) {
  EXPECT_FALSE(IsResourceFailure(absl::OkStatus()));
  const absl::Status other = absl::ResourceExhaustedError("past max_depth 64");
  const absl::Status ours = MarkResourceFailure(absl::ResourceExhaustedError("no memory"));
  EXPECT_FALSE(IsResourceFailure(other));
  EXPECT_TRUE(IsResourceFailure(ours));
  EXPECT_EQ(ours.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ours.message(), "no memory");
}

TEST(Annotate, PutsTheContextFirstAndKeepsCodeAndMark) {
  const absl::Status other = absl::ResourceExhaustedError("past max_depth 64");
  EXPECT_EQ(Annotate(Annotate(other, "m.ckpt"), "w").message(), "w: m.ckpt: past max_depth 64");
  EXPECT_FALSE(IsResourceFailure(Annotate(other, "w")));
  const absl::Status ours = MarkResourceFailure(absl::ResourceExhaustedError("no memory"));
  EXPECT_EQ(Annotate(ours, "w").message(), "w: no memory");
  EXPECT_EQ(Annotate(ours, "w").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(IsResourceFailure(Annotate(Annotate(ours, "w"), "m.ckpt")));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "w").ok());
}

TEST(AppendToMessage, PutsTheTextLastAndKeepsCodeAndMark) {
  EXPECT_EQ(AppendToMessage(absl::NotFoundError("m.index: no file"), "; no folder m"),
            absl::NotFoundError("m.index: no file; no folder m"));
  const absl::Status ours = MarkResourceFailure(absl::ResourceExhaustedError("no memory"));
  EXPECT_EQ(AppendToMessage(ours, " for w").message(), "no memory for w");
  EXPECT_TRUE(IsResourceFailure(AppendToMessage(ours, " for w")));
  EXPECT_TRUE(AppendToMessage(absl::OkStatus(), " for w").ok());
}

TEST(AsDataLoss, TurnsInvalidArgumentAlone) {
  EXPECT_EQ(AsDataLoss(absl::InvalidArgumentError("dim 0 is -3"), "m.index"),
            absl::DataLossError("m.index: dim 0 is -3"));
  EXPECT_EQ(AsDataLoss(absl::ResourceExhaustedError("past max_depth 64"), "m.index"),
            absl::ResourceExhaustedError("m.index: past max_depth 64"));
  EXPECT_TRUE(IsResourceFailure(AsDataLoss(MarkResourceFailure(absl::InternalError("no memory")), "m.index")));
  EXPECT_TRUE(AsDataLoss(absl::OkStatus(), "m.index").ok());
}

}  // namespace
}  // namespace tensorcask
