#include "tensorcask/serialize/payload/codec/plane_codec.h"

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::payload {
namespace {

using tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Lt;
using Code = absl::StatusCode;

constexpr PlaneEffort kEfforts[] = {PlaneEffort::kLiterals, PlaneEffort::kDefault, PlaneEffort::kHigh};

std::string Noise(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Bytes like exponents: about 2.6 bits each.
std::string Exponents(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<> normal(120, 1.5);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(normal(random));
  return bytes;
}

std::string Repeated(size_t size, uint32_t seed) {
  const std::string word = Noise(61, seed);
  std::string bytes;
  while (bytes.size() < size) bytes += word;
  return bytes.substr(0, size);
}

struct Coded {
  PlaneKind kind;
  std::string bytes;
};
Coded Encode(PlaneEncoder* encoder, absl::string_view plane, PlaneEffort effort) {
  std::string out(plane.size(), '\xa5');
  const absl::StatusOr<CodedPlane> coded = encoder->Encode(plane, effort, out.data());
  EXPECT_OK(coded);
  if (!coded.ok()) return {};
  if (coded->kind == PlaneKind::kRaw) {
    EXPECT_EQ(coded->size, plane.size());
    return {coded->kind, std::string(plane)};
  }
  return {coded->kind, out.substr(0, coded->size)};
}

absl::Status Decode(absl::string_view frame, size_t size) {
  std::string out(size, '\0');
  return PlaneDecoder().DecodeFrame(frame, absl::MakeSpan(&out[0], size));
}

TEST(PlaneCodec, GivesPlanesBack) {
  PlaneEncoder encoder;
  PlaneDecoder decoder;
  for (const PlaneEffort effort : kEfforts) {
    for (const size_t size : {2, 3, 40, 255, 256, 300, 65535, 65536, 65792, 200001, 1 << 20}) {
      for (const auto& plane : {Noise(size, 1), Exponents(size, 2), Repeated(size, 3), std::string(size, 'x')}) {
        SCOPED_TRACE(absl::StrCat("effort ", static_cast<int>(effort), ", ", size, " bytes from ", int{plane[0]}));
        const Coded coded = Encode(&encoder, plane, effort);
        if (coded.kind != PlaneKind::kRaw) {
          EXPECT_LE(coded.bytes.size(), plane.size() - plane.size() / 64);
        }
        if (coded.kind == PlaneKind::kConstant) {
          EXPECT_EQ(std::string(size, coded.bytes.at(0)), plane);
          EXPECT_EQ(coded.bytes.size(), 1u);
        } else if (coded.kind != PlaneKind::kRaw) {
          std::string out(size, '\0');
          EXPECT_OK(decoder.Decode(coded.kind, coded.bytes, absl::MakeSpan(&out[0], size)));
          EXPECT_TRUE(out == plane);
        }
      }
    }
  }
}

TEST(PlaneCodec, ChoosesAKind) {
  PlaneEncoder encoder;
  for (const PlaneEffort effort : kEfforts) {
    EXPECT_EQ(Encode(&encoder, "", effort).kind, PlaneKind::kRaw);
    EXPECT_EQ(Encode(&encoder, "x", effort).kind, PlaneKind::kRaw);
    EXPECT_EQ(Encode(&encoder, "xx", effort).kind, PlaneKind::kConstant);
    EXPECT_EQ(Encode(&encoder, "xy", effort).kind, PlaneKind::kRaw);
    EXPECT_EQ(Encode(&encoder, Noise(100000, 1), effort).kind, PlaneKind::kRaw);
    EXPECT_EQ(Encode(&encoder, Exponents(100000, 1), effort).kind,
              effort == PlaneEffort::kLiterals ? PlaneKind::kHuffman : PlaneKind::kZstd);
    EXPECT_EQ(Encode(&encoder, Exponents(20000, 1), effort).kind, PlaneKind::kZstd)
        << "too few for tables of their own";
    EXPECT_EQ(Encode(&encoder, Exponents(60000, 1) + std::string(40000, 'x'), effort).kind, PlaneKind::kZstd)
        << "a run";
    EXPECT_EQ(Encode(&encoder, std::string(99999, '\0') + '\1', effort).kind, PlaneKind::kZstd);
  }
  // Repetitions are for the other efforts.
  EXPECT_EQ(Encode(&encoder, Noise(50000, 2) + Noise(50000, 2), PlaneEffort::kDefault).kind, PlaneKind::kZstd);
  // A Huffman code for 2.6 bits, and little else.
  EXPECT_THAT(Encode(&encoder, Exponents(100000, 1), PlaneEffort::kLiterals).bytes.size(), Lt(100000u * 28 / 80));
}

// One kind or the other: whichever is clearly smaller.
TEST(PlaneCodec, FramesOnlyWhereBytesRepeat) {
  PlaneEncoder encoder;
  const auto encode = [&encoder](const std::string& plane) { return Encode(&encoder, plane, PlaneEffort::kLiterals); };
  std::string periodic;
  for (int i = 0; i < 100000; ++i) periodic += i % 2 == 0 ? 'a' : 'b';
  EXPECT_EQ(encode(periodic).kind, PlaneKind::kZstd);
  EXPECT_THAT(encode(periodic).bytes.size(), Lt(500u));
  std::string ternary;  // codes of 1, 2 and 2 bits
  std::mt19937 random(1);
  for (int i = 0; i < 262144; ++i) ternary += "abc"[random() % 3];
  EXPECT_THAT(encode(ternary).bytes.size(), Lt(262144u * 175 / 800));
  // Rows of 16,384 bytes that begin with noise, and go on with one byte.
  std::string rows;
  for (uint32_t i = 0; i < 16; ++i) rows += Noise(1024, i) + std::string(size_t{15} * 1024, 'x');
  EXPECT_THAT(encode(rows).bytes.size(), Lt(20000u));
  // Layers of three kinds, and a little that is one byte.
  std::string layers;
  for (uint32_t i = 0; i < 100; ++i) {
    std::string layer = Exponents(8192, i);
    for (char& byte : layer) byte = static_cast<char>(byte + 30 * static_cast<int>(i % 3));
    layers += i % 16 == 0 ? std::string(8192, 'x') : layer;
  }
  EXPECT_EQ(encode(layers).kind, PlaneKind::kHuffman);
  EXPECT_THAT(encode(layers).bytes.size(), Lt(layers.size() * 28 / 80));
}

// Bytes as in activations: neighbours are similar, and short sequences recur.
std::string Recurring(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes = Exponents(1000, seed);
  while (bytes.size() < size) bytes += bytes.substr(bytes.size() - 200 - random() % 700, 8 + random() % 24);
  return bytes.substr(0, size);
}

TEST(PlaneCodec, EstimatesWhetherASearchPays) {
  PlaneEncoder encoder;
  const auto pays = [&encoder](const std::string& plane) {
    const absl::StatusOr<bool> pays = encoder.SearchPays(plane);
    EXPECT_OK(pays);
    return pays.ok() && *pays;
  };
  for (const size_t size : {16000, 20000, 40000, 262144}) {
    SCOPED_TRACE(size);
    EXPECT_FALSE(pays(Noise(size, 1)));
    EXPECT_FALSE(pays(Exponents(size, 1)));
    EXPECT_TRUE(pays(Recurring(size, 1)));
    // What the estimate promises.
    EXPECT_THAT(Encode(&encoder, Recurring(size, 1), PlaneEffort::kHigh).bytes.size(),
                Lt(Encode(&encoder, Recurring(size, 1), PlaneEffort::kLiterals).bytes.size()));
  }
  for (size_t at = 0; at < 262144; at += 8192) {
    EXPECT_FALSE(pays(Exponents(262144, 1).replace(at, 8192, Recurring(8192, 2)))) << "a short stretch at " << at;
  }
  EXPECT_FALSE(pays(Noise(131072, 1) + Noise(131072, 1))) << "farther apart than a piece is long";
  EXPECT_TRUE(pays("abc")) << "nothing to be saved by an estimate";
}

// Not only where bytes repeat in the literal sense of kLiterals: far apart, and in noise.
TEST(PlaneCodec, HighFindsDistantRepetitions) {
  PlaneEncoder encoder;
  const std::string far = Noise(400'000, 1) + Noise(400'000, 1);
  EXPECT_THAT(Encode(&encoder, far, PlaneEffort::kHigh).bytes.size(), Lt(402'000u));
  // 24 bytes out of 48 occurred before, at places a search with growing steps passes.
  std::string mixed = Noise(100'000, 2);
  std::mt19937 random(3);
  for (uint32_t i = 0; i < 3000; ++i) mixed += mixed.substr(random() % 100'000, 24) + Noise(24, 10 + i);
  EXPECT_THAT(Encode(&encoder, mixed, PlaneEffort::kHigh).bytes.size(), Lt(mixed.size() * 82 / 100));
}

TEST(PlaneCodec, FramesAreAsTheFormatSays) {
  PlaneEncoder encoder;
  for (const PlaneEffort effort : kEfforts) {
    const size_t size = effort == PlaneEffort::kLiterals ? 30001 : 300001;
    const std::string frame = Encode(&encoder, Exponents(size, 1), effort).bytes;
    EXPECT_EQ(ZSTD_getFrameContentSize(frame.data(), frame.size()), size);
    EXPECT_EQ(ZSTD_findFrameCompressedSize(frame.data(), frame.size()), frame.size());
    EXPECT_EQ(frame.at(4) & 0x07, 0) << "a checksum or a dictionary";
  }
}

TEST(PlaneCodec, BytesDoNotDependOnPlanesBefore) {
  PlaneEncoder used;
  std::vector<PlaneEncoder> others;  // none leaves its contexts to another
  PlaneDecoder decoder;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const size_t size = 2 + random() % (seed % 3 == 0 ? 300'000 : 40'000);
    std::string plane = seed % 2 == 0 ? Exponents(size, seed) : Repeated(size, seed) + Exponents(size, seed);
    for (const PlaneEffort effort : kEfforts) {
      PlaneEncoder& fresh = others.emplace_back();
      const Coded a = Encode(&used, plane, effort);
      const Coded b = Encode(&fresh, plane, effort);
      EXPECT_EQ(a.kind, b.kind);
      EXPECT_TRUE(a.bytes == b.bytes);
      // A failure leaves nothing behind.
      std::string out(plane.size(), '\0');
      if (a.kind == PlaneKind::kRaw || a.kind == PlaneKind::kConstant) continue;
      EXPECT_FALSE(
          decoder.Decode(a.kind, absl::string_view(a.bytes).substr(0, a.bytes.size() / 2), absl::MakeSpan(out)).ok());
      EXPECT_OK(decoder.Decode(a.kind, a.bytes, absl::MakeSpan(out)));
      EXPECT_TRUE(out == plane);
    }
  }
}

TEST(PlaneCodec, MemoryDoesNotGrow) {
  PlaneEncoder encoder;
  EXPECT_EQ(encoder.MemoryBytes(), 0u);
  for (const PlaneEffort effort : kEfforts) Encode(&encoder, Exponents(100000, 0), effort);
  const size_t memory = encoder.MemoryBytes();
  EXPECT_GT(memory, 0u);
  for (uint32_t seed = 1; seed < 20; ++seed) {
    for (const PlaneEffort effort : kEfforts) Encode(&encoder, Exponents(100000 - seed * 17, seed), effort);
    EXPECT_EQ(encoder.MemoryBytes(), memory) << seed;
  }
}

TEST(PlaneCodec, Moves) {
  PlaneEncoder encoder;
  const std::string plane = Exponents(1000, 1);
  const std::string frame = Encode(&encoder, plane, PlaneEffort::kLiterals).bytes;
  PlaneEncoder moved = std::move(encoder);
  EXPECT_EQ(Encode(&moved, plane, PlaneEffort::kLiterals).bytes, frame);
}

// Little-endian bytes of `value`.
std::string Number(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

enum class Block { kRaw = 0, kRepeat = 1, kCompressed = 2, kReserved = 3 };
std::string BlockOf(Block type, size_t size, absl::string_view bytes, bool last = true) {
  return absl::StrCat(Number((last ? 1 : 0) | static_cast<uint64_t>(type) << 1 | size << 3, 3), bytes);
}

const char kMagic[] = "\x28\xb5\x2f\xfd";

// Frames whose content would be 'a' to 'h', were it not for something else.
std::string Content() { return "abcdefgh"; }
std::string Good() { return absl::StrCat(kMagic, "\x20\x08", BlockOf(Block::kRaw, 8, Content())); }
std::string Header(absl::string_view header) {
  return absl::StrCat(kMagic, header, BlockOf(Block::kRaw, 8, Content()));
}
std::string Skippable(uint32_t size, absl::string_view bytes) {
  return absl::StrCat(Number(0x184d2a53, 4), Number(size, 4), bytes);
}
std::string WithChecksum(bool right) {
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string out(100, '\0');
  out.resize(ZSTD_compress2(context.get(), &out[0], out.size(), Content().data(), 8));
  if (!right) out.back() = static_cast<char>(out.back() ^ 1);
  return out;
}

TEST(DecodeFrame, TakesWhatZstdMayWrite) {
  EXPECT_OK(Decode(Good(), 8));
  EXPECT_OK(Decode(WithChecksum(true), 8));
  EXPECT_OK(Decode(Header(std::string("\x80\x00\x08\0\0\0", 6)), 8)) << "a window of its own";
  EXPECT_OK(Decode(Header(std::string("\x80\x60\x08\0\0\0", 6)), 8)) << "the largest window";
  EXPECT_OK(Decode(Header(std::string("\xe0\x08\0\0\0\0\0\0\0", 9)), 8)) << "a size of 8 bytes";
  EXPECT_OK(Decode(
      absl::StrCat(kMagic, "\x20\x08", BlockOf(Block::kRepeat, 5, "x", false), BlockOf(Block::kRaw, 3, "yyy")), 8));
  EXPECT_OK(Decode(absl::StrCat(kMagic, std::string("\x20\0", 2), BlockOf(Block::kRaw, 0, "")), 0)) << "empty";
}

struct BadFrame {
  const char* name;
  std::string frame;
  const char* says;
};
class DecodeFrameRejects : public ::testing::TestWithParam<BadFrame> {};
TEST_P(DecodeFrameRejects, SayingWhy) {
  EXPECT_THAT(Decode(GetParam().frame, 8), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
const BadFrame kBadFrames[] = {
    {"Empty", "", "has 0 bytes"},
    {"NotZstd", "abcdefghijklmnop", "begins with 0x64636261, not 0xfd2fb528"},
    {"Reserved", Header("\x28\x08"), "reserved bit"},
    {"Dictionary1", Header(std::string("\x21\x07\x08", 3)), "wants a dictionary"},
    {"Dictionary4", Header(std::string("\x23\x07\0\0\0\x08", 6)), "wants a dictionary"},
    {"DictionaryZero", Header(std::string("\x21\x00\x08", 3)), "wants a dictionary"},
    {"NoContentSize", Header(std::string("\x00\x00", 2)), "does not tell the size of its content"},
    {"ContentSmaller", Header("\x20\x07"), "its content has 7 bytes; the plane has 8"},
    {"ContentLarger", Header("\x20\x09"), "its content has 9 bytes; the plane has 8"},
    {"ContentHuge", Header("\xe0\xff\xff\xff\xff\xff\xff\xff\xff"), "its content has 18446744073709551615 bytes"},
    {"Window2To31", Header(std::string("\x80\xa8\x08\0\0\0", 6)),
     "its window has 2147483648 bytes; 4194304 is the most"},
    {"WindowLargest", Header(std::string("\x80\xff\x08\0\0\0", 6)), "its window has 4123168604160 bytes"},
    {"WindowJustAbove", Header(std::string("\x80\x61\x08\0\0\0", 6)), "its window has 4718592 bytes"},
    {"EndsInHeader", absl::StrCat(kMagic, "\xe0\x08"), "ends in its header"},
    {"NoBlock", absl::StrCat(kMagic, "\x20\x08"), "has no end"},
    {"NoLastBlock", absl::StrCat(kMagic, "\x20\x08", BlockOf(Block::kRaw, 8, "abcdefgh", false)), "has no end"},
    {"ReservedBlock", absl::StrCat(kMagic, "\x20\x08", BlockOf(Block::kReserved, 8, "abcdefgh")), "has no end"},
    {"Trailing", Good() + "x", "ends after 17 of 18 bytes"},
    {"TwoFrames", Good() + Good(), "ends after 17 of 34 bytes"},
    {"EmptyFrameBehind", Good() + absl::StrCat(kMagic, std::string("\x20\0\1\0\0", 5)), "ends after 17 of 26 bytes"},
    {"SkippableBefore", Skippable(3, "abc") + Good(), "is a skippable one"},
    {"SkippableOf4GiB", Skippable(0xffffffff, "abc"), "is a skippable one"},
    {"SkippableBehind", Good() + Skippable(3, "abc"), "ends after 17 of 28 bytes"},
    {"OneByteLess", absl::StrCat(kMagic, "\x20\x08", BlockOf(Block::kRaw, 7, "abcdefg")), "decode"},
    {"OneByteMore", absl::StrCat(kMagic, "\x20\x08", BlockOf(Block::kRaw, 9, "abcdefghi")), "decode"},
    {"RunOf128KiB", absl::StrCat(kMagic, "\x20\x08", BlockOf(Block::kRepeat, 1 << 17, "x")), "does not decode"},
    {"WrongChecksum", WithChecksum(false), "does not decode"},
    {"GarbageBlock", absl::StrCat(kMagic, "\x20\x08", BlockOf(Block::kCompressed, 8, "abcdefgh")), "does not decode"}};
INSTANTIATE_TEST_SUITE_P(Bad, DecodeFrameRejects, ::testing::ValuesIn(kBadFrames),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DecodeFrame, RefusesABombByItsClaim) {
  // 10 GiB of one byte, which is what its header says, in 240 KB.
  std::string bomb = absl::StrCat(kMagic, "\xc0\x58", Number(uint64_t{10} << 30, 8));
  for (int i = 1; i <= 81920; ++i) bomb += BlockOf(Block::kRepeat, 1 << 17, "x", i == 81920);
  EXPECT_THAT(Decode(bomb, 1 << 20), StatusIs(Code::kInvalidArgument, HasSubstr("its content has 10737418240 bytes")));
  // The same that claims no more than it should.
  bomb.replace(6, 8, Number(1 << 20, 8));
  EXPECT_THAT(Decode(bomb, 1 << 20), StatusIs(Code::kInvalidArgument, HasSubstr("does not decode")));
}

TEST(DecodeFrame, SurvivesPrefixesAndChanges) {
  PlaneEncoder encoder;
  PlaneDecoder decoder;
  const auto decode = [&decoder](const std::string& bytes, size_t size) {
    // Blocks of exactly their size, so that the address sanitizer sees what is read or written past their ends.
    const std::vector<char> frame(bytes.begin(), bytes.end());
    std::vector<char> out(size);
    return decoder.DecodeFrame(absl::string_view(frame.data(), frame.size()), absl::MakeSpan(out));
  };
  for (const auto& plane : {Exponents(300, 1), Repeated(200, 2) + Exponents(60, 3)}) {
    for (const PlaneEffort effort : kEfforts) {
      const Coded coded = Encode(&encoder, plane, effort);
      if (coded.kind != PlaneKind::kZstd) continue;
      for (size_t size = 0; size < coded.bytes.size(); ++size) {
        EXPECT_THAT(decode(coded.bytes.substr(0, size), plane.size()), StatusIs(Code::kInvalidArgument)) << size;
      }
      for (size_t i = 0; i < coded.bytes.size(); ++i) {
        for (int change = 1; change < 256; ++change) {
          std::string bytes = coded.bytes;
          bytes[i] = static_cast<char>(bytes[i] ^ change);
          const absl::Status status = decode(bytes, plane.size());
          if (status.ok()) continue;
          ASSERT_EQ(status.code(), Code::kInvalidArgument) << i << ": " << status;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask::payload
