// Views of a tensor's elements.

#include <array>
#include <complex>
#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;

template <size_t N>
std::array<int64_t, N> Dims(std::array<int64_t, N> dims) {
  return dims;
}

// int32, values 0, 1, 2 ...
Tensor Iota(const TensorShape& shape) {
  Tensor tensor = *Tensor::Create(DType::kInt32, shape);
  int32_t* const data = tensor.mutable_data<int32_t>();
  std::iota(data, data + shape.num_elements(), 0);
  return tensor;
}

template <typename T>
class TensorElements : public ::testing::Test {};

#define CASK_TYPE(id, number, T, name) , T
template <typename First, typename... Rest>
using Tail = ::testing::Types<Rest...>;
using AllTypes = Tail<void CASK_FIXED_SIZE_DTYPES(CASK_TYPE), std::string>;
#undef CASK_TYPE
TYPED_TEST_SUITE(TensorElements, AllTypes);

// A value other than T's zero bytes.
template <typename T>
T Sample() {
  if constexpr (std::is_same_v<T, std::string>) {
    return "sample";
  } else {
    return T(1);
  }
}

TYPED_TEST(TensorElements, AreReadAndWritten) {
  using T = TypeParam;
  Tensor tensor = *Tensor::Zeros(kDTypeOf<T>, TensorShape({2, 3}));
  const T sample = Sample<T>();
  tensor.mutable_matrix<T>()(1, 2) = sample;
  const Tensor& view = tensor;
  static_assert(std::is_same_v<decltype(view.data<T>()), const T*>, "const reaches the data");
  EXPECT_TRUE(view.flat<T>()[5] == sample);
  EXPECT_TRUE(view.data<T>()[5] == sample);
  EXPECT_FALSE(view.flat<T>()[4] == sample);
  EXPECT_EQ(view.element_size(), (std::is_same_v<T, std::string> ? 0 : sizeof(T)));
}

TEST(TensorViews, HaveTheRankAsked) {
  const Tensor cube = Iota(TensorShape({2, 3, 4}));
  EXPECT_EQ((cube.tensor<int32_t, 3>()(1, 2, 3)), 23);
  EXPECT_EQ((cube.tensor<int32_t, 3>().dims()), Dims<3>({2, 3, 4}));
  EXPECT_EQ(cube.flat<int32_t>().dims(), Dims<1>({24}));
  EXPECT_EQ(Iota(TensorShape({5})).vec<int32_t>()[4], 4);
  EXPECT_EQ(Iota(TensorShape({5, 2})).matrix<int32_t>()(4, 1), 9);
  EXPECT_EQ((Iota(TensorShape()).tensor<int32_t, 0>()()), 0);
  EXPECT_EQ(Iota(TensorShape({1, 1, 1})).scalar<int32_t>(), 0) << "one element, whatever the rank";
  Tensor writable = Iota(TensorShape({1, 1}));
  writable.mutable_scalar<int32_t>() = 8;
  writable.mutable_tensor<int32_t, 2>()(0, 0) += 1;
  EXPECT_EQ(writable.scalar<int32_t>(), 9);
  const Tensor empty = *Tensor::Create(DType::kInt32, TensorShape({0, 3}));
  EXPECT_EQ(empty.matrix<int32_t>().data(), nullptr);
  EXPECT_EQ(empty.matrix<int32_t>().num_elements(), 0);
}

TEST(TensorViews, Shaped) {
  Tensor tensor = Iota(TensorShape({2, 6}));
  EXPECT_EQ((tensor.shaped<int32_t, 3>({3, 2, 2})(2, 1, 1)), 11);
  tensor.mutable_shaped<int32_t, 1>({12})[11] = -1;
  EXPECT_EQ(tensor.matrix<int32_t>()(1, 5), -1);
  EXPECT_EQ((Tensor().shaped<float, 2>({7, 0}).num_elements()), 0);
}

struct FoldCase {
  const char* name;
  std::vector<int64_t> dims;
  std::array<int64_t, 2> inner2, outer2;
  std::array<int64_t, 3> inner3, outer3;
};

// The rules of TensorFlow's flat_inner_dims and flat_outer_dims (tensor.h there).
TEST(TensorViews, FoldInnerAndOuterDims) {
  const FoldCase kCases[] = {
      {"Rank4", {2, 3, 4, 5}, {24, 5}, {2, 60}, {6, 4, 5}, {2, 3, 20}},
      {"Rank3", {2, 3, 4}, {6, 4}, {2, 12}, {2, 3, 4}, {2, 3, 4}},
      {"Rank2", {2, 3}, {2, 3}, {2, 3}, {1, 2, 3}, {2, 3, 1}},
      {"Rank1", {5}, {1, 5}, {5, 1}, {1, 1, 5}, {5, 1, 1}},
      {"Rank0", {}, {1, 1}, {1, 1}, {1, 1, 1}, {1, 1, 1}},
      {"Zero", {2, 0, 4}, {0, 4}, {2, 0}, {2, 0, 4}, {2, 0, 4}},
  };
  for (const FoldCase& row : kCases) {
    SCOPED_TRACE(row.name);
    Tensor tensor = Iota(*TensorShape::Create(row.dims));
    EXPECT_EQ(tensor.flat_inner_dims<int32_t>().dims(), row.inner2);
    EXPECT_EQ(tensor.flat_outer_dims<int32_t>().dims(), row.outer2);
    EXPECT_EQ((tensor.flat_inner_dims<int32_t, 3>().dims()), row.inner3);
    EXPECT_EQ((tensor.flat_outer_dims<int32_t, 3>().dims()), row.outer3);
    EXPECT_EQ((tensor.mutable_flat_inner_dims<int32_t, 1>().num_elements()), tensor.num_elements());
    EXPECT_EQ((tensor.mutable_flat_outer_dims<int32_t, 1>().num_elements()), tensor.num_elements());
    EXPECT_EQ((tensor.flat_inner_dims<int32_t, 3>().data()), tensor.data<int32_t>());
  }
}

TEST(TensorViews, FoldInnerOuterDims) {
  Tensor tensor = Iota(TensorShape({2, 3, 4, 5}));
  EXPECT_EQ((tensor.flat_inner_outer_dims<int32_t, 3>(0).dims()), Dims<3>({2, 3, 20}));
  EXPECT_EQ((tensor.flat_inner_outer_dims<int32_t, 3>(1).dims()), Dims<3>({6, 4, 5}));
  EXPECT_EQ((tensor.flat_inner_outer_dims<int32_t, 2>(1).dims()), Dims<2>({6, 20}));
  EXPECT_EQ((tensor.flat_inner_outer_dims<int32_t, 5>(-1).dims()), Dims<5>({1, 2, 3, 4, 5}));
  EXPECT_EQ((tensor.flat_inner_outer_dims<int32_t, 3>(-1).dims()), Dims<3>({1, 2, 60}));
  EXPECT_EQ((tensor.flat_inner_outer_dims<int32_t, 6>(-1).dims()), Dims<6>({1, 2, 3, 4, 5, 1}));
  EXPECT_EQ((tensor.flat_inner_outer_dims<int32_t, 3>(3).dims()), Dims<3>({120, 1, 1}));
  EXPECT_EQ((tensor.flat_inner_outer_dims<int32_t, 2>(INT32_MIN).dims()), Dims<2>({1, 120}));
  EXPECT_EQ((tensor.mutable_flat_inner_outer_dims<int32_t, 2>(INT32_MAX).dims()), Dims<2>({120, 1}));
}

TEST(TensorViews, BitCasts) {
  Tensor tensor = Tensor::FromValues<uint32_t>({{0x3f800000, 0x40000000}});
  EXPECT_EQ((tensor.bit_casted_shaped<float, 1>({2})[1]), 2.0f);
  EXPECT_EQ((tensor.bit_casted_shaped<uint8_t, 2>({2, 4})(0, 3)), 0x3f);
  tensor.mutable_bit_casted_shaped<uint64_t, 0>({})() = 0;
  EXPECT_THAT(std::vector<char>(tensor.bytes().begin(), tensor.bytes().end()), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ((Tensor().bit_casted_shaped<int64_t, 2>({0, 9}).num_elements()), 0);
}

TEST(TensorViews, Bytes) {
  Tensor tensor = Tensor::FromValues<uint16_t>({0x0102, 0x0304});
  EXPECT_EQ(tensor.bytes(), std::string("\x02\x01\x04\x03"));
  tensor.mutable_bytes()[0] = 9;
  EXPECT_EQ(tensor.flat<uint16_t>()[0], 0x0109);
  EXPECT_EQ(tensor.Slice(1, 2)->bytes(), std::string("\x04\x03"));
  EXPECT_TRUE(Tensor().mutable_bytes().empty());
}

TEST(TensorViewsDeathTest, CheckWhatOnlyABugCanDo) {
  Tensor tensor = Iota(TensorShape({2, 3}));
  EXPECT_DEATH(tensor.flat<float>(), "elements of this tensor are int32, not float32");
  EXPECT_DEATH(tensor.vec<int32_t>(), "a view of rank 1 on shape \\[2,3\\]");
  EXPECT_DEATH(tensor.scalar<int32_t>(), "shape \\[1\\] on shape \\[2,3\\]");
  EXPECT_DEATH((tensor.shaped<int32_t, 2>({4, 2})), "shape \\[4,2\\] on shape \\[2,3\\]");
  EXPECT_DEATH((tensor.shaped<int32_t, 2>({-2, -3})), "dim 0 is -2");
  EXPECT_DEATH((tensor.bit_casted_shaped<int64_t, 2>({INT64_MAX, INT64_MAX})), "exceeds 2\\^63-1");
  EXPECT_DEATH((tensor.bit_casted_shaped<int64_t, 1>({4})), "the bytes differ");
  EXPECT_DEATH((tensor.Slice(1, 2)->bit_casted_shaped<std::complex<double>, 1>({1})), "the bytes differ|not aligned");
  EXPECT_DEATH(Tensor::Scalar<std::string>("x").bytes(), "no plain bytes");
}

}  // namespace
}  // namespace tensorcask
