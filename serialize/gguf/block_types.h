// The element types of GGUF: plain numbers, and blocks, in which a few dozen or hundred numbers share scales.
//
//   const gguf::ElementType* const type = gguf::FindElementType(12);    // q4_k: 256 elements in 144 bytes
//   std::vector<float> numbers(type->elements * count);
//   type->decode(bytes, count, numbers.data());
//
// FORMAT.md section 4 has the table and each formula. The decoders are arithmetic alone: every operation rounds to
// float32 in the order of the formula, and no multiplication is fused with an addition, so the bits are those of ggml.
// They accept any bytes: each code of a block has a value.

#ifndef TENSORCASK_SERIALIZE_GGUF_BLOCK_TYPES_H_
#define TENSORCASK_SERIALIZE_GGUF_BLOCK_TYPES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::gguf {

// Writes the numbers of `count` blocks from `blocks` on to `out`.
using DecodeBlocks = void (*)(const uint8_t* blocks, size_t count, float* out);

struct ElementType {
  uint32_t id;             // the number of the type in the file
  absl::string_view name;  // "f32", "q4_k"
  DType dtype;             // that of the elements in memory: float32 for blocks
  uint32_t elements;       // numbers in a block; 1 for plain numbers
  uint32_t bytes;          // size of a block
  DecodeBlocks decode;     // null for plain numbers

  bool is_block() const { return decode != nullptr; }
};

// All types, sorted by id.
absl::Span<const ElementType> AllElementTypes();

// Null if this version knows no such type.
const ElementType* FindElementType(uint32_t id);
const ElementType* FindElementType(absl::string_view name);

// Makes blocks of a big-endian file those of a little-endian one, in place: halves and other numbers of several bytes
// are reversed. False: the type has parts that programs put together from bytes, so no two programs need agree on them.
bool SwapBlocks(const ElementType& type, uint8_t* blocks, size_t count);

// Why FindElementType knows no type `id`: Unimplemented, with the name of the type if it was removed or is that of
// another program. Requires: it knows none.
absl::Status UnknownElementType(uint32_t id);

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_BLOCK_TYPES_H_
