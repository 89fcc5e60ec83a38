// Makes a TensorProto: the fields around its elements, which are raw_data or lie in a side file.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_NEW_MESSAGE_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_NEW_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/onnx/internal/model_layout.h"
#include "tensorcask/serialize/onnx/internal/type_table.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::onnx {

struct TensorContent {
  const std::string* name = nullptr;  // null: kept fields have it
  const TypeRow* type = nullptr;
  const TensorShape* shape = nullptr;
  uint64_t stored_bytes = 0;
  std::string side_file;  // "": the elements are raw_data
  uint64_t side_offset = 0;
};

// The bytes of the elements in raw_data or a side file. Requires: no strings.
uint64_t StoredBytes(const TypeRow& type, const TensorShape& shape);

// True for the fields of TensorProto that say what and where the elements are; a new message has new ones.
bool IsOfElements(uint32_t field);

// `first` and `last`: serialized fields to keep, of numbers below that of raw_data and above. Fields are in the order
// of their numbers, as protobuf's classes write them, except those of `last`, which come last.
NewMessage MakeMessage(const TensorContent& content, absl::string_view first, absl::string_view last);

inline constexpr uint64_t kMostModelBytes = (uint64_t{1} << 31) - 1;  // the largest model that protobuf's classes read

// The content of an entry of ModelProto.metadata_props.
std::string MetadataEntry(absl::string_view key, absl::string_view value);
// Appends such an entry.
void AppendMetadata(absl::string_view key, absl::string_view value, std::string* out);

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_NEW_MESSAGE_H_
