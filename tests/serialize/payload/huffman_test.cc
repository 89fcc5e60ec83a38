// Huffman codes: lengths, plans, what is written and read. Runs with all instructions and without (BUILD.bazel): the
// bytes are the same.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/payload/codec/huffman_code.h"
#include "tensorcask/serialize/payload/codec/huffman_decoder.h"
#include "tensorcask/serialize/payload/codec/huffman_encoder.h"
#include "tensorcask/serialize/payload/codec/huffman_plan.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tests/fuzz/huffman_reference.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::payload {
namespace {

using tensorcask::testing::DecodeHuffmanByTheBook;
using tensorcask::testing::StatusIs;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using Code = absl::StatusCode;
using Random = std::mt19937;

// ---- Lengths --------------------------------------------------------------------------------------------------------

double Entropy(const ByteCounts& counts) {  // in bits of all
  double total = 0;
  double bits = 0;
  for (const uint32_t count : counts) total += count;
  for (const uint32_t count : counts) bits += count == 0 ? 0 : count * std::log2(total / count);
  return bits;
}

double BitsOf(const ByteCounts& counts, const CodeLengths& lengths) {
  double bits = 0;
  for (int i = 0; i < 256; ++i) bits += static_cast<double>(counts[i]) * lengths[i];
  return bits;
}

void ExpectGoodCode(const ByteCounts& counts) {
  const CodeLengths lengths = MakeCodeLengths(counts);
  EXPECT_TRUE(IsCompleteCode(lengths));
  for (int i = 0; i < 256; ++i) {
    if (counts[i] != 0) {
      EXPECT_NE(lengths[i], 0) << i;
    }
  }
  for (int i = 0; i < 256; ++i) {
    for (int k = 0; k < 256; ++k) {
      if (counts[i] > counts[k] && lengths[k] != 0) {
        EXPECT_LE(lengths[i], lengths[k]) << i << " is more frequent than " << k;
      }
    }
  }
  // No code is a prefix of another.
  const std::array<uint16_t, 256> codes = CodesOf(lengths);
  for (int i = 0; i < 256; ++i) {
    for (int k = 0; k < 256; ++k) {
      if (i == k || lengths[i] == 0 || lengths[k] < lengths[i]) continue;
      EXPECT_NE(codes[k] >> (lengths[k] - lengths[i]), codes[i]) << i << ", " << k;
    }
  }
}

TEST(CodeLengths, AreThoseOfHuffman) {
  ByteCounts counts = {};
  counts['a'] = 8;
  counts['b'] = 7;
  counts['c'] = 6;
  counts['d'] = 3;
  counts['e'] = 2;
  const CodeLengths lengths = MakeCodeLengths(counts);
  EXPECT_EQ(lengths['a'], 2);
  EXPECT_EQ(lengths['b'], 2);
  EXPECT_EQ(lengths['c'], 2);
  EXPECT_EQ(lengths['d'], 3);
  EXPECT_EQ(lengths['e'], 3);
  EXPECT_EQ(lengths['f'], 0);
  const std::array<uint16_t, 256> codes = CodesOf(lengths);
  EXPECT_EQ(codes['a'], 0);
  EXPECT_EQ(codes['b'], 1);
  EXPECT_EQ(codes['c'], 2);
  EXPECT_EQ(codes['d'], 6);
  EXPECT_EQ(codes['e'], 7);
}

TEST(CodeLengths, TakeLittleRoom) {
  for (const int byte : {0, 1, 2, 77, 253, 254, 255}) {
    SCOPED_TRACE(byte);
    ByteCounts counts = {};
    counts[byte] = 10;
    EXPECT_LE(CodeLengthsBytes(MakeCodeLengths(counts)), 4u);
  }
}

TEST(CodeLengths, StayWithinTheirBounds) {
  ByteCounts one = {};
  one[200] = 1000;
  ExpectGoodCode(one);
  ByteCounts all;
  all.fill(5);
  ExpectGoodCode(all);
  EXPECT_EQ(MakeCodeLengths(all)[77], 8);
  ByteCounts skewed = {};  // Huffman's own would have up to 40 bits
  uint32_t a = 1, b = 1;
  for (int i = 0; i < 40; ++i) {
    skewed[i] = a;
    std::swap(a, b);
    b += a;
  }
  ExpectGoodCode(skewed);
  ByteCounts rare;
  rare.fill(1);
  rare[0] = 1u << 30;
  ExpectGoodCode(rare);
  EXPECT_EQ(MakeCodeLengths(rare)[0], kMinCodeBits);
}

TEST(CodeLengths, AreNearlyAsGoodAsCanBe) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::normal_distribution<> normal(120, 1.5 + seed % 10);
    ByteCounts counts = {};
    for (int i = 0; i < 100000; ++i) ++counts[static_cast<uint8_t>(std::lround(normal(random)))];
    ExpectGoodCode(counts);
    EXPECT_THAT(BitsOf(counts, MakeCodeLengths(counts)), Le(1.03 * Entropy(counts)));
  }
}

TEST(CodeLengths, CompleteCodesAreTold) {
  CodeLengths lengths = {};
  EXPECT_FALSE(IsCompleteCode(lengths));
  for (int i = 0; i < 4; ++i) lengths[i] = 2;
  EXPECT_TRUE(IsCompleteCode(lengths));
  lengths[9] = 11;
  EXPECT_FALSE(IsCompleteCode(lengths));  // too many
  lengths[9] = 0;
  lengths[3] = 3;
  EXPECT_FALSE(IsCompleteCode(lengths));  // too few
  lengths[4] = 4;
  lengths[5] = 4;
  EXPECT_TRUE(IsCompleteCode(lengths));
  CodeLengths halves = {};
  halves[0] = halves[1] = 1;
  EXPECT_FALSE(IsCompleteCode(halves));  // too short
}

// ---- Whole planes ---------------------------------------------------------------------------------------------------

// Bytes around `middle`, the most frequent ones `width` to both sides.
std::string Around(double middle, double width, size_t size, uint32_t seed) {
  Random random(seed);
  std::normal_distribution<> normal(middle, width);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(std::lround(std::clamp(normal(random), 0.0, 255.0)));
  return bytes;
}

struct Coded {
  std::string bytes;
  HuffmanPlan plan;
};

Coded Encode(absl::string_view plane) {
  HuffmanPlanner planner;
  HuffmanEncoder encoder;
  const absl::StatusOr<const HuffmanPlan*> plan = planner.Plan(plane);
  EXPECT_OK(plan);
  std::vector<char> out((*plan)->bytes);
  const absl::StatusOr<size_t> size = encoder.Encode(plane, **plan, out.data());
  EXPECT_OK(size);
  EXPECT_LE(*size, out.size());
  EXPECT_GE(*size + kHuffmanStreams + 1, out.size());
  return {std::string(out.data(), *size), **plan};
}

absl::StatusOr<std::string> Decode(absl::string_view coded, size_t size) {
  // Blocks of exactly their size, so that the address sanitizer sees what is read or written past their ends.
  const std::vector<char> bytes(coded.begin(), coded.end());
  std::vector<char> out(size, '\xa5');
  HuffmanDecoder decoder;
  const absl::Status status = decoder.Decode(absl::string_view(bytes.data(), bytes.size()), absl::MakeSpan(out));
  if (!status.ok()) return status;
  return std::string(out.begin(), out.end());
}

void ExpectComesBack(const std::string& plane) {
  const Coded coded = Encode(plane);
  const absl::StatusOr<std::string> back = Decode(coded.bytes, plane.size());
  ASSERT_OK(back);
  EXPECT_TRUE(*back == plane);
  if (plane.size() > 20000) return;  // slow
  const std::optional<std::string> by_the_book = DecodeHuffmanByTheBook(coded.bytes, plane.size());
  ASSERT_TRUE(by_the_book.has_value());
  EXPECT_TRUE(*by_the_book == plane);
}

TEST(Huffman, PlanesComeBack) {
  for (const size_t size : {1, 2, 5, 6, 7, 36, 100, 255, 256, 257, 511, 512, 513, 1024, 3000, 12345, 65536, 200001}) {
    SCOPED_TRACE(size);
    ExpectComesBack(std::string(size, 'x'));
    ExpectComesBack(Around(120, 1.5, size, 1));
    ExpectComesBack(Around(130, 40, size, 2));
    std::string noise(size, '\0');
    Random random(3);
    for (char& byte : noise) byte = static_cast<char>(random());
    ExpectComesBack(noise);
    ExpectComesBack(Around(10, 2, size / 2, 4) + Around(250, 3, size - size / 2, 5));
  }
}

TEST(Huffman, LargestPlanesComeBack) {
  std::string plane;
  for (uint32_t i = 0; i < 64; ++i) plane += Around(100 + i % 7, 1 + i % 5, 1 << 16, i);
  EXPECT_EQ(plane.size(), size_t{1} << 22);
  ExpectComesBack(plane);
}

TEST(Huffman, RandomPlanesComeBack) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string plane;
    const size_t pieces = 1 + random() % 12;
    for (size_t i = 0; i < pieces; ++i) {
      const double width = 0.3 + static_cast<double>(random() % 30) / 2;
      plane += Around(static_cast<double>(random() % 256), width, 1 + random() % 6000, seed + static_cast<uint32_t>(i));
    }
    ExpectComesBack(plane);
  }
}

// What is written with a plan by hand, read here and by the book.
void ExpectComesBack(const std::string& plane, absl::string_view tables) {
  const HuffmanPlan plan = testing::PlanByHand(plane, tables);
  std::vector<char> out(plan.bytes);
  const absl::StatusOr<size_t> size = HuffmanEncoder().Encode(plane, plan, out.data());
  ASSERT_OK(size);
  const absl::string_view coded(out.data(), *size);
  const absl::StatusOr<std::string> back = Decode(coded, plane.size());
  ASSERT_OK(back);
  EXPECT_TRUE(*back == plane);
  EXPECT_TRUE(DecodeHuffmanByTheBook(coded, plane.size()) == plane);
}

TEST(Huffman, AnyTablesAnywhereComeBack) {
  for (const size_t size : {257, 512, 700, 1536, 6000}) {
    SCOPED_TRACE(size);
    const std::string plane = Around(100, 3, size, 1);
    ExpectComesBack(plane, absl::string_view("\0\1", 2));
    ExpectComesBack(plane, absl::string_view("\0\1\0", 3));
    ExpectComesBack(plane, absl::string_view("\1\0\0\2", 4));
    ExpectComesBack(plane, "abcdefghijklmnop");
  }
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string tables(1 + random() % 40, '\0');
    for (char& table : tables) table = static_cast<char>(random() % (1 + seed % 16));
    const std::string plane = Around(60, 1 + seed % 9, 1 + random() % 9000, seed) + std::string(random() % 600, 'x');
    ExpectComesBack(plane, tables);
  }
}

TEST(HuffmanPlan, OneCodeForOneKindOfBytes) {
  const Coded coded = Encode(Around(120, 1.5, 300000, 1));
  EXPECT_EQ(coded.plan.tables.size(), 1u);
  EXPECT_THAT(coded.bytes.size(), Le(300000u * 28 / 80));
}

TEST(HuffmanPlan, CodesFollowTheBytes) {
  // Layers: what one code for all would take is far more.
  std::string plane;
  for (uint32_t i = 0; i < 40; ++i) plane += Around(i % 3 == 0 ? 60 : i % 3 == 1 ? 90 : 120, 1, 5000 + 700 * i, i);
  const Coded coded = Encode(plane);
  EXPECT_THAT(coded.plan.tables.size(), Ge(3u));
  EXPECT_THAT(coded.plan.tables.size(), Le(8u));
  EXPECT_THAT(static_cast<double>(coded.bytes.size()), Le(0.3 * static_cast<double>(plane.size())));  // 2.1 bits a byte
  ExpectComesBack(plane);
  EXPECT_TRUE(DecodeHuffmanByTheBook(coded.bytes, plane.size()) == plane);
}

TEST(HuffmanPlan, TellsWhereCodesAreTooLong) {
  const auto is_told = [](const std::string& plane) { return Encode(plane).plan.wants_shorter_codes; };
  const std::string exponents = Around(120, 1.5, 100000, 1);
  EXPECT_FALSE(is_told(exponents));
  EXPECT_FALSE(is_told(exponents + std::string(600, 'x')));
  EXPECT_TRUE(is_told(exponents + std::string(40000, 'x')));
  EXPECT_TRUE(is_told(Around(120, 0.4, 100000, 1))) << "one byte is most of it";
  EXPECT_TRUE(is_told(std::string(100000, 'x')));
}

TEST(HuffmanPlan, RunsCoverThePlane) {
  for (const size_t size : {1, 512, 100000, 524288, 524289, 1000003, 1 << 22}) {
    SCOPED_TRACE(size);
    const Coded coded = Encode(Around(100, 1, size / 2, 1) + Around(140, 1, size - size / 2, 2));
    size_t units = 0;
    for (const HuffmanPlan::Run& run : coded.plan.runs) {
      EXPECT_THAT(run.units, ::testing::AllOf(Ge(1), Le(kMaxRunUnits)));
      EXPECT_LT(static_cast<size_t>(run.table), coded.plan.tables.size());
      units += static_cast<size_t>(run.units);
    }
    EXPECT_EQ(units, ((size - 1) >> coded.plan.unit_log) + 1);
  }
}

TEST(Huffman, BytesDoNotDependOnPlanesBeforeNorOnTheProcessor) {
  std::string plane;
  for (uint32_t i = 0; i < 600000; ++i)
    plane += static_cast<char>(100 + (i / 9000 % 5) * 3 + (i * 2654435761u >> 29) / 2);
  HuffmanPlanner planner;
  HuffmanEncoder encoder;
  std::string first;
  for (int round = 0; round < 2; ++round) {
    const HuffmanPlan* const plan = *planner.Plan(plane);
    std::string out(plan->bytes, '\xa5');
    out.resize(*encoder.Encode(plane, *plan, &out[0]));
    EXPECT_EQ(Crc32c(out), 2076365781u);  // on any processor: another plan may give another
    if (round == 0) first = out;
    EXPECT_TRUE(out == first);
    const std::string other = Around(200, 20, 300000, 7);
    std::string room((*planner.Plan(other))->bytes, '\0');
    ASSERT_OK(encoder.Encode(other, **planner.Plan(other), &room[0]));
  }
}

TEST(Huffman, MayBeWrittenOverThePlane) {
  std::string plane = Around(120, 2, 100000, 1);
  const std::string before = plane;
  HuffmanPlanner planner;
  const HuffmanPlan* const plan = *planner.Plan(plane);
  const size_t size = *HuffmanEncoder().Encode(plane, *plan, &plane[0]);
  EXPECT_TRUE(*Decode(plane.substr(0, size), before.size()) == before);
}

// ---- What strangers may send ----------------------------------------------------------------------------------------

// The example of FORMAT.md section 3.1 in parts that can be changed.
struct Forged {
  std::string header{"\x01\x08\x01\x00", 4};
  std::string sizes{"\1\0\0\0\1\0\0\0\2\0\0\0\2\0\0\0\2\0\0\0", 20};
  std::string runs{"\0", 1};
  std::string tables = "\x61\x65\x22\x32\x03";
  std::string streams = "\x48\x21\xe6\x40\x31" + std::string(1, '\0') + "\xe4\x80\xc7\x40";

  std::string bytes() const { return header + sizes + runs + tables + streams; }
};
constexpr absl::string_view kExample = "acabbacabdaecadabcaebead";

TEST(HuffmanDecoder, TakesTheExample) {
  EXPECT_EQ(*Decode(Forged().bytes(), 24), kExample);
  EXPECT_EQ(*DecodeHuffmanByTheBook(Forged().bytes(), 24), kExample);
}

TEST(HuffmanDecoder, TakesTablesThatNothingUses) {
  Forged forged;
  forged.header[0] = 2;
  forged.tables += forged.tables;
  EXPECT_EQ(*Decode(forged.bytes(), 24), kExample);
  EXPECT_EQ(*DecodeHuffmanByTheBook(forged.bytes(), 24), kExample);
}

struct Reject {
  const char* name;
  void (*change)(Forged* forged);
  const char* says;
  size_t plane_bytes = 24;
};
class HuffmanDecoderRejects : public ::testing::TestWithParam<Reject> {};

TEST_P(HuffmanDecoderRejects, SayingWhy) {
  Forged forged;
  GetParam().change(&forged);
  EXPECT_THAT(Decode(forged.bytes(), GetParam().plane_bytes),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_FALSE(DecodeHuffmanByTheBook(forged.bytes(), GetParam().plane_bytes).has_value());
}

const Reject kRejects[] = {
    {"NoHead",
     [](Forged* f) {
       *f = {"", "", "", "", "xx"};
     },
     "2 bytes, too few for a header"},
    {"NoTables", [](Forged* f) { f->header[0] = 0; }, "0 tables; 1 to 16"},
    {"TooManyTables", [](Forged* f) { f->header[0] = 17; }, "17 tables; 1 to 16"},
    {"SmallUnits", [](Forged* f) { f->header[1] = 7; }, "units of 2^7 bytes; 2^8 to 2^16"},
    {"LargeUnits", [](Forged* f) { f->header[1] = 17; }, "units of 2^17 bytes"},
    {"MoreRunsThanBytes", [](Forged* f) { f->header[3] = '\x7f'; }, "have 32513 runs; 16 bytes are left"},
    {"NoRuns", [](Forged* f) { f->header[2] = 0, f->runs = ""; }, "runs have 0 bytes; the plane has 24"},
    {"ARunTooMany", [](Forged* f) { f->header[2] = 2, f->runs += '\0'; }, "run 1 leaves the 24 bytes"},
    {"AUnitTooMany", [](Forged* f) { f->runs = "\1"; }, "run 0 leaves the 24 bytes"},
    {"APlaneTooLong", [](Forged*) {}, "runs have 256 bytes; the plane has 300", 300},
    {"NoSuchTable", [](Forged* f) { f->runs = "\x10"; }, "run 0 has table 1 of 1"},
    {"TableCutOff", [](Forged* f) { f->tables = "\x61", f->streams = ""; }, "end in table 0"},
    {"LengthsCutOff", [](Forged* f) { f->tables = "\x61\x65\x22", f->streams = ""; }, "end in table 0"},
    {"TableBackwards", [](Forged* f) { f->tables[0] = '\x66'; }, "table 0 goes from byte 102 to 101"},
    {"TablePadding", [](Forged* f) { f->tables[4] = '\x13'; }, "past the end of table 0"},
    {"IncompleteCode", [](Forged* f) { f->tables[4] = '\x04'; }, "table 0 is not a code"},
    {"OverfullCode", [](Forged* f) { f->tables[4] = '\x02'; }, "table 0 is not a code"},
    {"CodesOfOneBit", [](Forged* f) { f->tables = "\x61\x62\x11"; }, "table 0 is not a code"},
    {"CodesOf12Bits", [](Forged* f) { f->tables[4] = '\x0c'; }, "table 0 is not a code"},
    {"NoCodes", [](Forged* f) { f->tables = std::string("\x61\x62\0", 3); }, "table 0 is not a code"},
    {"StreamPastTheEnd", [](Forged* f) { f->sizes[0] = 11; }, "stream 0 has 11 bytes; 10 are left"},
    {"HugeStream", [](Forged* f) { f->sizes[7] = '\xff'; }, "stream 1 has 4278190081 bytes"},
    {"StreamTooShort", [](Forged* f) { f->sizes[8] = 1, f->sizes[12] = 3; }, "stream 2 has 1 bytes; its codes take 2"},
    {"StreamTooLong", [](Forged* f) { f->sizes[4] = 2, f->sizes[8] = 1; }, "stream 1 has 2 bytes; its codes take 1"},
    {"LastStreamTooLong", [](Forged* f) { f->streams += '\0'; }, "stream 5 has 3 bytes; its codes take 2"},
    {"LastStreamCutOff", [](Forged* f) { f->streams.pop_back(); }, "stream 5 has 1 bytes; its codes take 2"},
    {"NoStreams", [](Forged* f) { f->streams = "", f->sizes.assign(20, '\0'); }, "stream"},
    {"StreamPadding", [](Forged* f) { f->streams[9] = '\x41'; }, "past the end of stream 5"},
};
INSTANTIATE_TEST_SUITE_P(Bad, HuffmanDecoderRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

// Both readers accept the same of the inputs that differ from a good one in a few bits, or are cut off.
TEST(HuffmanDecoder, AgreesWithTheBook) {
  int taken = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string plane =
        Around(100, 0.5 + seed % 7, 1 + random() % 900, seed) + Around(200, 3, seed % 2 == 0 ? 0 : 700, seed);
    std::string coded = Encode(plane).bytes;
    switch (random() % 3) {
      case 0:
        for (uint32_t i = 0; i <= random() % 3; ++i)
          coded[random() % coded.size()] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:
        coded[random() % std::min<size_t>(coded.size(), 60)] = static_cast<char>(random());
        break;
      default:
        coded.resize(random() % (coded.size() + 1));
    }
    const absl::StatusOr<std::string> decoded = Decode(coded, plane.size());
    const std::optional<std::string> by_the_book = DecodeHuffmanByTheBook(coded, plane.size());
    ASSERT_EQ(decoded.ok(), by_the_book.has_value()) << decoded.status();
    if (!decoded.ok()) continue;
    ++taken;
    ASSERT_TRUE(*decoded == *by_the_book);
  }
  EXPECT_GT(taken, 20);
}

TEST(HuffmanDecoder, MemoryDoesNotGrow) {
  HuffmanDecoder decoder;
  EXPECT_EQ(decoder.MemoryBytes(), 0u);
  const std::string plane = Around(60, 1, 100000, 1) + Around(90, 1, 100000, 2);
  const std::string coded = Encode(plane).bytes;
  std::string out(plane.size(), '\0');
  ASSERT_OK(decoder.Decode(coded, absl::MakeSpan(&out[0], out.size())));
  const size_t memory = decoder.MemoryBytes();
  EXPECT_THAT(memory, Le(plane.size() + (size_t{32} << 10)));
  for (int i = 0; i < 3; ++i) ASSERT_OK(decoder.Decode(coded, absl::MakeSpan(&out[0], out.size())));
  EXPECT_EQ(decoder.MemoryBytes(), memory);
}

}  // namespace
}  // namespace tensorcask::payload
