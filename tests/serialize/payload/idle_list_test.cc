#include "tensorcask/serialize/payload/codec/idle_list.h"

#include <memory>
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

}  // namespace
}  // namespace tensorcask::payload
