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

// The step to the entry of a map with this key. For a key that is neither text nor an int, the text is its JSON.
PathStep StepTo(Value key);

// The steps, joined with ".".
std::string JoinedName(absl::Span<const PathStep> path);
// ["text"] for a text key, with quotes, backslashes and control characters escaped as in JSON; [0] for a number; .name
// for an attribute.
std::string ExactName(absl::Span<const PathStep> path);

// The value below `root` that a name of either form names, or a mixture: param_groups[0].lr. A step without brackets is
// a text key or an attribute, or else the decimal digits of an integer key or of a position. It may also be the start
// of a longer text key with dots in it, such as general.architecture: the name leads to what has the shortest keys. ""
// is the root. If the name leads into an array that is still in the file, the array is the result, and the rest of the
// name is put into *in_array; if that is null, such a name is NotFound.
// Errors: InvalidArgument for a name that is not well formed; NotFound, naming the step.
absl::StatusOr<Value> FindValue(Value root, absl::string_view name, std::string* in_array = nullptr);

// Calls `visit` for each value in the maps under `root`, in order. It enters maps up to 32 deep; a deeper map is
// visited as one value, and so is each list. Returns false, and visits no more, if there are more than `max_values`
// values and maps together.
bool ForEachInMaps(Value root, uint64_t max_values,
                   absl::FunctionRef<void(absl::Span<const PathStep> path, Value value)> visit);

// The same, where `enters` says of each map, list, tuple, set and Size whether it is entered: if not, it is one value.
bool ForEachValue(Value root, uint64_t max_values,
                  absl::FunctionRef<bool(absl::Span<const PathStep> path, Value value)> enters,
                  absl::FunctionRef<void(absl::Span<const PathStep> path, Value value)> visit);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_VALUES_VALUE_PATH_H_
