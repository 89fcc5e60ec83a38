#include "tensorcask/tests/serialize/payload/chunk_numbers.h"

#include <random>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

using payload::ChunkDecoder;
using payload::ChunkEncoder;
using payload::NumberKind;
using payload::NumberType;

namespace {

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

}  // namespace

std::string NameOf(NumberType type) {
  const char* const kinds[] = {"float", "integer", "bool"};
  return absl::StrCat(kinds[static_cast<int>(type.kind)], 8 * type.bytes);
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

std::string EncodeOrFail(ChunkEncoder* encoder, const std::string& bytes, const std::string& base) {
  const absl::StatusOr<absl::string_view> coded = encoder->Encode(bytes, base.empty() ? nullptr : base.data());
  EXPECT_OK(coded);
  return coded.ok() ? std::string(*coded) : "";
}

void ExpectDecodes(ChunkDecoder* decoder, const std::string& coded, const std::string& bytes, const std::string& base) {
  for (const bool non_temporal : {false, true}) {
    std::vector<char> memory(bytes.size() + 64, '\xa5');
    char* const out = &memory[64 - reinterpret_cast<uintptr_t>(memory.data()) % 64];
    ASSERT_OK(decoder->Decode(coded.empty() ? bytes : coded, base.empty() ? nullptr : base.data(),
                              absl::MakeSpan(out, bytes.size()), non_temporal));
    EXPECT_EQ(absl::string_view(out, bytes.size()), bytes);
  }
}

int Flags(const std::string& coded) { return coded.empty() ? -1 : static_cast<unsigned char>(coded[0]); }

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

}  // namespace tensorcask::testing
