#include "tensorcask/tensor/dense_view.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

static_assert(std::is_same_v<decltype(std::declval<DenseView<const int, 2>>()(0, 0)), const int&>);
static_assert(std::is_same_v<decltype(std::declval<const DenseView<int, 2>>()(0, 0)), int&>, "a window, not a value");
static_assert(std::is_trivially_copyable_v<DenseView<std::string, 3>>);

TEST(DenseView, IndexesRowMajor) {
  std::vector<int> values(24);
  std::iota(values.begin(), values.end(), 0);
  const DenseView<int, 3> view(values.data(), {2, 3, 4});
  EXPECT_EQ(view.num_elements(), 24);
  EXPECT_EQ(view.dim(1), 3);
  EXPECT_EQ(view.dims(), (std::array<int64_t, 3>{2, 3, 4}));
  EXPECT_EQ(view.kRank, 3);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) EXPECT_EQ(view(i, j, k), i * 12 + j * 4 + k);
    }
  }
  view(1, uint8_t{2}, int64_t{3}) = -1;  // any integer is an index
  EXPECT_EQ(values[23], -1);
}

TEST(DenseView, IsARange) {
  std::vector<std::string> words = {"a", "b", "c", "d"};
  std::string joined;
  for (const std::string& word : DenseView<const std::string, 2>(words.data(), {2, 2})) joined += word;
  EXPECT_EQ(joined, "abcd");
  const DenseView<std::string, 1> row(words.data(), {4});
  row[3] = "x";
  EXPECT_EQ(words[3], "x");
}

TEST(DenseView, RankZeroIsOneElement) {
  double value = 2.5;
  const DenseView<double, 0> scalar(&value, {});
  EXPECT_EQ(scalar.num_elements(), 1);
  EXPECT_EQ(scalar(), 2.5);
  EXPECT_EQ(scalar.end() - scalar.begin(), 1);
}

TEST(DenseView, MayBeEmpty) {
  const DenseView<float, 2> empty(nullptr, {0, 7});
  EXPECT_EQ(empty.num_elements(), 0);
  EXPECT_EQ(empty.begin(), empty.end());
}

}  // namespace
}  // namespace tensorcask
