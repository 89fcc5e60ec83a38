#include "tensorcask/tensor/inspect/draw.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

struct Picture {
  const char* name;
  Layout layout;
  DrawOptions options;
  const char* expected;
};
class DrawLayoutGolden : public ::testing::TestWithParam<Picture> {};

TEST_P(DrawLayoutGolden, Matches) {
  EXPECT_EQ("\n" + DrawLayout(GetParam().layout, GetParam().options), GetParam().expected);
}

Layout Of(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides, int64_t offset) {
  return *Layout::Create(dims, strides, offset);
}

const Picture kPictures[] = {
    {"RowMajor", Of({2, 3}, {3, 1}, 0), {}, R"(
[2,3] strides [3,1] offset 0: 6 elements in 6 of 6 cells
  +-----+-----+-----+
0 | 0,0 | 0,1 | 0,2 |
  +-----+-----+-----+
3 | 1,0 | 1,1 | 1,2 |
  +-----+-----+-----+)"},
    {"Transposed", Of({3, 2}, {1, 3}, 0), {}, R"(
[3,2] strides [1,3] offset 0: 6 elements in 6 of 6 cells
  +-----+-----+-----+
0 | 0,0 | 1,0 | 2,0 |
  +-----+-----+-----+
3 | 0,1 | 1,1 | 2,1 |
  +-----+-----+-----+)"},
    {"Flipped", Of({2, 3}, {-3, -1}, 5), {}, R"(
[2,3] strides [-3,-1] offset 5: 6 elements in 6 of 6 cells
  +-----+-----+-----+
0 | 1,2 | 1,1 | 1,0 |
  +-----+-----+-----+
3 | 0,2 | 0,1 | 0,0 |
  +-----+-----+-----+)"},
    {"ColumnsWithGaps", Of({2, 2}, {4, 1}, 1), {}, R"(
[2,2] strides [4,1] offset 1: 4 elements in 4 of 7 cells
  +-----+-----+-----+-----+
0 |  .  | 0,0 | 0,1 |  .  |
  +-----+-----+-----+-----+
4 |  .  | 1,0 | 1,1 |
  +-----+-----+-----+)"},
    {"EverySecond", Of({4}, {2}, 1), {}, R"(
[4] strides [2] offset 1: 4 elements in 4 of 8 cells
  +---+---+---+---+---+---+---+---+
0 | . | 0 | . | 1 | . | 2 | . | 3 |
  +---+---+---+---+---+---+---+---+)"},
    {"ChannelsLast", Of({1, 2, 2, 2}, {8, 1, 4, 2}, 0), {}, R"(
[1,2,2,2] strides [8,1,4,2] offset 0: 8 elements in 8 of 8 cells
  +---------+---------+---------+---------+
0 | 0,0,0,0 | 0,1,0,0 | 0,0,0,1 | 0,1,0,1 |
  +---------+---------+---------+---------+
4 | 0,0,1,0 | 0,1,1,0 | 0,0,1,1 | 0,1,1,1 |
  +---------+---------+---------+---------+)"},
    {"Broadcast", Of({3, 2}, {0, 1}, 0), {}, R"(
[3,2] strides [0,1] offset 0: 6 elements in 2 of 2 cells, up to 3 in one
  +--------+--------+
0 | 0,0 x3 | 0,1 x3 |
  +--------+--------+)"},
    {"Overlapping", Of({2, 2}, {1, 1}, 0), {}, R"(
[2,2] strides [1,1] offset 0: 4 elements in 3 of 3 cells, up to 2 in one
  +--------+--------+--------+
0 |  0,0   | 0,1 x2 |  1,1   |
  +--------+--------+--------+)"},
    {"Scalar", Of({}, {}, 1), {}, R"(
[] strides [] offset 1: 1 element in 1 of 2 cells
  +----+----+
0 | .  | () |
  +----+----+)"},
    {"Empty", Of({0, 3}, {3, 1}, 7), {}, R"(
[0,3] strides [3,1] offset 7: no elements)"},
    {"FarApart", Of({2, 2}, {100, 1}, 0), {/*max_elements=*/256, /*max_columns=*/30}, R"(
[2,2] strides [100,1] offset 0: 4 elements in 4 of 102 cells
    +-----+-----+-----+-----+
  0 | 0,0 | 0,1 |  .  |  .  |
    +-----+-----+-----+-----+
    : 96 cells
    +-----+-----+
100 | 1,0 | 1,1 |
    +-----+-----+)"},
    {"EndOfTheNumbers", Of({2}, {kHuge - 3}, 2), {/*max_elements=*/256, /*max_columns=*/30}, R"(
[2] strides [9223372036854775804] offset 2: 2 elements in 2 of 9223372036854775807 cells
                    : 2 cells
                    +---+---+
                  2 | 0 | . |
                    +---+---+
                    : 9223372036854775802 cells
                    +---+
9223372036854775806 | 1 |
                    +---+)"},
    {"Shortened", Of({100, 4}, {4, 1}, 0), {/*max_elements=*/8, /*max_columns=*/100}, R"(
[100,4] strides [4,1] offset 0: 400 elements between cells 0 and 399
drawn: [0:2,0:4]
  +-----+-----+-----+-----+
0 | 0,0 | 0,1 | 0,2 | 0,3 |
  +-----+-----+-----+-----+
4 | 1,0 | 1,1 | 1,2 | 1,3 |
  +-----+-----+-----+-----+)"},
    {"ShortenedFromTheEndOfAFlippedAxis", Of({100, 2}, {-2, 1}, 198), {/*max_elements=*/4, /*max_columns=*/100}, R"(
[100,2] strides [-2,1] offset 198: 200 elements between cells 0 and 199
drawn: [98:100,0:2]
  +------+------+
0 | 99,0 | 99,1 |
  +------+------+
2 | 98,0 | 98,1 |
  +------+------+)"},
};
INSTANTIATE_TEST_SUITE_P(Layouts, DrawLayoutGolden, ::testing::ValuesIn(kPictures),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DrawLayout, OfAViewEndsWithTheBuffer) {
  const TensorView view = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ("\n" + DrawLayout(*view.Narrow(1, 0, 2)), R"(
float32 [2,2] strides [3,1] offset 0: 4 elements in 4 of 6 cells, 4 bytes each
  +-----+-----+-----+
0 | 0,0 | 0,1 |  .  |
  +-----+-----+-----+
3 | 1,0 | 1,1 |  .  |
  +-----+-----+-----+)");
}

TEST(DrawLayout, OfAViewCountsTheRowsAroundIt) {
  const Tensor tensor = *Tensor::Zeros(DType::kInt16, TensorShape({100, 3}));
  EXPECT_EQ("\n" + DrawLayout(*TensorView(tensor).Narrow(0, 50, 2)), R"(
int16 [2,3] strides [3,1] offset 150: 6 elements in 6 of 300 cells, 2 bytes each
    : 150 cells
    +-----+-----+-----+
150 | 0,0 | 0,1 | 0,2 |
    +-----+-----+-----+
153 | 1,0 | 1,1 | 1,2 |
    +-----+-----+-----+
    : 144 cells)");
}

TEST(DrawLayout, OfTensorsAndOfViewsWithoutElementsOrData) {
  EXPECT_THAT(DrawLayout(Tensor::FromValues<int8_t>({1, 2})), HasSubstr("2 elements in 2 of 2 cells, 1 bytes each"));
  EXPECT_THAT(DrawLayout(Tensor::FromValues<std::string>({"a"})), HasSubstr("1 element in 1 of 1 cell, 32 bytes each"));
  EXPECT_EQ(DrawLayout(TensorView()), "float32 [0] strides [1] offset 0: no elements");
  const TensorView nowhere = *TensorView::Create(TensorBuffer::MakeWithoutData(8, "elsewhere"), DType::kFloat32,
                                                 Layout::RowMajor(TensorShape({2})));
  EXPECT_THAT(DrawLayout(nowhere), HasSubstr("0 | 0 | 1 |"));
  const TensorView endless = *TensorView::Create(TensorBuffer::MakeWithoutData(SIZE_MAX, "elsewhere"), DType::kInt8,
                                                 Layout::RowMajor(TensorShape({2})));
  EXPECT_THAT(DrawLayout(endless), HasSubstr("2 elements in 2 of 9223372036854775807 cells"));
}

TEST(DrawLayout, IsBoundedWhateverTheLayout) {
  const int64_t k20 = int64_t{1} << 20;
  const std::vector<int64_t> ones(TensorShape::kMaxRank, 1);
  const std::vector<int64_t> zeros(TensorShape::kMaxRank, 0);
  std::vector<int64_t> twos(62, 2);
  std::vector<int64_t> alternating;
  for (size_t i = 0; i < twos.size(); ++i) alternating.push_back(i % 2 == 0 ? 1 : -1);
  const Layout layouts[] = {
      Of({k20, k20, k20}, {1, 1, 1}, 0),
      Of({k20, k20, k20}, {0, 0, 0}, kHuge - 1),
      Of({k20, k20}, {-k20, 1}, (k20 - 1) * k20),
      Of(ones, ones, 0),
      Of(ones, zeros, kHuge - 1),
      Of(twos, twos, 0),
      Of(twos, alternating, 31),
      Of({k20, 1}, {-1, std::numeric_limits<int64_t>::min()}, k20),
      Of({kHuge}, {0}, 0),
  };
  for (const Layout& layout : layouts) {
    for (const int max_elements : {-1, 1, 7, 256}) {
      for (const int max_columns : {-1, 10, 100}) {
        const std::string text = DrawLayout(layout, {max_elements, max_columns});
        EXPECT_LT(text.size(), 500000u) << text.substr(0, 200);
        EXPECT_THAT(text, StartsWith(layout.ToString()));
      }
    }
  }
}

TEST(DrawLayout, KeepsToTheColumns) {
  for (int columns = 20; columns < 120; ++columns) {
    const std::string text = DrawLayout(Of({5, 7}, {9, 1}, 3), {/*max_elements=*/256, columns});
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    for (size_t i = 1; i < lines.size(); ++i) EXPECT_LE(lines[i].size(), static_cast<size_t>(columns)) << text;
  }
}

}  // namespace
}  // namespace tensorcask
