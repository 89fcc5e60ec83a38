// The example in FORMAT.md is what the code writes and reads.

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/hex.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

// The bytes of each block ```hex of the page: pairs of digits from the start of a line, up to the first other word.
std::vector<std::string> HexBlocks(const std::string& page) {
  std::vector<std::string> blocks;
  bool inside = false;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (!inside) {
      inside = line == "```hex";
      if (inside) blocks.emplace_back();
      continue;
    }
    inside = line != "```";
    for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      if (word.size() != 2 || word.find_first_not_of("0123456789abcdef") != absl::string_view::npos) break;
      blocks.back() += testing::BytesOfHex(word);
    }
  }
  return blocks;
}

TEST(Format, ExampleIsWhatIsWritten) {
  std::ifstream file("serialize/wire/FORMAT.md");
  ASSERT_TRUE(file.good());
  const std::vector<std::string> blocks =
      HexBlocks(std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
  ASSERT_GE(blocks.size(), 3);
  const Tensor tensor = Tensor::FromValues<int16_t>({{1, -2, 300}});
  const Representation representations[] = {Representation::kContent, Representation::kValues};
  for (size_t i = 0; i < 2; ++i) {
    const EncodeOptions options{representations[i], true};
    ASSERT_OK_AND_ASSIGN(const uint64_t size, EncodedSize(tensor, options));
    std::string message(size, '\0');
    ASSERT_OK(EncodeTensorTo(tensor, options, absl::MakeSpan(&message[0], message.size())));
    EXPECT_EQ(absl::BytesToHexString(message), absl::BytesToHexString(blocks[i]));
    ASSERT_OK_AND_ASSIGN(const Tensor decoded, testing::DecodeBothWays(blocks[i]));
    EXPECT_EQ(testing::Difference(decoded, tensor), "");
  }
  const Tensor rows = Tensor::FromValues<int16_t>({{1, -2, 300}, {4, 5, 6}});
  ASSERT_OK_AND_ASSIGN(const TensorView columns, TensorView(rows).Transpose(0, 1));
  TensorMetadata metadata;
  metadata.name = "w";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.attributes["k"] = "v";
  const std::string message =
      testing::EncodeToString(columns, metadata, {Representation::kContent, false, StoredLayout::kPreserve});
  EXPECT_EQ(absl::BytesToHexString(message), absl::BytesToHexString(blocks[2]));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeSerializedTensorWithMetadata(blocks[2]));
  EXPECT_EQ(decoded.metadata, metadata);
  EXPECT_EQ(decoded.view.ToString(), "int16 [3,2] strides [1,3] offset 0");
  EXPECT_EQ(testing::Difference(*decoded.view.ToTensor(), *columns.ToTensor()), "");
}

}  // namespace
}  // namespace tensorcask
