#include "tensorcask/serialize/io/damage_mark.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

TEST(DamageMark, StaysWhenTheMessageChanges) {
  const absl::Status marked = MarkWrongChecksum(absl::DataLossError("its checksum is 1, stored is 2"));
  for (const absl::Status& status : {marked, Annotate(marked, "m"), AppendToMessage(marked, "!"),
                                     AsDataLoss(marked, "m"), MarkDamagedPart(marked)}) {
    EXPECT_TRUE(IsDamagedPart(status)) << status;
    EXPECT_TRUE(HasWrongChecksum(status)) << status;
  }
  EXPECT_EQ(marked.message(), "its checksum is 1, stored is 2");
}

TEST(DamageMark, APartIsDamagedOnlyByDataLoss) {
  const absl::Status part = MarkDamagedPart(absl::DataLossError("is missing"));
  EXPECT_TRUE(IsDamagedPart(part));
  EXPECT_FALSE(HasWrongChecksum(part));
  EXPECT_FALSE(IsDamagedPart(absl::DataLossError("is missing")));
  for (const absl::Status& other : {absl::OkStatus(), absl::NotFoundError("no tensor"), absl::UnimplementedError("new"),
                                    MarkResourceFailure(absl::DataLossError("no memory"))}) {
    EXPECT_FALSE(IsDamagedPart(MarkDamagedPart(other))) << other;
    EXPECT_EQ(MarkDamagedPart(other).message(), other.message());
  }
}

TEST(DamageMark, IsCopiedToAnotherError) {
  const absl::Status refused = absl::InvalidArgumentError("cannot be copied");
  EXPECT_TRUE(HasWrongChecksum(MarkDamageOf(MarkWrongChecksum(absl::DataLossError("")), refused)));
  const absl::Status part = MarkDamageOf(MarkDamagedPart(absl::DataLossError("")), refused);
  EXPECT_TRUE(IsDamagedPart(part) && !HasWrongChecksum(part));
  EXPECT_EQ(part.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(IsDamagedPart(MarkDamageOf(absl::UnimplementedError(""), refused)));
}

}  // namespace
}  // namespace tensorcask
