// Walks over the names of values in a model (initializers, inputs and outputs of nodes and graphs), and finds what the
// bytes of the model become if some are replaced.
//
//   const NameVisitor visitor = {rename, is_removed, metadata};
//   CASK_ASSIGN_OR_RETURN(const NameEdits edits, WalkNames(file, limits, visitor));
//   for (const Splice& splice : edits.splices) ...   // the other bytes stay
//
// A scope is a graph: that of the model, one in an attribute of a node, one of a training step. A graph in an attribute
// sees the names of the graph around it, unless it has a value of the same name. A training step has two graphs, that
// of the initialization and that of the algorithm; the names in its bindings are those of these graphs. Functions are
// skipped: their names are their own.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_NAME_WALK_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_NAME_WALK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask::onnx {

inline constexpr int kMainScope = 0;

// One place with a name.
struct NameUse {
  enum class Kind : uint8_t {
    kInitializer,  // TensorProto.name, also that of the values of a sparse tensor
    kNodeInput,
    kNodeOutput,
    kGraphInput,
    kGraphOutput,
    kValueInfo,
    kOther,  // quantization annotations, bindings of a training step, specifications of sharding
  };
  Kind kind = Kind::kOther;
  int scope = kMainScope;
  uint64_t position = 0;  // the position of the field with the name
  uint64_t message = 0;   // kInitializer: where the TensorProto begins
};

// Bytes of the old file that are replaced.
struct Splice {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string text;
};

struct NameEdits {
  std::vector<Splice> splices;  // by position; with those of the lengths of the messages around
  std::vector<int> parents;     // for each scope, the one around it; -1: none
  uint64_t size_bytes = 0;      // the size of the new file
};

struct NameVisitor {
  // Called for each name, in the order of the file. Returns its replacement, or nullopt.
  absl::FunctionRef<absl::StatusOr<std::optional<std::string>>(const NameUse& use, const std::string& name)> name;
  // True if the initializer whose TensorProto begins there is removed; its name is not visited then.
  absl::FunctionRef<bool(uint64_t message)> is_removed;
  // Called for each entry of metadata_props. Returns the new content of the field, or nullopt; "" removes it.
  absl::FunctionRef<absl::StatusOr<std::optional<std::string>>(const std::string& key)> metadata;
};

// Errors: those of the visitor; InvalidArgument for a broken message, with the position; ResourceExhausted past a
// limit, for the splices, too; from the source.
absl::StatusOr<NameEdits> WalkNames(const ByteSource& file, const DecodeLimits& limits, const NameVisitor& visitor);

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_NAME_WALK_H_
