#include "tensorcask/tensor/base/owner_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

// The exit status of `run` in a child.
template <typename Fn>
int StatusOfChild(Fn&& run) {
  const pid_t child = fork();
  if (child == 0) _exit(run());
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(OwnerProcess, IsNotTheChild) {
  const OwnerProcess owner;
  const OwnerProcess copy = owner;
  EXPECT_TRUE(owner.IsThisProcess());
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(StatusOfChild([&] {
                if (owner.IsThisProcess() || copy.IsThisProcess()) return 1;
                const OwnerProcess child;
                if (!child.IsThisProcess() || owner.IsThisProcess()) return 2;
                return StatusOfChild([&] { return child.IsThisProcess() || owner.IsThisProcess() ? 3 : 0; });
              }),
              0);
    EXPECT_TRUE(owner.IsThisProcess());
  }
}

TEST(OwnerProcess, KnowsTheProcess) {
  EXPECT_EQ(internal::CurrentProcess(), getpid());
  EXPECT_EQ(StatusOfChild([] { return internal::CurrentProcess() == getpid() ? 0 : 1; }), 0);
}

}  // namespace
}  // namespace tensorcask
