// Builds the header of a GGUF file, in either byte order.
//
//   HeaderText header(/*big_endian=*/false);
//   CASK_RETURN_IF_ERROR(header.Key("tiny.layers", value));
//   header.Tensor("w", *FindElementType(0), TensorShape({2, 3}), /*offset=*/0);
//   std::string bytes = header.Finish(/*version=*/3, /*alignment=*/32);

#ifndef TENSORCASK_SERIALIZE_GGUF_INTERNAL_HEADER_TEXT_H_
#define TENSORCASK_SERIALIZE_GGUF_INTERNAL_HEADER_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/gguf/block_types.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::gguf {

// The type and the bytes of a value, as they follow the name of a key.
// Errors: InvalidArgument for a value that the format has no type for: bytes, maps, lists of lists or of values of
// several types, numbers past 64 bits, arrays that are still in a file.
absl::StatusOr<std::string> EncodeValue(Value value, bool big_endian);
// The same for an array that is still in a file, from the bytes of its elements in a little-endian file.
absl::StatusOr<std::string> EncodeArray(const FileArray& array, absl::string_view bytes);
// OK if EncodeValue or EncodeArray takes the value. Errors: the same.
absl::Status CheckValue(Value value);

// Errors: InvalidArgument for a name that is empty, too long or not UTF-8.
absl::Status CheckKeyName(absl::string_view name);
// Errors: InvalidArgument for the keys of models in several files (FORMAT.md section 3.3), and for the padding.
absl::Status CheckWritableKey(absl::string_view name, Value value);
// The value of general.alignment. Errors: InvalidArgument for another type, and for a number that is not an alignment.
absl::StatusOr<uint64_t> AlignmentOfValue(Value value);
// What ggml refuses. Errors: InvalidArgument for a name of 64 bytes and more or that is not UTF-8, or a rank above 4.
absl::Status CheckTensorName(absl::string_view name);
absl::Status CheckRank(const TensorShape& shape);

// A value of the text that a user gives, "TYPE:VALUE" or VALUE: "uint32:7", "bool:true", "text:as it is". Without a
// type it has that of `old`, the value that it replaces, if this is a number or a bool; else it is text.
// Errors: InvalidArgument for a text that is not UTF-8 or not a value of the type, and for an `old` that is an array.
absl::StatusOr<ValueTree> ParseValue(absl::string_view text, const std::optional<Value>& old);

class HeaderText {
 public:
  explicit HeaderText(bool big_endian) : big_endian_(big_endian) {}

  // `typed_value` is of EncodeValue or of a file in this byte order.
  void Key(absl::string_view name, absl::string_view typed_value);
  // `offset` counts from the start of the data.
  void Tensor(absl::string_view name, const ElementType& type, const TensorShape& shape, uint64_t offset);

  uint64_t size_bytes() const { return kStartBytes + keys_.size() + tensors_.size(); }  // without padding
  // The header, padded to a multiple of `alignment`.
  std::string Finish(uint32_t version, uint64_t alignment) const;

 private:
  static constexpr uint64_t kStartBytes = 24;  // the magic, the version, two counts

  const bool big_endian_;
  uint64_t num_keys_ = 0;
  uint64_t num_tensors_ = 0;
  std::string keys_;
  std::string tensors_;
};

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_INTERNAL_HEADER_TEXT_H_
