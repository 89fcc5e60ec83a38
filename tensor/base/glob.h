// Shell patterns for names of tensors.
//
//   MatchesGlob("model/*/kernel", "model/dense/1/kernel")   // true
//
//   *       any characters, also '/' and none        [abc]          one of these
//   ?       one character                            [a-z]          one from a to z
//   \x      the character x                          [!abc] [^abc]  one that is not among these
//                                                    [[:digit:]]    one of a class of ASCII, as isdigit(3)
//
// A '[' without its ']' stands for itself, and so does a ']' that comes first between them. A name that is equal to the
// pattern matches, too: "x[0]" is often meant as a name.

#ifndef TENSORCASK_TENSOR_BASE_GLOB_H_
#define TENSORCASK_TENSOR_BASE_GLOB_H_

#include "absl/strings/string_view.h"

namespace tensorcask {

// A character is one of UTF-8, or a byte that is not part of one. Time: at most the product of the two sizes.
bool MatchesGlob(absl::string_view glob, absl::string_view name);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_GLOB_H_
