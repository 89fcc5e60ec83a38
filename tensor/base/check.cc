#include "tensorcask/tensor/base/check.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace tensorcask::internal {

void CheckFailed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message);
  std::fflush(stderr);
  std::abort();
}

void IndexCheckFailed(const char* file, int line, int64_t index, int axis, int64_t size) {
  std::fprintf(stderr, "%s:%d: check failed: index %" PRId64 " of axis %d is outside [0, %" PRId64 ")\n", file, line,
               index, axis, size);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tensorcask::internal
