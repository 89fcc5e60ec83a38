#include "tensorcask/serialize/payload/codec/idle_list.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace tensorcask::payload {
namespace {

using Numbers = IdleList<std::unique_ptr<int>, 100>;

TEST(IdleList, GivesBackWhatCameLast) {
  Numbers idle;
  EXPECT_EQ(idle.Acquire(), nullptr);
  idle.Give(std::make_unique<int>(1), 1);
  idle.Give(std::make_unique<int>(2), 1);
  EXPECT_EQ(*idle.Acquire(), 2);
  EXPECT_EQ(*idle.Acquire(), 1);
  EXPECT_EQ(idle.Acquire(), nullptr);
}

TEST(IdleList, KeepsSoManyBytesAndNoMore) {
  Numbers idle;
  idle.Give(std::make_unique<int>(1), 101);
  EXPECT_EQ(idle.Acquire(), nullptr);
  idle.Give(std::make_unique<int>(2), 60);
  idle.Give(std::make_unique<int>(3), 41);
  idle.Give(std::make_unique<int>(4), 40);
  EXPECT_EQ(*idle.Acquire(), 4);
  EXPECT_EQ(*idle.Acquire(), 2);
  EXPECT_EQ(idle.Acquire(), nullptr);
  idle.Give(std::make_unique<int>(5), 100);  // there is room again
  EXPECT_EQ(*idle.Acquire(), 5);
}

TEST(IdleList, KeepsSoManyThingsAndNoMore) {
  Numbers idle;
  for (size_t i = 0; i < 2 * Numbers::kMost; ++i) idle.Give(std::make_unique<int>(static_cast<int>(i)), 1);
  for (size_t i = Numbers::kMost; i > 0; --i) EXPECT_EQ(*idle.Acquire(), static_cast<int>(i) - 1);
  EXPECT_EQ(idle.Acquire(), nullptr);
}

// Stops where the list moves it, which is while the list is locked.
class StoppingPointer {
 public:
  StoppingPointer() = default;
  StoppingPointer(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as std::unique_ptr
  explicit StoppingPointer(std::atomic<int>* stage) : stage_(stage) {}
  StoppingPointer(StoppingPointer&& other) noexcept : stage_(std::exchange(other.stage_, nullptr)) {}
  StoppingPointer& operator=(StoppingPointer&& other) noexcept {
    stage_ = std::exchange(other.stage_, nullptr);
    if (stage_ == nullptr || stage_->load() != 0) return *this;
    stage_->store(1);
    while (stage_->load() == 1) std::this_thread::yield();
    return *this;
  }
  bool empty() const { return stage_ == nullptr; }

 private:
  std::atomic<int>* stage_ = nullptr;
};

// A child has no thread that would unlock what a thread of the parent had locked at the fork.
TEST(IdleList, IsEmptyInAChildThatWasForkedWhileAThreadHeldIt) {
  IdleList<StoppingPointer, 100> idle;
  std::atomic<int> stage{0};
  std::thread giver([&] { idle.Give(StoppingPointer(&stage), 1); });
  while (stage.load() == 0) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool empty = idle.Acquire().empty();
    idle.Give(StoppingPointer(), 1);
    _exit(empty ? 0 : 1);
  }
  stage.store(2);
  giver.join();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(idle.Acquire().empty());
}

}  // namespace
}  // namespace tensorcask::payload
