// One TensorProto of a file: its fields, checked against each other. The elements stay in the file.
//
//   CASK_ASSIGN_OR_RETURN(const TensorMessage tensor, ParseTensor(&cursor, begin, end, limits));
//   // tensor.shape, tensor.data, and from which byte on the elements lie
//
// What a message must hold, and what is refused, is in FORMAT.md sections 3 and 4.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_ONNX_TENSOR_MESSAGE_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_ONNX_TENSOR_MESSAGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/onnx/internal/external_data.h"
#include "tensorcask/serialize/onnx/internal/type_table.h"
#include "tensorcask/serialize/protowire/wire_cursor.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::onnx {

struct TensorMessage {
  enum class Data : uint8_t {
    kRaw,       // the bytes from `offset` on: raw_data, or the one packed field of floats or doubles
    kValues,    // the values of a typed field, which ReadValues or ReadStrings reads
    kExternal,  // in a side file
  };

  uint32_t field = 0;     // that has the message; 0: the message is the file
  uint64_t position = 0;  // the position of that field
  uint64_t begin = 0;     // the position of the message in the file
  uint64_t end = 0;
  std::string name;
  int64_t data_type = 0;
  const TypeRow* type = nullptr;  // null: not known, then the rest is not set
  TensorShape shape;
  Data data = Data::kRaw;
  uint64_t offset = 0;        // where the elements are in the file; for kExternal in the side file
  uint64_t stored_bytes = 0;  // in the file or side file
  bool is_beside = false;  // its elements are in a side file, as data_location says, also where the type is not known
  std::shared_ptr<const absl::StatusOr<ExternalData>> external;  // for kExternal; an error is about this tensor alone
  bool has_texts = false;                                        // a doc_string or metadata_props
  bool has_unused_bits = false;  // the last byte of raw_data has bits after the last element that are not 0
};

// Errors: InvalidArgument, naming the field and the position; ResourceExhausted past a limit; from the source.
absl::StatusOr<TensorMessage> ParseTensor(WireCursor* cursor, uint64_t begin, uint64_t end, const DecodeLimits& limits);

// A TensorProto as far as its side file goes: `location` as it is written, nullopt if its elements are in the message.
absl::StatusOr<std::optional<std::string>> ReadLocation(WireCursor* cursor, uint64_t begin, uint64_t end);

// The value of the text field `field`. Errors: ResourceExhausted if it has more bytes than `limits` allow a name.
absl::StatusOr<std::string> ReadText(WireCursor* cursor, const WireCursor::Field& field, const DecodeLimits& limits);

// Appends the dims in the field, packed or not. Errors: InvalidArgument for more than TensorShape::kMaxRank.
absl::Status ReadDims(WireCursor* cursor, const WireCursor::Field& field, DimVector* dims);

// Bytes that the values take in the form of raw_data; types of 6 bits take a byte each.
uint64_t ValueBytes(const TensorMessage& tensor);
// Fills `out` with them. Requires: kValues, no strings; out.size() == ValueBytes(tensor). Errors: DataLoss if the file
// has changed since ParseTensor read it.
absl::Status ReadValues(WireCursor* cursor, const TensorMessage& tensor, absl::Span<char> out);
// The same of strings. Requires: out.size() is the number of elements.
absl::Status ReadStrings(WireCursor* cursor, const TensorMessage& tensor, absl::Span<std::string> out);

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_ONNX_TENSOR_MESSAGE_H_
