#ifdef _WIN32
#define _CRT_RAND_S  // makes <stdlib.h> declare rand_s
#include <stdlib.h>
#endif

#include "tensorcask/tensor/base/random_bytes.h"

#ifdef __APPLE__
#include <sys/random.h>
#elif !defined(_WIN32)
#include <unistd.h>
#endif

#include <algorithm>
#include <cstring>

namespace tensorcask::internal {

bool FillWithRandomBytes(void* out, size_t bytes) {
#ifdef _WIN32
  for (size_t done = 0; done < bytes; done += sizeof(unsigned)) {
    unsigned word = 0;
    if (rand_s(&word) != 0) return false;
    std::memcpy(static_cast<char*>(out) + done, &word, std::min(sizeof(word), bytes - done));
  }
  return true;
#else
  return getentropy(out, bytes) == 0;
#endif
}

}  // namespace tensorcask::internal
