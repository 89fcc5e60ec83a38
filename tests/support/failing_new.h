// Lets `operator new` fail in a test program: in every thread, or in the one that asks for it.
//
//   for (int64_t n = 0;; ++n) {
//     FailingNew failing(n, FailingNew::kOnce);      // allocation number n, counted from here, throws std::bad_alloc
//     ... save ...
//     if (!failing.has_failed()) break;              // the save allocates less often
//   }
//
// Linking this replaces the global operator new of the program. The forms with std::nothrow return null instead of
// throwing. One FailingNew at a time.

#ifndef TENSORCASK_TESTS_SUPPORT_FAILING_NEW_H_
#define TENSORCASK_TESTS_SUPPORT_FAILING_NEW_H_

#include <cstdint>

namespace tensorcask::testing {

class FailingNew {
 public:
  enum Extent { kOnce, kFromThenOn };
  // Whose allocations count and fail.
  enum Threads { kEveryThread, kThisThread };

  FailingNew(int64_t n, Extent extent, Threads threads = kEveryThread);
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  bool has_failed() const;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_FAILING_NEW_H_
