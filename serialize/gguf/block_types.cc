#include "tensorcask/serialize/gguf/block_types.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/gguf/internal/decoders.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::gguf {
namespace {

constexpr ElementType Plain(uint32_t id, absl::string_view name, DType dtype, uint32_t bytes) {
  return {id, name, dtype, 1, bytes, nullptr};
}
constexpr ElementType Block(uint32_t id, absl::string_view name, uint32_t elements, uint32_t bytes,
                            DecodeBlocks decode) {
  return {id, name, DType::kFloat32, elements, bytes, decode};
}

constexpr ElementType kElementTypes[] = {
    Plain(0, "f32", DType::kFloat32, 4),
    Plain(1, "f16", DType::kFloat16, 2),
    Block(2, "q4_0", 32, 18, DecodeQ40),
    Block(3, "q4_1", 32, 20, DecodeQ41),
    Block(6, "q5_0", 32, 22, DecodeQ50),
    Block(7, "q5_1", 32, 24, DecodeQ51),
    Block(8, "q8_0", 32, 34, DecodeQ80),
    Block(9, "q8_1", 32, 36, DecodeQ81),
    Block(10, "q2_k", 256, 84, DecodeQ2K),
    Block(11, "q3_k", 256, 110, DecodeQ3K),
    Block(12, "q4_k", 256, 144, DecodeQ4K),
    Block(13, "q5_k", 256, 176, DecodeQ5K),
    Block(14, "q6_k", 256, 210, DecodeQ6K),
    Block(15, "q8_k", 256, 292, DecodeQ8K),
    Block(16, "iq2_xxs", 256, 66, DecodeIq2Xxs),
    Block(17, "iq2_xs", 256, 74, DecodeIq2Xs),
    Block(18, "iq3_xxs", 256, 98, DecodeIq3Xxs),
    Block(19, "iq1_s", 256, 50, DecodeIq1S),
    Block(20, "iq4_nl", 32, 18, DecodeIq4Nl),
    Block(21, "iq3_s", 256, 110, DecodeIq3S),
    Block(22, "iq2_s", 256, 82, DecodeIq2S),
    Block(23, "iq4_xs", 256, 136, DecodeIq4Xs),
    Plain(24, "i8", DType::kInt8, 1),
    Plain(25, "i16", DType::kInt16, 2),
    Plain(26, "i32", DType::kInt32, 4),
    Plain(27, "i64", DType::kInt64, 8),
    Plain(28, "f64", DType::kFloat64, 8),
    Block(29, "iq1_m", 256, 56, DecodeIq1M),
    Plain(30, "bf16", DType::kBFloat16, 2),
    Block(34, "tq1_0", 256, 54, DecodeTq10),
    Block(35, "tq2_0", 256, 66, DecodeTq20),
    Block(39, "mxfp4", 32, 17, DecodeMxfp4),
    Block(40, "nvfp4", 64, 36, DecodeNvfp4),
    Block(41, "q1_0", 128, 18, DecodeQ10),
    Block(42, "q2_0", 64, 18, DecodeQ20),
};

// Numbers of several bytes in the blocks of a type, one after the other.
struct WideNumbers {
  uint32_t id;
  uint32_t offset;
  uint32_t bytes;  // the size of one number
  uint32_t count;
};
constexpr WideNumbers kWideNumbers[] = {
    {2, 0, 2, 1},   {3, 0, 2, 2},   {8, 0, 2, 1},    {9, 0, 2, 2},  {10, 80, 2, 2},   {11, 108, 2, 1},
    {12, 0, 2, 2},  {13, 0, 2, 2},  {14, 208, 2, 1}, {15, 0, 4, 1}, {15, 260, 2, 16}, {17, 0, 2, 33},
    {19, 0, 2, 1},  {19, 34, 2, 8}, {20, 0, 2, 1},   {21, 0, 2, 1}, {22, 0, 2, 1},    {23, 0, 2, 2},
    {29, 48, 2, 4}, {34, 52, 2, 1}, {35, 64, 2, 1},  {41, 0, 2, 1}, {42, 0, 2, 1},
};
// Types whose bits are read four bytes at a time, as the processor has them: q5_0, q5_1, iq2_xxs, iq3_xxs.
constexpr uint32_t kOfOneByteOrder[] = {6, 7, 16, 18};

// Types of ggml that no longer exist; their numbers stay unused.
struct RemovedType {
  uint32_t id;
  absl::string_view name;
};
constexpr RemovedType kRemoved[] = {
    {4, "q4_2"},      {5, "q4_3"},        {31, "q4_0_4_4"},   {32, "q4_0_4_8"},
    {33, "q4_0_8_8"}, {36, "iq4_nl_4_4"}, {37, "iq4_nl_4_8"}, {38, "iq4_nl_8_8"},
};

// Numbers of another program's own types.
struct ForkTypes {
  uint32_t first;
  uint32_t last;
  absl::string_view program;
};
constexpr ForkTypes kForks[] = {{97, 99, "ik_llama.cpp"}, {133, 158, "ik_llama.cpp"}, {200, 399, "ik_llama.cpp"}};

}  // namespace

absl::Span<const ElementType> AllElementTypes() { return kElementTypes; }

const ElementType* FindElementType(uint32_t id) {
  const auto* const found = std::lower_bound(std::begin(kElementTypes), std::end(kElementTypes), id,
                                             [](const ElementType& type, uint32_t wanted) { return type.id < wanted; });
  return found != std::end(kElementTypes) && found->id == id ? found : nullptr;
}

const ElementType* FindElementType(absl::string_view name) {
  const auto* const found = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                         [&](const ElementType& type) { return type.name == name; });
  return found != std::end(kElementTypes) ? found : nullptr;
}

bool SwapBlocks(const ElementType& type, uint8_t* blocks, size_t count) {
  for (const uint32_t id : kOfOneByteOrder) {
    if (id == type.id) return false;
  }
  for (const WideNumbers& numbers : kWideNumbers) {
    if (numbers.id != type.id) continue;
    for (size_t i = 0; i < count; ++i)
      SwapBytes(blocks + i * type.bytes + numbers.offset, numbers.count, numbers.bytes);
  }
  return true;
}

absl::Status UnknownElementType(uint32_t id) {
  for (const RemovedType& removed : kRemoved) {
    if (removed.id == id) {
      return absl::UnimplementedError(
          absl::StrCat("has the type ", id, " (", removed.name, "), which was removed from the format"));
    }
  }
  for (const ForkTypes& fork : kForks) {
    if (fork.first <= id && id <= fork.last) {
      return absl::UnimplementedError(absl::StrCat("has the type ", id, ", which is of a fork (", fork.program, ")"));
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("has the unknown type ", id, ": of a fork, or of a newer version of the format"));
}

}  // namespace tensorcask::gguf
