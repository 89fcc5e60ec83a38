// The values of a distributed checkpoint, nested as they were saved.
//
//   NestedValues nested;
//   nested.AddTensor("model.w", &path, 3);          // {"model": {"w": tensor 3}}
//   nested.AddValue("epoch", nullptr, tree.root(), numbers);
//   const ValueTree values = nested.Build();

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_VALUES_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_path.h"

namespace tensorcask::torch {

// Places each value where its path leads: text keys are those of dicts, positions those of lists. A list some of whose
// positions have no value is a dict with integer keys. A value without a path, or whose path leads through or to
// another value, is an entry of the root by its name.
class NestedValues {
 public:
  NestedValues() : nodes_(1) {}

  void AddTensor(absl::string_view name, const std::vector<PathStep>* path, uint64_t number);
  // Copies the value. Its tensor of number i is numbers[i].
  void AddValue(absl::string_view name, const std::vector<PathStep>* path, Value value,
                absl::Span<const uint64_t> numbers);
  ValueTree Build();

 private:
  struct Node {
    PathStep step;                       // from its parent
    std::optional<ValueTree::Id> value;  // for a leaf
    std::vector<size_t> children;
  };

  void Place(absl::string_view name, const std::vector<PathStep>* path, ValueTree::Id value);
  // The child of `parent` at this step; a new one if there is none.
  size_t ChildOf(size_t parent, const PathStep& step);
  ValueTree::Id CopyOf(Value value, absl::Span<const uint64_t> numbers);

  ValueTree tree_;
  std::vector<Node> nodes_;                                               // a parent before its children
  absl::flat_hash_map<std::pair<size_t, std::string>, size_t> children_;  // by parent and step
};

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_VALUES_H_
