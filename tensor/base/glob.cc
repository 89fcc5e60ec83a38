#include "tensorcask/tensor/base/glob.h"

#include <fnmatch.h>

namespace tensorcask {

bool MatchesGlob(const std::string& glob, const std::string& name) {
  // fnmatch stops at a NUL byte, and names may contain one.
  return name.find('\0') == std::string::npos && fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

}  // namespace tensorcask
