#include "tensorcask/python/src/bindings.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/serialize/checkpoint/object_graph.h"
#include "tensorcask/tensor/base/status_util.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

nb::object ToNode(const ObjectGraph::Node& node) {
  nb::dict children;
  for (const ObjectGraph::Child& child : node.children) children[ToText(child.local_name)] = child.node;
  nb::list attributes;
  for (const ObjectGraph::Attribute& one : node.attributes) {
    attributes.append(nb::make_tuple(ToText(one.name), ToText(one.full_name), ToText(one.checkpoint_key)));
  }
  return nb::make_tuple(children, attributes);
}

nb::list Decode(const nb::bytes& message, nb::handle where) {
  const absl::string_view bytes(message.c_str(), message.size());
  const std::string context = FromText(where, "where");
  const ObjectGraph graph = Take(WithoutGil([&]() -> absl::StatusOr<ObjectGraph> {
    CASK_ASSIGN_OR_ANNOTATE(ObjectGraph decoded, DecodeObjectGraph(bytes), context);
    return decoded;
  }));
  nb::list nodes;
  for (const ObjectGraph::Node& node : graph.nodes) nodes.append(ToNode(node));
  return nodes;
}

}  // namespace

void DefineObjectGraph(nb::module_& m) {
  m.def("decode_object_graph", &Decode, nb::arg("message"), nb::arg("where"),
        nb::sig("def decode_object_graph(message: bytes, where: str) "
                "-> list[tuple[dict[str, int], list[tuple[str, str, str]]]]"),
        "The nodes of a TrackableObjectGraph, the root first: (children by local name, saved tensors). A saved tensor "
        "is (name, full name of the variable, name of the tensor in the checkpoint). Errors begin with ``where``.");
}

}  // namespace tensorcask::python
