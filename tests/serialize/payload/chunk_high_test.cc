// What the level `high` chooses: which planes it searches, and which form a chunk gets.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/payload/codec/chunk_codec.h"
#include "tensorcask/serialize/payload/codec/repetitions.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tests/serialize/payload/chunk_numbers.h"
#include "tensorcask/tests/support/counted_allocations.h"

namespace tensorcask::payload {
namespace {

using tensorcask::testing::EncodeOrFail;
using tensorcask::testing::ExpectDecodes;
using tensorcask::testing::Flags;
using tensorcask::testing::kFloat32;
using tensorcask::testing::Kind;
using tensorcask::testing::NameOf;
using tensorcask::testing::Numbers;
using tensorcask::testing::Planes;
using tensorcask::testing::TakenApart;
using ::testing::Gt;
using ::testing::Le;
using ::testing::Lt;

// `count` numbers of noise, of which the second half is the first, changed by `change(bytes of a number)`.
template <typename Change>
std::string NoiseTwice(NumberType type, size_t count, Change&& change) {
  const std::string half = Numbers(type, count / 2, Kind::kNoise, 5);
  std::string changed = half;
  for (size_t i = 0; i < half.size(); i += static_cast<size_t>(type.bytes)) change(&changed[i]);
  return half + changed;
}

// The seam: an encoder that recognizes noise by its sample needs no buffers.
TEST(ChunkEncoder, HighRecognizesNoiseByItsSample) {
  for (const NumberType type : {kFloat32, NumberType{NumberKind::kFloat, 2}, NumberType{NumberKind::kInteger, 4}}) {
    SCOPED_TRACE(NameOf(type));
    const std::string noise = Numbers(type, 262'144, Kind::kNoise, 1);
    const std::string twice = NoiseTwice(type, 262'144, [](char*) {});
    for (const PayloadLevel level : {PayloadLevel::kDefault, PayloadLevel::kHigh}) {
      ChunkEncoder encoder(type, level);
      EXPECT_EQ(encoder.EstimateCompressibility(noise), Compressibility::kNoise);
      EXPECT_EQ(testing::AllocationsOf([&] { encoder.Encode(noise, nullptr).IgnoreError(); }), 0);
      EXPECT_EQ(EncodeOrFail(&encoder, noise), "");
    }
    ChunkEncoder fast(type, PayloadLevel::kDefault);
    EXPECT_EQ(fast.EstimateCompressibility(twice), Compressibility::kNoise);
    EXPECT_EQ(EncodeOrFail(&fast, twice), "");
    ChunkEncoder high(type, PayloadLevel::kHigh);
    EXPECT_EQ(high.EstimateCompressibility(twice), Compressibility::kUnknown) << "but half of it repeats";
    const size_t size = EncodeOrFail(&high, twice).size();
    EXPECT_TRUE(size > 0 && size < twice.size() * 51 / 100) << size;
  }
}

// A search would find something here and there, but less than Huffman codes of several tables save.
TEST(ChunkEncoder, HighDoesNotSearchWhereNothingRepeats) {
  for (const NumberType type : {kFloat32, NumberType{NumberKind::kFloat, 2}}) {
    SCOPED_TRACE(NameOf(type));
    ChunkEncoder fast(type, PayloadLevel::kDefault);
    ChunkEncoder high(type, PayloadLevel::kHigh);
    const std::string weights = Numbers(type, 262'144, Kind::kWeights, 1);
    const std::string coded = EncodeOrFail(&fast, weights);
    EXPECT_TRUE(EncodeOrFail(&high, weights) == coded);
  }
}

// `count` numbers that differ in one byte, the second highest if there are two. It has `values` values, equally often.
std::string FewValues(NumberType type, size_t count, uint32_t values, uint32_t seed) {
  std::mt19937 random(seed);
  std::string out = Numbers(type, count, Kind::kConstant, seed);
  const auto step = static_cast<size_t>(type.bytes);
  const size_t place = type.bytes == 1 ? 0 : step - 2;
  for (size_t i = place; i < out.size(); i += step) out[i] = static_cast<char>('0' + random() % values);
  return out;
}

TEST(ChunkEncoder, HighComparesLongerRunsOfFewerBits) {
  // 16 bytes of five values have 37 bits, 32 bytes have 74: enough to tell repetitions from chance.
  constexpr NumberType kFloat8{NumberKind::kFloat, 1};
  const std::string half = FewValues(kFloat8, 131'072, 5, 1);
  ChunkEncoder fast(kFloat8, PayloadLevel::kDefault);
  ChunkEncoder high(kFloat8, PayloadLevel::kHigh);
  EXPECT_THAT(EncodeOrFail(&high, half + half).size(), Lt(EncodeOrFail(&fast, half + half).size() * 65 / 100));
}

// The seam: a search of a whole plane takes a buffer for its result, which the encoder keeps.
TEST(ChunkEncoder, HighDoesNotSearchWhereRunsAreEqualByChance) {
  constexpr NumberType kFloat64{NumberKind::kFloat, 8};
  ChunkEncoder high(kFloat64, PayloadLevel::kHigh);
  const auto allocations_of = [&high](const std::string& numbers) {
    return testing::AllocationsOf([&] { high.Encode(numbers, nullptr).IgnoreError(); });
  };
  // 32 bytes have four numbers of 40 values: 21 bits. Some runs of a large chunk are equal.
  const std::string by_chance = FewValues(kFloat64, 524'288, 40, 1);
  RepetitionFinder finder;
  ASSERT_GT(finder.Share(by_chance.data(), 524'288, {8, 32, TopBitsWithoutSign(8)}), 1.0 / 32);
  // Of 200 values hardly any are. After these the encoder has the buffers that it needs without a search.
  allocations_of(FewValues(kFloat64, 524'288, 200, 2));
  EXPECT_EQ(allocations_of(by_chance), 0);
  EXPECT_GT(allocations_of(NoiseTwice(kFloat64, 524'288, [](char*) {})), 0) << "searched";
}

TEST(ChunkEncoder, HighFindsDistantRepetitions) {
  // As target networks, which follow their model: low bits differ.
  const auto move_a_little = [](char* number) { number[0] = static_cast<char>(number[0] ^ 0x5a); };
  const std::string near = NoiseTwice(kFloat32, 262'144, move_a_little);
  ChunkEncoder high(kFloat32, PayloadLevel::kHigh);
  ChunkDecoder decoder(kFloat32);
  const std::string coded = EncodeOrFail(&high, near);
  EXPECT_THAT(coded.size(), Lt(near.size() * 65 / 100)) << "two of four planes, or three";
  ExpectDecodes(&decoder, coded, near);
  // As rows of a Fourier transform: the sign differs. In the lowest plane it would hide that the rest repeats.
  uint32_t calls = 0;
  const auto change_sign = [&calls](char* number) {
    if (++calls * 2654435761u >> 31 != 0) number[3] = static_cast<char>(number[3] ^ 0x80);
  };
  std::string weights = Numbers(kFloat32, 131'072, Kind::kWeights, 1);
  std::string other_sign = weights;
  for (size_t i = 0; i < other_sign.size(); i += 4) change_sign(&other_sign[i]);
  const std::string signs = EncodeOrFail(&high, weights + other_sign);
  EXPECT_EQ(Flags(signs), 0) << "not rotated";
  EXPECT_THAT(signs.size(), Lt(weights.size() * 2 * 55 / 100));
  const std::string same_sign = EncodeOrFail(&high, weights + weights);
  EXPECT_EQ(Flags(same_sign), 1) << "rotated";
  ExpectDecodes(&decoder, signs, weights + other_sign);
}

TEST(ChunkEncoder, HighChoosesAFormByBytes) {
  ChunkEncoder fast(kFloat32, PayloadLevel::kDefault);
  ChunkEncoder high(kFloat32, PayloadLevel::kHigh);
  std::mt19937 random(1);
  // kDefault tells zeros apart from two in five on.
  std::string sparse = Numbers(kFloat32, 262'144, Kind::kWeights, 1);
  for (size_t i = 0; i < sparse.size(); i += 4) {
    if (random() % 5 == 0) sparse.replace(i, 4, 4, '\0');
  }
  EXPECT_EQ(Flags(EncodeOrFail(&fast, sparse)), 1);
  EXPECT_EQ(Flags(EncodeOrFail(&high, sparse)) & 2, 2);
  EXPECT_THAT(EncodeOrFail(&high, sparse).size(), Lt(EncodeOrFail(&fast, sparse).size() * 97 / 100));
  // One in a thousand does not pay.
  std::string dense = Numbers(kFloat32, 262'144, Kind::kWeights, 1);
  for (size_t i = 0; i < dense.size(); i += 4000) dense.replace(i, 4, 4, '\0');
  EXPECT_EQ(Flags(EncodeOrFail(&high, dense)), 1);
}

// Frequencies of bytes would tell the spaces apart, and tear the words.
TEST(ChunkEncoder, HighChoosesAFormByTheChunkWhereRepetitionsCount) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 500'000) {
    const auto word = static_cast<uint32_t>(random() % 3000);
    text += Numbers(kCharacters, 3 + word % 7, Kind::kNoise, word) + std::string(1 + word % 3, '\0');
  }
  ChunkEncoder fast(kCharacters, PayloadLevel::kDefault);
  ChunkEncoder high(kCharacters, PayloadLevel::kHigh);
  const std::string coded = EncodeOrFail(&high, text);
  EXPECT_EQ(Flags(coded), 0);
  EXPECT_THAT(coded.size(), Le(EncodeOrFail(&fast, text).size()));
}

TEST(ChunkEncoder, HighTakesLessForCompressible) {
  // A plane of 224 byte values has 7.81 bits a byte: noise to kDefault, and 1.8 % to save.
  constexpr NumberType kInt32{NumberKind::kInteger, 4};
  std::mt19937 random(1);
  std::string numbers = Numbers(kInt32, 262'144, Kind::kNoise, 1);
  for (size_t i = 0; i < numbers.size(); i += 4) {
    numbers[i + 2] = static_cast<char>(random() % 224);
    numbers[i + 3] = 'x';
  }
  ChunkEncoder fast(kInt32, PayloadLevel::kDefault);
  ChunkEncoder high(kInt32, PayloadLevel::kHigh);
  EXPECT_THAT(EncodeOrFail(&fast, numbers).size(), Gt(size_t{3} * 262'144));
  EXPECT_THAT(EncodeOrFail(&high, numbers).size(), Lt(size_t{3} * 262'144 - 4000));
}

TEST(ChunkEncoder, HighHasHuffmanCodesForIntegersToo) {
  constexpr NumberType kInt32{NumberKind::kInteger, 4};
  std::mt19937 random(1);
  std::geometric_distribution<int32_t> ranks(0.002);
  std::string tokens;
  char bytes[4];
  for (int i = 0; i < 262'144; ++i) {
    StoreLittleEndian(ranks(random), bytes);
    tokens.append(bytes, 4);
  }
  ChunkEncoder fast(kInt32, PayloadLevel::kDefault);
  ChunkEncoder high(kInt32, PayloadLevel::kHigh);
  EXPECT_THAT(EncodeOrFail(&high, tokens).size(), Lt(EncodeOrFail(&fast, tokens).size() * 95 / 100));
}

TEST(ChunkEncoder, HighIsNoLargerThanDefault) {
  for (const NumberType type : {kFloat32, NumberType{NumberKind::kFloat, 2}, NumberType{NumberKind::kInteger, 4}}) {
    for (const Kind kind : {Kind::kWeights, Kind::kSparse, Kind::kSpecial, Kind::kCounting, Kind::kRepeated}) {
      SCOPED_TRACE(absl::StrCat(NameOf(type), ", kind ", static_cast<int>(kind)));
      const std::string bytes = Numbers(type, 30000, kind, 3);
      ChunkEncoder fast(type, PayloadLevel::kDefault);
      ChunkEncoder high(type, PayloadLevel::kHigh);
      const size_t plain = EncodeOrFail(&fast, bytes).size();
      const size_t small = EncodeOrFail(&high, bytes).size();
      EXPECT_THAT(small, Gt(0u));
      EXPECT_TRUE(plain == 0 || small <= plain) << plain << " and " << small;
    }
  }
}

// Huffman codes are decoded faster than frames, so a little is no reason to replace them.
TEST(ChunkEncoder, HighKeepsHuffmanCodesThatAreNearlyAsSmall) {
  const std::string weights = Numbers(kFloat32, 65'536, Kind::kWeights, 1);
  ChunkEncoder fast(kFloat32, PayloadLevel::kDefault);
  ChunkEncoder high(kFloat32, PayloadLevel::kHigh);
  int frames = 0;
  int kept = 0;
  for (size_t permille = 100; permille < 300; permille += 4) {
    SCOPED_TRACE(permille);
    std::string repeated = weights;  // its end is its beginning
    const size_t size = 4 * (65'536 * permille / 1000);
    repeated.replace(repeated.size() - size, size, weights, 0, size);
    const std::string before = EncodeOrFail(&fast, repeated);
    const std::string after = EncodeOrFail(&high, repeated);
    ASSERT_EQ(Flags(before), 1);
    ASSERT_EQ(Flags(after), 1);
    const TakenApart codes = Planes(before, 4)[3];
    const TakenApart other = Planes(after, 4)[3];
    ASSERT_EQ(codes.kind, 3);
    if (other.kind == 3) {
      ++kept;
      EXPECT_TRUE(other.bytes == codes.bytes);
    } else {
      ++frames;
      EXPECT_THAT(other.bytes.size(), Lt(codes.bytes.size() - codes.bytes.size() / 128));
    }
  }
  EXPECT_THAT(frames, Gt(0));
  EXPECT_THAT(kept, Gt(0));
}

}  // namespace
}  // namespace tensorcask::payload
