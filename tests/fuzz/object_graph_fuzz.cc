// An object graph: whatever its edges, each node gets a name, and the drawing stays within its limits.
//
// Is to reach what input can reach of these files:
//   serialize/checkpoint/object_graph*

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/object_graph.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask {
namespace {

void Check(absl::string_view message) {
  const absl::StatusOr<ObjectGraph> graph = DecodeObjectGraph(message);
  if (!graph.ok()) return;
  const auto is_node = [&](int node) { return node >= 0 && static_cast<size_t>(node) < graph->nodes.size(); };
  size_t parts = graph->nodes.size();
  size_t attributes = 0;
  for (const ObjectGraph::Node& node : graph->nodes) {
    parts += node.children.size() + node.slot_variables.size() + node.attributes.size();
    attributes += node.attributes.size();
    for (const ObjectGraph::Child& child : node.children) FUZZ_CHECK(is_node(child.node), "a child that is no node");
    for (const ObjectGraph::SlotVariable& slot : node.slot_variables) {
      FUZZ_CHECK(is_node(slot.slot_variable_node) && is_node(slot.original_variable_node), "a slot that is no node");
    }
  }
  const std::vector<std::string> names = graph->Names();
  FUZZ_CHECK(names.size() == graph->nodes.size(), "not a name for each");
  FUZZ_CHECK(names.empty() || names[0].empty(), "the root has a name");
  size_t name_bytes = 0;
  for (const std::string& name : names) name_bytes += name.size();
  FUZZ_CHECK(name_bytes <= (size_t{64} << 20) + 32 * names.size(), "names past their bound");

  size_t described = 0;
  const std::string drawing = graph->ToString(
      [&](absl::string_view) {
        ++described;
        return std::string("float32 [2]");
      },
      /*max_lines=*/INT64_MAX);
  // Indentation, and at most two words of 200 bytes, four times as many escaped, for each.
  FUZZ_CHECK(drawing.size() <= 2048 * parts, "a drawing past its bound");
  FUZZ_CHECK(described == attributes, "each node is drawn once, with what is saved of it");
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
