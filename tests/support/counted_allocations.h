// Counts the allocations of a test program by `operator new`, and can make the nothrow form fail.
//
//   const int64_t taken = AllocationsOf([&] { view.Transpose(0, 1).IgnoreError(); });
//   const FailingNothrowNew failing;      // until the end of the block, new (std::nothrow) gives null
//
// Linking this replaces the global operator new of the whole program. Counts and failures are those of all threads.

#ifndef TENSORCASK_TESTS_SUPPORT_COUNTED_ALLOCATIONS_H_
#define TENSORCASK_TESTS_SUPPORT_COUNTED_ALLOCATIONS_H_

#include <cstdint>

namespace tensorcask::testing {

int64_t NumAllocations();  // since the program started

template <typename Fn>
int64_t AllocationsOf(Fn&& fn) {
  const int64_t before = NumAllocations();
  fn();
  return NumAllocations() - before;
}

class FailingNothrowNew {
 public:
  FailingNothrowNew();
  ~FailingNothrowNew();
  FailingNothrowNew(const FailingNothrowNew&) = delete;
  FailingNothrowNew& operator=(const FailingNothrowNew&) = delete;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_COUNTED_ALLOCATIONS_H_
