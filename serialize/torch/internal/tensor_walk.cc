#include "tensorcask/serialize/torch/internal/tensor_walk.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/serialize/torch/internal/numpy_values.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

bool IsTensor(Kind kind) { return kind == Kind::kTensor || kind == Kind::kStorage; }

bool HasItems(Kind kind) {
  return kind == Kind::kTuple || kind == Kind::kList || kind == Kind::kSet || kind == Kind::kSize;
}

// A step from a value to one that it holds. Small, because there is one for each.
struct Edge {
  Ref child;  // kNoRef: an opaque object would contain itself by it
  PathStep::Kind kind;
  absl::string_view text;
  int64_t number;
  bool is_key = false;  // of a dict: the tensors in it have no names
};

uint64_t Plus(uint64_t a, uint64_t b) {
  return b < std::numeric_limits<uint64_t>::max() - a ? a + b : std::numeric_limits<uint64_t>::max();
}

uint64_t Times(uint64_t a, uint64_t b) {
  return b != 0 && a > std::numeric_limits<uint64_t>::max() / b ? std::numeric_limits<uint64_t>::max() : a * b;
}

// Adds a value that has no others in it; nullopt: it is another one.
std::optional<ValueTree::Id> AddSingle(const Pickle& pickle, Ref ref, ValueTree* tree) {
  const Object& object = pickle.object(ref);
  switch (object.kind) {
    case Kind::kNone:
      return tree->AddNone();
    case Kind::kBool:
      return tree->AddBool(object.integer != 0);
    case Kind::kInt:
      return tree->AddInt(object.integer);
    case Kind::kUint:
      return tree->AddUint(static_cast<uint64_t>(object.integer));
    case Kind::kBigInt:
      return tree->AddText(object.text, ValueKind::kBigInt);
    case Kind::kFloat:
      return tree->AddFloat(object.real);
    case Kind::kComplex:
      return tree->AddComplex(pickle.complexes[object.index]);
    case Kind::kText:
      return tree->AddText(object.text);
    case Kind::kBytes:
      return tree->AddText(object.text, ValueKind::kBytes);
    case Kind::kDevice:
      return tree->AddText(object.text, ValueKind::kDevice);
    case Kind::kGlobal: {
      const Global& global = pickle.globals[object.index];
      if (global.use != GlobalUse::kDType) return tree->AddObject(global.name, tree->AddNone(), tree->AddNone());
      return tree->AddText(absl::StripPrefix(global.name, "torch."), ValueKind::kDType);
    }
    case Kind::kNumpyDType:
      return tree->AddText(pickle.numpy_dtypes[object.index].name, ValueKind::kDType);
    default:
      return std::nullopt;
  }
}

class Walk {
 public:
  Walk(const Pickle& pickle, ListingBudget* budget) : pickle_(pickle), budget_(budget) {}

  // Counts what is below each value, from the leaves up. Errors: those of FindTensors.
  absl::Status Count() {
    CASK_RETURN_IF_ERROR(budget_->Charge(pickle_.objects.size() * sizeof(uint32_t)));
    numbers_.assign(pickle_.objects.size(), kNew);
    CASK_RETURN_IF_ERROR(Open(pickle_.root));
    while (!open_.empty()) {
      if (open_.size() > kMaxNesting) return TooDeep();
      Frame& frame = open_.back();
      if (frame.next == frame.edges.size()) {
        CASK_RETURN_IF_ERROR(Close());
        continue;
      }
      Edge& edge = frame.edges[frame.next++];
      if (numbers_[edge.child] == kNew) {
        CASK_RETURN_IF_ERROR(Open(edge.child));
      } else if (NodeOf(edge.child).is_open) {
        // What the classes of opaque objects mean by it is not known, and their tensors are not hidden for it.
        if (OpaqueObjectsBelow(NodeOf(edge.child).open_at) == 0) {
          return absl::UnimplementedError("a list, dict or object contains itself; such values are not read");
        }
        edge.child = kNoRef;
      }
    }
    return absl::OkStatus();
  }

  uint64_t num_tensors() const { return NodeOf(pickle_.root).num_tensors; }
  uint64_t name_bytes() const { return NodeOf(pickle_.root).name_bytes; }
  uint64_t longest_name() const { return NodeOf(pickle_.root).longest_name; }

  // The names, below `path`. Requires: Count.
  std::vector<NamedTensor> Names(std::vector<PathStep> path, NameForm form) const {
    struct Place {
      Ref ref;
      uint32_t next;
    };
    std::vector<NamedTensor> found;
    found.reserve(static_cast<size_t>(num_tensors()));
    std::vector<Place> places;
    const auto enter = [&](Ref ref) {
      if (IsTensor(pickle_.object(ref).kind)) {
        found.push_back({form == NameForm::kJoined ? JoinedName(path) : ExactName(path), ref});
      }
      places.push_back({ref, 0});
    };
    enter(pickle_.root);
    while (!places.empty()) {
      Place& place = places.back();
      const Node& node = NodeOf(place.ref);
      if (place.next == node.num_edges) {
        places.pop_back();
        if (!places.empty()) path.pop_back();
        continue;
      }
      const Edge& edge = edges_[node.first_edge + place.next++];
      path.push_back({edge.kind, std::string(edge.text), edge.number});
      enter(edge.child);
    }
    return found;
  }

 private:
  static constexpr uint32_t kNew = 0xffffffff;

  struct Node {
    bool is_open = true;
    uint32_t depth = 0;
    uint32_t open_at = 0;      // in open_, while it is there
    uint64_t num_tensors = 0;  // ways to a tensor
    uint64_t name_bytes = 0;   // the size of all names, with a byte for each step
    uint64_t longest_name = 0;
    uint64_t first_edge = 0;  // in edges_: those that lead to tensors
    uint32_t num_edges = 0;
  };

  struct Frame {
    Ref ref;
    std::vector<Edge> edges;
    size_t next = 0;
    size_t opaque_objects = 0;  // among the frames before this one, and this one
  };

  static absl::Status TooDeep() {
    return absl::UnimplementedError(absl::StrCat("values are nested in more than ", kMaxNesting, " others"));
  }

  const Node& NodeOf(Ref ref) const { return nodes_[numbers_[ref]]; }

  absl::Status Open(Ref ref) {
    numbers_[ref] = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back().open_at = static_cast<uint32_t>(open_.size());
    const size_t before = open_.empty() ? 0 : open_.back().opaque_objects;
    open_.push_back({ref, EdgesOf(ref), 0, before + (IsOpaque(ref) ? 1 : 0)});
    return budget_->Charge(sizeof(Node) + open_.back().edges.size() * sizeof(Edge));
  }

  bool IsOpaque(Ref ref) const {
    const Object& object = pickle_.object(ref);
    if (object.kind != Kind::kObject) return false;
    const Object& of = pickle_.object(pickle_.instances[object.index].of);
    return pickle_.globals[of.index].use == GlobalUse::kUnknown;
  }

  // Of the frames from this one on.
  size_t OpaqueObjectsBelow(size_t frame) const {
    return open_.back().opaque_objects - (frame == 0 ? 0 : open_[frame - 1].opaque_objects);
  }

  absl::Status Close() {
    const Frame frame = std::move(open_.back());
    open_.pop_back();
    Node& node = nodes_[numbers_[frame.ref]];
    node.is_open = false;
    node.first_edge = edges_.size();
    node.num_tensors = IsTensor(pickle_.object(frame.ref).kind) ? 1 : 0;
    for (const Edge& edge : frame.edges) {
      if (edge.child == kNoRef) continue;
      const Node& child = NodeOf(edge.child);
      node.depth = std::max(node.depth, child.depth + 1);
      if (child.num_tensors == 0) continue;
      if (edge.is_key)
        return absl::UnimplementedError("a key of a dict is a tensor or has one; such keys are not read");
      const uint64_t step_bytes = (edge.text.empty() ? 20 : edge.text.size()) + 1;
      node.num_tensors = Plus(node.num_tensors, child.num_tensors);
      node.name_bytes = Plus(node.name_bytes, Plus(child.name_bytes, Times(child.num_tensors, step_bytes)));
      node.longest_name = std::max(node.longest_name, Plus(child.longest_name, step_bytes));
      edges_.push_back(edge);
      ++node.num_edges;
    }
    return node.depth > kMaxNesting ? TooDeep() : absl::OkStatus();
  }

  // ---- What a value holds -------------------------------------------------------------------------------------------

  bool Holds(Ref ref) const {
    switch (pickle_.object(ref).kind) {
      case Kind::kTuple:
      case Kind::kList:
      case Kind::kSet:
      case Kind::kSize:
      case Kind::kDict:
      case Kind::kStorage:
      case Kind::kTensor:
      case Kind::kNumpyArray:
      case Kind::kObject:
        return true;
      default:
        return false;
    }
  }

  void Add(Ref child, PathStep::Kind kind, absl::string_view text, int64_t number, std::vector<Edge>* edges) const {
    if (child != kNoRef && Holds(child)) edges->push_back({child, kind, text, number});
  }

  void AddItems(Ref list, std::vector<Edge>* edges) const {
    const absl::Span<const Ref> items = pickle_.items(list);
    for (size_t i = 0; i < items.size(); ++i) {
      Add(items[i], PathStep::Kind::kPosition, "", static_cast<int64_t>(i), edges);
    }
  }

  void AddEntries(Ref dict, PathStep::Kind kind, std::vector<Edge>* edges) {
    const absl::Span<const Ref> entries = pickle_.items(dict);
    for (size_t i = 0; i < entries.size(); i += 2) {
      if (Holds(entries[i])) edges->push_back({entries[i], kind, "", 0, /*is_key=*/true});
      if (!Holds(entries[i + 1])) continue;
      const Object& key = pickle_.object(entries[i]);
      if (key.kind == Kind::kInt) {
        Add(entries[i + 1], PathStep::Kind::kIntKey, "", key.integer, edges);
      } else {
        Add(entries[i + 1], kind, KeyText(entries[i]), 0, edges);
      }
    }
  }

  // The state of an object or tensor: its attributes.
  void AddState(Ref state, std::vector<Edge>* edges) {
    if (state == kNoRef) return;
    const Kind kind = pickle_.object(state).kind;
    if (kind == Kind::kDict) {
      AddEntries(state, PathStep::Kind::kAttribute, edges);
    } else if (HasItems(kind)) {
      AddItems(state, edges);
    } else {
      Add(state, PathStep::Kind::kAttribute, "state", 0, edges);
    }
  }

  // The state of a tensor: a dict, or a tuple of a dict and one of slots.
  void AddAttributes(Ref state, std::vector<Edge>* edges) {
    const bool is_pair =
        state != kNoRef && pickle_.object(state).kind == Kind::kTuple && pickle_.items(state).size() == 2;
    if (!is_pair) return AddState(state, edges);
    for (const Ref part : pickle_.items(state)) AddState(part, edges);
  }

  // Tensorcask's KeyText for a key that is not an int.
  absl::string_view KeyText(Ref ref) {
    const Object& key = pickle_.object(ref);
    const bool is_text = key.kind == Kind::kText || key.kind == Kind::kBytes || key.kind == Kind::kDevice;
    if (is_text || key.kind == Kind::kBigInt) return key.text;
    ValueTree tree;
    const ValueTree::Id id = AddKey(ref, &tree);
    return texts_.emplace_back(tensorcask::KeyText(tree.value(id)));
  }

  // As much of a key as is in its text.
  ValueTree::Id AddKey(Ref ref, ValueTree* tree) const {
    constexpr size_t kMostBytes = 256;  // the text is cut there, and an item takes two bytes
    const Object& key = pickle_.object(ref);
    if (key.kind != Kind::kTuple && key.kind != Kind::kSize) return AddPart(ref, tree);
    std::vector<ValueTree::Id> items;
    for (const Ref item : pickle_.items(ref)) {
      if (items.size() == kMostBytes) break;
      const absl::string_view text = pickle_.object(item).text;
      items.push_back(text.size() > kMostBytes ? tree->AddText(text.substr(0, kMostBytes)) : AddPart(item, tree));
    }
    return tree->AddItems(ValueKind::kTuple, items);
  }
  // Without what is in it.
  ValueTree::Id AddPart(Ref ref, ValueTree* tree) const {
    if (const std::optional<ValueTree::Id> single = AddSingle(pickle_, ref, tree); single.has_value()) return *single;
    const Object& key = pickle_.object(ref);
    if (key.kind == Kind::kObject) {
      const Object& of = pickle_.object(pickle_.instances[key.index].of);
      return tree->AddObject(pickle_.globals[of.index].name, tree->AddNone(), tree->AddNone());
    }
    std::vector<ValueTree::Id> items;
    const bool has_items = HasItems(key.kind) && !pickle_.items(ref).empty();
    if (has_items) items.push_back(tree->AddNone());
    const bool is_tuple = key.kind == Kind::kTuple || key.kind == Kind::kSize;
    return tree->AddItems(is_tuple ? ValueKind::kTuple : ValueKind::kSet, items);
  }

  std::vector<Edge> EdgesOf(Ref ref) {
    std::vector<Edge> edges;
    const Object& object = pickle_.object(ref);
    switch (object.kind) {
      case Kind::kTuple:
      case Kind::kList:
      case Kind::kSet:
      case Kind::kSize:
        AddItems(ref, &edges);
        break;
      case Kind::kNumpyArray:
        if (pickle_.numpy_arrays[object.index].state != kNoRef) {
          AddItems(pickle_.numpy_arrays[object.index].state, &edges);
        }
        break;
      case Kind::kDict:
        AddEntries(ref, PathStep::Kind::kKey, &edges);
        break;
      case Kind::kTensor: {
        const PickledTensor& tensor = pickle_.tensors[object.index];
        if (tensor.form == PickledTensor::Form::kSparse) AddParts(tensor, &edges);
        AddAttributes(tensor.state, &edges);
        break;
      }
      case Kind::kObject: {
        const Instance& instance = pickle_.instances[object.index];
        AddState(instance.state, &edges);
        if (instance.items != kNoRef) AddItems(instance.items, &edges);
        if (instance.entries != kNoRef) AddEntries(instance.entries, PathStep::Kind::kKey, &edges);
        Add(instance.arguments, PathStep::Kind::kAttribute, "args", 0, &edges);
        break;
      }
      default:
        break;
    }
    return edges;
  }

  // The tensors that a sparse tensor consists of.
  void AddParts(const PickledTensor& tensor, std::vector<Edge>* edges) const {
    static constexpr absl::string_view kCoo[] = {"indices", "values"};
    static constexpr absl::string_view kCompressed[] = {"compressed_indices", "plain_indices", "values"};
    const bool is_coo = pickle_.object(tensor.layout).text == "torch.sparse_coo";
    const absl::Span<const absl::string_view> names =
        is_coo ? absl::MakeConstSpan(kCoo) : absl::MakeConstSpan(kCompressed);
    for (size_t i = 0; i < names.size(); ++i) {
      Add(pickle_.items(tensor.parts)[i], PathStep::Kind::kAttribute, names[i], 0, edges);
    }
  }

  const Pickle& pickle_;
  ListingBudget* const budget_;
  std::vector<uint32_t> numbers_;  // for each object the number of its node; kNew: it was not reached yet
  std::vector<Node> nodes_;        // the nodes of the objects that hold others
  std::vector<Edge> edges_;
  std::vector<Frame> open_;
  std::deque<std::string> texts_;
};

// ---- Values ---------------------------------------------------------------------------------------------------------

class Converter {
 public:
  Converter(const Pickle& pickle, const absl::flat_hash_map<Ref, uint64_t>& numbers)
      : pickle_(pickle), numbers_(numbers), ids_(pickle.objects.size(), kNoRef), is_open_(pickle.objects.size()) {}

  ValueTree Convert() {
    // A value is converted when all that it holds is: each stays open until then. An open one that an opaque object
    // below it holds is left out there.
    std::vector<Ref> open = {pickle_.root};
    while (!open.empty()) {
      const Ref ref = open.back();
      if (ids_[ref] == kNoRef && !is_open_[ref]) {
        is_open_[ref] = true;
        for (const Ref child : Children(ref)) {
          if (ids_[child] == kNoRef && !is_open_[child]) open.push_back(child);
        }
        continue;
      }
      if (ids_[ref] == kNoRef) ids_[ref] = Make(ref);
      open.pop_back();
    }
    // The root is the last.
    return std::move(tree_);
  }

 private:
  std::vector<Ref> Children(Ref ref) const {
    const Object& object = pickle_.object(ref);
    if (HasItems(object.kind) || object.kind == Kind::kDict) {
      const absl::Span<const Ref> items = pickle_.items(ref);
      return {items.begin(), items.end()};
    }
    std::vector<Ref> children;
    if (object.kind == Kind::kNumpyArray && pickle_.numpy_arrays[object.index].state != kNoRef) {
      children.push_back(pickle_.numpy_arrays[object.index].state);
    }
    if (object.kind == Kind::kObject) {
      const Instance& of = pickle_.instances[object.index];
      for (const Ref child : {of.arguments, of.state, of.items, of.entries}) {
        if (child != kNoRef) children.push_back(child);
      }
    }
    return children;
  }

  ValueTree::Id IdOf(Ref ref) {
    if (ref == kNoRef) return tree_.AddNone();
    if (ids_[ref] != kNoRef) return ids_[ref];
    return pickle_.object(ref).kind == Kind::kObject ? NameOf(ref) : tree_.AddNone();
  }

  // An object without what it holds.
  ValueTree::Id NameOf(Ref ref) {
    const Instance& of = pickle_.instances[pickle_.object(ref).index];
    return tree_.AddObject(pickle_.globals[pickle_.object(of.of).index].name, tree_.AddNone(), tree_.AddNone());
  }

  std::vector<ValueTree::Id> IdsOf(Ref list) {
    std::vector<ValueTree::Id> ids;
    for (const Ref item : pickle_.items(list)) ids.push_back(IdOf(item));
    return ids;
  }

  ValueTree::Id Make(Ref ref) {
    if (const std::optional<ValueTree::Id> single = AddSingle(pickle_, ref, &tree_); single.has_value()) return *single;
    const Object& object = pickle_.object(ref);
    switch (object.kind) {
      case Kind::kTuple:
        return tree_.AddItems(ValueKind::kTuple, IdsOf(ref));
      case Kind::kList:
        return tree_.AddItems(ValueKind::kList, IdsOf(ref));
      case Kind::kSet:
        return tree_.AddItems(ValueKind::kSet, IdsOf(ref));
      case Kind::kSize:
        return tree_.AddItems(ValueKind::kSize, IdsOf(ref));
      case Kind::kDict: {
        const std::vector<ValueTree::Id> ids = IdsOf(ref);
        std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
        for (size_t i = 0; i < ids.size(); i += 2) entries.emplace_back(ids[i], ids[i + 1]);
        return tree_.AddMap(entries);
      }
      case Kind::kStorage:
      case Kind::kTensor: {
        const auto number = numbers_.find(ref);
        return number == numbers_.end() ? tree_.AddNone() : tree_.AddTensor(number->second);
      }
      case Kind::kNumpyArray: {
        const NumpyArray& array = pickle_.numpy_arrays[object.index];
        if (array.dtype != DType::kInvalid) return AddArray(pickle_, array, &tree_);
        const ValueTree::Id state = IdOf(array.state);
        return tree_.AddObject("numpy.ndarray", state, tree_.AddNone());
      }
      case Kind::kObject: {
        const Instance& of = pickle_.instances[object.index];
        ValueTree::Id state = IdOf(of.state);
        if (of.items != kNoRef || of.entries != kNoRef) {
          state = tree_.AddItems(ValueKind::kTuple, {state, IdOf(of.items), IdOf(of.entries)});
        }
        return tree_.AddObject(pickle_.globals[pickle_.object(of.of).index].name, IdOf(of.arguments), state);
      }
      default:
        return tree_.AddNone();
    }
  }

  const Pickle& pickle_;
  const absl::flat_hash_map<Ref, uint64_t>& numbers_;
  ValueTree tree_;
  std::vector<ValueTree::Id> ids_;  // by Ref
  std::vector<bool> is_open_;       // by Ref: it was reached
};

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> FindTensors(const Pickle& pickle, absl::string_view below, NameForm form,
                                                     const DecodeLimits& limits, ListingBudget* budget) {
  Walk walk(pickle, budget);
  CASK_RETURN_IF_ERROR(walk.Count());
  if (walk.num_tensors() > LimitOf(limits.max_entries)) {
    return PastLimit(absl::StrCat("the pickle has ", walk.num_tensors(), " ways to tensors"), "max_entries",
                     limits.max_entries);
  }
  if (walk.longest_name() > LimitOf(limits.max_name_bytes)) {
    return PastLimit(absl::StrCat("a tensor's name has ", walk.longest_name(), " bytes"), "max_name_bytes",
                     limits.max_name_bytes);
  }
  // An exact name escapes what it holds.
  constexpr uint64_t kMostEscaped = 6;
  CASK_RETURN_IF_ERROR(budget->Charge(Plus(Times(walk.num_tensors(), sizeof(NamedTensor)),
                                           Times(walk.name_bytes(), form == NameForm::kExact ? kMostEscaped : 1))));
  std::vector<PathStep> path;
  if (!below.empty()) path.push_back({PathStep::Kind::kAttribute, std::string(below), 0});
  return walk.Names(std::move(path), form);
}

ValueTree ToValues(const Pickle& pickle, const absl::flat_hash_map<Ref, uint64_t>& numbers) {
  return Converter(pickle, numbers).Convert();
}

}  // namespace tensorcask::torch
