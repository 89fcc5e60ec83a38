// A check in a child of fork(2), which has none of the threads of this process.
//
//   EXPECT_TRUE(InChild([&] {
//     reader = std::nullopt;   // does not wait for threads of the parent
//     return true;
//   }));

#ifndef TENSORCASK_TESTS_SUPPORT_IN_CHILD_H_
#define TENSORCASK_TESTS_SUPPORT_IN_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace tensorcask::testing {

inline constexpr unsigned kChildSeconds = 20;

// Runs `check` in a child, which ends with _exit. True if it returned true, in time.
inline bool InChild(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_IN_CHILD_H_
