// What a report measures of one tensor.

#include "tensorcask/serialize/report/internal/tensor_profile.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using report::ProfileDetail;
using report::TensorProfile;
using report::TensorProfiler;
using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

// Profiles `tensor` in blocks of `rows` of its first axis.
TensorProfile Profiled(const Tensor& tensor, int64_t rows, const ProfileDetail& detail = {}) {
  TensorProfiler profiler(tensor.dtype(), tensor.shape(), detail);
  const TensorView view(tensor);
  for (int64_t row = 0; row < tensor.shape().dim(0); row += rows) {
    const int64_t end = std::min(row + rows, tensor.shape().dim(0));
    absl::StatusOr<TensorView> block = view.Slice(0, row, end);
    EXPECT_TRUE(block.ok()) << block.status();
    EXPECT_TRUE(profiler.Add(*block).ok());
  }
  return profiler.Finish();
}

// 0, 1, 2, ... as float32.
Tensor Counting(const TensorShape& shape) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, shape);
  float next = 0;
  for (float& value : tensor.mutable_flat<float>()) value = next++;
  return tensor;
}

TEST(LatticeCounts, ASmallTensorIsItsOwnSample) {
  EXPECT_THAT(report::LatticeCounts({3, 4, 5}, 60), ElementsAre(3, 4, 5));
  EXPECT_THAT(report::LatticeCounts({}, 1), ElementsAre());
  EXPECT_THAT(report::LatticeCounts({0, 7}, 1), ElementsAre(0, 7));
}

TEST(LatticeCounts, ALargeTensorIsCutAlongItsLongestAxes) {
  EXPECT_THAT(report::LatticeCounts({32000, 128}, 65536), ElementsAre(512, 128));
  EXPECT_THAT(report::LatticeCounts({4096, 4096}, 65536), ElementsAre(256, 256));
  EXPECT_THAT(report::LatticeCounts({int64_t{1} << 40}, 65536), ElementsAre(65536));
  EXPECT_THAT(report::LatticeCounts({2, 2, 2, 2}, 1), ElementsAre(1, 1, 1, 1));
}

TEST(LatticeIndex, IsEvenlySpacedAndDoesNotOverflow) {
  EXPECT_EQ(report::LatticeIndex(1, 3, 10), 3);
  EXPECT_EQ(report::LatticeIndex(2, 3, 10), 6);
  const int64_t dim = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(report::LatticeIndex(65535, 65536, dim), dim / 65536 * 65535 + (dim % 65536) * 65535 / 65536);
}

TEST(TensorProfiler, ReadsTheLatticeWhateverTheBlocks) {
  const Tensor tensor = Counting(TensorShape({10, 7}));
  ProfileDetail detail;
  detail.sample = 12;  // 3 x 3
  std::vector<double> wanted;
  for (const int64_t row : {0, 3, 6}) {
    for (const int64_t column : {0, 2, 4}) wanted.push_back(static_cast<double>(row * 7 + column));
  }
  for (const int64_t rows : {1, 3, 10}) {
    SCOPED_TRACE(rows);
    const TensorProfile profile = Profiled(tensor, rows, detail);
    EXPECT_THAT(profile.counts, ElementsAre(3, 3));
    EXPECT_EQ(profile.sample, wanted);
    EXPECT_EQ(profile.totals.count, 70);
    EXPECT_THAT(profile.norm(), DoubleNear(std::sqrt(69.0 * 70 * 139 / 6), 1e-9));
  }
}

TEST(TensorProfiler, CountsDeadRowsAndColumns) {
  Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({6, 5}));
  auto values = tensor.mutable_flat<float>();
  for (const int64_t row : {0, 2, 5}) values(row * 5 + 1) = 1;
  values(3 * 5 + 4) = -0.0F;
  for (const int64_t rows : {1, 4, 6}) {
    SCOPED_TRACE(rows);
    const TensorProfile profile = Profiled(tensor, rows);
    EXPECT_EQ(profile.dead_rows, 3);
    EXPECT_EQ(profile.dead_columns, 4);
  }
  const TensorProfile deep = Profiled(*Tensor::Zeros(DType::kInt8, TensorShape({4, 2, 2})), 1);
  EXPECT_EQ(deep.dead_rows, 4);
  EXPECT_EQ(deep.dead_columns, -1);
  EXPECT_EQ(Profiled(Counting(TensorShape({4})), 4).dead_rows, -1);
}

TEST(TensorProfiler, CountsDeadLinesWhereverBlocksEnd) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int64_t rows = 1 + random() % 9;
    const int64_t columns = 1 + random() % 9;
    const auto one_in = 1 + random() % 6;  // elements of so many are zero, and none of some tensors
    Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape({rows, columns}));
    std::vector<bool> row_lives(static_cast<size_t>(rows), false);
    std::vector<bool> column_lives(static_cast<size_t>(columns), false);
    auto values = tensor.mutable_flat<float>();
    for (int64_t i = 0; i < rows * columns; ++i) {
      values(i) = one_in == 1 || random() % one_in == 0 || i / columns == rows / 2 ? 1.0F : 0.0F;
      if (values(i) != 0) row_lives[static_cast<size_t>(i / columns)] = true;
      if (values(i) != 0) column_lives[static_cast<size_t>(i % columns)] = true;
    }
    const Tensor flat = *tensor.Reshape(TensorShape({rows * columns}));
    for (const int64_t block : {int64_t{1}, 1 + static_cast<int64_t>(random() % 20), rows * columns}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", blocks of " << block);
      TensorProfiler profiler(tensor.dtype(), tensor.shape(), {});
      for (int64_t i = 0; i < rows * columns; i += block) {
        const absl::StatusOr<TensorView> part = TensorView(flat).Slice(0, i, std::min(i + block, rows * columns));
        ASSERT_TRUE(part.ok() && profiler.Add(*part).ok());
      }
      const TensorProfile profile = profiler.Finish();
      EXPECT_EQ(profile.dead_rows, std::count(row_lives.begin(), row_lives.end(), false));
      EXPECT_EQ(profile.dead_columns, std::count(column_lives.begin(), column_lives.end(), false));
    }
  }
}

TEST(TensorProfiler, ANaNIsNotZero) {
  // 0x80 is NaN in this dtype, which has no -0.
  Tensor tensor = *Tensor::Zeros(DType::kFloat8E4m3fnuz, TensorShape({2, 2}));
  tensor.mutable_bytes()[0] = static_cast<char>(0x80);
  EXPECT_EQ(Profiled(tensor, 1).dead_rows, 1);
}

TEST(TensorProfiler, CountsSaturatedElements) {
  Tensor half = *Tensor::Zeros(DType::kFloat16, TensorShape({2, 4}));
  half.mutable_flat<float16>()(0) = float16(65504.0F);
  half.mutable_flat<float16>()(7) = float16(-65504.0F);
  half.mutable_flat<float16>()(3) = float16(65472.0F);
  EXPECT_EQ(Profiled(half, 1).saturated, 2);
  Tensor small = *Tensor::Zeros(DType::kFloat8E4m3fn, TensorShape({2, 4}));
  small.mutable_bytes()[5] = 0x7e;  // 448
  EXPECT_EQ(Profiled(small, 1).saturated, 1);
  EXPECT_EQ(Profiled(Counting(TensorShape({2, 4})), 1).saturated, 0);
}

TEST(TensorProfiler, EqualElementsHaveEqualHashes) {
  const TensorProfile one = Profiled(Counting(TensorShape({4, 4})), 2);
  EXPECT_EQ(one.hash, Profiled(Counting(TensorShape({4, 4})), 2).hash);
  Tensor other = Counting(TensorShape({4, 4}));
  other.mutable_flat<float>()(15) = 16;
  EXPECT_NE(one.hash, Profiled(other, 2).hash);
  EXPECT_FALSE(Profiled(Tensor::FromValues<std::string>({"a", "b"}), 1).is_numeric);
}

TEST(ProfileAxis, GivesMeanAndSpreadOfEachIndex) {
  const TensorProfile profile = Profiled(Counting(TensorShape({4, 3})), 4);
  const report::AxisProfile rows = report::ProfileAxis(profile, 0, 2);
  EXPECT_THAT(rows.means, ElementsAre(DoubleEq(2.5), DoubleEq(8.5)));
  const report::AxisProfile columns = report::ProfileAxis(profile, 1, 64);
  EXPECT_THAT(columns.means, ElementsAre(DoubleEq(4.5), DoubleEq(5.5), DoubleEq(6.5)));
  EXPECT_THAT(columns.spreads[0], DoubleNear(std::sqrt(11.25), 1e-12));
}

TEST(Quantile, IsThatOfNumPy) {
  const std::vector<double> values = {1, 2, 4, 8, 16};
  EXPECT_THAT(report::Quantile(values, 0), DoubleEq(1));
  EXPECT_THAT(report::Quantile(values, 0.4), DoubleNear(3.2, 1e-12));  // numpy.quantile([1, 2, 4, 8, 16], 0.4)
  EXPECT_THAT(report::Quantile(values, 0.999), DoubleNear(15.968, 1e-12));
  EXPECT_THAT(report::Quantile(values, 1), DoubleEq(16));
}

TEST(SelectForQuantiles, GivesThoseOfSortedValues) {
  const std::vector<double> qs = {0, 0.001, 0.005, 0.25, 0.5, 0.5, 0.75, 0.999, 1};
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<double> values(1 + random() % 500);
    for (double& value : values) value = static_cast<double>(random() % 100);
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    report::SelectForQuantiles(qs, absl::MakeSpan(values));
    for (const double q : qs) EXPECT_EQ(report::Quantile(values, q), report::Quantile(sorted, q)) << q;
  }
  report::SelectForQuantiles(qs, {});
}

TEST(Histogram, IsThatOfNumPy) {
  const std::vector<double> values = {0, 0.5, 1, 1.5, 2, NAN, INFINITY, 3};
  EXPECT_THAT(report::Histogram(values, 0, 2, 4), ElementsAre(1, 1, 1, 2));  // the last part includes its end
  EXPECT_THAT(report::Histogram({5, 5}, 5, 5, 3), ElementsAre(2, 0, 0));
  const double largest = std::numeric_limits<double>::max();
  EXPECT_THAT(report::Histogram({-largest, largest}, -largest, largest, 2), ElementsAre(2, 0));
}

TEST(ProfileDetail, KeepsLessOfMoreTensors) {
  EXPECT_EQ(ProfileDetail::For(1).sample, 65536);
  EXPECT_EQ(ProfileDetail::For(32).sample, 65536);
  EXPECT_EQ(ProfileDetail::For(10000).sample, 1024);
  EXPECT_EQ(ProfileDetail::For(10000).bins, 16);
  EXPECT_EQ(ProfileDetail::For(10000).few, 64);
  EXPECT_EQ(ProfileDetail::For(100000).bins, 0);
  EXPECT_EQ(ProfileDetail::For(100000).few, 16);
}

}  // namespace
}  // namespace tensorcask
