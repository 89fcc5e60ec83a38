// The checksum of metadata, against the numbers that the author of the algorithm gives (lookup3.c, driver5).

#include "tensorcask/serialize/hdf5/internal/metadata_checksum.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::hdf5 {
namespace {

TEST(MetadataChecksumTest, HasTheNumbersOfItsAuthor) {
  EXPECT_EQ(MetadataChecksum(""), 0xdeadbeefu);
  EXPECT_EQ(MetadataChecksum("Four score and seven years ago"), 0x17770551u);
}

TEST(MetadataChecksumTest, IsComparedWithTheLastFourBytes) {
  EXPECT_TRUE(CheckMetadataChecksum("Four score and seven years ago\x51\x05\x77\x17").ok());
  EXPECT_THAT(CheckMetadataChecksum("Four score and seven years age\x51\x05\x77\x17"),
              testing::StatusIs(absl::StatusCode::kDataLoss, ::testing::HasSubstr("stored is 17770551")));
  EXPECT_EQ(CheckMetadataChecksum("abc").code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace tensorcask::hdf5
