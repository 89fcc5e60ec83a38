// The examples in FORMAT.md are what the code writes and reads.

#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/payload/codec/huffman_decoder.h"
#include "tensorcask/tests/fuzz/huffman_reference.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/hex.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

// The bytes of the page's block that begins with this line; what stands after '#' is for people.
std::string Example(absl::string_view begin = "```hex") {
  std::ifstream in("serialize/payload/FORMAT.md");
  EXPECT_TRUE(in.good());
  std::string line;
  while (std::getline(in, line) && line != begin) {
  }
  std::string bytes;
  while (std::getline(in, line) && line != "```") {
    for (const absl::string_view digits : absl::StrSplit(line.substr(0, line.find('#')), ' ', absl::SkipEmpty())) {
      bytes += testing::BytesOfHex(digits);
    }
  }
  return bytes;
}

TEST(PayloadFormat, ExampleIsWhatIsWritten) {
  Tensor tensor = *Tensor::Create(DType::kInt16, TensorShape({20}));
  for (int i = 0; i < 20; ++i) tensor.mutable_data<int16_t>()[i] = static_cast<int16_t>(256 + i);
  PayloadWriteOptions options;
  options.always = true;
  EXPECT_EQ(absl::BytesToHexString(testing::EncodeOrFail(tensor, options)), absl::BytesToHexString(Example()));
  ASSERT_OK_AND_ASSIGN(const Tensor read, testing::ReadWhole(Example(), TensorShape({20})));
  EXPECT_EQ(read.bytes(), tensor.bytes());
}

TEST(PayloadFormat, ExampleOfHuffmanCodesIsWhatIsRead) {
  const absl::string_view plane = "acabbacabdaecadabcaebead";  // as in the text before the example
  std::string read(plane.size(), '\0');
  ASSERT_OK(payload::HuffmanDecoder().Decode(Example("```hex plane"), absl::MakeSpan(&read[0], read.size())));
  EXPECT_EQ(read, plane);
  EXPECT_EQ(testing::DecodeHuffmanByTheBook(Example("```hex plane"), plane.size()), std::string(plane));
}

}  // namespace
}  // namespace tensorcask
