// Names of tensors of a model that has several graphs: a name of ONNX is that of one tensor within one graph only.
//
//   GraphNames names;
//   names.AddMain();                                  // 0
//   const int then = names.Add(0, "if_1.then_branch");
//   const int other = names.Add(0, "if_1.else_branch");
//   CASK_ASSIGN_OR_RETURN(GraphNames::Listed listed, names.Resolve({0, then, other}, {"w", "b", "b"}, &budget));
//   listed.renamed;   // 1: "if_1.then_branch/b", 2: "if_1.else_branch/b"
//
// Names that only one graph has stay, and so do those of the main graph.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_GRAPH_NAMES_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_GRAPH_NAMES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/listing_budget.h"

namespace tensorcask::onnx {

class GraphNames {
 public:
  static uint64_t MemoryOf(absl::string_view label) { return sizeof(Graph) + label.size(); }

  void AddMain() { graphs_.push_back({-1, ""}); }
  // A graph inside the graph `around`. Returns its number. Requires: AddMain.
  int Add(int around, std::string label) {
    graphs_.push_back({around, std::move(label)});
    return static_cast<int>(graphs_.size()) - 1;
  }

  struct Listed {
    std::vector<uint32_t> order;                            // the numbers of the tensors, sorted by their new names
    std::vector<std::pair<uint32_t, std::string>> renamed;  // tensors whose names were not unique, and their new ones
  };

  // Makes the names unique: names[i] is that of a tensor of graph graphs[i]. Charges the budget before it makes a name.
  // Errors: InvalidArgument for two tensors of one graph with one name; ResourceExhausted past the budget.
  absl::StatusOr<Listed> Resolve(absl::Span<const int> graphs, std::vector<absl::string_view> names,
                                 ListingBudget* budget) const;

 private:
  struct Graph {
    int around;
    std::string label;
  };

  // "if_1.then_branch/loop.body/"; with `numbered`, the last label ends in "#" and the number of the graph.
  std::string PathOf(int graph, bool numbered) const;
  uint64_t PathBytes(int graph) const;

  std::vector<Graph> graphs_;
};

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_GRAPH_NAMES_H_
