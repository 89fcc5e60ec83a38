#include "tensorcask/serialize/stored/name_order.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorcask {
namespace {

using stored::NameOrder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint32_t> StableOrder(const std::vector<absl::string_view>& names) {
  std::vector<uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return names[a] < names[b]; });
  return order;
}

TEST(NameOrderTest, SortsByBytes) {
  EXPECT_THAT(NameOrder({}), IsEmpty());
  EXPECT_THAT(NameOrder({""}), ElementsAre(0));
  EXPECT_THAT(NameOrder({"b", "a", "c"}), ElementsAre(1, 0, 2));
  EXPECT_THAT(NameOrder({"\xff", "\x01", "\x7f"}), ElementsAre(1, 2, 0));
  EXPECT_THAT(NameOrder({"a.10", "a.9", "a.", "a"}), ElementsAre(3, 2, 0, 1));
}

TEST(NameOrderTest, EqualNamesKeepTheirOrder) {
  const std::string longer(40, 'x');
  EXPECT_THAT(NameOrder({longer, "x", longer, "x", longer}), ElementsAre(1, 3, 0, 2, 4));
  EXPECT_THAT(NameOrder({"", "", ""}), ElementsAre(0, 1, 2));
  EXPECT_THAT(NameOrder({"12345678", "12345678", "1234567"}), ElementsAre(2, 0, 1));
}

TEST(NameOrderTest, ZeroBytesAreBytes) {
  using absl::string_view;
  EXPECT_THAT(NameOrder({string_view("a\0\0", 3), string_view("a\0", 2), "a"}), ElementsAre(2, 1, 0));
  EXPECT_THAT(NameOrder({string_view("12345678\0", 9), "12345678"}), ElementsAre(1, 0));
}

TEST(NameOrderTest, IsTheOrderOfAStableSort) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t count) { return static_cast<uint32_t>(random() % count); };
    const std::string prefix(below(20), 'p');
    const uint32_t letters = 1 + below(3);
    const uint32_t longest = 1 + below(30);
    std::vector<std::string> texts(below(60));
    for (std::string& text : texts) {
      text = prefix;
      for (uint32_t size = below(longest); size > 0; --size) text.push_back(static_cast<char>(below(letters) * 127));
    }
    const std::vector<absl::string_view> names(texts.begin(), texts.end());
    EXPECT_EQ(NameOrder(names), StableOrder(names));
  }
}

TEST(NameOrderTest, LongNamesThatBeginAlikeTakeTimeInProportion) {
  std::vector<std::string> texts;
  for (int i = 0; i < 2000; ++i) texts.push_back(absl::StrCat(std::string(20'000, 'a'), i % 1000));
  texts.emplace_back("b");  // so they have nothing in common
  const std::vector<absl::string_view> names(texts.begin(), texts.end());
  EXPECT_EQ(NameOrder(names), StableOrder(names));
}

}  // namespace
}  // namespace tensorcask
