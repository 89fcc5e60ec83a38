// Values as text, for formats that keep only text beside their tensors, and back.
//
//   ValueText(value)                                          // 3    true    "adam"    [0.9,0.999]
//   ValueTextType(value)                                      // int  bool    text      tuple(float64)
//   AddValueOfText("[0.9,0.999]", "tuple(float64)", &tree)    // the value again
//
// The text is JSON as value_json.h has it. There is one for None, bools, integers, floats and texts in UTF-8, and for
// lists, tuples, sets and Sizes whose items are all of one of these types, and for a map without entries ("map"). The
// type says what JSON does not: "uint32", "float32", "list(int64)"; "int" and "uint" are integers without a width.

#ifndef TENSORCASK_SERIALIZE_VALUES_VALUE_TEXT_H_
#define TENSORCASK_SERIALIZE_VALUES_VALUE_TEXT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask {

// nullopt: there is no text of this value, or it would have more than 1 MiB.
std::optional<std::string> ValueText(Value value);
// Requires: ValueText has one.
std::string ValueTextType(Value value);
// nullopt, after which *tree may have more values that nothing uses: the text is not a value of this type, or has more
// than 1 MiB.
std::optional<ValueTree::Id> AddValueOfText(absl::string_view text, absl::string_view type, ValueTree* tree);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_VALUES_VALUE_TEXT_H_
