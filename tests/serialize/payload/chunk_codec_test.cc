#include "tensorcask/serialize/payload/codec/chunk_codec.h"

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
#include "tensorcask/tests/serialize/payload/chunk_numbers.h"
#include "tensorcask/tests/support/counted_allocations.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "tensorcask/tests/support/test_data.h"

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
using tensorcask::testing::StatusIs;
using tensorcask::testing::TakenApart;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Lt;
using Code = absl::StatusCode;

constexpr NumberType kTypes[] = {{NumberKind::kFloat, 1},   {NumberKind::kFloat, 2},   {NumberKind::kFloat, 4},
                                 {NumberKind::kFloat, 8},   {NumberKind::kInteger, 1}, {NumberKind::kInteger, 2},
                                 {NumberKind::kInteger, 4}, {NumberKind::kInteger, 8}, {NumberKind::kBool, 1}};
constexpr PayloadLevel kLevels[] = {PayloadLevel::kStored, PayloadLevel::kDefault, PayloadLevel::kHigh};

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
    EXPECT_TRUE(IsResourceFailure(status)) << "no damage";
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
