#include "tensorcask/tensor/base/memory_advice.h"

#include <sys/mman.h>

#include <cerrno>

namespace tensorcask::internal {

int AdviseMemory(void* start, size_t bytes, int advice) {
  constexpr int kNoAdvice = -1;
  static const bool accepts_everything = madvise(nullptr, 0, kNoAdvice) == 0;
  if (!accepts_everything) return madvise(start, bytes, advice);
  errno = EINVAL;
  return -1;
}

}  // namespace tensorcask::internal
