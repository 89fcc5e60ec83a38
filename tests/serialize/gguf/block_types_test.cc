// The decoders of blocks: bits that gguf 0.19.0 gave for the same bytes.

#include "tensorcask/serialize/gguf/block_types.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::gguf {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kBlocks = 16;

// Bytes of blocks, with halves at `halves` that are normal numbers of a moderate size.
std::vector<uint8_t> SomeBlocks(const ElementType& type, const std::vector<int>& halves) {
  std::vector<uint8_t> bytes;
  uint32_t state = type.id;
  for (size_t i = 0; i < kBlocks * type.bytes; ++i) {
    state = state * 1664525 + 1013904223;
    bytes.push_back(static_cast<uint8_t>(state >> 24));
  }
  for (size_t block = 0; block < kBlocks; ++block) {
    for (const int half : halves) {
      uint8_t& high = bytes[block * type.bytes + half + 1];
      high = static_cast<uint8_t>((high & (type.name == "iq1_m" ? 0x0f : 0x83)) | 0x30);
    }
  }
  return bytes;
}

struct Golden {
  uint32_t id;
  absl::string_view name;
  std::vector<int> halves;  // places of halves in a block
  uint32_t crc32c;          // that of the float32 elements of kBlocks blocks
};

const Golden kGolden[] = {
    {2, "q4_0", {0}, 0x6af542cc},       {3, "q4_1", {0, 2}, 0x81d9dd56}, {6, "q5_0", {0}, 0x33a3d885},
    {7, "q5_1", {0, 2}, 0x515ce729},    {8, "q8_0", {0}, 0xf8e495c3},    {9, "q8_1", {0, 2}, 0x399c2133},
    {10, "q2_k", {80, 82}, 0xc196f1aa}, {11, "q3_k", {108}, 0x2e850d74}, {12, "q4_k", {0, 2}, 0xf9842081},
    {13, "q5_k", {0, 2}, 0xdc3e0c30},   {14, "q6_k", {208}, 0x99feb7ae}, {15, "q8_k", {2}, 0x9fdae649},
    {16, "iq2_xxs", {0}, 0xab93ef58},   {17, "iq2_xs", {0}, 0xb3021b9f}, {18, "iq3_xxs", {0}, 0x67d93960},
    {19, "iq1_s", {0}, 0x60c58022},     {20, "iq4_nl", {0}, 0x014f39e8}, {21, "iq3_s", {0}, 0x3cc69ff3},
    {22, "iq2_s", {0}, 0x7e666d56},     {23, "iq4_xs", {0}, 0xe799b663}, {29, "iq1_m", {54}, 0x8aedbd7a},
    {34, "tq1_0", {52}, 0xcd6a1694},    {35, "tq2_0", {64}, 0x583ad2b0}, {39, "mxfp4", {}, 0x55c3b33c},
    {40, "nvfp4", {}, 0x6a9faf7d},      {41, "q1_0", {0}, 0xe816abaa},   {42, "q2_0", {0}, 0x4f44e5d7},
};

TEST(BlockTypes, DecodeTheSameBits) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(golden.name);
    const ElementType* const type = FindElementType(golden.id);
    ASSERT_NE(type, nullptr);
    EXPECT_EQ(type->name, golden.name);
    ASSERT_TRUE(type->is_block());
    const std::vector<uint8_t> bytes = SomeBlocks(*type, golden.halves);
    std::vector<float> numbers(kBlocks * type->elements);
    type->decode(bytes.data(), kBlocks, numbers.data());
    EXPECT_EQ(Crc32c({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)}), golden.crc32c);
  }
}

// CRC-32 of the numbers that the C functions of ggml (d99724f2) made of the blocks below, compiled without fused
// multiplications. They have none for q8_1.
struct RandomGolden {
  absl::string_view name;
  uint32_t crc32;
};
const RandomGolden kRandomGolden[] = {
    {"q4_0", 0x4b6251e6},   {"q4_1", 0x3a02e6ad},    {"q5_0", 0x1828ec90},   {"q5_1", 0xe1d483ea},
    {"q8_0", 0x4ab3ae14},   {"q2_k", 0x44725051},    {"q3_k", 0xbe9c6dfa},   {"q4_k", 0x8e40ba6d},
    {"q5_k", 0x3fd20358},   {"q6_k", 0x321f6eb1},    {"q8_k", 0x93d6e805},   {"iq2_xxs", 0x58432aef},
    {"iq2_xs", 0xcb0cddc8}, {"iq3_xxs", 0x8e89662a}, {"iq1_s", 0x06efe02e},  {"iq4_nl", 0x10a6a399},
    {"iq3_s", 0x0379cfbf},  {"iq2_s", 0x14ae6ec2},   {"iq4_xs", 0x5171d010}, {"iq1_m", 0xb836a207},
    {"tq1_0", 0x571159fe},  {"tq2_0", 0xd587bd0d},   {"mxfp4", 0x9202ffab},  {"nvfp4", 0xff4f24be},
    {"q1_0", 0x6cbcc796},   {"q2_0", 0x4e445049},
};

// Any bytes: scales of each kind, infinities and NaN, which count as one number. The test runs once for each set of
// instructions (TENSORCASK_CPU in the BUILD file).
TEST(BlockTypes, RandomBlocksDecodeToTheSameBits) {
  constexpr size_t kNumbers = 65536;
  constexpr uint32_t kNan = 0x7fc00000;
  for (const RandomGolden& golden : kRandomGolden) {
    SCOPED_TRACE(golden.name);
    const ElementType* const type = FindElementType(golden.name);
    ASSERT_NE(type, nullptr);
    std::vector<uint8_t> blocks(kNumbers / type->elements * type->bytes);
    uint64_t state = 88172645463325252;
    for (uint8_t& byte : blocks) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      byte = static_cast<uint8_t>(state >> 24);
    }
    std::vector<float> numbers(kNumbers);
    type->decode(blocks.data(), kNumbers / type->elements, numbers.data());
    std::string bits;
    for (const float number : numbers) {
      char of_number[sizeof(number)];
      StoreLittleEndian(number, of_number);
      if (std::isnan(number)) StoreLittleEndian(kNan, of_number);
      bits.append(of_number, sizeof(of_number));
    }
    EXPECT_EQ(Crc32(bits), golden.crc32);
  }
  EXPECT_EQ(std::size(kRandomGolden) + 1, std::size(kGolden));
}

TEST(BlockTypes, EachBlockTypeHasAGolden) {
  std::set<uint32_t> ids;
  for (const Golden& golden : kGolden) ids.insert(golden.id);
  for (const ElementType& type : AllElementTypes()) EXPECT_EQ(ids.count(type.id), type.is_block() ? 1 : 0) << type.name;
}

TEST(BlockTypes, TableIsSortedAndPlainTypesHaveTheirSize) {
  uint32_t before = 0;
  for (const ElementType& type : AllElementTypes()) {
    EXPECT_TRUE(type.id > before || type.id == 0) << type.name;
    before = type.id;
    EXPECT_EQ(FindElementType(type.id), &type);
    if (!type.is_block()) {
      EXPECT_EQ(type.bytes, ElementSize(type.dtype)) << type.name;
    }
    EXPECT_LE(type.elements, 256u);  // what readers have room for
  }
}

// Scales that are not numbers, or not normal ones.
TEST(BlockTypes, UnusualScales) {
  const auto decode = [](uint32_t id, std::vector<uint8_t> bytes) {
    const ElementType* const type = FindElementType(id);
    bytes.resize(type->bytes);
    std::vector<float> numbers(type->elements);
    type->decode(bytes.data(), 1, numbers.data());
    numbers.resize(3);
    return numbers;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // q8_0: the half is infinity, the largest number, the smallest subnormal one.
  EXPECT_THAT(decode(8, {0x00, 0x7c, 1, 0xff, 2}), ElementsAre(kInfinity, -kInfinity, kInfinity));
  EXPECT_THAT(decode(8, {0xff, 0x7b, 1, 0xff, 2}), ElementsAre(65504, -65504, 131008));
  EXPECT_THAT(decode(8, {0x01, 0x80, 1, 0xff, 2}), ElementsAre(-0x1p-24f, 0x1p-24f, -0x1p-23f));
  // mxfp4: the exponents 0 and 1 are subnormal numbers, 255 is a number; code 8 is +0.
  EXPECT_THAT(decode(39, {0, 0x01, 0x0f, 0x08}), ElementsAre(0x1p-128f, -12 * 0x1p-128f, 0));
  EXPECT_THAT(decode(39, {1, 0x01, 0x0f, 0x07}), ElementsAre(0x1p-127f, -12 * 0x1p-127f, 12 * 0x1p-127f));
  EXPECT_THAT(decode(39, {255, 0x01, 0x09, 0x08}), ElementsAre(0x1p127f, -0x1p127f, 0));
  EXPECT_FALSE(std::signbit(decode(39, {2, 0x08})[0]));
  // nvfp4: the scales 1, the smallest, and 0x7f, which is 0; of 0xff the highest bit is ignored.
  EXPECT_THAT(decode(40, {0x38, 0, 0, 0, 0x01, 0x0f, 0x07}), ElementsAre(0.5f, -6, 6));
  EXPECT_THAT(decode(40, {0x01, 0, 0, 0, 0x01, 0x0f, 0x07}), ElementsAre(0x1p-10f, -12 * 0x1p-10f, 12 * 0x1p-10f));
  EXPECT_THAT(decode(40, {0x7f, 0, 0, 0, 0x01, 0x0f, 0x07}), ElementsAre(0, 0, 0));
  EXPECT_THAT(decode(40, {0xff, 0, 0, 0, 0x01, 0x0f, 0x07}), ElementsAre(240, -2880, 2880));
}

TEST(BlockTypes, NamesTheTypesOfOthers) {
  EXPECT_EQ(FindElementType(137), nullptr);
  EXPECT_THAT(UnknownElementType(137), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("fork (ik_llama.cpp)")));
  EXPECT_THAT(UnknownElementType(4),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("(q4_2), which was removed")));
  EXPECT_THAT(UnknownElementType(43), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("unknown type 43")));
}

}  // namespace
}  // namespace tensorcask::gguf
