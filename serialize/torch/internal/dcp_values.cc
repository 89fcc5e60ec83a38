#include "tensorcask/serialize/torch/internal/dcp_values.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"

namespace tensorcask::torch {

void NestedValues::AddTensor(absl::string_view name, const std::vector<PathStep>* path, uint64_t number) {
  Place(name, path, tree_.AddTensor(number));
}

void NestedValues::AddValue(absl::string_view name, const std::vector<PathStep>* path, Value value,
                            absl::Span<const uint64_t> numbers) {
  Place(name, path, CopyOf(value, numbers));
}

size_t NestedValues::ChildOf(size_t parent, const PathStep& step) {
  std::string key = step.kind == PathStep::Kind::kKey ? absl::StrCat("k", step.text) : absl::StrCat("p", step.number);
  const auto [found, is_new] = children_.try_emplace({parent, std::move(key)}, nodes_.size());
  if (is_new) {
    nodes_[parent].children.push_back(nodes_.size());
    nodes_.push_back({step, std::nullopt, {}});
  }
  return found->second;
}

void NestedValues::Place(absl::string_view name, const std::vector<PathStep>* path, ValueTree::Id value) {
  const std::vector<PathStep> by_name = {{PathStep::Kind::kKey, std::string(name), 0}};
  size_t at = 0;
  for (const PathStep& step : path != nullptr ? *path : by_name) {
    if (nodes_[at].value.has_value()) break;
    at = ChildOf(at, step);
  }
  if (nodes_[at].value.has_value() || !nodes_[at].children.empty()) {
    nodes_[0].children.push_back(nodes_.size());
    nodes_.push_back({by_name[0], value, {}});
    return;
  }
  nodes_[at].value = value;
}

ValueTree NestedValues::Build() {
  std::vector<ValueTree::Id> ids(nodes_.size());
  // Children first; the root is the last.
  for (size_t i = nodes_.size(); i > 0; --i) {
    Node& node = nodes_[i - 1];
    if (node.value.has_value()) {
      ids[i - 1] = *node.value;
      continue;
    }
    std::vector<size_t> in_order = node.children;
    std::sort(in_order.begin(), in_order.end(), [&](size_t a, size_t b) {
      return nodes_[a].step.kind == nodes_[b].step.kind && nodes_[a].step.kind == PathStep::Kind::kPosition
                 ? nodes_[a].step.number < nodes_[b].step.number
                 : a < b;
    });
    bool is_list = i > 1;
    for (size_t k = 0; k < in_order.size() && is_list; ++k) {
      const PathStep& step = nodes_[in_order[k]].step;
      is_list = step.kind == PathStep::Kind::kPosition && step.number == static_cast<int64_t>(k);
    }
    if (is_list) {
      std::vector<ValueTree::Id> items;
      for (const size_t child : in_order) items.push_back(ids[child]);
      ids[i - 1] = tree_.AddItems(ValueKind::kList, items);
      continue;
    }
    std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
    for (const size_t child : node.children) {
      const PathStep& step = nodes_[child].step;
      const ValueTree::Id key =
          step.kind == PathStep::Kind::kKey ? tree_.AddText(step.text) : tree_.AddInt(step.number);
      entries.emplace_back(key, ids[child]);
    }
    ids[i - 1] = tree_.AddMap(entries);
  }
  return std::move(tree_);
}

ValueTree::Id NestedValues::CopyOf(Value root, absl::Span<const uint64_t> numbers) {
  absl::flat_hash_map<ValueTree::Id, ValueTree::Id> copies;
  const auto copy = [&](Value value) -> ValueTree::Id {
    const auto of = [&](Value child) { return copies.at(child.id()); };
    switch (value.kind()) {
      case ValueKind::kNone:
        return tree_.AddNone();
      case ValueKind::kBool:
        return tree_.AddBool(value.bool_value());
      case ValueKind::kInt:
        return tree_.AddInt(value.int_value(), value.bits());
      case ValueKind::kUint:
        return tree_.AddUint(value.uint_value(), value.bits());
      case ValueKind::kFloat:
        return tree_.AddFloat(value.float_value(), value.bits());
      case ValueKind::kComplex:
        return tree_.AddComplex(value.complex_value(), value.bits());
      case ValueKind::kText:
      case ValueKind::kBytes:
      case ValueKind::kBigInt:
      case ValueKind::kDType:
      case ValueKind::kDevice:
        return tree_.AddText(value.text(), value.kind());
      case ValueKind::kTensor:
        return tree_.AddTensor(numbers[static_cast<size_t>(value.tensor())]);
      case ValueKind::kFileArray:
        return tree_.AddFileArray(value.file_array());
      case ValueKind::kList:
      case ValueKind::kTuple:
      case ValueKind::kSet:
      case ValueKind::kSize: {
        std::vector<ValueTree::Id> items;
        for (size_t i = 0; i < value.size(); ++i) items.push_back(of(value.item(i)));
        return tree_.AddItems(value.kind(), items);
      }
      case ValueKind::kMap: {
        std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
        for (size_t i = 0; i < value.size(); ++i) entries.emplace_back(of(value.key(i)), of(value.entry(i)));
        return tree_.AddMap(entries);
      }
      case ValueKind::kObject:
        return tree_.AddObject(value.class_name(), of(value.arguments()), of(value.state()));
    }
    return tree_.AddNone();
  };
  // A value is copied when all below it are.
  std::vector<Value> open = {root};
  while (!open.empty()) {
    const Value value = open.back();
    const size_t before = open.size();
    if (!copies.contains(value.id())) {
      for (size_t i = 0; i < value.num_children(); ++i) {
        if (!copies.contains(value.child(i).id())) open.push_back(value.child(i));
      }
      if (open.size() > before) continue;
      copies.emplace(value.id(), copy(value));
    }
    open.pop_back();
  }
  return copies.at(root.id());
}

}  // namespace tensorcask::torch
