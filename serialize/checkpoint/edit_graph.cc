#include "tensorcask/serialize/checkpoint/edit_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/object_graph.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::checkpoint {
namespace {

constexpr char kVariableValue[] = "VARIABLE_VALUE";
constexpr char kEndOfVariables[] = "/.ATTRIBUTES/VARIABLE_VALUE";

// Calls fn(field, all bytes of the field). Requires: `message` is a message.
template <typename Fn>
void ForEachWholeField(absl::string_view message, Fn&& fn) {
  WireReader reader(message, internal::kAnyDepth);
  WireReader::Field field;
  for (bool more = reader.Next(&field); more;) {
    WireReader::Field next;
    more = reader.Next(&next);
    const uint64_t end = more ? next.position : message.size();
    fn(field, message.substr(field.position, end - field.position));
    field = next;
  }
}

void AppendField(uint32_t number, absl::string_view content, std::string* out) {
  AppendVarint(internal::WireTag(number, WireType::kBytes), out);
  AppendVarint(content.size(), out);
  out->append(content.data(), content.size());
}

class GraphEditor {
 public:
  GraphEditor(absl::string_view message, const NewNames& names, ObjectGraph graph)
      : message_(message), names_(names), graph_(std::move(graph)) {}

  absl::StatusOr<std::string> Run() {
    CASK_RETURN_IF_ERROR(CheckSavers());
    CASK_RETURN_IF_ERROR(ChooseKeys());
    CASK_RETURN_IF_ERROR(CheckReached());
    std::string out;
    size_t node = 0;
    ForEachWholeField(message_, [&](const WireReader::Field& field, absl::string_view whole) {
      if (field.number == 1) {
        AppendField(1, Rewritten(field.bytes, node++), &out);
      } else {
        out.append(whole.data(), whole.size());
      }
    });
    return out;
  }

 private:
  static absl::Status Refuse(absl::string_view name, absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tensor ", Quoted(name), " is named by the object graph, by which TensorFlow restores objects, and ", why, ";",
        kWithoutGraphHint));
  }

  // The names of tensors that a function of the program saved (field registered_saver) are not in the graph.
  absl::Status CheckSavers() const {
    bool has_savers = false;
    internal::ForEachField(message_, [&](const WireReader::Field& node) {
      if (node.number != 1) return;
      internal::ForEachField(node.bytes,
                             [&](const WireReader::Field& field) { has_savers = has_savers || field.number == 4; });
    });
    if (!has_savers) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "the object graph has objects that TensorFlow restores by functions of the program, so all tensors "
        "must stay as they are;",
        kWithoutGraphHint));
  }

  // Chooses the new key of each attribute, and which nodes are left out: variables without a value.
  absl::Status ChooseKeys() {
    for (const ObjectGraph::Node& node : graph_.nodes) {
      std::vector<std::string> keys;
      for (const ObjectGraph::Attribute& attribute : node.attributes) {
        CASK_ASSIGN_OR_RETURN(std::string key, NewKey(node, attribute));
        keys.push_back(std::move(key));
      }
      const bool has_none = !node.attributes.empty() &&
                            std::all_of(keys.begin(), keys.end(), [](const std::string& key) { return key.empty(); }) &&
                            !node.attributes[0].checkpoint_key.empty();
      is_pruned_.push_back(has_none && node.children.empty() && node.slot_variables.empty());
      keys_.push_back(std::move(keys));
    }
    return absl::OkStatus();
  }

  // "" for an attribute without tensors. An object that is not a variable may have several tensors for an attribute,
  // whose names begin with its key: "table/.ATTRIBUTES/table" has "table/.ATTRIBUTES/table-keys" and "-values".
  absl::StatusOr<std::string> NewKey(const ObjectGraph::Node& node, const ObjectGraph::Attribute& attribute) const {
    const std::string& key = attribute.checkpoint_key;
    if (key.empty()) return key;
    const auto exact = names_.find(key);
    if (exact != names_.end()) {
      const std::string& to = exact->second;
      if (to.empty() || to == key) return to;
      if (attribute.name != kVariableValue || node.attributes.size() != 1) return Refuse(key, "must keep its name");
      if (absl::EndsWith(to, kEndOfVariables)) return to;
      return Refuse(key, absl::StrCat("needs a name that ends in ", kEndOfVariables, "; ", Quoted(to), " does not"));
    }
    size_t count = 0;
    std::vector<absl::string_view> removed;
    for (auto part = names_.lower_bound(key); part != names_.end() && absl::StartsWith(part->first, key); ++part) {
      ++count;
      if (part->second.empty()) {
        removed.push_back(part->first);
      } else if (part->second != part->first) {
        return Refuse(part->first, "must keep its name");
      }
    }
    if (removed.empty()) return key;
    if (removed.size() == count) return std::string();
    return Refuse(removed[0], absl::StrCat("is one of ", count, " tensors of an object, of which others stay"));
  }

  bool IsKept(int node) const { return !is_pruned_[static_cast<size_t>(node)]; }
  bool IsKept(const ObjectGraph::SlotVariable& slot) const {
    return IsKept(slot.original_variable_node) && IsKept(slot.slot_variable_node);
  }

  // The nodes that TensorFlow finds from the root: through children, and through slot variables.
  std::vector<bool> Reached(bool is_edited) const {
    std::vector<bool> seen(graph_.nodes.size());
    std::vector<int> todo;
    const auto meet = [&](int node) {
      if (!seen[static_cast<size_t>(node)]) todo.push_back(node);
      seen[static_cast<size_t>(node)] = true;
    };
    if (!seen.empty()) meet(0);
    while (!todo.empty()) {
      const ObjectGraph::Node& node = graph_.nodes[static_cast<size_t>(todo.back())];
      todo.pop_back();
      for (const ObjectGraph::Child& child : node.children) {
        if (!is_edited || IsKept(child.node)) meet(child.node);
      }
      for (const ObjectGraph::SlotVariable& slot : node.slot_variables) {
        if (!is_edited || IsKept(slot)) meet(slot.slot_variable_node);
      }
    }
    return seen;
  }

  absl::Status CheckReached() const {
    if (std::find(is_pruned_.begin(), is_pruned_.end(), true) == is_pruned_.end()) return absl::OkStatus();
    const std::vector<bool> before = Reached(/*is_edited=*/false);
    const std::vector<bool> after = Reached(/*is_edited=*/true);
    for (size_t i = 0; i < before.size(); ++i) {
      if (!before[i] || after[i] || is_pruned_[i]) continue;
      for (size_t j = 0; j < keys_[i].size(); ++j) {
        if (keys_[i][j].empty()) continue;
        return Refuse(graph_.nodes[i].attributes[j].checkpoint_key,
                      "belongs to a variable that is left out: leave out both");
      }
    }
    return absl::OkStatus();
  }

  std::string Rewritten(absl::string_view message, size_t number) const {
    const ObjectGraph::Node& node = graph_.nodes[number];
    size_t child = 0;
    size_t attribute = 0;
    size_t slot = 0;
    std::string out;
    ForEachWholeField(message, [&](const WireReader::Field& field, absl::string_view whole) {
      if (field.number == 1 && !IsKept(node.children[child++].node)) return;
      if (field.number == 3 && !IsKept(node.slot_variables[slot++])) return;
      if (field.number == 2) {
        const std::string& key = keys_[number][attribute];
        const bool is_same = key == node.attributes[attribute++].checkpoint_key;
        if (key.empty() && !is_same) return;
        if (!is_same) {
          AppendField(2, WithKey(field.bytes, key), &out);
          return;
        }
      }
      out.append(whole.data(), whole.size());
    });
    return out;
  }

  static std::string WithKey(absl::string_view attribute, absl::string_view key) {
    std::string out;
    ForEachWholeField(attribute, [&](const WireReader::Field& field, absl::string_view whole) {
      if (field.number != 3) out.append(whole.data(), whole.size());
    });
    AppendField(3, key, &out);
    return out;
  }

  const absl::string_view message_;
  const NewNames& names_;
  const ObjectGraph graph_;
  std::vector<std::vector<std::string>> keys_;  // by node and attribute; "": left out
  std::vector<bool> is_pruned_;                 // by node
};

}  // namespace

absl::StatusOr<std::string> EditObjectGraph(absl::string_view message, const NewNames& names,
                                            const DecodeLimits& limits) {
  CASK_ASSIGN_OR_RETURN(ObjectGraph graph, DecodeObjectGraph(message, limits));
  return GraphEditor(message, names, std::move(graph)).Run();
}

}  // namespace tensorcask::checkpoint
