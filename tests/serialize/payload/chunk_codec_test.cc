#include "tensorcask/serialize/payload/codec/chunk_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
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
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tests/fuzz/huffman_reference.h"
#include "tensorcask/tests/support/counted_allocations.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask::payload {
namespace {

using tensorcask::testing::StatusIs;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Lt;
using Code = absl::StatusCode;

constexpr NumberType kTypes[] = {{NumberKind::kFloat, 1},   {NumberKind::kFloat, 2},   {NumberKind::kFloat, 4},
                                 {NumberKind::kFloat, 8},   {NumberKind::kInteger, 1}, {NumberKind::kInteger, 2},
                                 {NumberKind::kInteger, 4}, {NumberKind::kInteger, 8}, {NumberKind::kBool, 1}};
constexpr PayloadLevel kLevels[] = {PayloadLevel::kStored, PayloadLevel::kDefault, PayloadLevel::kHigh};
constexpr NumberType kFloat32{NumberKind::kFloat, 4};

std::string NameOf(NumberType type) {
  const char* const kinds[] = {"float", "integer", "bool"};
  return absl::StrCat(kinds[static_cast<int>(type.kind)], 8 * type.bytes);
}

enum class Kind { kNoise, kConstant, kZeros, kSparse, kWeights, kSpecial, kCounting, kRepeated, kHalfNoise, kLast };

// NaNs with payloads, both zeros, infinities, denormals; of `bytes`-byte numbers the highest bytes of these.
uint64_t Special(uint64_t i) {
  constexpr uint64_t kBits[] = {0x7ff0000000000001, 0xfff8dead00000000, 0x8000000000000000, 0,
                                0x7ff0000000000000, 0xfff0000000000000, 0x0000000000000001, 0x800fffffffffffff,
                                0x3ff0000000000000, 0xffffffffffffffff, 0x7f80000100000000, 0xff80000000000000};
  return kBits[i % (sizeof(kBits) / sizeof(kBits[0]))];
}

uint64_t Weight(std::mt19937* random, int bytes) {
  const double value = std::normal_distribution<>(0, 0.02)(*random);
  if (bytes == 8) return LoadLittleEndian<uint64_t>(&value);
  const auto narrow = static_cast<float>(value);
  const auto bits = LoadLittleEndian<uint32_t>(&narrow);
  return bits >> (32 - 8 * bytes);
}

std::string Numbers(NumberType type, size_t count, Kind kind, uint32_t seed) {
  std::mt19937 random(seed);
  const auto any = [&random] { return uint64_t{random()} << 32 | random(); };
  std::vector<uint64_t> repeated(37);
  for (uint64_t& number : repeated) number = any();
  std::string out;
  out.reserve(count * static_cast<size_t>(type.bytes));
  for (size_t i = 0; i < count; ++i) {
    uint64_t number = 0;
    switch (kind) {
      case Kind::kNoise:
        number = any();
        break;
      case Kind::kConstant:
        number = 0x0102030405060701;
        break;
      case Kind::kZeros:
        break;
      case Kind::kSparse:
        number = random() % 10 == 0 ? any() | 1 : 0;
        break;
      case Kind::kWeights:
        number = Weight(&random, type.bytes);
        break;
      case Kind::kSpecial:
        number = Special(random()) >> (64 - 8 * type.bytes);
        break;
      case Kind::kCounting:
        number = i;
        break;
      case Kind::kRepeated:
        number = repeated[i % repeated.size()];
        break;
      case Kind::kHalfNoise:
        number = i < count / 2 ? any() : 7;
        break;
      case Kind::kLast:
        break;
    }
    if (type.kind == NumberKind::kBool) number &= 1;
    char bytes[8];
    StoreLittleEndian(number, bytes);
    out.append(bytes, static_cast<size_t>(type.bytes));
  }
  return out;
}

std::string EncodeOrFail(ChunkEncoder* encoder, const std::string& bytes, const std::string& base = "") {
  const absl::StatusOr<absl::string_view> coded = encoder->Encode(bytes, base.empty() ? nullptr : base.data());
  EXPECT_OK(coded);
  return coded.ok() ? std::string(*coded) : "";
}

// What `coded` (a raw chunk if it is empty) decodes to is `bytes`.
void ExpectDecodes(ChunkDecoder* decoder, const std::string& coded, const std::string& bytes,
                   const std::string& base = "") {
  for (const bool non_temporal : {false, true}) {
    std::vector<char> memory(bytes.size() + 64, '\xa5');
    char* const out = &memory[64 - reinterpret_cast<uintptr_t>(memory.data()) % 64];
    ASSERT_OK(decoder->Decode(coded.empty() ? bytes : coded, base.empty() ? nullptr : base.data(),
                              absl::MakeSpan(out, bytes.size()), non_temporal));
    EXPECT_EQ(absl::string_view(out, bytes.size()), bytes);
  }
}

struct RoundTripCase {
  NumberType type;
  PayloadLevel level;
};
std::vector<RoundTripCase> AllCases(bool with_bool) {
  std::vector<RoundTripCase> cases;
  for (const NumberType type : kTypes) {
    for (const PayloadLevel level : kLevels) {
      if (with_bool || type.kind != NumberKind::kBool) cases.push_back({type, level});
    }
  }
  return cases;
}
std::string NameOfCase(const ::testing::TestParamInfo<RoundTripCase>& info) {
  return absl::StrCat(NameOf(info.param.type), "_", PayloadLevelName(info.param.level));
}

class ChunkRoundTrip : public ::testing::TestWithParam<RoundTripCase> {};
TEST_P(ChunkRoundTrip, GivesBackEveryKindAndSize) {
  const auto [type, level] = GetParam();
  ChunkEncoder encoder(type, level);
  ChunkDecoder decoder(type);
  uint32_t seed = 0;
  for (int kind = 0; kind < static_cast<int>(Kind::kLast); ++kind) {
    for (const size_t count : {1, 2, 7, 8, 9, 63, 333, 5001, 40003}) {
      SCOPED_TRACE(absl::StrCat("kind ", kind, ", count ", count, ", seed ", ++seed));
      const std::string bytes = Numbers(type, count, static_cast<Kind>(kind), seed);
      const std::string coded = EncodeOrFail(&encoder, bytes);
      if (!coded.empty()) {
        EXPECT_THAT(coded.size(), Lt(bytes.size()));
        EXPECT_GE(bytes.size() - coded.size(), bytes.size() / 64);
      }
      EXPECT_TRUE(level != PayloadLevel::kStored || coded.empty());
      ExpectDecodes(&decoder, coded, bytes);
      // The same from fresh ones: nothing depends on what came before.
      if (count != 5001) continue;
      ChunkEncoder fresh(type, level);
      EXPECT_TRUE(EncodeOrFail(&fresh, bytes) == coded);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, ChunkRoundTrip, ::testing::ValuesIn(AllCases(/*with_bool=*/true)), NameOfCase);

TEST(ChunkCodec, GivesBackLargestAndOddChunks) {
  for (const NumberType type : {kFloat32, kCharacters, kStringLengths, NumberType{NumberKind::kBool, 1}}) {
    ChunkEncoder encoder(type, PayloadLevel::kDefault);
    ChunkDecoder decoder(type);
    const size_t most = (size_t{4} << 20) / static_cast<size_t>(type.bytes);
    for (const size_t count : {most, most - 1, most / 4 + 5}) {
      for (const Kind kind : {Kind::kHalfNoise, Kind::kSparse}) {
        SCOPED_TRACE(absl::StrCat(NameOf(type), ", kind ", static_cast<int>(kind), ", count ", count));
        const std::string bytes = Numbers(type, count, kind, 1);
        ExpectDecodes(&decoder, EncodeOrFail(&encoder, bytes), bytes);
      }
    }
  }
}

class ChunkDeltas : public ::testing::TestWithParam<RoundTripCase> {};
TEST_P(ChunkDeltas, GiveBackWhatWasStored) {
  const auto [type, level] = GetParam();
  ChunkEncoder encoder(type, level);
  ChunkDecoder decoder(type);
  for (uint32_t seed = 0; seed < 6; ++seed) {
    for (const Kind kind : {Kind::kNoise, Kind::kWeights, Kind::kSpecial, Kind::kSparse}) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", kind ", static_cast<int>(kind)));
      const size_t count = 1 + std::mt19937(seed)() % 10000;
      const std::string base = Numbers(type, count, kind, seed);
      std::string near = base;  // one number in three changes in its lowest byte
      for (size_t i = 0; i < near.size(); i += 3 * static_cast<size_t>(type.bytes)) ++near[i];
      for (const std::string& bytes : {base, near, Numbers(type, count, Kind::kNoise, seed + 100)}) {
        ExpectDecodes(&decoder, EncodeOrFail(&encoder, bytes, base), bytes, base);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, ChunkDeltas, ::testing::ValuesIn(AllCases(/*with_bool=*/false)), NameOfCase);

// Flags of a coded chunk; -1 of a raw one.
int Flags(const std::string& coded) { return coded.empty() ? -1 : static_cast<unsigned char>(coded[0]); }

TEST(ChunkEncoder, ChoosesAForm) {
  ChunkEncoder f4(kFloat32, PayloadLevel::kDefault);
  EXPECT_EQ(Flags(EncodeOrFail(&f4, Numbers(kFloat32, 50000, Kind::kWeights, 1))), 1) << "rotated";
  EXPECT_EQ(Flags(EncodeOrFail(&f4, Numbers(kFloat32, 50000, Kind::kNoise, 1))), -1) << "raw";
  EXPECT_EQ(Flags(EncodeOrFail(&f4, Numbers(kFloat32, 50000, Kind::kSparse, 1))), 2 | 1) << "zero bitmap, rotated";
  EXPECT_EQ(Flags(EncodeOrFail(&f4, Numbers(kFloat32, 50000, Kind::kZeros, 1))), 0) << "constant planes";

  // With the sign in it the lowest plane would not be constant any more.
  std::string coarse = Numbers(kFloat32, 50000, Kind::kWeights, 1);
  for (size_t i = 0; i < coarse.size(); i += 4) coarse[i] = coarse[i + 1] = 0;
  EXPECT_EQ(Flags(EncodeOrFail(&f4, coarse)), 0) << "not rotated";

  const std::string base = Numbers(kFloat32, 50000, Kind::kWeights, 1);
  std::string near = base;
  for (size_t i = 0; i < near.size(); i += 4) ++near[i];
  EXPECT_EQ(Flags(EncodeOrFail(&f4, near, base)), 8) << "differences";
  EXPECT_EQ(Flags(EncodeOrFail(&f4, base, base)), 8) << "differences that are all 0";
  EXPECT_EQ(Flags(EncodeOrFail(&f4, base, Numbers(kFloat32, 50000, Kind::kNoise, 9))), 1) << "better without";

  constexpr NumberType kBool{NumberKind::kBool, 1};
  ChunkEncoder bools(kBool, PayloadLevel::kDefault);
  std::string mask = Numbers(kBool, 50001, Kind::kNoise, 1);
  const std::string bits = EncodeOrFail(&bools, mask);
  EXPECT_EQ(Flags(bits), 4) << "bits";
  EXPECT_EQ(bits.size(), 8u + 4u + 6251u);
  mask[777] = 2;
  EXPECT_EQ(Flags(EncodeOrFail(&bools, mask)), -1) << "no bools: left to the decoder, which refuses them";
}

TEST(ChunkEncoder, LooksBeforeItEncodes) {
  for (const NumberType type : {kFloat32, NumberType{NumberKind::kFloat, 2}, NumberType{NumberKind::kInteger, 8}}) {
    ChunkEncoder encoder(type, PayloadLevel::kDefault);
    for (const Kind kind : {Kind::kNoise, Kind::kWeights, Kind::kSparse, Kind::kZeros, Kind::kHalfNoise}) {
      for (const size_t count : {1000, 100'000}) {
        SCOPED_TRACE(absl::StrCat(type.bytes, " bytes, kind ", static_cast<int>(kind), ", ", count));
        const std::string bytes = Numbers(type, count, kind, 1);
        const Compressibility estimate = encoder.EstimateCompressibility(bytes);
        const std::string coded = EncodeOrFail(&encoder, bytes);
        EXPECT_EQ(estimate == Compressibility::kNoise, coded.empty());
        if (estimate == Compressibility::kSmaller) {
          EXPECT_LT(coded.size() * 20, bytes.size() * 19);
        }
        if (kind != Kind::kNoise && kind != Kind::kHalfNoise) {
          EXPECT_EQ(estimate, Compressibility::kSmaller);
        }
      }
    }
  }
}

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
    // A search that is left out takes no buffer for its result. What a sample takes is there after small chunks.
    ChunkEncoder used(type, PayloadLevel::kHigh);
    EXPECT_TRUE(EncodeOrFail(&used, weights) == coded);
    EXPECT_EQ(testing::AllocationsOf([&] { used.Encode(weights, nullptr).IgnoreError(); }), 0);
  }
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

TEST(ChunkCodec, DifferencesWithoutABaseComeOutAsTheyAre) {
  const std::string base = Numbers(kFloat32, 1000, Kind::kWeights, 1);
  std::string near = base;
  for (size_t i = 0; i < near.size(); i += 4) near[i] = static_cast<char>(near[i] | 1);
  ChunkEncoder encoder(kFloat32, PayloadLevel::kDefault);
  const std::string coded = EncodeOrFail(&encoder, near, base);
  ASSERT_EQ(Flags(coded) & 8, 8);
  std::string out(near.size(), '\xa5');
  ASSERT_OK(ChunkDecoder(kFloat32).Decode(coded, nullptr, absl::MakeSpan(&out[0], out.size())));
  for (size_t i = 0; i < out.size(); i += 4) {
    const auto moved = LoadLittleEndian<uint32_t>(&near[i]) - LoadLittleEndian<uint32_t>(&base[i]);  // 0, or 1 outwards
    const bool negative = LoadLittleEndian<uint32_t>(&base[i]) >> 31 != 0;
    ASSERT_EQ(LoadLittleEndian<uint32_t>(&out[i]), moved == 0 ? 0u : negative ? 1u : 2u) << i;
  }
}

TEST(ChunkCodec, AllocatesNothingOnceItHasGrown) {
  for (const PayloadLevel level : {PayloadLevel::kDefault, PayloadLevel::kHigh}) {
    ChunkEncoder encoder(kFloat32, level);
    ChunkDecoder decoder(kFloat32);
    std::vector<char> out(40000);
    const std::string base = Numbers(kFloat32, 10000, Kind::kWeights, 1);
    std::vector<std::string> chunks;
    for (int kind = 0; kind < static_cast<int>(Kind::kLast); ++kind) {
      chunks.push_back(Numbers(kFloat32, 10000, static_cast<Kind>(kind), 2));
    }
    std::string near = base;
    for (size_t i = 0; i < near.size(); i += 8) ++near[i];
    chunks.push_back(near);
    const auto pass = [&] {
      for (const std::string& chunk : chunks) {
        const absl::StatusOr<absl::string_view> coded = encoder.Encode(chunk, base.data());
        ASSERT_OK(coded);
        ASSERT_OK(decoder.Decode(coded->empty() ? absl::string_view(chunk) : *coded, base.data(), absl::MakeSpan(out)));
      }
    };
    pass();
    EXPECT_EQ(testing::AllocationsOf([&] {
                for (const std::string& chunk : chunks) {
                  const absl::StatusOr<absl::string_view> coded = encoder.Encode(chunk, base.data());
                  decoder.Decode(coded->empty() ? absl::string_view(chunk) : *coded, base.data(), absl::MakeSpan(out))
                      .IgnoreError();
                }
              }),
              0);
  }
}

TEST(ChunkCodec, SaysSoWithoutMemory) {
  const std::string bytes = Numbers(kFloat32, 10000, Kind::kSparse, 1);
  ChunkEncoder encoder(kFloat32, PayloadLevel::kDefault);
  const std::string coded = EncodeOrFail(&encoder, bytes);
  ASSERT_NE(coded, "");
  ChunkEncoder poor(kFloat32, PayloadLevel::kDefault);
  ChunkDecoder decoder(kFloat32);
  std::vector<char> out(bytes.size());
  {
    const testing::FailingNothrowNew failing;
    EXPECT_THAT(poor.Encode(bytes, nullptr), StatusIs(Code::kResourceExhausted, HasSubstr("no memory")));
    const absl::Status status = decoder.Decode(coded, nullptr, absl::MakeSpan(out));
    EXPECT_THAT(status, StatusIs(Code::kResourceExhausted));
    EXPECT_TRUE(IsProcessError(status)) << "no damage";
  }
  EXPECT_EQ(EncodeOrFail(&poor, bytes), coded) << "a failure leaves nothing behind";
  ExpectDecodes(&decoder, coded, bytes);
}

TEST(ChunkCodec, KnowsTheNumbersOfEachDType) {
  const auto expect = [](DType dtype, NumberKind kind, int bytes) {
    EXPECT_EQ(NumbersOf(dtype).kind, kind) << DTypeName(dtype);
    EXPECT_EQ(NumbersOf(dtype).bytes, bytes) << DTypeName(dtype);
  };
  expect(DType::kFloat32, NumberKind::kFloat, 4);
  expect(DType::kBfloat16, NumberKind::kFloat, 2);
  expect(DType::kFloat8E4m3fn, NumberKind::kFloat, 1);
  expect(DType::kComplex64, NumberKind::kFloat, 4);
  expect(DType::kComplex128, NumberKind::kFloat, 8);
  expect(DType::kInt64, NumberKind::kInteger, 8);
  expect(DType::kQint16, NumberKind::kInteger, 2);
  expect(DType::kInt4, NumberKind::kInteger, 1);
  expect(DType::kBool, NumberKind::kBool, 1);
}

// The planes of a coded chunk, taken apart as FORMAT.md section 3 tells.
struct TakenApart {
  int kind;
  std::string bytes;
};
std::vector<TakenApart> Planes(const std::string& coded, int count) {
  std::vector<TakenApart> planes;
  size_t at = 8 + 4 * static_cast<size_t>(count);
  for (int i = 0; i < count; ++i) {
    const auto entry = LoadLittleEndian<uint32_t>(coded.data() + 8 + size_t{4} * i);
    planes.push_back({static_cast<int>(entry >> 24), coded.substr(at, entry & 0xffffff)});
    at += entry & 0xffffff;
  }
  EXPECT_EQ(at, coded.size());
  return planes;
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

// The planes of a chunk of float32 numbers, rotated, by the book.
std::vector<std::string> RotatedPlanes(const std::string& bytes) {
  std::vector<std::string> planes(4);
  for (size_t i = 0; i < bytes.size(); i += 4) {
    const auto bits = LoadLittleEndian<uint32_t>(&bytes[i]);
    const uint32_t rotated = bits << 1 | bits >> 31;
    for (int p = 0; p < 4; ++p) planes[p] += static_cast<char>(rotated >> (8 * p));
  }
  return planes;
}

TEST(ChunkCodec, PlanesAreAsTheFormatSays) {
  const std::string bytes = Numbers(kFloat32, 50000, Kind::kWeights, 1);
  const std::vector<std::string> expected = RotatedPlanes(bytes);
  for (const PayloadLevel level : {PayloadLevel::kDefault, PayloadLevel::kHigh}) {
    ChunkEncoder encoder(kFloat32, level);
    const std::string coded = EncodeOrFail(&encoder, bytes);
    ASSERT_EQ(coded.substr(0, 8), std::string("\1\0\0\0\x50\xc3\0\0", 8)) << "rotated, 50000 values";
    const std::vector<TakenApart> planes = Planes(coded, 4);
    for (int p = 0; p < 3; ++p) {
      EXPECT_EQ(planes[p].kind, 0) << "noise is raw";
      EXPECT_TRUE(planes[p].bytes == expected[p]) << p;
    }
    ASSERT_EQ(planes[3].kind, 3) << "exponents are Huffman codes";
    const std::optional<std::string> by_the_book = testing::DecodeHuffmanByTheBook(planes[3].bytes, expected[3].size());
    EXPECT_TRUE(by_the_book.has_value() && *by_the_book == expected[3]);
  }
}

TEST(ChunkCodec, AnyZstdReadsFrames) {
  if (std::system("zstd --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no zstd command";
  const std::string bytes = Numbers(kFloat32, 5000, Kind::kWeights, 1);  // too few for tables of their own
  const std::vector<std::string> expected = RotatedPlanes(bytes);
  for (const PayloadLevel level : {PayloadLevel::kDefault, PayloadLevel::kHigh}) {
    ChunkEncoder encoder(kFloat32, level);
    const std::vector<TakenApart> planes = Planes(EncodeOrFail(&encoder, bytes), 4);
    ASSERT_EQ(planes[3].kind, 2) << "exponents are a frame";
    const testing::TempFolder folder;
    const std::string frame = folder.Write("plane.zst", planes[3].bytes);
    ASSERT_EQ(std::system(absl::StrCat("zstd -q -d '", frame, "' -o '", folder.Path("plane"), "'").c_str()), 0);
    EXPECT_TRUE(testing::ReadFileOrFail(folder.Path("plane")) == expected[3]);
  }
}

struct RealFile {
  const char* name;
  NumberType type;
  double ratio;        // what is reached, less a little
  double high = 1.00;  // the size at kHigh over that at kDefault: what is reached, and a little more
};
TEST(ChunkCodec, MakesRealTensorsSmaller) {
  const std::string folder = testing::TestDataFolder("weights");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  const RealFile files[] = {{"cnn_dicenet_s175_city.f4.bin", kFloat32, 1.15},
                            {"lstm_dtln_norm_500h.f4.bin", kFloat32, 1.19},
                            {"charrnn_textgenrnn_weights.f4.bin", kFloat32, 1.195},
                            {"silero_vad_16k.f4.bin", kFloat32, 1.186, 0.92},
                            {"rl_mlp_policies.f4.bin", kFloat32, 1.18, 0.94},
                            {"r16_lstm_dtln_norm_500h.bf16.bin", {NumberKind::kFloat, 2}, 1.475},
                            {"fp16_waifu2x_cunet_a.f2.bin", {NumberKind::kFloat, 2}, 1.16},
                            {"adam_exp_avg.f4.bin", kFloat32, 2.1, 0.985},
                            {"adam_exp_avg_sq.f4.bin", kFloat32, 2.07, 0.945},
                            {"act_conv_rfb.f4.bin", kFloat32, 1.28, 0.985},
                            {"act_relu_rfb.f4.bin", kFloat32, 1.41, 0.985},
                            {"tokens_csm_voices.i8.bin", {NumberKind::kInteger, 8}, 7.2, 0.96},
                            {"tokens_docs.i4.bin", {NumberKind::kInteger, 4}, 9, 0.96},
                            {"mask_csm_voices.u1.bin", {NumberKind::kBool, 1}, 250},
                            {"strings_words_docs.u1.bin", kCharacters, 7, 0.95}};
  for (const RealFile& file : files) {
    SCOPED_TRACE(file.name);
    const std::string bytes = testing::ReadFileOrFail(folder + "/" + file.name);
    double sizes[2] = {};
    for (const bool high : {false, true}) {
      ChunkEncoder encoder(file.type, high ? PayloadLevel::kHigh : PayloadLevel::kDefault);
      ChunkDecoder decoder(file.type);
      for (size_t at = 0; at < bytes.size(); at += size_t{1} << 20) {
        const std::string chunk = bytes.substr(at, size_t{1} << 20);
        const std::string coded = EncodeOrFail(&encoder, chunk);
        sizes[high ? 1 : 0] += static_cast<double>(coded.empty() ? chunk.size() : coded.size());
        ExpectDecodes(&decoder, coded, chunk);
      }
    }
    EXPECT_THAT(static_cast<double>(bytes.size()) / sizes[0], Gt(file.ratio));
    EXPECT_THAT(sizes[1] / sizes[0], Le(file.high));
  }
}

// Which of two forms is smaller depends on what telling the zeros apart takes: here a bit a number without the base,
// and a seventh of one with it.
TEST(ChunkEncoder, CountsWhatZerosApartTake) {
  std::mt19937 random(1);
  std::string numbers(4 * 50000, '\0');
  for (size_t i = 0; i < numbers.size(); i += 4) {
    if (random() % 2 == 0) numbers.replace(i, 4, std::string("\0\0\x80\x3f", 4));  // 1.0
  }
  std::string base = numbers;
  for (size_t i = 0; i < base.size(); i += 4) {
    if (random() % 50 == 0) ++base[i];
  }
  ChunkEncoder encoder(kFloat32, PayloadLevel::kDefault);
  EXPECT_EQ(Flags(EncodeOrFail(&encoder, numbers)) & 2, 2) << "zeros apart";
  EXPECT_EQ(Flags(EncodeOrFail(&encoder, numbers, base)) & 8, 8) << "differences";
}

}  // namespace
}  // namespace tensorcask::payload
