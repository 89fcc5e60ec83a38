// Emulators of programs, such as qemu-user, give a test some things of the system in another way: pages, limits, clone.

#ifndef TENSORCASK_TESTS_SUPPORT_EMULATOR_H_
#define TENSORCASK_TESTS_SUPPORT_EMULATOR_H_

#include <sys/mman.h>

namespace tensorcask::testing {

// By what no kernel does: an emulator accepts advice that does not exist.
inline bool IsEmulated() {
  constexpr int kNoAdvice = -1;
  return madvise(nullptr, 0, kNoAdvice) == 0;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_EMULATOR_H_
