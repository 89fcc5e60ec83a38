#include "tensorcask/tensor/base/ref_counted.h"

#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
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

TEST(RefPtr, NullHasNoOwnersAndComesFirst) {
  int alive = 0;
  const RefPtr<Tracked> null;
  const RefPtr<Tracked> a = MakeRef<Tracked>(&alive);
  EXPECT_EQ(null.use_count(), 0);
  EXPECT_FALSE(null.IsUnique());
  EXPECT_EQ(a.use_count(), 1);
  EXPECT_TRUE(a.IsUnique());
  EXPECT_TRUE(null == RefPtr<Tracked>());
  EXPECT_TRUE(null < a);
  EXPECT_FALSE(a < null);
  EXPECT_FALSE(null < RefPtr<Tracked>());
}

TEST(RefPtr, IsAKeyByItsAddress) {
  int alive = 0;
  const RefPtr<Tracked> a = MakeRef<Tracked>(&alive);
  const RefPtr<Tracked> b = MakeRef<Tracked>(&alive);
  EXPECT_EQ(std::set<RefPtr<Tracked>>({a, b, a, nullptr}).size(), 3u);
  EXPECT_EQ(std::unordered_set<RefPtr<Tracked>>({a, b, a, nullptr}).size(), 3u);
  EXPECT_EQ(absl::flat_hash_set<RefPtr<Tracked>>({a, b, a, nullptr}).size(), 3u);
}

TEST(RefPtr, ReleaseAndAdoptCarryOneReference) {
  int alive = 0;
  RefPtr<Tracked> a = MakeRef<Tracked>(&alive);
  RefPtr<Tracked> b = a;
  Tracked* const bare = b.Release();
  EXPECT_FALSE(b);
  EXPECT_EQ(a->use_count(), 2) << "given up, not dropped";
  a = nullptr;
  EXPECT_EQ(alive, 1);
  RefPtr<Tracked> back = RefPtr<Tracked>::Adopt(bare);
  EXPECT_EQ(back->use_count(), 1);
  back = nullptr;
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(RefPtr<Tracked>::Adopt(nullptr));
  EXPECT_EQ(RefPtr<Tracked>().Release(), nullptr);
}

TEST(RefPtrDeathTest, NoOwnerForAnObjectOnTheStack) {
  int alive = 0;
  Tracked stack(&alive);
  EXPECT_EQ(stack.use_count(), 0);
  EXPECT_DEATH(RefPtr<Tracked>::Adopt(&stack), "Adopt takes a pointer that Release returned");
  EXPECT_DEATH(RefPtr<Tracked>::Share(&stack), "an object that has no owner");
}

// An object that says when its resources go and when it goes itself.
class Watched : public RefCounted {
 public:
  Watched(int* released, int* deleted) : released_(released), deleted_(deleted) {}
  ~Watched() override { ++*deleted_; }

 private:
  void ReleaseResources() override { ++*released_; }

  int* released_;
  int* deleted_;
};

TEST(WeakPtr, OwnersTogetherHoldOneWeakReference) {
  int released = 0, deleted = 0;
  RefPtr<Watched> owner = MakeRef<Watched>(&released, &deleted);
  EXPECT_EQ(owner->weak_use_count(), 1);
  const RefPtr<Watched> second = owner;
  EXPECT_EQ(owner->weak_use_count(), 1);
  const WeakPtr<Watched> weak(owner);
  EXPECT_EQ(owner->weak_use_count(), 2);
  EXPECT_EQ(owner->use_count(), 2);
  EXPECT_EQ(weak.use_count(), 2);
}

TEST(WeakPtr, ResourcesGoWithTheLastOwnerAndTheObjectWithTheLastWeakReference) {
  int released = 0, deleted = 0;
  RefPtr<Watched> owner = MakeRef<Watched>(&released, &deleted);
  WeakPtr<Watched> weak(owner);
  WeakPtr<Watched> copy = weak;
  {
    const RefPtr<Watched> locked = weak.Lock();
    ASSERT_TRUE(locked);
    EXPECT_EQ(locked, owner);
    EXPECT_EQ(owner->use_count(), 2);
    EXPECT_FALSE(weak.expired());
  }
  owner = nullptr;
  EXPECT_EQ(released, 1);
  EXPECT_EQ(deleted, 0);
  EXPECT_TRUE(weak.expired());
  EXPECT_FALSE(weak.Lock());
  EXPECT_EQ(weak.weak_use_count(), 2);
  copy = WeakPtr<Watched>();
  EXPECT_EQ(deleted, 0);
  weak = WeakPtr<Watched>();
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(released, 1);
}

TEST(WeakPtr, UnwatchedObjectsAreOnlyDeleted) {
  int released = 0, deleted = 0;
  RefPtr<Watched> owner = MakeRef<Watched>(&released, &deleted);
  {
    const WeakPtr<Watched> weak(owner);
    WeakPtr<Watched> from = weak;
    const WeakPtr<Watched> moved = std::move(from);
    EXPECT_EQ(owner->weak_use_count(), 3);
  }
  owner = nullptr;
  EXPECT_EQ(released, 0);
  EXPECT_EQ(deleted, 1);
}

TEST(WeakPtr, OfNothing) {
  const WeakPtr<Watched> none;
  EXPECT_TRUE(none.expired());
  EXPECT_FALSE(none.Lock());
  EXPECT_EQ(none.weak_use_count(), 0);
  EXPECT_TRUE(WeakPtr<Watched>(RefPtr<Watched>()) == none);
}

// Run under ThreadSanitizer: locking races with the last owner's going, and never brings an object back.
TEST(WeakPtr, ThreadsLockWhileTheOwnerGoes) {
  for (int round = 0; round < 200; ++round) {
    int released = 0, deleted = 0;
    RefPtr<Watched> owner = MakeRef<Watched>(&released, &deleted);
    std::atomic<bool> expired{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([weak = WeakPtr<Watched>(owner), &expired] {
        while (const RefPtr<Watched> locked = weak.Lock()) {
          if (expired) std::abort();
        }
        expired = true;
      });
    }
    owner = nullptr;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(released, 1);
    EXPECT_EQ(deleted, 1);
  }
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
