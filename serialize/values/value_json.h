// Values as JSON text (RFC 8259).
//
//   ValueToJson(tree.root())      // {"lr":0.5,"betas":[0.9,0.999],"step":{"tensor":"state.0.step"}}
//
// JSON has fewer kinds than files have:
//
//   list, tuple, set, Size        [..]
//   map                           {..} if all keys are text, or all are integers; else {"map": [[key, value], ...]}
//   integers of any size          their digits
//   floats                        the shortest digits that give the number, with a point or an exponent
//   NaN, infinities               "nan", "inf", "-inf"
//   complex                       [real, imaginary]
//   bytes                         {"bytes": "hexadecimal digits"}
//   dtype, device                 "float32", "cuda:0"
//   tensor                        {"tensor": its name or number}
//   array that is in the file     {"array": "int", "bits": 32, "count": 100000, "offset": 4096, "stored_bytes": 400000}
//   object                        {"object": "module.Class", "arguments": .., "state": ..}
//
// Text that is not UTF-8 has U+FFFD for each byte outside ASCII.

#ifndef TENSORCASK_SERIALIZE_VALUES_VALUE_JSON_H_
#define TENSORCASK_SERIALIZE_VALUES_VALUE_JSON_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask {

struct ValueJsonOptions {
  // The name of a tensor by its number; null: the number is written.
  std::function<std::string(uint64_t)> tensor_name;
  uint64_t max_bytes = uint64_t{1} << 30;  // the limit for the text
};

// Errors: ResourceExhausted if the text would pass max_bytes.
absl::StatusOr<std::string> ValueToJson(Value value, const ValueJsonOptions& options = {});

// The shortest text that gives the same number of so many bits, and shows that it is not an integer: "0.1", "2.0",
// "nan", "-inf".
std::string FloatText(double value, int bits = 64);
// `text` in quotes, with the escapes that JSON needs.
std::string JsonQuoted(absl::string_view text);
// Takes such a string from the start of *rest and appends its text. Escapes: \" \\ \/ and \u00XX, those that
// JsonQuoted writes. False, after which both may have changed, if it has no end or another escape. Requires: *rest
// begins with a quote.
bool TakeJsonQuoted(absl::string_view* rest, std::string* text);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_VALUES_VALUE_JSON_H_
