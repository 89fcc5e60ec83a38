#include "tensorcask/serialize/checkpoint/object_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

using internal::FieldRule;
using internal::ForEachField;
using internal::MessageRules;
using Kind = FieldRule::Kind;

// tensorflow/core/protobuf/trackable_object_graph.proto. The last two fields of a node say how TensorFlow restores it;
// nothing here needs them.
constexpr FieldRule kChildFields[] = {{1, "node_id", Kind::kVarint}, {2, "local_name", Kind::kUtf8}};
constexpr FieldRule kAttributeFields[] = {
    {1, "name", Kind::kUtf8}, {2, "full_name", Kind::kUtf8}, {3, "checkpoint_key", Kind::kUtf8}};
constexpr FieldRule kSlotFields[] = {{1, "original_variable_node_id", Kind::kVarint},
                                     {2, "slot_name", Kind::kUtf8},
                                     {3, "slot_variable_node_id", Kind::kVarint}};
constexpr FieldRule kSaverFields[] = {{1, "name", Kind::kUtf8}, {2, "object_name", Kind::kUtf8}};
constexpr FieldRule kBoolFields[] = {{1, "value", Kind::kVarint}};
// What the optimizers of TensorFlow 1 call their slots.
constexpr absl::string_view kOldSlots[] = {"Adadelta", "Adadelta_1", "Adagrad", "Adam",      "Adam_1",   "Ftrl",
                                           "Ftrl_1",   "Momentum",   "RMSProp", "RMSProp_1", "RMSProp_2"};

constexpr MessageRules kChildRules{kChildFields};
constexpr MessageRules kAttributeRules{kAttributeFields};
constexpr MessageRules kSlotRules{kSlotFields};
constexpr MessageRules kSaverRules{kSaverFields};
constexpr MessageRules kBoolRules{kBoolFields};
constexpr FieldRule kNodeFields[] = {{1, "children", Kind::kMessage, &kChildRules},
                                     {2, "attributes", Kind::kMessage, &kAttributeRules},
                                     {3, "slot_variables", Kind::kMessage, &kSlotRules},
                                     {4, "registered_saver", Kind::kMessage, &kSaverRules},
                                     {5, "has_checkpoint_values", Kind::kMessage, &kBoolRules}};
constexpr MessageRules kNodeRules{kNodeFields};
constexpr FieldRule kGraphFields[] = {{1, "nodes", Kind::kMessage, &kNodeRules}};
constexpr MessageRules kGraphRules{kGraphFields};

std::string Text(const WireReader::Field& field) { return std::string(field.bytes); }

// Turns checked messages into a graph. Keeps an error if a number names no node.
class GraphBuilder {
 public:
  explicit GraphBuilder(int64_t num_nodes) : num_nodes_(num_nodes) {}

  ObjectGraph::Node Node(absl::string_view message) {
    ObjectGraph::Node node;
    ForEachField(message, [&](const WireReader::Field& field) {
      if (field.number == 1) node.children.push_back(Child(field.bytes));
      if (field.number == 2) node.attributes.push_back(Attribute(field.bytes));
      if (field.number == 3) node.slot_variables.push_back(Slot(field.bytes));
    });
    ++position_;
    return node;
  }
  const absl::Status& status() const { return status_; }

 private:
  int NodeId(const WireReader::Field& field, absl::string_view name) {
    // As an int32 of protobuf: a negative number has 64 bits, and the low 32 count.
    const auto id = static_cast<int32_t>(static_cast<uint32_t>(field.value));
    if (id >= 0 && id < num_nodes_) return id;
    if (status_.ok()) {
      status_ = absl::DataLossError(
          absl::StrCat("object graph: node ", position_, " has ", name, " ", id, "; there are ", num_nodes_, " nodes"));
    }
    return 0;
  }
  ObjectGraph::Child Child(absl::string_view message) {
    ObjectGraph::Child child;
    ForEachField(message, [&](const WireReader::Field& field) {
      if (field.number == 1) child.node = NodeId(field, "children.node_id");
      if (field.number == 2) child.local_name = Text(field);
    });
    return child;
  }
  static ObjectGraph::Attribute Attribute(absl::string_view message) {
    ObjectGraph::Attribute attribute;
    ForEachField(message, [&](const WireReader::Field& field) {
      if (field.number == 1) attribute.name = Text(field);
      if (field.number == 2) attribute.full_name = Text(field);
      if (field.number == 3) attribute.checkpoint_key = Text(field);
    });
    return attribute;
  }
  ObjectGraph::SlotVariable Slot(absl::string_view message) {
    ObjectGraph::SlotVariable slot;
    ForEachField(message, [&](const WireReader::Field& field) {
      if (field.number == 1) {
        slot.original_variable_node = NodeId(field, "slot_variables.original_variable_node_id");
      }
      if (field.number == 2) slot.slot_name = Text(field);
      if (field.number == 3) slot.slot_variable_node = NodeId(field, "slot_variables.slot_variable_node_id");
    });
    return slot;
  }

  const int64_t num_nodes_;
  int64_t position_ = 0;  // the position of the node being read
  absl::Status status_;
};

// ---- Names and drawing ----------------------------------------------------------------------------------------------

constexpr uint64_t kWalkBytes = 64;  // for a node, in Walk and while it is drawn

// The edges of a node are numbered through: its children, then its slot variables.
size_t NumEdges(const ObjectGraph::Node& node) { return node.children.size() + node.slot_variables.size(); }

int Target(const ObjectGraph::Node& node, size_t edge) {
  return edge < node.children.size() ? node.children[edge].node
                                     : node.slot_variables[edge - node.children.size()].slot_variable_node;
}

// Records the edge by which each node is first reached: breadth first over children, then over slot variables, then the
// nodes that no edge leads to.
struct Forest {
  static constexpr int kNone = -1;
  struct Meeting {
    int parent = kNone;
    size_t edge = 0;  // the edge that leads from the parent to it
  };
  std::vector<Meeting> met;  // by node
  std::vector<int> order;    // the nodes, as they are reached
};

Forest Walk(const ObjectGraph& graph) {
  const std::vector<ObjectGraph::Node>& nodes = graph.nodes;
  Forest forest;
  forest.met.resize(nodes.size());
  forest.order.reserve(nodes.size());
  std::vector<bool> seen(nodes.size());
  const auto meet = [&](int node, int parent, size_t edge) {
    if (seen[static_cast<size_t>(node)]) return;
    seen[static_cast<size_t>(node)] = true;
    forest.met[static_cast<size_t>(node)] = {parent, edge};
    forest.order.push_back(node);
  };
  size_t children_done = 0;  // how many nodes of `order` have had their children visited
  size_t slots_done = 0;
  for (size_t root = 0; root < nodes.size();) {
    const bool slots = children_done == forest.order.size();
    if (slots && slots_done == forest.order.size()) {
      meet(static_cast<int>(root++), Forest::kNone, 0);
      continue;
    }
    const int from = forest.order[slots ? slots_done++ : children_done++];
    const ObjectGraph::Node& node = nodes[static_cast<size_t>(from)];
    const size_t begin = slots ? node.children.size() : 0;
    const size_t end = slots ? NumEdges(node) : node.children.size();
    for (size_t edge = begin; edge < end; ++edge) meet(Target(node, edge), from, edge);
  }
  return forest;
}

std::string NumberName(int node) { return absl::StrCat("(node ", node, ")"); }

std::vector<std::string> NamesOf(const ObjectGraph& graph, const Forest& forest) {
  size_t budget = size_t{64} << 20;  // bytes; the names along a chain of n nodes add up to about n^2
  std::vector<std::string> names(graph.nodes.size());
  std::vector<bool> named(graph.nodes.size());
  const auto name_of = [&](int node) {
    return named[static_cast<size_t>(node)] ? names[static_cast<size_t>(node)] : NumberName(node);
  };
  const auto joined = [](const std::string& parent, absl::string_view name) {
    return parent.empty() ? std::string(name) : absl::StrCat(parent, "/", name);
  };
  for (const int node : forest.order) {
    std::string& name = names[static_cast<size_t>(node)];
    const Forest::Meeting& met = forest.met[static_cast<size_t>(node)];
    if (node == 0) {
      name = "";
    } else if (met.parent == Forest::kNone || budget == 0) {
      name = NumberName(node);
    } else {
      const ObjectGraph::Node& parent = graph.nodes[static_cast<size_t>(met.parent)];
      const std::string& parent_name = names[static_cast<size_t>(met.parent)];
      if (met.edge < parent.children.size()) {
        name = joined(parent_name, parent.children[met.edge].local_name);
      } else {
        const ObjectGraph::SlotVariable& slot = parent.slot_variables[met.edge - parent.children.size()];
        name = joined(joined(joined(name_of(slot.original_variable_node), ".OPTIMIZER_SLOT"), parent_name),
                      slot.slot_name);
      }
      if (name.size() > budget) {
        budget = 0;
        name = NumberName(node);
      } else {
        budget -= name.size();
      }
    }
    named[static_cast<size_t>(node)] = true;
  }
  return names;
}

// `text` if it is a short word of printable ASCII, else quoted, escaped and cut.
std::string Word(absl::string_view text) {
  constexpr size_t kMaxBytes = 200;
  const bool plain = !text.empty() && text.size() <= kMaxBytes && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '"' && c != '\\';
  });
  return plain ? std::string(text) : Quoted(text, kMaxBytes);
}

// The name of a node in a drawing: "(root)", "(node 7)", layer1/kernel.
std::string WordFor(int node, const std::vector<std::string>& names) {
  const std::string& name = names[static_cast<size_t>(node)];
  if (node == 0) return "(root)";
  return name == NumberName(node) ? name : Word(name);
}

}  // namespace

std::vector<std::string> ObjectGraph::Names() const { return NamesOf(*this, Walk(*this)); }

std::string ObjectGraph::ToString(const std::function<std::string(absl::string_view)>& describe,
                                  int64_t max_lines) const {
  constexpr size_t kMaxIndent = 32;  // levels; without a limit the lines of a chain of n nodes add up to about n^2
  constexpr size_t kMaxBytes = size_t{64} << 20;
  const Forest forest = Walk(*this);
  int64_t lines = 0;  // to draw: one for each edge, and one for each node that no edge leads to
  for (const Node& node : nodes) lines += static_cast<int64_t>(NumEdges(node));
  for (const Forest::Meeting& met : forest.met) lines += met.parent == Forest::kNone ? 1 : 0;
  const std::vector<std::string> names = NamesOf(*this, forest);
  std::string out;
  const auto full = [&] { return max_lines <= 0 || out.size() >= kMaxBytes; };
  const auto begin_line = [&](size_t depth) {
    --lines;
    --max_lines;
    const size_t bars = std::min(depth, kMaxIndent);
    for (size_t i = 0; i < bars; ++i) out += i + 1 < bars ? "|  " : "|- ";
    if (depth > kMaxIndent) absl::StrAppend(&out, "(level ", depth, ") ");
  };
  const auto draw = [&](size_t depth, const std::string& label, int node) {
    begin_line(depth);
    out += label;
    for (const Attribute& attribute : nodes[static_cast<size_t>(node)].attributes) {
      if (out.size() >= kMaxBytes) break;
      const std::string words = describe == nullptr ? "" : describe(attribute.checkpoint_key);
      absl::StrAppend(&out, words.empty() ? "" : "  ", words, "  ", Word(attribute.checkpoint_key));
    }
    out += '\n';
  };
  struct Step {
    int node;
    size_t next_edge;
  };
  std::vector<Step> path;  // instead of a recursion, because graphs may be deep
  for (const int root : forest.order) {
    if (full()) break;
    if (forest.met[static_cast<size_t>(root)].parent != Forest::kNone) continue;
    draw(0, WordFor(root, names), root);
    path.push_back({root, 0});
    while (!path.empty() && !full()) {
      const int from = path.back().node;
      const Node& node = nodes[static_cast<size_t>(from)];
      const size_t edge = path.back().next_edge++;
      if (edge == NumEdges(node)) {
        path.pop_back();
        continue;
      }
      std::string label;
      if (edge < node.children.size()) {
        label = Word(node.children[edge].local_name);
      } else {
        const SlotVariable& slot = node.slot_variables[edge - node.children.size()];
        label = absl::StrCat(Word(slot.slot_name), " of ", WordFor(slot.original_variable_node, names));
      }
      const int target = Target(node, edge);
      const Forest::Meeting& met = forest.met[static_cast<size_t>(target)];
      if (met.parent == from && met.edge == edge) {
        draw(path.size(), label, target);
        path.push_back({target, 0});
      } else {
        begin_line(path.size());
        absl::StrAppend(&out, label, " -> ", WordFor(target, names), "\n");
      }
    }
  }
  if (lines > 0) absl::StrAppend(&out, "... ", lines, lines == 1 ? " line more\n" : " lines more\n");
  return out;
}

absl::StatusOr<ObjectGraph> DecodeObjectGraph(absl::string_view message, const DecodeLimits& limits) {
  if (const absl::Status status = internal::CheckMessage(message, kGraphRules, limits.max_depth); !status.ok()) {
    const absl::StatusCode code = absl::IsInvalidArgument(status) ? absl::StatusCode::kDataLoss : status.code();
    return absl::Status(code, absl::StrCat("object graph: ", status.message()));
  }
  // An empty part takes two bytes in the message and many more in memory.
  int64_t num_nodes = 0;
  int64_t num_parts = 0;
  uint64_t bytes = 0;  // in memory
  ForEachField(message, [&](const WireReader::Field& field) {
    if (field.number != 1) return;
    ++num_nodes;
    ++num_parts;
    bytes += sizeof(ObjectGraph::Node) + kWalkBytes + field.bytes.size();
    ForEachField(field.bytes, [&](const WireReader::Field& part) {
      ++num_parts;
      // Counted twice, because a list exists twice while it grows.
      if (part.number == 1) bytes += 2 * sizeof(ObjectGraph::Child);
      if (part.number == 2) bytes += 2 * sizeof(ObjectGraph::Attribute);
      if (part.number == 3) bytes += 2 * sizeof(ObjectGraph::SlotVariable);
    });
  });
  if (num_parts > limits.max_entries) {
    return absl::ResourceExhaustedError(
        absl::StrCat("object graph: has ", num_parts, " parts, past max_entries ", limits.max_entries));
  }
  if (const absl::Status within = DecodeQuota::ForUnbacked(limits, 2 * message.size()).Charge(bytes); !within.ok()) {
    return Annotate(within, absl::StrCat("object graph: its ", num_nodes, " nodes"));
  }
  ObjectGraph graph;
  graph.nodes.reserve(static_cast<size_t>(num_nodes));
  GraphBuilder builder(num_nodes);
  ForEachField(message, [&](const WireReader::Field& field) {
    if (field.number == 1) graph.nodes.push_back(builder.Node(field.bytes));
  });
  CASK_RETURN_IF_ERROR(builder.status());
  return graph;
}

absl::StatusOr<ObjectGraph> ReadObjectGraph(const CheckpointReader& reader) {
  constexpr char kKey[] = "_CHECKPOINTABLE_OBJECT_GRAPH";
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, reader.Read(kKey));
  if (tensor.dtype() != DType::kString || tensor.num_elements() != 1) {
    return absl::DataLossError(absl::StrCat(reader.prefix(), ": ", kKey, " is ", DTypeName(tensor.dtype()), " ",
                                            tensor.shape().ToString(), ", not one string"));
  }
  absl::StatusOr<ObjectGraph> graph = DecodeObjectGraph(tensor.flat<std::string>()[0]);
  if (graph.ok()) return graph;
  return Annotate(graph.status(), reader.prefix());
}

absl::StatusOr<std::vector<std::string>> OptimizerSlots(const CheckpointReader& reader) {
  std::vector<std::string> slots;
  const absl::StatusOr<ObjectGraph> graph = ReadObjectGraph(reader);
  if (graph.ok()) {
    for (const ObjectGraph::Node& node : graph->nodes) {
      for (const ObjectGraph::SlotVariable& slot : node.slot_variables) {
        const auto& attributes = graph->nodes[static_cast<size_t>(slot.slot_variable_node)].attributes;
        for (const ObjectGraph::Attribute& attribute : attributes) slots.push_back(attribute.checkpoint_key);
      }
    }
  } else if (absl::IsNotFound(graph.status())) {
    CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, reader.entries());
    absl::flat_hash_map<absl::string_view, const CheckpointEntry*> by_name;
    for (const CheckpointEntry& entry : entries) by_name.emplace(entry.name, &entry);
    for (const CheckpointEntry& entry : entries) {
      const absl::string_view name = entry.name;
      const size_t slash = name.rfind('/');
      if (slash == absl::string_view::npos) continue;
      const absl::string_view slot = name.substr(slash + 1);
      if (std::find(std::begin(kOldSlots), std::end(kOldSlots), slot) == std::end(kOldSlots)) continue;
      const auto variable = by_name.find(name.substr(0, slash));
      if (variable == by_name.end()) continue;
      if (variable->second->dtype == entry.dtype && variable->second->shape == entry.shape) slots.push_back(entry.name);
    }
  } else {
    return graph.status();
  }
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

}  // namespace tensorcask
