// Shell patterns: * ? [abc]; * also matches '/'.
//
//   MatchesGlob("model/*/kernel", "model/dense/1/kernel")   // true

#ifndef TENSORCASK_TENSOR_BASE_GLOB_H_
#define TENSORCASK_TENSOR_BASE_GLOB_H_

#include <string>

namespace tensorcask {

// As fnmatch(3) without flags. A name with a NUL byte matches nothing.
bool MatchesGlob(const std::string& glob, const std::string& name);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_GLOB_H_
