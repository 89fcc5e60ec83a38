// The decoder of chunks against one written from FORMAT.md section 3 for clarity alone: of chunks forged at random both
// take the same ones, and give the same bytes.

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/payload/codec/chunk_codec.h"
#include "tensorcask/serialize/payload/codec/huffman_encoder.h"
#include "tensorcask/serialize/payload/codec/huffman_plan.h"
#include "tensorcask/tests/fuzz/huffman_reference.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"

namespace tensorcask::payload {
namespace {

using tensorcask::testing::CodedChunk;
using tensorcask::testing::ForgedPlane;

constexpr int kRaw = 0, kConstant = 1, kZstd = 2, kHuffman = 3;
constexpr uint8_t kRotated = 1, kApart = 2, kBits = 4, kDifferences = 8;

// ---- By the book ----------------------------------------------------------------------------------------------------

uint64_t Number(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

bool Bit(const std::string& bits, size_t i) { return static_cast<uint8_t>(bits[i / 8]) >> i % 8 & 1; }

bool BitsPast(const std::string& bits, size_t count) {
  for (size_t i = count; i < bits.size() * 8; ++i) {
    if (Bit(bits, i)) return true;
  }
  return false;
}

std::optional<std::string> Frame(absl::string_view frame, size_t size) {
  if (frame.size() < 6 || Number(frame.substr(0, 4)) != 0xfd2fb528 || (frame[4] & 3) != 0) return std::nullopt;
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != size) return std::nullopt;
  const bool has_window = (frame[4] & 0x20) == 0;
  const auto window = static_cast<uint8_t>(frame[5]);
  if (has_window && (uint64_t{8u + window % 8} << (7 + window / 8)) > 4 << 20) return std::nullopt;
  if (ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) return std::nullopt;
  std::string out(size, '\0');
  if (ZSTD_decompress(&out[0], size, frame.data(), frame.size()) != size) return std::nullopt;
  return out;
}

std::optional<std::string> Plane(int kind, absl::string_view bytes, size_t size) {
  if (kind == kRaw && bytes.size() == size) return std::string(bytes);
  if (kind == kConstant && bytes.size() == 1 && size > 0) return std::string(size, bytes[0]);
  if (kind == kZstd && size > 0) return Frame(bytes, size);
  if (kind == kHuffman && size > 0) return tensorcask::testing::DecodeHuffmanByTheBook(bytes, size);
  return std::nullopt;
}

// The number whose difference from `base` is `difference` (section 4).
uint64_t Undo(uint64_t difference, uint64_t base, NumberType type) {
  const int bits = 8 * type.bytes;
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t highest = uint64_t{1} << (bits - 1);
  const bool ordered = type.kind == NumberKind::kFloat;
  if (ordered) base = (base & highest) != 0 ? base ^ all : base | highest;
  uint64_t number = (base + (difference % 2 == 0 ? difference >> 1 : difference >> 1 ^ all)) & all;
  if (ordered) number = (number & highest) != 0 ? number ^ highest : number ^ all;
  return number;
}

// Nothing if the chunk is to be rejected.
std::optional<std::string> Reference(absl::string_view chunk, NumberType type, const std::string& base, size_t size) {
  const size_t count = size / type.bytes;
  const bool is_bool = type.kind == NumberKind::kBool;
  std::string out(size, '\0');
  if (chunk.size() > size || (chunk.size() < size && chunk.size() < 8)) return std::nullopt;
  if (chunk.size() == size) {
    out = std::string(chunk);
  } else {
    const auto flags = static_cast<uint8_t>(chunk[0]);
    const uint64_t values = Number(chunk.substr(4, 4));
    const bool apart = (flags & kApart) != 0;
    if (flags > 15 || Number(chunk.substr(1, 3)) != 0) return std::nullopt;
    if ((flags & kBits) != 0 && (!is_bool || flags != kBits)) return std::nullopt;
    if ((flags & kRotated) != 0 && type.kind != NumberKind::kFloat) return std::nullopt;
    if ((flags & kDifferences) != 0 && is_bool) return std::nullopt;
    if (apart ? values > count : values != count) return std::nullopt;
    const size_t num_planes = type.bytes + (apart ? 1 : 0);
    size_t at = 8 + 4 * num_planes;
    if (chunk.size() < at) return std::nullopt;
    std::vector<std::string> planes;
    for (size_t i = 0; i < num_planes; ++i) {
      const uint64_t plane_bytes = Number(chunk.substr(8 + 4 * i, 3));
      if (plane_bytes > chunk.size() - at) return std::nullopt;
      const bool is_bits = (apart && i == 0) || (flags & kBits) != 0;
      const std::optional<std::string> plane = Plane(static_cast<uint8_t>(chunk[8 + 4 * i + 3]),
                                                     chunk.substr(at, plane_bytes), is_bits ? (count + 7) / 8 : values);
      if (!plane || (is_bits && BitsPast(*plane, count))) return std::nullopt;
      planes.push_back(*plane);
      at += plane_bytes;
    }
    if (at != chunk.size()) return std::nullopt;
    size_t taken = 0;
    for (size_t i = 0; i < count; ++i) {
      uint64_t number = 0;
      if ((flags & kBits) != 0) {
        number = Bit(planes[0], i) ? 1 : 0;
      } else if (!apart || Bit(planes[0], i)) {
        if (taken == values) return std::nullopt;  // the mask has more
        for (int k = 0; k < type.bytes; ++k) {
          number |= uint64_t{static_cast<uint8_t>(planes[(apart ? 1 : 0) + k][taken])} << 8 * k;
        }
        ++taken;
        if ((flags & kRotated) != 0) number = number >> 1 | (number & 1) << (8 * type.bytes - 1);
      }
      if ((flags & kDifferences) != 0 && !base.empty()) {
        number = Undo(number, Number(absl::string_view(base).substr(i * type.bytes, type.bytes)), type);
      }
      for (int k = 0; k < type.bytes; ++k) out[i * type.bytes + k] = static_cast<char>(number >> 8 * k);
    }
    if (apart && taken != values) return std::nullopt;  // the mask has fewer
  }
  if (is_bool && out.find_first_not_of(std::string("\0\1", 2)) != std::string::npos) return std::nullopt;
  return out;
}

// ---- Forged at random -----------------------------------------------------------------------------------------------

using Random = std::mt19937;

std::string Compressed(const std::string& plane, Random* random) {
  std::string frame(ZSTD_compressBound(plane.size()), '\0');
  const int level = static_cast<int>((*random)() % 8);
  frame.resize(ZSTD_compress(&frame[0], frame.size(), plane.data(), plane.size(), level));
  return frame;
}

std::string HuffmanCodes(const std::string& plane) {
  HuffmanPlanner planner;
  const absl::StatusOr<const HuffmanPlan*> plan = planner.Plan(plane);
  std::string coded((*plan)->bytes, '\0');
  coded.resize(*HuffmanEncoder().Encode(plane, **plan, &coded[0]));
  return coded;
}

// A plane of `size` bytes, some of which are not as they should be.
ForgedPlane RandomPlane(const std::string& plane, Random* random) {
  switch ((*random)() % 16) {
    case 0:
      return {static_cast<int>((*random)() % 6), plane.substr(0, (*random)() % (plane.size() + 1))};
    case 1: {
      std::string frame = Compressed(plane, random);
      frame[(*random)() % frame.size()] ^= static_cast<char>(1 << (*random)() % 8);
      return {kZstd, frame};
    }
    case 2:
    case 3:
    case 4:
      return {kConstant, std::string(1, plane.empty() ? '\0' : plane[0])};
    case 5:
    case 6:
    case 7:
      return {kZstd, Compressed(plane, random)};
    case 8: {
      if (plane.empty()) return {kHuffman, ""};
      std::string codes = HuffmanCodes(plane);
      codes[(*random)() % codes.size()] ^= static_cast<char>(1 << (*random)() % 8);
      return {kHuffman, codes};
    }
    case 9:
    case 10:
    case 11:
      return {kHuffman, plane.empty() ? "" : HuffmanCodes(plane)};
    default:
      return {kRaw, plane};
  }
}

std::string RandomChunk(NumberType type, size_t count, Random* random) {
  const auto one_in = [random](uint32_t n) { return (*random)() % n == 0; };
  auto flags = static_cast<uint8_t>((one_in(2) ? kApart : 0) | (one_in(3) ? kDifferences : 0));
  if (type.kind == NumberKind::kFloat && one_in(2)) flags |= kRotated;
  if (type.kind == NumberKind::kBool) flags = one_in(2) ? kBits : flags & kApart;
  if (one_in(20)) flags = static_cast<uint8_t>((*random)());
  std::string mask((count + 7) / 8, '\0');
  const auto density = 1 + (*random)() % 100;
  size_t ones = 0;
  for (size_t i = 0; i < count; ++i) {
    if ((*random)() % 100 >= density) continue;
    mask[i / 8] |= static_cast<char>(1 << i % 8);
    ++ones;
  }
  size_t values = (flags & kApart) != 0 ? ones : count;
  if (one_in(15)) values += (*random)() % 3 - 1;
  if (one_in(30)) mask.back() |= '\x80';
  std::vector<ForgedPlane> planes;
  if ((flags & kApart) != 0) planes.push_back(RandomPlane(mask, random));
  for (int i = 0; i < type.bytes; ++i) {
    if ((flags & kBits) != 0) {
      planes.push_back(RandomPlane(mask, random));
      continue;
    }
    std::string plane(values > count ? count + 1 : values, '\0');
    const auto symbols = type.kind == NumberKind::kBool ? 2 : 1 + (*random)() % 5;
    for (char& byte : plane) byte = static_cast<char>((*random)() % symbols * 0x7f);
    if (type.kind == NumberKind::kBool) {
      for (char& byte : plane) byte = byte != 0;
    }
    planes.push_back(RandomPlane(plane, random));
  }
  std::string chunk = CodedChunk(flags, static_cast<uint32_t>(values), planes);
  if (one_in(30)) chunk += 'x';
  if (one_in(30)) chunk.pop_back();
  return chunk;
}

class ChunkReference : public ::testing::TestWithParam<NumberType> {};

TEST_P(ChunkReference, Agrees) {
  const NumberType type = GetParam();
  ChunkDecoder decoder(type);
  int taken = 0;
  constexpr int kChunks = 1500;
  for (uint32_t seed = 0; seed < kChunks; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const size_t count = 1 + random() % (seed % 4 == 0 ? 3000 : 300);
    const size_t size = count * type.bytes;
    const std::string chunk = RandomChunk(type, count, &random);
    std::string base(random() % 2 == 0 ? size : 0, '\0');
    for (char& byte : base) byte = static_cast<char>(random());
    const std::optional<std::string> wanted = Reference(chunk, type, base, size);
    // Blocks of exactly their size, so that the address sanitizer sees what is read or written past their ends.
    const std::vector<char> coded(chunk.begin(), chunk.end());
    std::vector<char> out(size, '\xa5');
    const absl::Status status = decoder.Decode(absl::string_view(coded.data(), coded.size()),
                                               base.empty() ? nullptr : base.data(), absl::MakeSpan(out));
    ASSERT_EQ(status.ok(), wanted.has_value()) << status << "\n" << absl::BytesToHexString(chunk);
    if (!wanted) continue;
    ++taken;
    ASSERT_TRUE(*wanted == absl::string_view(out.data(), out.size())) << absl::BytesToHexString(chunk);
  }
  EXPECT_GT(taken, kChunks / 10);
  EXPECT_LT(taken, kChunks * 9 / 10);
}

constexpr NumberType kTypes[] = {{NumberKind::kFloat, 1},   {NumberKind::kFloat, 2},   {NumberKind::kFloat, 4},
                                 {NumberKind::kFloat, 8},   {NumberKind::kInteger, 1}, {NumberKind::kInteger, 2},
                                 {NumberKind::kInteger, 4}, {NumberKind::kInteger, 8}, {NumberKind::kBool, 1}};
std::string NameOf(const ::testing::TestParamInfo<NumberType>& info) {
  const char* const kinds[] = {"Float", "Integer", "Bool"};
  return absl::StrCat(kinds[static_cast<int>(info.param.kind)], info.param.bytes);
}
INSTANTIATE_TEST_SUITE_P(Numbers, ChunkReference, ::testing::ValuesIn(kTypes), NameOf);

}  // namespace
}  // namespace tensorcask::payload
