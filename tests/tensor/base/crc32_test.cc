// CRC-32 with each set of instructions, beside zlib.

#include "tensorcask/tensor/base/crc32.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tensorcask {
namespace {

// The test runs once for each set of instructions (TENSORCASK_CPU in the BUILD file).
TEST(Crc32Test, IsZlibs) {
  EXPECT_EQ(Crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(Crc32(""), 0u);
  std::string text;
  for (int i = 0; i < 1400; ++i) {
    for (const size_t skipped : {0, 1, 7, 33}) {
      if (skipped > text.size()) continue;
      const absl::string_view part = absl::string_view(text).substr(skipped);
      const auto wanted = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(part.data()), part.size()));
      ASSERT_EQ(Crc32(part), part.empty() ? 0 : wanted) << i;
      ASSERT_EQ(ExtendCrc32(Crc32(part.substr(0, i / 3)), part.substr(std::min<size_t>(i / 3, part.size()))),
                Crc32(part));
    }
    text.push_back(static_cast<char>(i * 37 + i / 11));
  }
}

TEST(Crc32Test, OfAnyAlignment) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text.push_back(static_cast<char>(i * 41 + i / 7));
  for (size_t from = 0; from < 64; ++from) {
    for (const size_t size : {63, 64, 80, 255, 256, 271, 272, 319, 320, 511, 512, 1023, 1024, 4111}) {
      const absl::string_view part = absl::string_view(text).substr(from, size);
      const auto wanted =
          static_cast<uint32_t>(crc32_z(0xdeadbeef, reinterpret_cast<const Bytef*>(part.data()), part.size()));
      EXPECT_EQ(ExtendCrc32(0xdeadbeef, part), wanted) << from << " " << size;
    }
  }
}

TEST(Crc32Test, JoinsAndCopies) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text.push_back(static_cast<char>(i * 43 + i / 13));
  for (const size_t cut : {0, 1, 63, 64, 8191, 8192, 20000}) {
    const absl::string_view first = absl::string_view(text).substr(0, cut);
    const absl::string_view second = absl::string_view(text).substr(cut);
    EXPECT_EQ(CombineCrc32(Crc32(first), Crc32(second), second.size()), Crc32(text)) << cut;
    std::string copy(second.size(), '\0');
    EXPECT_EQ(CopyAndExtendCrc32(Crc32(first), second.data(), &copy[0], copy.size()), Crc32(text)) << cut;
    EXPECT_EQ(copy, second);
  }
  EXPECT_EQ(CombineCrc32(Crc32("a"), Crc32("b"), uint64_t{1} << 40),
            crc32_combine(Crc32("a"), Crc32("b"), z_off_t{1} << 40));
}

}  // namespace
}  // namespace tensorcask
