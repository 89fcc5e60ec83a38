// What a decoder of chunks must take and refuse (FORMAT.md sections 3 and 5), on chunks forged byte by byte.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/payload/codec/chunk_codec.h"
#include "tensorcask/serialize/payload/codec/plane_codec.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::payload {
namespace {

using tensorcask::testing::CodedChunk;
using tensorcask::testing::ForgedPlane;
using tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr NumberType kFloat1{NumberKind::kFloat, 1};
constexpr NumberType kFloat2{NumberKind::kFloat, 2};
constexpr NumberType kInteger1{NumberKind::kInteger, 1};
constexpr NumberType kInteger2{NumberKind::kInteger, 2};
constexpr NumberType kBool{NumberKind::kBool, 1};

constexpr int kRaw = 0, kConstant = 1, kZstd = 2, kHuffman = 3;
constexpr uint8_t kRotated = 1, kApart = 2, kBits = 4, kDifferences = 8;

absl::StatusOr<std::string> Decode(NumberType type, const std::string& coded, size_t size,
                                   const std::string& base = "") {
  // Blocks of exactly their size, so that the address sanitizer sees what is read or written past their ends.
  const std::vector<char> bytes(coded.begin(), coded.end());
  std::vector<char> out(size, '\xa5');
  const absl::Status status = ChunkDecoder(type).Decode(absl::string_view(bytes.data(), bytes.size()),
                                                        base.empty() ? nullptr : base.data(), absl::MakeSpan(out));
  if (!status.ok()) return status;
  return std::string(out.begin(), out.end());
}

std::string Frame(const std::string& plane) {
  PlaneEncoder encoder;
  std::string out(plane.size(), '\0');
  const CodedPlane coded = *encoder.Encode(plane, PlaneEffort::kDefault, &out[0]);
  EXPECT_EQ(coded.kind, PlaneKind::kZstd);
  return out.substr(0, coded.size);
}

std::string Times(size_t count, absl::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out.append(bytes.data(), bytes.size());
  return out;
}

struct GoodCase {
  const char* name;
  NumberType type;
  std::string coded;
  std::string decoded;
};
class ChunkDecoderTakes : public ::testing::TestWithParam<GoodCase> {};
TEST_P(ChunkDecoderTakes, WhatTheFormatTells) {
  const GoodCase& good = GetParam();
  const absl::StatusOr<std::string> decoded = Decode(good.type, good.coded, good.decoded.size());
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, good.decoded);
}
const GoodCase kGood[] = {
    {"Raw", kFloat2, "abcd", "abcd"},
    {"Constant", kInteger2, CodedChunk(0, 20, {{kConstant, "a"}, {kConstant, "b"}}), Times(20, "ab")},
    {"RawAndConstant", kInteger2, CodedChunk(0, 22, {{kConstant, "a"}, {kRaw, "bcdefghijklmnopqrstuvw"}}),
     "abacadaeafagahaiajakalamanaoapaqarasatauavaw"},
    {"Frames", kInteger2, CodedChunk(0, 80, {{kZstd, Frame(Times(40, "ab"))}, {kZstd, Frame(Times(40, "cd"))}}),
     Times(40, "acbd")},
    {"Rotated", kFloat2, CodedChunk(kRotated, 20, {{kConstant, "\x03"}, {kConstant, "\x80"}}), Times(20, "\x01\xc0")},
    {"RotatedBytes", kFloat1, CodedChunk(kRotated, 30, {{kConstant, "\x03"}}), Times(30, "\x81")},
    // 8 + 3 * 4 + 4 + 2 + 1 bytes for 32 numbers, of which 2, 17 are there.
    {"ZeroBitmap", kInteger2,
     CodedChunk(kApart, 2, {{kRaw, std::string("\4\0\2\0", 4)}, {kRaw, "ab"}, {kConstant, "c"}}),
     std::string(4, '\0') + "ac" + std::string(28, '\0') + "bc" + std::string(28, '\0')},
    {"ZeroBitmapRotated", kFloat2,
     CodedChunk(kApart | kRotated, 1, {{kRaw, std::string("\1\0\0\0", 4)}, {kRaw, "\x03"}, {kRaw, "\x80"}}),
     "\x01\xc0" + std::string(62, '\0')},
    {"OnlyZeros", kInteger2, CodedChunk(kApart, 0, {{kConstant, std::string(1, '\0')}, {kRaw, ""}, {kRaw, ""}}),
     std::string(64, '\0')},
    {"NoZeros", kInteger1, CodedChunk(kApart, 64, {{kConstant, "\xff"}, {kConstant, "x"}}), std::string(64, 'x')},
    {"FrameMask", kInteger1,
     CodedChunk(kApart, 400, {{kZstd, Frame(Times(50, std::string("\xff\0", 2)))}, {kConstant, "x"}}),
     Times(50, "xxxxxxxx" + std::string(8, '\0'))},
    {"Bits", kBool, CodedChunk(kBits, 19, {{kRaw, std::string("\x05\x80\4", 3)}}),
     std::string("\1\0\1\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\1", 19)},
    {"ConstantBits", kBool, CodedChunk(kBits, 32, {{kConstant, "\xff"}}), std::string(32, '\1')},
    {"FrameBits", kBool, CodedChunk(kBits, 800, {{kZstd, Frame(Times(50, std::string("\xff\0", 2)))}}),
     Times(50, std::string(8, '\1') + std::string(8, '\0'))},
    {"BoolsAsBytes", kBool, CodedChunk(0, 30, {{kConstant, "\1"}}), std::string(30, '\1')}};
INSTANTIATE_TEST_SUITE_P(Good, ChunkDecoderTakes, ::testing::ValuesIn(kGood),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ChunkDecoder, AddsDifferencesToTheBase) {
  // 4 is zigzag(2).
  const std::string coded = CodedChunk(kDifferences, 20, {{kConstant, "\4"}, {kConstant, std::string(1, '\0')}});
  const std::string base = Times(20, std::string("\xff\x01", 2));
  EXPECT_EQ(*Decode(kInteger2, coded, 40, base), Times(20, std::string("\x01\x02", 2)));
  // A float is positive: its order is that of its bits. A negative one has it reversed.
  EXPECT_EQ(*Decode(kFloat2, coded, 40, base), Times(20, std::string("\x01\x02", 2)));
  EXPECT_EQ(*Decode(kFloat2, coded, 40, Times(20, "\x03\x80")), Times(20, std::string("\x01\x80", 2)));
  EXPECT_EQ(*Decode(kInteger2, coded, 40), Times(20, std::string("\4\0", 2))) << "as they are";
  // A raw chunk of a delta has the numbers themselves.
  EXPECT_EQ(*Decode(kInteger2, base, 40, Times(20, "xy")), base);
  // Differences that are mostly 0.
  const std::string sparse = CodedChunk(
      kDifferences | kApart, 1, {{kRaw, std::string("\2\0\0\0", 4)}, {kRaw, "\4"}, {kRaw, std::string(1, '\0')}});
  const std::string letters = Times(32, "aa");
  EXPECT_EQ(*Decode(kInteger2, sparse, 64, letters), "aaca" + letters.substr(4));
}

// No writer combines these flags so far; FORMAT.md section 3 allows it.
TEST(ChunkDecoder, RotatedGoesWithDifferences) {
  const std::string base = Times(32, std::string("\xff\x01", 2));
  // 8 is 4 rotated left, and 4 is zigzag(2).
  const std::string dense =
      CodedChunk(kDifferences | kRotated, 32, {{kConstant, "\x08"}, {kConstant, std::string(1, '\0')}});
  EXPECT_EQ(*Decode(kFloat2, dense, 64, base), Times(32, std::string("\x01\x02", 2)));
  const std::string sparse =
      CodedChunk(kDifferences | kApart | kRotated, 1,
                 {{kRaw, std::string("\2\0\0\0", 4)}, {kRaw, "\x08"}, {kRaw, std::string(1, '\0')}});
  EXPECT_EQ(*Decode(kFloat2, sparse, 64, base), base.substr(0, 2) + std::string("\x01\x02", 2) + base.substr(4));
  EXPECT_THAT(Decode(kInteger2, dense, 64, base), StatusIs(Code::kInvalidArgument, HasSubstr("only floats are")));
}

struct BadCase {
  const char* name;
  NumberType type;
  std::string coded;
  size_t size;
  Code code;
  const char* says;
};
class ChunkDecoderRejects : public ::testing::TestWithParam<BadCase> {};
TEST_P(ChunkDecoderRejects, WithCodeAndMessage) {
  const BadCase& bad = GetParam();
  EXPECT_THAT(Decode(bad.type, bad.coded, bad.size), StatusIs(bad.code, HasSubstr(bad.says)));
}
const std::string kNul(1, '\0');
std::string WithByte(std::string bytes, size_t at, char byte) {
  bytes[at] = byte;
  return bytes;
}
std::string TwoConstant(uint8_t flags, uint32_t values) {
  return CodedChunk(flags, values, {{kConstant, "a"}, {kConstant, "b"}});
}
std::string Apart(uint32_t values, const ForgedPlane& mask, const ForgedPlane& plane) {
  return CodedChunk(kApart, values, {mask, plane});
}
constexpr Code kInvalid = Code::kInvalidArgument, kUnimplemented = Code::kUnimplemented;
const BadCase kBad[] = {
    {"Empty", kInteger2, "", 40, kInvalid, "has 0 bytes, too few for a header"},
    {"ShortHeader", kInteger2, "1234567", 40, kInvalid, "has 7 bytes, too few for a header"},
    {"Larger", kInteger2, std::string(41, 'x'), 40, kInvalid, "has 41 bytes and decodes to 40"},
    {"UnknownFlag", kInteger2, TwoConstant(16, 20), 40, kUnimplemented, "its flags are 16"},
    {"AllFlags", kInteger2, TwoConstant(255, 20), 40, kUnimplemented, "its flags are 255"},
    {"Reserved1", kInteger2, WithByte(TwoConstant(0, 20), 1, 1), 40, kUnimplemented, "reserved bytes"},
    {"Reserved3", kInteger2, WithByte(TwoConstant(0, 20), 3, 1), 40, kUnimplemented, "reserved bytes"},
    {"RotatedInteger", kInteger2, TwoConstant(kRotated, 20), 40, kInvalid, "it is rotated; only floats are"},
    {"RotatedBool", kBool, CodedChunk(kRotated, 40, {{kConstant, "\1"}}), 40, kInvalid, "it is rotated; only floats"},
    {"BitsOfFloat", kFloat1, CodedChunk(kBits, 40, {{kConstant, "\1"}}), 40, kInvalid, "bits stand alone"},
    {"BitsOfInteger", kInteger1, CodedChunk(kBits, 40, {{kConstant, "\1"}}), 40, kInvalid, "bits stand alone"},
    {"BitsApart", kBool, CodedChunk(kBits | kApart, 40, {{kConstant, "\1"}}), 40, kInvalid, "bits stand alone"},
    {"BitsRotated", kBool, CodedChunk(kBits | kRotated, 40, {{kConstant, "\1"}}), 40, kInvalid, "bits stand alone"},
    {"DifferencesOfBool", kBool, CodedChunk(kDifferences, 40, {{kConstant, "\1"}}), 40, kInvalid, "bools have none"},
    {"ValuesLess", kInteger2, TwoConstant(0, 19), 40, kInvalid, "has 19 values; the chunk has 20"},
    {"ValuesMore", kInteger2, TwoConstant(0, 21), 40, kInvalid, "has 21 values; the chunk has 20"},
    {"ValuesHuge", kInteger2, TwoConstant(0, 0xffffffff), 40, kInvalid, "has 4294967295 values"},
    {"ValuesApartMore", kInteger1, Apart(41, {kConstant, "\xff"}, {kConstant, "x"}), 40, kInvalid, "has 41 values"},
    {"BitValues", kBool, CodedChunk(kBits, 5, {{kConstant, "\1"}}), 40, kInvalid, "has 5 values; the chunk has 40"},
    {"NoPlanes", kInteger2, CodedChunk(0, 20, {}), 40, kInvalid, "its header and 2 planes need 16"},
    {"OnePlane", kInteger2, CodedChunk(0, 20, {{kRaw, "abc"}}), 40, kInvalid, "its header and 2 planes need 16"},
    {"UnknownKind", kInteger2, CodedChunk(0, 20, {{255, "a"}, {kConstant, "b"}}), 40, kUnimplemented,
     "plane 0 is of kind 255"},
    {"RawShort", kInteger2, CodedChunk(0, 20, {{kRaw, "a"}, {kConstant, "b"}}), 40, kInvalid,
     "raw plane 0 has 1 bytes; it needs 20"},
    {"ConstantOfTwo", kInteger2, CodedChunk(0, 20, {{kConstant, "aa"}, {kConstant, "b"}}), 40, kInvalid,
     "constant plane 0 has 2 bytes; it needs 1"},
    {"ConstantOfNone", kInteger2, CodedChunk(0, 20, {{kConstant, ""}, {kConstant, "b"}}), 40, kInvalid,
     "constant plane 0 has 0 bytes; it needs 1"},
    {"EmptyConstant", kInteger1, Apart(0, {kConstant, kNul}, {kConstant, "x"}), 40, kInvalid,
     "plane 1 is constant but empty"},
    {"EmptyFrame", kInteger1, Apart(0, {kConstant, kNul}, {kZstd, "x"}), 40, kInvalid,
     "plane 1 is zstd-coded but empty"},
    {"PlanePastEnd", kInteger2, WithByte(TwoConstant(0, 20), 12, 0) + "", 40, kInvalid, "constant plane 1 has 0 bytes"},
    {"RawPastEnd", kInteger2, CodedChunk(0, 20, {{kConstant, "a"}, {kRaw, std::string(20, 'b')}}).substr(0, 36), 40,
     kInvalid, "plane 1 has 20 bytes; 19 are left"},
    {"FramePastEnd", kInteger2, WithByte(CodedChunk(0, 20, {{kZstd, "abc"}, {kConstant, "b"}}), 10, 1), 40, kInvalid,
     "plane 0 has 65539 bytes; 4 are left"},
    {"Trailing", kInteger2, TwoConstant(0, 20) + "x", 40, kInvalid, "has 1 bytes behind its planes"},
    {"NoFrame", kInteger2, CodedChunk(0, 20, {{kZstd, "abcdefgh"}, {kConstant, "b"}}), 40, kInvalid,
     "plane 0: zstd frame: begins with"},
    {"FrameOfLess", kInteger2, CodedChunk(0, 90, {{kZstd, Frame(Times(40, "ab"))}, {kConstant, "b"}}), 180, kInvalid,
     "plane 0: zstd frame: its content has 80 bytes; the plane has 90"},
    {"FrameOfMore", kInteger2, CodedChunk(0, 79, {{kConstant, "b"}, {kZstd, Frame(Times(40, "ab"))}}), 158, kInvalid,
     "plane 1: zstd frame: its content has 80 bytes; the plane has 79"},
    {"NotHuffmanCodes", kInteger2, CodedChunk(0, 90, {{kConstant, "b"}, {kHuffman, Times(40, "ab")}}), 180, kInvalid,
     "plane 1: Huffman codes: have 97 tables"},
    {"HuffmanCodesOfNothing", kInteger1, Apart(0, {kConstant, kNul}, {kHuffman, "a"}), 40, kInvalid,
     "plane 1 is Huffman-coded but empty"},
    {"TwoFrames", kInteger2,
     CodedChunk(0, 80, {{kConstant, "b"}, {kZstd, Frame(Times(40, "ab")) + Frame(Times(40, "ab"))}}), 160, kInvalid,
     "plane 1: zstd frame: ends after"},
    {"MaskOfMore", kInteger1, Apart(2, {kRaw, "\7\1" + Times(3, kNul)}, {kRaw, "ab"}), 40, kInvalid,
     "has 2 values; its zero bitmap has 4 bits"},
    {"MaskOfLess", kInteger1, Apart(2, {kRaw, "\1" + Times(4, kNul)}, {kRaw, "ab"}), 40, kInvalid,
     "has 2 values; its zero bitmap has 1 bits"},
    {"MaskShort", kInteger1, Apart(2, {kRaw, "\3"}, {kRaw, "ab"}), 40, kInvalid, "raw plane 0 has 1 bytes; it needs 5"},
    {"MaskPastEnd", kInteger1, Apart(2, {kRaw, "\1" + Times(3, kNul) + "\x80"}, {kRaw, "ab"}), 39, kInvalid,
     "bits are set past the end of 39"},
    {"ConstantMaskPastEnd", kInteger1, Apart(39, {kConstant, "\xff"}, {kConstant, "x"}), 39, kInvalid,
     "bits are set past the end of 39"},
    {"BitsPastEnd", kBool, CodedChunk(kBits, 33, {{kRaw, Times(4, kNul) + "\2"}}), 33, kInvalid,
     "bits are set past the end of 33"},
    {"RawBoolOf2", kBool, std::string("\0\1\2\1", 4), 4, kInvalid, "the chunk: byte 2 is 2; a bool is 0 or 1"},
    {"CodedBoolOf255", kBool, CodedChunk(0, 30, {{kConstant, "\xff"}}), 30, kInvalid, "the chunk: byte 0 is 255"}};
INSTANTIATE_TEST_SUITE_P(Bad, ChunkDecoderRejects, ::testing::ValuesIn(kBad),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ChunkDecoder, RefusesTheFirstKindWithoutARow) {
  const auto next = static_cast<int>(NumPlaneCodecs());
  const std::string says = absl::StrCat("plane 1 is of kind ", next, "; this version knows 0 to ", next - 1);
  EXPECT_THAT(Decode(kInteger2, CodedChunk(0, 20, {{kConstant, "a"}, {next, "b"}}), 40),
              StatusIs(kUnimplemented, HasSubstr(says)));
}

TEST(ChunkDecoder, RefusesMemoryByAClaim) {
  // Whatever a header says, no more is taken than the decoded size, which the caller knows.
  const std::string bomb = CodedChunk(0, 0xffffffff, {{kConstant, "a"}, {kConstant, "b"}});
  EXPECT_THAT(Decode(kInteger2, bomb, size_t{4} << 20), StatusIs(kInvalid, HasSubstr("4294967295 values")));
}

std::vector<GoodCase> SmallChunks() {
  std::vector<GoodCase> chunks(std::begin(kGood), std::end(kGood));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  std::string weights;
  for (int i = 0; i < 150; ++i) {
    const float weight = i % 2 == 0 ? normal(random) : 0;
    weights.append(reinterpret_cast<const char*>(&weight), 4);
  }
  for (const PayloadLevel level : {PayloadLevel::kDefault, PayloadLevel::kHigh}) {
    ChunkEncoder encoder({NumberKind::kFloat, 4}, level);
    chunks.push_back({"Weights", {NumberKind::kFloat, 4}, std::string(*encoder.Encode(weights, nullptr)), weights});
    EXPECT_NE(chunks.back().coded, "");
  }
  return chunks;
}

TEST(ChunkDecoder, SurvivesPrefixesAndChanges) {
  for (const GoodCase& chunk : SmallChunks()) {
    SCOPED_TRACE(chunk.name);
    ASSERT_OK(Decode(chunk.type, chunk.coded, chunk.decoded.size()));
    for (size_t size = 0; size < chunk.coded.size(); ++size) {
      const auto decoded = Decode(chunk.type, chunk.coded.substr(0, size), chunk.decoded.size());
      EXPECT_THAT(decoded, StatusIs(kInvalid)) << size;
    }
    for (size_t i = 0; i < chunk.coded.size(); ++i) {
      // All changes of the header; of the rest each bit.
      for (int change = 1; change < 256; change = i < 32 ? change + 1 : 2 * change) {
        const std::string bytes = WithByte(chunk.coded, i, static_cast<char>(chunk.coded[i] ^ change));
        const auto decoded = Decode(chunk.type, bytes, chunk.decoded.size(), chunk.decoded);
        if (decoded.ok()) continue;
        ASSERT_TRUE(decoded.status().code() == kInvalid || decoded.status().code() == kUnimplemented)
            << i << ": " << decoded.status();
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask::payload
