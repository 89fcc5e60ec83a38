// The objects that TensorFlow saved: what `_CHECKPOINTABLE_OBJECT_GRAPH` in its checkpoints tells (the message
// TrackableObjectGraph).
//
//   CASK_ASSIGN_OR_RETURN(ObjectGraph graph, ReadObjectGraph(reader));
//   std::cout << graph.ToString();
//   // (root)
//   // |- layer1
//   // |  |- kernel  layer1/kernel/.ATTRIBUTES/VARIABLE_VALUE
//   // |- model
//   // |  |- first -> layer1
//
// A graph may have cycles, and often has: an object is drawn where it is first met (breadth first, so that its name is
// the shortest), and elsewhere named only. The variables that an optimizer keeps for others (its slot variables) are
// drawn below it, as "momentum of layer1/kernel".

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_OBJECT_GRAPH_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_OBJECT_GRAPH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/reader.h"

namespace tensorcask {

struct ObjectGraph {
  struct Child {
    int node = 0;  // in `nodes`
    std::string local_name;
  };
  struct Attribute {
    std::string name;            // "VARIABLE_VALUE"
    std::string full_name;       // of the variable, as the program called it; may be empty
    std::string checkpoint_key;  // the name of the tensor in the checkpoint
  };
  struct SlotVariable {
    int original_variable_node = 0;
    std::string slot_name;
    int slot_variable_node = 0;
  };
  struct Node {
    std::vector<Child> children;
    std::vector<Attribute> attributes;  // what is saved of it
    std::vector<SlotVariable> slot_variables;
  };
  std::vector<Node> nodes;  // the first is the root; none for a graph without objects

  // The names that lead to each node by the shortest way, joined by '/': "" for the root; for a slot variable that
  // nothing else leads to, TensorFlow's name for it, "layer1/kernel/.OPTIMIZER_SLOT/optimizer/momentum"; for a node
  // that no way leads to, "(node 7)". The names take 64 MiB at most; what is left then is called by number, too.
  std::vector<std::string> Names() const;

  // As above, a line for each node and each further mention of it; text from the file is escaped. It ends
  // at `max_lines` lines or 64 MiB; one more then says how many are left out: "... 2000 lines more". Below 32 levels
  // the lines are not indented further, and long names are cut. What `describe` says of a checkpoint_key ("float32
  // [4,8]") stands before it.
  static constexpr int64_t kMaxLines = 100'000;
  std::string ToString(const std::function<std::string(absl::string_view)>& describe = nullptr,
                       int64_t max_lines = kMaxLines) const;
};

// Numbers that the message leaves out are 0, and name the root. Errors: DataLoss, naming the field, for bytes that are
// no such message, or that name nodes that are not there; ResourceExhausted for more than
// DecodeLimits().max_entries parts.
absl::StatusOr<ObjectGraph> DecodeObjectGraph(absl::string_view message);

// Errors: NotFound if the checkpoint has none; as Read; as DecodeObjectGraph.
absl::StatusOr<ObjectGraph> ReadObjectGraph(const CheckpointReader& reader);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_OBJECT_GRAPH_H_
