// The header of one GGUF file, parsed and checked against every rule of the format (FORMAT.md sections 2, 3 and 5).
//
//   HeaderMemory memory{&tree, &budget};
//   CASK_ASSIGN_OR_RETURN(const Header header, ParseHeader(*file, limits, &memory));
//
// Takes time and memory in proportion to the header; arrays of more than kMaxItemsInTree elements stay in the file.

#ifndef TENSORCASK_SERIALIZE_GGUF_INTERNAL_HEADER_H_
#define TENSORCASK_SERIALIZE_GGUF_INTERNAL_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/gguf/block_types.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::gguf {

inline constexpr absl::string_view kMagic = "GGUF";
inline constexpr uint64_t kMaxItemsInTree = 64;

struct HeaderTensor {
  std::string name;
  const ElementType* type = nullptr;
  TensorShape shape;
  uint64_t offset = 0;  // in the file
  uint64_t stored_bytes = 0;
};

struct HeaderKey {
  std::string name;
  ValueTree::Id value = 0;
  uint64_t offset = 0;  // the position of the type and the value, in the file
  uint64_t stored_bytes = 0;
  bool is_padding = false;  // IsPadding
};

struct Header {
  uint32_t version = 0;
  bool big_endian = false;
  uint64_t alignment = 0;
  uint64_t data_offset = 0;
  std::vector<HeaderKey> keys;        // in the order of the file
  std::vector<HeaderTensor> tensors;  // in the order of the file, which is that of their data
  std::vector<uint32_t> by_name;      // the numbers of the tensors, sorted by name
  std::vector<std::string> notes;     // unusual but harmless things, without the name of the file
};

// What ParseHeader adds to.
struct HeaderMemory {
  ValueTree* tree;                       // the values
  ListingBudget* budget;                 // what they take, and the tensors
  uint64_t max_items = kMaxItemsInTree;  // arrays of more elements stay in the file
  uint64_t counted_bytes = 0;            // the size of the header, as the budget counts it
};

// Errors, which do not name the file: DataLoss for a broken rule; Unimplemented for a type that this version does not
// know; ResourceExhausted past a limit; from errno.
absl::StatusOr<Header> ParseHeader(const ByteSource& source, const DecodeLimits& limits, HeaderMemory* memory);

// The shape with the bytes of a row in place of its elements; [4] for a scalar of float32. Requires: rows are whole
// blocks. Errors: DataLoss if it has more than 2^63 - 1 bytes.
absl::StatusOr<TensorShape> ShapeInBytes(const TensorShape& shape, const ElementType& type);

// The elements of an array that stayed in the file, as a list. Requires: ParseHeader made `array` of `source`.
// Errors: ResourceExhausted past max_memory_beyond_input + 16 x the array; from errno.
absl::StatusOr<ValueTree> ReadFileArray(const ByteSource& source, const FileArray& array, bool big_endian,
                                        const DecodeLimits& limits);
// The bytes of the same elements in a little-endian file. Errors: from errno.
absl::StatusOr<std::string> ReadArrayBytes(const ByteSource& source, const FileArray& array, bool big_endian);

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_INTERNAL_HEADER_H_
