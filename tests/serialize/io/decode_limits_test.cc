#include "tensorcask/serialize/io/decode_limits.h"

#include <cstdint>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DecodeLimitsTest, AreSetByTheNamesThatMessagesSay) {
  DecodeLimits limits;
  EXPECT_TRUE(SetLimit("max_memory_beyond_input", 1, &limits).ok());
  EXPECT_TRUE(SetLimit("max_message_bytes", 2, &limits).ok());
  EXPECT_TRUE(SetLimit("max_file_decoded_bytes", 3, &limits).ok());
  EXPECT_TRUE(SetLimit("max_depth", 4, &limits).ok());
  EXPECT_TRUE(SetLimit("max_name_bytes", 5, &limits).ok());
  EXPECT_TRUE(SetLimit("max_entries", 6, &limits).ok());
  EXPECT_TRUE(SetLimit("max_expansion", INT64_MAX, &limits).ok());
  EXPECT_EQ(limits.max_memory_beyond_input, 1);
  EXPECT_EQ(limits.max_message_bytes, 2);
  EXPECT_EQ(limits.max_file_decoded_bytes, 3);
  EXPECT_EQ(limits.max_depth, 4);
  EXPECT_EQ(limits.max_name_bytes, 5);
  EXPECT_EQ(limits.max_entries, 6);
  EXPECT_EQ(limits.max_expansion, INT64_MAX);
}

TEST(DecodeLimitsTest, RefuseOtherNamesAndValues) {
  DecodeLimits limits;
  EXPECT_THAT(SetLimit("max_entrys", 1, &limits),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("no limit is called \"max_entrys\""),
                                                                 HasSubstr("max_entries"), HasSubstr("max_depth"))));
  EXPECT_THAT(SetLimit("max_entries", 0, &limits), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(SetLimit("max_depth", 1001, &limits), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(limits.max_entries, DecodeLimits().max_entries);
  EXPECT_EQ(limits.max_depth, DecodeLimits().max_depth);
}

}  // namespace
}  // namespace tensorcask
