// Where a value or tensor stands in nested values.
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
  enum class Kind : uint8_t { kKey, kIntKey, kPosition, kAttribute };  // of a map, of a map, of a list, of an object

  Kind kind = Kind::kKey;
  std::string text;    // of kKey and kAttribute
  int64_t number = 0;  // of kIntKey and kPosition

  friend bool operator==(const PathStep& a, const PathStep& b) {
    return a.kind == b.kind && a.text == b.text && a.number == b.number;
  }
  friend bool operator!=(const PathStep& a, const PathStep& b) { return !(a == b); }
};

// The step to the entry of a map with this key. A key that is no text and no int has its JSON as text.
PathStep StepTo(Value key);

// The steps, joined with ".".
std::string JoinedName(absl::Span<const PathStep> path);
// ["text"] for a text key, with quotes, backslashes and control characters escaped as in JSON; [0] for a number; .name
// for an attribute.
std::string ExactName(absl::Span<const PathStep> path);

// The value below `root` that a name of either form names, or a mixture: param_groups[0].lr. A step without brackets is
// a text key or an attribute, or else the decimal digits of an integer key or of a position. It may also be the start
// of a longer text key with dots in it, such as general.architecture: the name leads to what has the shortest keys. ""
// is the root. A name that leads into an array that is still in the file has its rest put into *in_array, and the array
// is the result; without in_array there is nothing in such an array. Errors: InvalidArgument for a name that is not
// well formed; NotFound, naming the step.
absl::StatusOr<Value> FindValue(Value root, absl::string_view name, std::string* in_array = nullptr);

// Calls `visit` for each value in the maps under `root`, in order: for all but maps, which it enters, and for a map in
// 32 others. A list is one value. False: there are more than `max_values` of them and of maps, and it visits no more.
bool ForEachInMaps(Value root, uint64_t max_values,
                   absl::FunctionRef<void(absl::Span<const PathStep> path, Value value)> visit);

// The same, where `enters` says of each map, list, tuple, set and Size whether it is entered: if not, it is one value.
bool ForEachValue(Value root, uint64_t max_values,
                  absl::FunctionRef<bool(absl::Span<const PathStep> path, Value value)> enters,
                  absl::FunctionRef<void(absl::Span<const PathStep> path, Value value)> visit);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_VALUES_VALUE_PATH_H_
