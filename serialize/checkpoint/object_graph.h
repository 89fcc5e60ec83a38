// The graph of objects that TensorFlow saved: the message TrackableObjectGraph, which its checkpoints hold in the
// tensor `_CHECKPOINTABLE_OBJECT_GRAPH`.
//
//   CASK_ASSIGN_OR_RETURN(ObjectGraph graph, ReadObjectGraph(reader));
//   std::cout << graph.ToString();
//   // (root)
//   // |- layer1
//   // |  |- kernel  layer1/kernel/.ATTRIBUTES/VARIABLE_VALUE
//   // |- model
//   // |  |- first -> layer1
//
// Graphs often have cycles: ToString draws each object once, where a breadth-first search finds it (so its name is the
// shortest). Everywhere else it prints only the name. It draws the variables that an optimizer keeps for others (its
// slot variables) below the optimizer, as "momentum of layer1/kernel".

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_OBJECT_GRAPH_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_OBJECT_GRAPH_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask {

struct ObjectGraph {
  struct Child {
    int node = 0;  // its index in `nodes`
    std::string local_name;
  };
  struct Attribute {
    std::string name;            // "VARIABLE_VALUE"
    std::string full_name;       // the variable's name in the program; may be empty
    std::string checkpoint_key;  // the name of the tensor in the checkpoint
  };
  struct SlotVariable {
    int original_variable_node = 0;
    std::string slot_name;
    int slot_variable_node = 0;
  };
  struct Node {
    std::vector<Child> children;
    std::vector<Attribute> attributes;  // its saved tensors
    std::vector<SlotVariable> slot_variables;
  };
  std::vector<Node> nodes;  // the first is the root; none for a graph without objects

  // For each node the names on the shortest path to it, joined by '/': "" for the root; for a slot variable without
  // another path TensorFlow's name, "layer1/kernel/.OPTIMIZER_SLOT/optimizer/momentum"; for a node without any path
  // "(node 7)". The names use 64 MiB at most; the nodes after that are named by number, too.
  std::vector<std::string> Names() const;

  // Draws the graph as above: one line for each node and one for each further reference to it. Text from the file is
  // escaped. The drawing ends at `max_lines` lines or 64 MiB; one more line then says how many are left out: "... 2000
  // lines more". Lines deeper than 32 levels are not indented further, and long names are cut. `describe` returns the
  // text to print before a checkpoint_key ("float32 [4,8]").
  static constexpr int64_t kMaxLines = 100'000;
  std::string ToString(const std::function<std::string(absl::string_view)>& describe = nullptr,
                       int64_t max_lines = kMaxLines) const;
};

// A node number that is absent from the message means 0, the root.
// Errors: DataLoss, naming the field, if the bytes are not such a message or name nodes that do not exist;
// ResourceExhausted past max_depth, and for more than max_entries parts.
absl::StatusOr<ObjectGraph> DecodeObjectGraph(absl::string_view message, const DecodeLimits& limits = {});

// Reads the graph of a checkpoint. Errors: NotFound if the checkpoint has none; those of CheckpointReader::Read and of
// DecodeObjectGraph.
absl::StatusOr<ObjectGraph> ReadObjectGraph(const CheckpointReader& reader);

// The names of the tensors that optimizers keep beside the variables they train (momentum and the like), sorted:
//
//   CASK_ASSIGN_OR_RETURN(const std::vector<std::string> slots, OptimizerSlots(reader));
//   // "w/.OPTIMIZER_SLOT/optimizer/momentum/.ATTRIBUTES/VARIABLE_VALUE", or "w/Adam", "w/Adam_1"
//
// The object graph says which, where the checkpoint has one. In checkpoints of TensorFlow 1 a slot is a tensor with the
// dtype and shape of another one, and with its name followed by "/Momentum", "/Adam" or the like. Optimizers of Keras
// since 2.11 keep variables of their own, whose names begin with that of the optimizer; they are not slots.
// Errors: those of ReadObjectGraph, except NotFound, and of CheckpointReader::entries.
absl::StatusOr<std::vector<std::string>> OptimizerSlots(const CheckpointReader& reader);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_OBJECT_GRAPH_H_
