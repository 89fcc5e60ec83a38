// What a reader must reject (FORMAT.md section 5), each with its code and a piece of its message.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CodedChunk;
using ::tensorcask::testing::Forge;
using ::tensorcask::testing::ReadWhole;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr uint32_t kChunk = 64 << 10;

PayloadHeader Header(DType dtype, uint64_t elements, uint64_t characters = 0) {
  PayloadHeader header;
  header.dtype = dtype;
  header.log2_chunk_bytes = 16;
  header.num_elements = elements;
  header.characters = characters;
  return header;
}

// Float32 zeros as one chunk of four constant planes.
std::string Zeros(uint32_t values = kChunk / 4) {
  return CodedChunk(0, values, {{1, {"\0", 1}}, {1, {"\0", 1}}, {1, {"\0", 1}}, {1, {"\0", 1}}});
}

// Three chunks, of which the first and the last are zeros and the other is raw.
Forge ThreeChunks() {
  Forge forge;
  forge.header = Header(DType::kFloat32, 2 * kChunk / 4 + 100);
  forge.Add(Zeros());
  forge.Add(std::string(kChunk, 'x'));
  forge.Add(Zeros(100));
  return forge;
}

// Reads all; the first error.
absl::Status StatusOfReading(absl::string_view payload, const PayloadReadOptions& options = {}) {
  const absl::StatusOr<PayloadReader> reader = PayloadReader::Open(payload, options);
  if (!reader.ok()) return reader.status();
  return ReadWhole(payload, TensorShape({static_cast<int64_t>(reader->header().num_elements)}), nullptr, options)
      .status();
}

TEST(Forge, MakesPayloads) {
  const std::string payload = ThreeChunks().Bytes();
  ASSERT_OK_AND_ASSIGN(const Tensor read, ReadWhole(payload, TensorShape({2 * kChunk / 4 + 100})));
  EXPECT_EQ(read.bytes(), std::string(kChunk, '\0') + std::string(kChunk, 'x') + std::string(400, '\0'));
  EXPECT_EQ(Forge::Of(payload).Bytes(), payload);
}

// ---- Without looking at chunks --------------------------------------------------------------------------------------

struct IndexCase {
  const char* name;
  std::function<void(Forge*)> change;
  Code code;
  const char* says;
};

class IndexRejects : public ::testing::TestWithParam<IndexCase> {};

TEST_P(IndexRejects, WithCodeAndMessage) {
  Forge forge = ThreeChunks();
  GetParam().change(&forge);
  const std::string payload = forge.Bytes();
  EXPECT_THAT(PayloadReader::Open(payload, {}), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_THAT(PayloadReader::Open(MakeMemorySource("file", payload), 0, payload.size(), {}),
              StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

const IndexCase kIndexCases[] = {
    {"Empty", [](Forge* f) { f->chunks[2].size = 0; }, Code::kInvalidArgument, "chunk 2 has 0 bytes"},
    {"LargerThanDecoded", [](Forge* f) { f->chunks[2].size = 401; }, Code::kInvalidArgument,
     "chunk 2 has 401 bytes; it decodes to 400"},
    {"Huge", [](Forge* f) { f->chunks[0].size = 0xffffffff; }, Code::kInvalidArgument, "chunk 0 has 4294967295 bytes"},
    {"InTheHead", [](Forge* f) { f->chunks[0].offset = 63; }, Code::kInvalidArgument, "leave the space"},
    {"AtTheStart", [](Forge* f) { f->chunks[0].offset = 0; }, Code::kInvalidArgument, "leave the space"},
    {"IntoTheIndex", [](Forge* f) { ++f->chunks[2].offset; }, Code::kInvalidArgument, "chunk 2: 28 bytes at"},
    {"PastTheEnd", [](Forge* f) { f->chunks[2].offset = 1 << 30; }, Code::kInvalidArgument, "leave the space"},
    {"Wraps", [](Forge* f) { f->chunks[2].offset = kMost - 10; }, Code::kInvalidArgument, "leave the space"},
    {"RawNotAligned", [](Forge* f) { f->chunks[1].offset -= 32; }, Code::kInvalidArgument,
     "chunk 1 is raw and at 96, not a multiple of 64"},
    {"OverlapsTheNext", [](Forge* f) { f->chunks[0].size = 100; }, Code::kInvalidArgument,
     "chunks overlap: 100 bytes at 64 and 65536 at 128"},
    {"OverlapsUnsorted", [](Forge* f) { f->chunks[2].offset = f->chunks[1].offset + 1000; }, Code::kInvalidArgument,
     "chunks overlap: 65536 bytes at 128 and 28 at 1128"},
    {"SameStartOtherSize", [](Forge* f) { f->chunks[2].offset = f->chunks[0].offset, f->chunks[2].size = 27; },
     Code::kInvalidArgument, "chunks overlap: 27 bytes at 64 and 28 at 64"},
    {"SameRangeOtherDecodedSize", [](Forge* f) { f->chunks[2] = f->chunks[0]; }, Code::kInvalidArgument,
     "chunks overlap: 28 bytes at 64 and 28 at 64"},
    {"OneEntryLess", [](Forge* f) { f->chunks.pop_back(); }, Code::kDataLoss, "the payload's index is wrong"},
    {"NoEntry", [](Forge* f) { f->chunks.clear(), f->body.clear(); }, Code::kInvalidArgument,
     "a payload of 68 bytes; the index of its 3 chunks takes 48"},
    {"MoreElements", [](Forge* f) { f->header.num_elements += kChunk; }, Code::kDataLoss, "index is wrong"},
    {"ElementsNear2To63", [](Forge* f) { f->header.num_elements = (uint64_t{1} << 61) - 1; }, Code::kInvalidArgument,
     "the index of its 140737488355328 chunks"},
};
INSTANTIATE_TEST_SUITE_P(Entries, IndexRejects, ::testing::ValuesIn(kIndexCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PayloadRejects, WhatIsTooShort) {
  const std::string payload = ThreeChunks().Bytes();
  for (const size_t size : {0, 1, 63, 64, 67}) {
    EXPECT_THAT(PayloadReader::Open(absl::string_view(payload).substr(0, size), {}),
                StatusIs(Code::kInvalidArgument, HasSubstr("header and index alone take 68")));
  }
}

TEST(PayloadRejects, AWrongChecksumOfTheIndex) {
  const std::string payload = ThreeChunks().Bytes();
  for (size_t at = payload.size() - 52; at < payload.size(); ++at) {
    std::string changed = payload;
    changed[at] ^= 4;
    EXPECT_THAT(PayloadReader::Open(changed, {}), StatusIs(Code::kDataLoss, HasSubstr("index is wrong")));
  }
}

TEST(Payload, TakesGapsAndAnyOrderAndSharedChunks) {
  Forge forge;
  forge.header = Header(DType::kFloat32, 5 * kChunk / 4);
  forge.body = std::string(200, 'g');
  forge.Add(Zeros());
  const Forge::Chunk zeros = forge.chunks[0];
  forge.body += "a gap";
  forge.Add(std::string(kChunk, 'x'));
  const Forge::Chunk raw = forge.chunks[1];
  forge.body += "another";
  forge.chunks = {raw, zeros, zeros, raw, zeros};
  ASSERT_OK_AND_ASSIGN(const Tensor read, ReadWhole(forge.Bytes(), TensorShape({5 * kChunk / 4})));
  const std::string z(kChunk, '\0');
  const std::string x(kChunk, 'x');
  EXPECT_EQ(read.bytes(), absl::StrCat(x, z, z, x, z));
}

// ---- Limits ---------------------------------------------------------------------------------------------------------

// 1 GiB of zeros in chunks of 4 MiB that are all one.
Forge Bomb() {
  Forge forge;
  forge.header = Header(DType::kFloat32, 256 << 20);
  forge.header.log2_chunk_bytes = 22;
  forge.Add(Zeros(1 << 20));
  forge.chunks.resize(256, forge.chunks[0]);
  return forge;
}

TEST(PayloadRejects, ExpansionPastTheLimit) {
  Forge forge = Bomb();
  EXPECT_THAT(PayloadReader::Open(forge.Bytes(), {}),
              StatusIs(Code::kResourceExhausted, HasSubstr("decodes to 1073741824, past max_memory_beyond_input")));
  const uint64_t size = forge.Bytes().size();
  const uint64_t limit = 1000 * size + (64 << 20);
  // What is missing to the limit is a gap.
  forge.body.resize(forge.body.size() + ((1u << 30) - limit + 999) / 1000);
  EXPECT_OK(PayloadReader::Open(forge.Bytes(), {}));
  forge.body.pop_back();
  EXPECT_THAT(PayloadReader::Open(forge.Bytes(), {}), StatusIs(Code::kResourceExhausted));

  PayloadReadOptions options;
  options.limits.max_memory_beyond_input = 1 << 30;
  EXPECT_OK(PayloadReader::Open(Bomb().Bytes(), options));
  options.limits.max_memory_beyond_input = 0;
  options.limits.max_expansion = 1;
  EXPECT_OK(PayloadReader::Open(Forge{Header(DType::kInt8, 0), "", {}}.Bytes(), options));
  EXPECT_THAT(PayloadReader::Open(ThreeChunks().Bytes(), options), StatusIs(Code::kResourceExhausted));
  options.limits.max_memory_beyond_input = std::numeric_limits<int64_t>::max();
  options.limits.max_expansion = std::numeric_limits<int64_t>::max();
  EXPECT_OK(PayloadReader::Open(ThreeChunks().Bytes(), options));
}

// A slice of what is within the limits takes the memory of a chunk.
TEST(Payload, ABombWithinTheLimitTakesNoMemoryUntilItIsRead) {
  PayloadReadOptions options;
  options.limits.max_memory_beyond_input = int64_t{1} << 60;
  Forge forge = Bomb();
  forge.header.num_elements = uint64_t{1} << 40;  // 4 TiB
  forge.chunks.resize(1 << 20, forge.chunks[0]);
  const std::string payload = forge.Bytes();
  ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, options));
  std::string part(4000, 'x');
  ASSERT_OK(reader.ReadRange((uint64_t{1} << 40) - 1000, absl::MakeSpan(&part[0], part.size())));
  EXPECT_EQ(part, std::string(4000, '\0'));
  EXPECT_EQ(reader.chunks_decoded(), 1);
}

TEST(PayloadRejects, OneChunkAMillionTimes) {
  Forge forge;
  forge.header = Header(DType::kFloat32, uint64_t{1'000'000} * kChunk / 4);
  forge.Add(Zeros());
  forge.chunks.resize(1'000'000, forge.chunks[0]);
  EXPECT_THAT(PayloadReader::Open(forge.Bytes(), {}),
              StatusIs(Code::kResourceExhausted, HasSubstr("decodes to 65536000000")));
}

// ---- Chunks ---------------------------------------------------------------------------------------------------------

struct ChunkCase {
  const char* name;
  DType dtype;
  uint64_t elements;  // in one chunk
  std::string chunk;
  Code code;
  const char* says;
};

class ChunkRejects : public ::testing::TestWithParam<ChunkCase> {};

TEST_P(ChunkRejects, WithCodeAndMessage) {
  Forge forge;
  forge.header = Header(GetParam().dtype, GetParam().elements);
  forge.Add(GetParam().chunk);
  const std::string payload = forge.Bytes();
  EXPECT_THAT(StatusOfReading(payload), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_THAT(StatusOfReading(payload), StatusIs(GetParam().code, HasSubstr("chunk 0 (elements 0 to ")));
  // Verify tells the same.
  ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, {}));
  std::vector<absl::Status> damages;
  ASSERT_OK(reader.Verify([&](const absl::Status& damage) { damages.push_back(damage); }));
  ASSERT_EQ(damages.size(), 1);
  EXPECT_THAT(damages[0], StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}

const testing::ForgedPlane kZero = {1, std::string(1, '\0')};

const ChunkCase kChunkCases[] = {
    {"UnknownFlag", DType::kUint8, 100, CodedChunk(16, 100, {kZero}), Code::kUnimplemented, "flags"},
    {"BitsOfInts", DType::kUint8, 100, CodedChunk(4, 100, {{0, std::string(13, '\0')}}), Code::kInvalidArgument,
     "flags are 4"},
    {"DifferencesWithoutDelta", DType::kFloat32, 100, CodedChunk(8, 100, {kZero, kZero, kZero, kZero}),
     Code::kInvalidArgument, "it has differences, but the payload is no delta"},
    {"TooManyValues", DType::kUint8, 100, CodedChunk(0, 101, {kZero}), Code::kInvalidArgument, "101 values"},
    {"UnknownKind", DType::kUint8, 100, CodedChunk(0, 100, {{255, "x"}}), Code::kUnimplemented, "kind 255"},
    {"NotHuffmanCodes", DType::kUint8, 100, CodedChunk(0, 100, {{3, "x"}}), Code::kInvalidArgument, "Huffman codes"},
    {"BytesBehind", DType::kUint8, 100, CodedChunk(0, 100, {kZero}) + "x", Code::kInvalidArgument, "behind"},
    {"NoFrame", DType::kUint8, 100, CodedChunk(0, 100, {{2, "no frame"}}), Code::kInvalidArgument, "frame"},
    {"TooShort", DType::kUint8, 100, std::string(1, '\0'), Code::kInvalidArgument, "too few"},
    {"RawBoolOf2", DType::kBool, 3, {"\0\1\2", 3}, Code::kInvalidArgument, "a bool is 0 or 1"},
};
INSTANTIATE_TEST_SUITE_P(Chunks, ChunkRejects, ::testing::ValuesIn(kChunkCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PayloadRejects, AWrongChecksumBeforeAnythingElseOfAChunk) {
  Forge forge;
  forge.header = Header(DType::kUint8, 100);
  forge.Add("junk");
  forge.chunks[0].checksum = 17;
  EXPECT_THAT(StatusOfReading(forge.Bytes()), StatusIs(Code::kDataLoss, HasSubstr("the index has 0x11")));
}

// One bad chunk among many on several threads: it is named, and nothing is left behind (the leak checker's business).
TEST(PayloadRejects, OneBadChunkAmongMany) {
  for (const uint32_t bad : {0, 7, 63}) {
    Forge forge;
    forge.header = Header(DType::kFloat32, 64 * kChunk / 4);
    for (uint32_t i = 0; i < 64; ++i) forge.Add(i == bad || i > bad + 5 ? "junk" : Zeros());
    for (const int threads : {1, 2, 8}) {
      PayloadReadOptions options;
      options.num_threads = threads;
      EXPECT_THAT(StatusOfReading(forge.Bytes(), options),
                  StatusIs(Code::kInvalidArgument, HasSubstr(absl::StrCat("chunk ", bad, " (elements "))));
    }
  }
}

// ---- Strings --------------------------------------------------------------------------------------------------------

TEST(PayloadRejects, LengthsThatAreNotTheCharacters) {
  const auto lengths = [](std::vector<uint64_t> values) {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 8);
  };
  struct Case {
    std::vector<uint64_t> lengths;
    uint64_t characters;
    const char* says;  // null: right
  };
  const Case cases[] = {
      {{2, 0, 3}, 5, nullptr},
      {{2, 0, 2}, 5, "strings have 4 of the 5 characters"},
      {{2, 0, 4}, 5, "strings have more than the 5 characters"},
      {{kMost, 6, 0}, 5, "strings have more than the 5 characters"},
      {{uint64_t{1} << 63, uint64_t{1} << 63, 5}, 5, "strings have more than the 5 characters"},
      {{5, 0, kMost}, 5, "strings have more than the 5 characters"},
      {{0, 0, 0}, 1, "strings have 0 of the 1 characters"},
  };
  for (const Case& c : cases) {
    Forge forge;
    forge.header = Header(DType::kString, c.lengths.size(), c.characters);
    forge.Add(lengths(c.lengths));
    forge.Add(std::string(c.characters, 'c'));
    const std::string payload = forge.Bytes();
    ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, {}));
    std::vector<absl::Status> damages;
    ASSERT_OK(reader.Verify([&](const absl::Status& damage) { damages.push_back(damage); }));
    if (c.says == nullptr) {
      EXPECT_OK(StatusOfReading(payload));
      EXPECT_TRUE(damages.empty());
      continue;
    }
    EXPECT_THAT(StatusOfReading(payload), StatusIs(Code::kInvalidArgument, HasSubstr(c.says)));
    ASSERT_EQ(damages.size(), 1);
    EXPECT_THAT(damages[0], StatusIs(Code::kInvalidArgument, HasSubstr(c.says)));
  }
}

TEST(PayloadRejects, BadChunksOfStringsByName) {
  Forge forge;
  forge.header = Header(DType::kString, kChunk / 8 + 1, kChunk + 3);
  std::string lengths(kChunk, '\0');
  lengths[2] = 1;
  forge.Add(lengths);
  forge.Add(std::string("\3\0\0\0\0\0\0\0", 8));
  forge.Add(std::string(kChunk, 'c'));
  forge.Add("ccc");
  EXPECT_OK(StatusOfReading(forge.Bytes()));
  const char* const names[] = {"chunk 0 (lengths of strings 0 to 8191)", "chunk 1 (lengths of strings 8192 to 8192)",
                               "chunk 2 (characters 0 to 65535)", "chunk 3 (characters 65536 to 65538)"};
  for (size_t i = 0; i < 4; ++i) {
    Forge changed = forge;
    changed.chunks[i].checksum = 1;
    EXPECT_THAT(StatusOfReading(changed.Bytes()), StatusIs(Code::kDataLoss, HasSubstr(names[i])));
  }
}

}  // namespace
}  // namespace tensorcask
