#include "tensorcask/tensor/base/ref_counted.h"

#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

// Counts how many of its kind are alive.
class Tracked : public RefCounted {
 public:
  explicit Tracked(int* alive) : alive_(alive) { ++*alive_; }
  ~Tracked() override { --*alive_; }

  int value = 0;

 private:
  int* alive_;
};

class Derived : public Tracked {
 public:
  using Tracked::Tracked;
};

TEST(RefPtr, CountsAndDestroysOnce) {
  int alive = 0;
  {
    RefPtr<Tracked> a = MakeRef<Tracked>(&alive);
    EXPECT_EQ(a->use_count(), 1);
    EXPECT_TRUE(a->IsUnique());
    RefPtr<Tracked> b = a;
    EXPECT_EQ(a->use_count(), 2);
    EXPECT_FALSE(a->IsUnique());
    EXPECT_TRUE(a == b);
    RefPtr<Tracked> c = std::move(b);
    EXPECT_FALSE(b);  // NOLINT(bugprone-use-after-move): null is promised
    EXPECT_EQ(c->use_count(), 2);
    a = nullptr;
    EXPECT_EQ(alive, 1);
    EXPECT_TRUE(c->IsUnique());
  }
  EXPECT_EQ(alive, 0);
}

TEST(RefPtr, SelfAssignmentKeepsTheObject) {
  int alive = 0;
  RefPtr<Tracked> a = MakeRef<Tracked>(&alive);
  RefPtr<Tracked>& same = a;
  a = same;
  EXPECT_EQ(a->use_count(), 1);
  a = std::move(same);
  ASSERT_TRUE(a);
  EXPECT_EQ(alive, 1);
}

TEST(RefPtr, ConvertsToBase) {
  int alive = 0;
  {
    RefPtr<Derived> derived = MakeRef<Derived>(&alive);
    RefPtr<Tracked> base = derived;
    EXPECT_EQ(base->use_count(), 2);
    RefPtr<Tracked> moved = std::move(derived);
    EXPECT_EQ(base->use_count(), 2);
    EXPECT_TRUE(base == moved);
  }
  EXPECT_EQ(alive, 0);
}

TEST(RefPtr, ShareAddsAReference) {
  int alive = 0;
  RefPtr<Tracked> a = MakeRef<Tracked>(&alive);
  RefPtr<Tracked> b = RefPtr<Tracked>::Share(a.get());
  EXPECT_EQ(a->use_count(), 2);
  EXPECT_FALSE(RefPtr<Tracked>::Share(nullptr));
}

// Run under ThreadSanitizer: the last owner reads what the others wrote.
TEST(RefPtr, ThreadsShareAnObject) {
  int alive = 0;
  RefPtr<Tracked> shared = MakeRef<Tracked>(&alive);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([mine = shared] {
      for (int k = 0; k < 10000; ++k) {
        RefPtr<Tracked> copy = mine;
        if (copy != mine) std::abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_TRUE(shared->IsUnique());
  EXPECT_EQ(alive, 1);
}

}  // namespace
}  // namespace tensorcask
