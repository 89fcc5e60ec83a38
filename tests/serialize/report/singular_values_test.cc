// Singular values against matrices whose values are known.

#include "tensorcask/serialize/report/singular_values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const auto kGoOn = [] { return true; };

Tensor Matrix(int64_t rows, int64_t columns, const std::vector<double>& values) {
  Tensor tensor = *Tensor::Create(DType::kFloat64, TensorShape({rows, columns}));
  std::copy(values.begin(), values.end(), tensor.mutable_flat<double>().begin());
  return tensor;
}

TEST(SingularValues, OfSmallMatrices) {
  // sqrt(45) and sqrt(5).
  EXPECT_THAT(*SingularValues(Matrix(2, 2, {3, 0, 4, 5}), kGoOn),
              ElementsAre(DoubleNear(std::sqrt(45.0), 1e-12), DoubleNear(std::sqrt(5.0), 1e-12)));
  EXPECT_THAT(*SingularValues(Matrix(1, 3, {1, 2, 2}), kGoOn), ElementsAre(DoubleNear(3, 1e-12)));
  EXPECT_THAT(*SingularValues(Matrix(3, 1, {1, 2, 2}), kGoOn), ElementsAre(DoubleNear(3, 1e-12)));
  EXPECT_THAT(*SingularValues(Matrix(2, 2, {0, 0, 0, 0}), kGoOn), ElementsAre(0, 0));
  EXPECT_THAT(*SingularValues(Matrix(0, 2, {}), kGoOn), ElementsAre());
}

TEST(SingularValues, OfDiagonalMatricesOfAnySize) {
  std::vector<double> values(7 * 5, 0);
  for (int i = 0; i < 5; ++i)
    values[static_cast<size_t>(i * 5 + i)] = std::pow(10.0, 3 * (2 - i)) * (i % 2 == 0 ? 1 : -1);
  const std::vector<double> found = *SingularValues(Matrix(7, 5, values), kGoOn);
  for (size_t i = 0; i < 5; ++i)
    EXPECT_THAT(found[i], DoubleNear(std::pow(10.0, 3.0 * (2.0 - static_cast<double>(i))), 1e-9));
}

TEST(SingularValues, TheirSquaresSumToThoseOfTheElements) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int64_t rows = 1 + random() % 40;
    const int64_t columns = 1 + random() % 40;
    std::vector<double> values(static_cast<size_t>(rows * columns));
    double squares = 0;
    for (double& value : values) {
      value = static_cast<double>(random() % 2001) / 1000 - 1;
      squares += value * value;
    }
    const std::vector<double> found = *SingularValues(Matrix(rows, columns, values), kGoOn);
    ASSERT_EQ(found.size(), std::min(rows, columns));
    EXPECT_TRUE(std::is_sorted(found.rbegin(), found.rend()));
    double sum = 0;
    for (const double value : found) sum += value * value;
    EXPECT_THAT(sum, DoubleNear(squares, 1e-9 * squares));
  }
}

TEST(SingularValues, OfMatricesThatThreadsShare) {
  // The reflection 1 - 2 v v^T, by 3 and rows of zeros: every singular value is 3.
  const int64_t size = 400;
  std::vector<double> v(static_cast<size_t>(size));
  std::mt19937 random(1);
  double squares = 0;
  for (double& x : v) {
    x = static_cast<double>(random() % 2001) / 1000 - 1;
    squares += x * x;
  }
  std::vector<double> values(static_cast<size_t>(2 * size * size), 0);
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j) {
      values[static_cast<size_t>(2 * i * size + j)] =
          3 * ((i == j ? 1 : 0) - 2 * v[static_cast<size_t>(i)] * v[static_cast<size_t>(j)] / squares);
    }
  }
  const std::vector<double> tall = *SingularValues(Matrix(2 * size, size, values), kGoOn);
  ASSERT_EQ(tall.size(), 400);
  EXPECT_THAT(tall.front(), DoubleNear(3, 1e-11));
  EXPECT_THAT(tall.back(), DoubleNear(3, 1e-11));
  EXPECT_EQ(tall, *SingularValues(Matrix(2 * size, size, values), kGoOn));  // bit by bit
}

TEST(SingularValues, OfALowRankAreZeroBeyondIt) {
  std::vector<double> values;
  for (int i = 0; i < 30; ++i) {
    for (int j = 0; j < 20; ++j) values.push_back((i + 1) * (j - 7));
  }
  const std::vector<double> found = *SingularValues(Matrix(30, 20, values), kGoOn);
  EXPECT_GT(found[0], 1000);
  EXPECT_LT(found[1], 1e-9 * found[0]);
}

TEST(SingularValues, Refuses) {
  EXPECT_THAT(SingularValues(*Tensor::Zeros(DType::kFloat32, TensorShape({3})), kGoOn),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 1")));
  EXPECT_THAT(SingularValues(Matrix(1, 2, {1, NAN}), kGoOn),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NaN")));
  EXPECT_THAT(SingularValues(*Tensor::Zeros(DType::kFloat32, TensorShape({4097, 1})), kGoOn),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 4096")));
  EXPECT_THAT(SingularValues(Matrix(2, 2, {1, 2, 3, 4}), [] { return false; }),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("cancelled")));
}

}  // namespace
}  // namespace tensorcask
