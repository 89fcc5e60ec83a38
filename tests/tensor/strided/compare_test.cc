#include "tensorcask/tensor/strided/compare.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor Doubles(std::vector<double> values) {
  return *Tensor::FromSpan(TensorShape({static_cast<int64_t>(values.size())}), values);
}

// A tensor of `dtype` whose bytes are `bytes`.
Tensor FromBytes(DType dtype, const std::string& bytes) {
  Tensor tensor = *Tensor::Create(dtype, TensorShape({static_cast<int64_t>(bytes.size() / ElementSize(dtype))}));
  std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
  return tensor;
}

TEST(Equal, ComparesDTypeShapeAndBits) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_TRUE(Equal(tensor, tensor));
  EXPECT_TRUE(Equal(tensor, *tensor.Clone()));
  Tensor changed = *tensor.Clone();
  changed.mutable_flat<float>()[5] = 7;
  EXPECT_FALSE(Equal(tensor, changed));
  EXPECT_FALSE(Equal(tensor, *tensor.Reshape(TensorShape({3, 2}))));
  EXPECT_FALSE(Equal(tensor, *tensor.Bitcast(DType::kInt32, tensor.shape())));
  EXPECT_TRUE(
      Equal(*Tensor::Zeros(DType::kInt8, TensorShape({0, 3})), *Tensor::Zeros(DType::kInt8, TensorShape({0, 3}))));
  EXPECT_FALSE(
      Equal(*Tensor::Zeros(DType::kInt8, TensorShape({0, 3})), *Tensor::Zeros(DType::kInt8, TensorShape({0}))));
}

TEST(Equal, DistinguishesZerosAndNans) {
  EXPECT_TRUE(Equal(Doubles({kNan, 0}), Doubles({kNan, 0})));
  EXPECT_FALSE(Equal(Doubles({0}), Doubles({-0.0})));
  EXPECT_FALSE(Equal(Doubles({kNan}), Doubles({-kNan})));
}

TEST(Equal, IgnoresStrides) {
  const Tensor tensor = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  const Tensor columns = Tensor::FromValues<int32_t>({{1, 4}, {2, 5}, {3, 6}});
  EXPECT_TRUE(Equal(*TensorView(tensor).Transpose(0, 1), columns));
  EXPECT_TRUE(Equal(columns, *TensorView(tensor).Transpose(0, 1)));
  EXPECT_TRUE(Equal(*TensorView(tensor).Flip({0, 1}), Tensor::FromValues<int32_t>({{6, 5, 4}, {3, 2, 1}})));
  EXPECT_FALSE(Equal(*TensorView(tensor).Flip({1}), Tensor::FromValues<int32_t>({{3, 2, 1}, {6, 5, 5}})));
  EXPECT_TRUE(
      Equal(*TensorView(Tensor::Scalar<int8_t>(7)).Expand({2, 2}), Tensor::FromValues<int8_t>({{7, 7}, {7, 7}})));
}

TEST(Equal, IgnoresUnusedBits) {
  EXPECT_TRUE(Equal(FromBytes(DType::kInt4, "\x0f\x73"), FromBytes(DType::kInt4, "\xff\x03")));
  EXPECT_FALSE(Equal(FromBytes(DType::kInt4, "\x0f"), FromBytes(DType::kInt4, "\x0e")));
  EXPECT_TRUE(Equal(FromBytes(DType::kFloat6E2m3, "\x2a"), FromBytes(DType::kFloat6E2m3, "\xea")));
  EXPECT_FALSE(Equal(FromBytes(DType::kUint8, "\x0f"), FromBytes(DType::kUint8, "\x1f")));
}

TEST(Equal, ComparesObjects) {
  const Tensor words = Tensor::FromValues<std::string>({{"a", std::string("\0", 1)}, {"", "d"}});
  EXPECT_TRUE(Equal(words, *words.Clone()));
  EXPECT_FALSE(Equal(words, Tensor::FromValues<std::string>({{"a", ""}, {"", "d"}})));
  EXPECT_TRUE(Equal(*TensorView(words).Select(0, 1), Tensor::FromValues<std::string>({"", "d"})));

  ResourceHandle handle;
  handle.name = "v";
  EXPECT_TRUE(Equal(Tensor::Scalar(handle), Tensor::Scalar(handle)));
  EXPECT_FALSE(Equal(Tensor::Scalar(handle), Tensor::Scalar(ResourceHandle())));

  Variant variant;
  variant.tensors = {Tensor::FromValues<float>({1, 2})};
  Variant other = variant;
  EXPECT_TRUE(Equal(Tensor::Scalar(variant), Tensor::Scalar(other)));
  other.tensors = {Tensor::FromValues<float>({1, 3})};
  EXPECT_FALSE(Equal(Tensor::Scalar(variant), Tensor::Scalar(other)));
}

TEST(Equal, WithoutDataEqualsOnlyItself) {
  const auto sketch = [] {
    return *Tensor::FromBuffer(DType::kInt8, TensorShape({2, 2}), TensorBuffer::MakeWithoutData(4, "a sketch"));
  };
  const Tensor tensor = sketch();
  EXPECT_TRUE(Equal(tensor, tensor));
  EXPECT_TRUE(AllClose(tensor, tensor));
  EXPECT_FALSE(Equal(tensor, *TensorView(tensor).Transpose(0, 1)));
  EXPECT_FALSE(Equal(tensor, sketch()));
  EXPECT_FALSE(Equal(tensor, *Tensor::Zeros(DType::kInt8, TensorShape({2, 2}))));
  EXPECT_FALSE(AllClose(*Tensor::Zeros(DType::kInt8, TensorShape({2, 2})), tensor));
}

TEST(AllClose, UsesNumPysRule) {
  EXPECT_TRUE(AllClose(Doubles({1, 1000}), Doubles({1.000009, 1000.009})));
  EXPECT_FALSE(AllClose(Doubles({1}), Doubles({1.00002})));
  EXPECT_TRUE(AllClose(Doubles({1}), Doubles({1.5}), /*rtol=*/0, /*atol=*/0.5));
  EXPECT_FALSE(AllClose(Doubles({1}), Doubles({1.5}), /*rtol=*/0, /*atol=*/0.499));
  // The tolerance is relative to the second: 25 % of 4, not of 5.
  EXPECT_TRUE(AllClose(Doubles({5}), Doubles({4}), /*rtol=*/0.25, /*atol=*/0));
  EXPECT_TRUE(AllClose(Doubles({3}), Doubles({4}), /*rtol=*/0.25, /*atol=*/0));
  EXPECT_FALSE(AllClose(Doubles({4}), Doubles({3}), /*rtol=*/0.25, /*atol=*/0));
  EXPECT_TRUE(AllClose(Doubles({0}), Doubles({-0.0}), 0, 0));
}

TEST(AllClose, TreatsInfinitiesAndNans) {
  EXPECT_TRUE(AllClose(Doubles({kInf, -kInf}), Doubles({kInf, -kInf})));
  EXPECT_FALSE(AllClose(Doubles({kInf}), Doubles({-kInf})));
  EXPECT_FALSE(AllClose(Doubles({1}), Doubles({kInf}), /*rtol=*/1, /*atol=*/1));
  EXPECT_FALSE(AllClose(Doubles({kNan}), Doubles({kNan})));
  EXPECT_TRUE(AllClose(Doubles({kNan}), Doubles({-kNan}), 0, 0, Nans::kEqual));
  EXPECT_FALSE(AllClose(Doubles({kNan}), Doubles({1}), 0, 0, Nans::kEqual));
  EXPECT_FALSE(AllClose(Doubles({1}), Doubles({kNan}), 0, 0, Nans::kEqual));
}

TEST(AllClose, WorksForAllNumbers) {
  EXPECT_TRUE(
      AllClose(Tensor::FromValues<uint64_t>({UINT64_MAX}), Tensor::FromValues<uint64_t>({UINT64_MAX - 1}), 0, 1));
  EXPECT_FALSE(AllClose(Tensor::FromValues<uint64_t>({UINT64_MAX}), Tensor::FromValues<uint64_t>({0}), 0, 1));
  EXPECT_FALSE(AllClose(Tensor::FromValues<int64_t>({INT64_MIN}), Tensor::FromValues<int64_t>({INT64_MAX}), 0, 1));
  EXPECT_TRUE(AllClose(Tensor::FromValues<bfloat16>({bfloat16(1)}),
                       Tensor::FromValues<bfloat16>({bfloat16(1.0078125F)}), 0.01, 0));
  EXPECT_FALSE(AllClose(Tensor::FromValues<bool>({true}), Tensor::FromValues<bool>({false}), 0, 0.5));
  using Complex = std::complex<float>;
  EXPECT_TRUE(
      AllClose(Tensor::FromValues<Complex>({Complex(3, 4)}), Tensor::FromValues<Complex>({Complex(0, 0)}), 0, 5));
  EXPECT_FALSE(
      AllClose(Tensor::FromValues<Complex>({Complex(3, 4)}), Tensor::FromValues<Complex>({Complex(0, 0)}), 0, 4.9));
}

TEST(AllClose, NeedsEqualDTypesShapesAndObjects) {
  EXPECT_FALSE(AllClose(Tensor::FromValues<float>({1}), Tensor::FromValues<double>({1})));
  EXPECT_FALSE(AllClose(Doubles({1}), Tensor::Scalar<double>(1)));
  EXPECT_FALSE(AllClose(Doubles({1, 1}), Doubles({1})));
  EXPECT_TRUE(AllClose(Tensor::FromValues<std::string>({"a"}), Tensor::FromValues<std::string>({"a"})));
  EXPECT_FALSE(AllClose(Tensor::FromValues<std::string>({"a"}), Tensor::FromValues<std::string>({"b"}), 1, 1));
}

TEST(AllCloseDeathTest, RefusesNegativeTolerances) {
  EXPECT_DEATH(AllClose(Doubles({1}), Doubles({1}), -1, 0), "AllClose: rtol is -1 and atol is 0");
  EXPECT_DEATH(AllClose(Doubles({1}), Doubles({1}), 0, kNan), "atol is -?nan");
}

}  // namespace
}  // namespace tensorcask
