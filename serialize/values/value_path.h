// Names for the position of a value or tensor in nested values.
//
//   state["optimizer"]["param_groups"][0]["lr"]      // in Python
//   JoinedName(path)    // optimizer.param_groups.0.lr
//   ExactName(path)     // ["optimizer"]["param_groups"][0]["lr"]
//
// The joined name is the one that people know, but two paths may have the same: {"a": {"b": x}, "a.b": y}. Exact names
// differ wherever paths differ.

#ifndef TENSORCASK_SERIALIZE_VALUES_VALUE_PATH_H_
#define TENSORCASK_SERIALIZE_VALUES_VALUE_PATH_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask {

struct PathStep {
  enum class Kind : uint8_t { kKey, kIntKey, kPosition, kAttribute };  // in a map, in a map, in a list, in an object

  Kind kind = Kind::kKey;
  std::string text;    // for kKey and kAttribute
  int64_t number = 0;  // for kIntKey and kPosition

  friend bool operator==(const PathStep& a, const PathStep& b) {
    return a.kind == b.kind && a.text == b.text && a.number == b.number;
  }
  friend bool operator!=(const PathStep& a, const PathStep& b) { return !(a == b); }
};

// The text of a key in a name: of a text, bytes, a device and a large integer as it is; "None", "True", "0.5" and
// "torch.float32" as Python shows them; "(1, a)" for a tuple or Size, in which ".." stands for an item with others, cut
// near 256 bytes; the name of the class of an object; "(a value)" for all else.
std::string KeyText(Value key);

// The step to the entry of a map with this key: kIntKey for an int, else kKey with its KeyText.
PathStep StepTo(Value key);

// The steps, joined with ".".
std::string JoinedName(absl::Span<const PathStep> path);
// ["text"] for a text key, with quotes, backslashes and control characters escaped as in JSON; [0] for a number; .name
// for an attribute.
std::string ExactName(absl::Span<const PathStep> path);

// The joined name of the place in a tree that a walk has reached. It grows and shrinks with the walk, so the values in
// a map whose key is long do not copy the key, each for itself.
//
// Enter(map, 0) makes it "optimizer", then Enter(list, 2) "optimizer.2", and Leave() "optimizer" again.
//
// Many maps may share one long key, which is copied for each of them. So all copies together have a limit: past it,
// names are cut.
class GrowingName {
 public:
  // Several times what a tree takes whose maps share short keys.
  static uint64_t MaxBytesFor(const ValueTree& tree);

  explicit GrowingName(uint64_t max_bytes) : bytes_left_(max_bytes) {}

  void Enter(Value parent, size_t i);  // entry i of a map, or item i. Requires: i < parent.size()
  void Leave();                        // Requires: depth() > 0

  absl::string_view text() const { return text_; }  // valid until the next call of Enter or Leave
  bool is_cut() const { return !steps_.empty() && steps_.back().is_cut; }
  size_t depth() const { return steps_.size(); }

 private:
  struct Step {
    size_t begin;  // the size of text_ before it
    bool is_cut;
  };

  std::string text_;
  std::vector<Step> steps_;
  uint64_t bytes_left_;
};

// The value below `root` that a name of either form names, or a mixture: param_groups[0].lr. A step without brackets is
// a text key or an attribute, or else the decimal digits of an integer key or of a position, or the KeyText of another
// key. It may also be the start of a longer text key with dots in it, such as general.architecture: the name leads to
// what has the shortest keys. "" is the root. If the name leads into an array that is still in the file, the array is
// the result, and the rest of the name is put into *in_array; if that is null, such a name is NotFound. Errors:
// InvalidArgument for a name that is not well formed; NotFound, naming the step.
absl::StatusOr<Value> FindValue(Value root, absl::string_view name, std::string* in_array = nullptr);

// Calls `visit` for each value in the maps under `root`, in order. It enters maps up to 32 deep; a deeper map is
// visited as one value, and so is each list. Returns false, and visits no more, if there are more than `max_values`
// values and maps together, where a key counts as one more for each 64 of its bytes.
bool ForEachInMaps(Value root, uint64_t max_values,
                   absl::FunctionRef<void(absl::Span<const PathStep> path, Value value)> visit);

// The same, where `enters` says of each map, list, tuple, set and Size whether it is entered: if not, it is one value.
bool ForEachValue(Value root, uint64_t max_values,
                  absl::FunctionRef<bool(absl::Span<const PathStep> path, Value value)> enters,
                  absl::FunctionRef<void(absl::Span<const PathStep> path, Value value)> visit);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_VALUES_VALUE_PATH_H_
