// Finds the tensors in a serialized message of ONNX: a model, a tensor, or a sequence of tensors.
//
//   CASK_ASSIGN_OR_RETURN(FoundTensors found, FindTensors(file, MessageKind::kModel, options));
//
// Walks over the message from front to back with a stack of its own, and reads of it what leads to tensors; nodes are
// entered only for the graphs in their attributes. FORMAT.md section 2 has the fields.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_MODEL_WALK_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_MODEL_WALK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/onnx/internal/onnx_tensor_message.h"

namespace tensorcask::onnx {

enum class MessageKind : uint8_t {
  kUnknown,
  kModel,     // ModelProto
  kTensor,    // TensorProto
  kSequence,  // SequenceProto or OptionalProto
};

// Which message the file looks like: of known fields on its uppermost level, with the right wire types. Reads at most a
// few KiB for each of its first fields. TensorFlow's TensorProto and GraphDef, whose files have the same extension, are
// kUnknown: field 2 of a TensorProto is a number in ONNX and a message in TensorFlow.
MessageKind LookAtMessage(const ByteSource& file);

// One tensor of the file and its name among all of them.
struct FoundTensor {
  TensorMessage message;
  std::string part_of;                  // "w" for the parts "w.values" and "w.indices" of a sparse tensor
  std::optional<std::string> own_name;  // if it is not the name in the message

  bool is_of_graph = true;  // of the graph of the model or one within it; false: of a training step or a function

  const std::string& name() const { return own_name.has_value() ? *own_name : message.name; }
};

struct SparseTensor {
  size_t indices = 0;  // the number of the tensor that has them
  TensorShape shape;
};

// A message around tensors, in a field of another one.
struct EnclosingMessage {
  uint32_t field = 0;
  uint64_t position = 0;  // the position of the field
  uint64_t begin = 0;     // the position of the message
  uint64_t end = 0;
};

struct FoundTensors {
  MessageKind kind = MessageKind::kUnknown;
  std::deque<FoundTensor> tensors;  // in the order of the file
  std::vector<uint32_t> by_name;    // their numbers, sorted by name
  std::vector<SparseTensor> sparse;
  std::vector<EnclosingMessage> enclosing;  // with WalkOptions::enclosing, all that have tensors
  // With WalkOptions::other_side_files: those of TensorProtos that `tensors` lacks, or of which it has no elements, as
  // they are written; "" where that cannot be told.
  std::vector<std::string> other_side_files;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> notes;
};

struct WalkOptions {
  DecodeLimits limits;
  bool enclosing = false;
  bool other_side_files = false;
  bool constants = false;  // also the tensors of Constant nodes, by the names of their outputs
};

// True for a key of FoundTensors::metadata that no entry of metadata_props has: that of a field of the model, or of the
// shape of a sparse tensor.
bool IsFieldKey(absl::string_view key);

// Errors: InvalidArgument for a message that breaks a rule of FORMAT.md section 6, with the position; ResourceExhausted
// past a limit; Unimplemented for maps; from the source.
absl::StatusOr<FoundTensors> FindTensors(const ByteSource& file, MessageKind kind, const WalkOptions& options);

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_MODEL_WALK_H_
