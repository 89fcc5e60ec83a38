#include "tensorcask/serialize/onnx/internal/graph_names.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/stored/name_order.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::onnx {
namespace {

// The tensors in the order of their names, and of their graphs where names are equal.
std::vector<uint32_t> SortByName(absl::Span<const int> graphs, absl::Span<const absl::string_view> names) {
  std::vector<uint32_t> order = stored::NameOrder(names);
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(begin, order.end(), [&](uint32_t i) { return names[i] != names[*begin]; });
    std::sort(begin, end, [&](uint32_t a, uint32_t b) { return std::tie(graphs[a], a) < std::tie(graphs[b], b); });
    begin = end;
  }
  return order;
}

}  // namespace

std::string GraphNames::PathOf(int graph, bool numbered) const {
  std::vector<int> way;
  for (int at = graph; at > 0; at = graphs_[static_cast<size_t>(at)].around) way.push_back(at);
  std::string path;
  for (size_t i = way.size(); i-- > 0;) {
    absl::StrAppend(&path, graphs_[static_cast<size_t>(way[i])].label,
                    numbered && i == 0 ? absl::StrCat("#", graph) : "", "/");
  }
  return path;
}

uint64_t GraphNames::PathBytes(int graph) const {
  constexpr uint64_t kNumberBytes = 12;
  uint64_t bytes = kNumberBytes;
  for (int at = graph; at > 0; at = graphs_[static_cast<size_t>(at)].around) {
    bytes += graphs_[static_cast<size_t>(at)].label.size() + 1;
  }
  return bytes;
}

absl::StatusOr<GraphNames::Listed> GraphNames::Resolve(absl::Span<const int> graphs,
                                                       std::vector<absl::string_view> names,
                                                       ListingBudget* budget) const {
  Listed listed;
  listed.order = SortByName(graphs, names);
  const std::vector<uint32_t>& order = listed.order;
  std::vector<absl::string_view> in_graph;  // the names in the graph of the tensors that are renamed
  for (size_t first = 0; first < order.size();) {
    size_t last = first + 1;  // one past
    for (; last < order.size() && names[order[last]] == names[order[first]]; ++last) {
      if (graphs[order[last]] != graphs[order[last - 1]]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("two tensors of one graph have the name ", Quoted(names[order[last]])));
    }
    for (size_t i = first; last - first > 1 && i < last; ++i) {
      if (graphs[order[i]] == 0) continue;
      listed.renamed.emplace_back(order[i], "");
      in_graph.push_back(names[order[i]]);
    }
    first = last;
  }
  if (listed.renamed.empty()) return listed;
  for (const bool numbered : {false, true}) {
    for (size_t i = 0; i < listed.renamed.size(); ++i) {
      auto& [tensor, name] = listed.renamed[i];
      CASK_RETURN_IF_ERROR(budget->Charge(PathBytes(graphs[tensor]) + in_graph[i].size()));
      name = absl::StrCat(PathOf(graphs[tensor], numbered), in_graph[i]);
      names[tensor] = name;
    }
    listed.order = SortByName(graphs, names);
    const auto twice =
        std::adjacent_find(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return names[a] == names[b]; });
    if (twice == order.end()) return listed;
    if (numbered) {
      return absl::InvalidArgumentError(
          absl::StrCat("two tensors of different graphs would be listed as ", Quoted(names[*twice])));
    }
  }
  return listed;
}

}  // namespace tensorcask::onnx
