#include "tensorcask/tensor/interop/eigen.h"

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// rows x columns of small whole numbers, all different sums exact in float.
Tensor Numbers(int64_t rows, int64_t columns) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape::Create({rows, columns}).value());
  const DenseView<float, 2> values = tensor.mutable_matrix<float>();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) values(i, j) = static_cast<float>((7 * i + 3 * j) % 11 - 5);
  }
  return tensor;
}

float At(const TensorView& view, int64_t i, int64_t j) {
  return view.data<float>()[i * view.stride(0) + j * view.stride(1)];
}

TEST(EigenVectorTest, OfATensorIsItsMemory) {
  Tensor tensor = Tensor::FromValues<double>({1, 2, 3});
  ASSERT_OK_AND_ASSIGN(auto vector, EigenVector<double>(tensor));
  EXPECT_EQ(vector.data(), tensor.data<double>());
  vector *= 2;
  EXPECT_THAT(std::vector<double>(tensor.data<double>(), tensor.data<double>() + 3), ElementsAre(2, 4, 6));
  ASSERT_OK_AND_ASSIGN(const auto read, EigenVector<const double>(tensor));
  EXPECT_EQ(read.sum(), 12);
  EXPECT_EQ(read.dot(vector), 4 + 16 + 36);
}

TEST(EigenVectorTest, StepsForwardAndBack) {
  const TensorView all = Tensor::FromValues<int32_t>({1, 2, 3, 4, 5, 6, 7});
  ASSERT_OK_AND_ASSIGN(TensorView odd, all.Slice(0, std::nullopt, std::nullopt, -2));
  ASSERT_OK_AND_ASSIGN(auto vector, EigenVector<int32_t>(odd));
  EXPECT_EQ(vector.innerStride(), -2);
  EXPECT_THAT(std::vector<int32_t>(vector.begin(), vector.end()), ElementsAre(7, 5, 3, 1));
  vector.array() += 10;
  ASSERT_OK_AND_ASSIGN(const auto whole, EigenVector<const int32_t>(all));
  EXPECT_THAT(std::vector<int32_t>(whole.begin(), whole.end()), ElementsAre(11, 2, 13, 4, 15, 6, 17));
}

TEST(EigenVectorTest, OfComplexNumbers) {
  using Complex = std::complex<float>;
  const Tensor tensor = Tensor::FromValues<Complex>({Complex(1, 2), Complex(3, -4)});
  ASSERT_OK_AND_ASSIGN(const auto vector, EigenVector<const Complex>(tensor));
  EXPECT_EQ(vector.squaredNorm(), 30);
}

TEST(EigenVectorTest, OfNoElements) {
  const Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape({0}));
  ASSERT_OK_AND_ASSIGN(const auto dense, EigenVector<const float>(tensor));
  EXPECT_EQ(dense.size(), 0);
  const TensorView view = tensor;
  ASSERT_OK_AND_ASSIGN(const auto strided, EigenVector<const float>(view));
  EXPECT_EQ(strided.sum(), 0);
}

// Products of views in every geometry agree with plain loops, at sizes where Eigen blocks and vectorises.
struct Geometry {
  const char* name;
  TensorView (*make)(const Tensor& tensor);  // 37 x 37
};

const Geometry kGeometries[] = {
    {"Rows", [](const Tensor& tensor) { return *TensorView(tensor).Narrow(1, 0, 37); }},
    {"Transposed", [](const Tensor& tensor) { return *TensorView(tensor).Narrow(1, 2, 37)->Transpose(0, 1); }},
    {"EverySecondColumn", [](const Tensor& tensor) { return *TensorView(tensor).Slice(1, 0, 74, 2); }},
    {"FlippedColumns", [](const Tensor& tensor) { return *TensorView(tensor).Narrow(1, 0, 37)->Flip({1}); }},
    {"FlippedRows", [](const Tensor& tensor) { return *TensorView(tensor).Narrow(1, 0, 37)->Flip({0}); }},
    {"BothFlippedAndTransposed",
     [](const Tensor& tensor) {
       return *TensorView(tensor).Narrow(1, 0, 37)->Flip({0, 1})->Transpose(0, 1);
     }},
    {"OneRowRepeated",
     [](const Tensor& tensor) {
       return *TensorView(tensor).Narrow(1, 0, 37)->Narrow(0, 3, 1)->Expand({37, 37});
     }},
    {"OneColumnRepeated",
     [](const Tensor& tensor) {
       return *TensorView(tensor).Narrow(1, 9, 1)->Expand({37, 37});
     }},
};

class EigenMatrixProduct : public ::testing::TestWithParam<std::tuple<Geometry, Geometry>> {};

TEST_P(EigenMatrixProduct, OfViewsAgreesWithLoops) {
  const Tensor numbers = Numbers(37, 74);
  const TensorView left = std::get<0>(GetParam()).make(numbers);
  const TensorView right = std::get<1>(GetParam()).make(numbers);
  const Tensor out = Numbers(37, 74);
  TensorView result = std::get<0>(GetParam()).make(out);
  if (!result.CheckWritable().ok()) result = Numbers(37, 37);

  ASSERT_OK_AND_ASSIGN(const auto a, EigenMatrix<const float>(left));
  ASSERT_OK_AND_ASSIGN(const auto b, EigenMatrix<const float>(right));
  ASSERT_OK_AND_ASSIGN(auto c, EigenMatrix<float>(result));
  c.noalias() = a * b;
  ASSERT_OK_AND_ASSIGN(const TensorView column, right.Select(1, 5));
  ASSERT_OK_AND_ASSIGN(const auto x, EigenVector<const float>(column));
  const Eigen::VectorXf y = a * x;
  const Eigen::VectorXf sums = a.rowwise().sum();
  for (int64_t i = 0; i < 37; ++i) {
    float row_sum = 0;
    for (int64_t k = 0; k < 37; ++k) row_sum += At(left, i, k);
    EXPECT_EQ(sums[i], row_sum);
    for (int64_t j = 0; j < 37; ++j) {
      EXPECT_EQ(a(i, j), At(left, i, j));
      float sum = 0;
      for (int64_t k = 0; k < 37; ++k) sum += At(left, i, k) * At(right, k, j);
      ASSERT_EQ(At(result, i, j), sum) << i << ", " << j;
      if (j == 5) {
        EXPECT_EQ(y[i], sum);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, EigenMatrixProduct,
                         ::testing::Combine(::testing::ValuesIn(kGeometries), ::testing::ValuesIn(kGeometries)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "By" + std::get<1>(info.param).name;
                         });

TEST(EigenMatrixTest, OfATensorIsDenseAndRowMajor) {
  Tensor tensor = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  ASSERT_OK_AND_ASSIGN(auto matrix, EigenMatrix<float>(tensor));
  EXPECT_EQ(matrix.rows(), 2);
  EXPECT_EQ(matrix.cols(), 3);
  EXPECT_EQ(matrix.data(), tensor.data<float>());
  EXPECT_EQ(matrix(0, 2), 3);
  matrix.row(1).setConstant(9);
  EXPECT_EQ(tensor.matrix<float>()(1, 0), 9);
  const Tensor& same = tensor;
  ASSERT_OK_AND_ASSIGN(const auto read, EigenMatrix<const float>(same));
  EXPECT_EQ((read * read.transpose())(0, 0), 14);
}

TEST(EigenMatrixTest, WritingLeavesReadOnlyMemoryAlone) {
  float original[] = {1, 2, 3, 4};
  TensorBuffer::External external;
  external.data = original;
  external.size_bytes = sizeof(original);
  external.writable = false;
  ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::FromBuffer(DType::kFloat32, TensorShape({2, 2}),
                                                         TensorBuffer::WrapExternal(std::move(external))));
  ASSERT_OK_AND_ASSIGN(const auto read, EigenMatrix<const float>(tensor));
  EXPECT_EQ(read.data(), original);
  ASSERT_OK_AND_ASSIGN(auto matrix, EigenMatrix<float>(tensor));
  matrix *= 2;
  EXPECT_THAT(original, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(tensor.matrix<float>()(1, 1), 8);
}

TEST(EigenMatrixTest, WritingNeedsMemory) {
  float original[] = {1, 2, 3, 4};
  TensorBuffer::External external;
  external.data = original;
  external.size_bytes = sizeof(original);
  external.writable = false;
  external.allocator = MakeRef<FailingAllocator>(/*fail_at=*/1);
  ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::FromBuffer(DType::kFloat32, TensorShape({2, 2}),
                                                         TensorBuffer::WrapExternal(std::move(external))));
  EXPECT_THAT(EigenMatrix<float>(tensor), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("16 bytes")));
}

TEST(EigenMatrixTest, RefusesOtherDTypesAndRanks) {
  Tensor tensor = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  EXPECT_THAT(EigenMatrix<const int32_t>(tensor),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("map of int32 and rank 2 over the view float32")));
  EXPECT_THAT(EigenVector<float>(tensor), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 1")));
  EXPECT_THAT((EigenTensor<float, 3>(tensor)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 3")));
  const TensorView view = tensor;
  EXPECT_THAT(EigenVector<const float>(view),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2,2] strides [2,1]")));
}

TEST(EigenMatrixTest, RefusesToWriteWhatOverlaps) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2}});
  ASSERT_OK_AND_ASSIGN(TensorView repeated, TensorView(tensor).Expand({3, 2}));
  EXPECT_THAT(EigenMatrix<float>(repeated),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("several indices for one element")));
  ASSERT_OK_AND_ASSIGN(const auto read, EigenMatrix<const float>(repeated));
  EXPECT_EQ(read.sum(), 9);
}

TEST(EigenMatrixTest, RefusesABufferWithoutData) {
  TensorView view = *TensorView::Create(TensorBuffer::MakeWithoutData(16, "it is on the moon"), DType::kFloat32,
                                        Layout::RowMajor(TensorShape({2, 2})));
  EXPECT_THAT(EigenMatrix<const float>(view),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("it is on the moon")));
  EXPECT_THAT(EigenMatrix<float>(view),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("it is on the moon")));
}

// Whether a map of an argument of type From (an rvalue unless From is a reference) compiles.
template <typename From, typename = void>
constexpr bool kVectorOf = false;
template <typename From>
constexpr bool kVectorOf<From, std::void_t<decltype(EigenVector<const float>(std::declval<From>()))>> = true;
template <typename From, typename = void>
constexpr bool kMatrixOf = false;
template <typename From>
constexpr bool kMatrixOf<From, std::void_t<decltype(EigenMatrix<const float>(std::declval<From>()))>> = true;
template <typename From, typename = void>
constexpr bool kWritableMatrixOf = false;
template <typename From>
constexpr bool kWritableMatrixOf<From, std::void_t<decltype(EigenMatrix<float>(std::declval<From>()))>> = true;
template <typename From, typename = void>
constexpr bool kTensorOf = false;
template <typename From>
constexpr bool kTensorOf<From, std::void_t<decltype(EigenTensor<const float, 2>(std::declval<From>()))>> = true;

TEST(EigenMaps, AreNotMadeOfTemporaries) {
  static_assert(kVectorOf<Tensor&> && kVectorOf<const Tensor&> && kVectorOf<TensorView&>);
  static_assert(kMatrixOf<Tensor&> && kMatrixOf<const Tensor&> && kMatrixOf<const TensorView&>);
  static_assert(kTensorOf<Tensor&> && kTensorOf<const Tensor&>);
  static_assert(!kVectorOf<Tensor> && !kVectorOf<const Tensor> && !kVectorOf<TensorView>);
  static_assert(!kMatrixOf<Tensor> && !kMatrixOf<TensorView> && !kMatrixOf<const TensorView>);
  static_assert(!kTensorOf<Tensor> && !kTensorOf<const Tensor> && !kTensorOf<TensorView&> && !kTensorOf<TensorView>);
  static_assert(kWritableMatrixOf<Tensor&> && kWritableMatrixOf<TensorView&>);
  static_assert(!kWritableMatrixOf<Tensor> && !kWritableMatrixOf<TensorView>);
  static_assert(!kWritableMatrixOf<const Tensor&> && !kWritableMatrixOf<const TensorView&>, "const is to read");

  absl::StatusOr<Tensor> held = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  ASSERT_OK_AND_ASSIGN(const auto read, EigenMatrix<const float>(*held));
  EXPECT_EQ(read.sum(), 10);
}

TEST(EigenTensorTest, OfRankThree) {
  Tensor tensor = Tensor::FromValues<float>({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}, {{9, 10}, {11, 12}}});
  ASSERT_OK_AND_ASSIGN(auto map, (EigenTensor<float, 3>(tensor)));
  EXPECT_EQ(map.data(), tensor.data<float>());
  EXPECT_EQ(map.dimension(0), 3);
  EXPECT_EQ(map(2, 1, 0), 11);
  map = map * 2.0f;
  EXPECT_EQ((tensor.tensor<float, 3>()(0, 1, 1)), 8);

  const Tensor& same = tensor;
  ASSERT_OK_AND_ASSIGN(const auto read, (EigenTensor<const float, 3>(same)));
  const Eigen::Tensor<float, 1, Eigen::RowMajor> sums = read.sum(Eigen::array<int, 2>{0, 2});
  EXPECT_EQ(sums(0), 2 * (1 + 2 + 5 + 6 + 9 + 10));
  EXPECT_EQ(sums(1), 2 * (3 + 4 + 7 + 8 + 11 + 12));
}

TEST(EigenTensorTest, OfAScalarAndOfNoElements) {
  const Tensor scalar = Tensor::Scalar<int64_t>(5);
  ASSERT_OK_AND_ASSIGN(const auto map, (EigenTensor<const int64_t, 0>(scalar)));
  EXPECT_EQ(map(), 5);
  const Tensor none = *Tensor::Create(DType::kInt64, TensorShape({2, 0, 3}));
  ASSERT_OK_AND_ASSIGN(const auto empty, (EigenTensor<const int64_t, 3>(none)));
  EXPECT_EQ(empty.size(), 0);
  EXPECT_EQ(empty.dimension(2), 3);
}

}  // namespace
}  // namespace tensorcask
