#include "tensorcask/tensor/base/checksum.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tensorcask {
namespace {

struct Row {
  ChecksumKind kind;
  uint32_t of_digits;  // that of "123456789", as the specification of the algorithm gives it
};
constexpr Row kRows[] = {
    {ChecksumKind::kCrc32c, 0xe3069283}, {ChecksumKind::kMaskedCrc32c, 0xe3069283}, {ChecksumKind::kCrc32, 0xcbf43926}};

TEST(Checksum, IsThatOfTheAlgorithmHoweverItIsComputed) {
  const absl::string_view digits = "123456789";
  for (const Row& row : kRows) {
    EXPECT_EQ(ExtendChecksum(row.kind, 0, digits), row.of_digits);
    EXPECT_EQ(ExtendChecksum(row.kind, 0, ""), 0U);
    for (size_t cut = 0; cut <= digits.size(); ++cut) {
      const uint32_t first = ExtendChecksum(row.kind, 0, digits.substr(0, cut));
      const uint32_t second = ExtendChecksum(row.kind, 0, digits.substr(cut));
      EXPECT_EQ(ExtendChecksum(row.kind, first, digits.substr(cut)), row.of_digits);
      EXPECT_EQ(CombineChecksums(row.kind, first, second, digits.size() - cut), row.of_digits);
      std::string copy(digits.size() - cut, '\0');
      EXPECT_EQ(CopyAndExtendChecksum(row.kind, first, digits.data() + cut, &copy[0], copy.size()), row.of_digits);
      EXPECT_EQ(copy, digits.substr(cut));
    }
  }
}

TEST(Checksum, IsStoredInTheFormOfItsKind) {
  EXPECT_EQ(ChecksumAsStored(ChecksumKind::kCrc32c, 0xe3069283), 0xe3069283);
  EXPECT_EQ(ChecksumAsStored(ChecksumKind::kMaskedCrc32c, 0),
            0xa282ead8);  // TensorFlow's (crc >> 15 | crc << 17) + this
  EXPECT_TRUE((Checksum{ChecksumKind::kCrc32c, 0}).exists());
  EXPECT_FALSE(Checksum().exists());
}

}  // namespace
}  // namespace tensorcask
