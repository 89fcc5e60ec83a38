// Slices, other shapes and other dtypes on the same memory.

#include <cstdint>
#include <string>
#include <utility>
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Strings = std::vector<std::string>;

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  return std::vector<T>(flat.begin(), flat.end());
}

TEST(TensorSlices, ShareMemory) {
  Tensor tensor = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}, {5, 6}});
  ASSERT_OK_AND_ASSIGN(Tensor tail, tensor.Slice(1, 3));
  EXPECT_EQ(tail.shape(), TensorShape({2, 2}));
  EXPECT_THAT(Values<int32_t>(tail), ElementsAre(3, 4, 5, 6));
  EXPECT_TRUE(tail.SharesBufferWith(tensor));
  EXPECT_EQ(tail.AllocatedBytes(), 24u);
  EXPECT_EQ(tail.TotalBytes(), 16u);
  EXPECT_FALSE(tail.IsAligned());
  tail.mutable_matrix<int32_t>()(0, 0) = 30;
  EXPECT_EQ(tensor.matrix<int32_t>()(1, 0), 30);

  ASSERT_OK_AND_ASSIGN(const Tensor of_slice, tail.SubSlice(1));
  EXPECT_EQ(of_slice.shape(), TensorShape({2}));
  EXPECT_THAT(Values<int32_t>(of_slice), ElementsAre(5, 6));
  EXPECT_EQ(of_slice.buffer()->offset_bytes(), 16u);
  EXPECT_EQ(of_slice.SubSlice(0)->scalar<int32_t>(), 5);

  EXPECT_EQ(tensor.Slice(0, 3)->buffer(), tensor.buffer()) << "all of it is the tensor itself";
  ASSERT_OK_AND_ASSIGN(const Tensor none, tensor.Slice(3, 3));
  EXPECT_EQ(none.shape(), TensorShape({0, 2}));
  EXPECT_FALSE(none.buffer());
}

TEST(TensorSlices, SlicesOfTensorsWithoutElements) {
  const Tensor no_rows = *Tensor::Create(DType::kInt8, TensorShape({0, 4}));
  EXPECT_EQ(no_rows.Slice(0, 0)->shape(), TensorShape({0, 4}));
  EXPECT_THAT(no_rows.SubSlice(0), StatusIs(Code::kOutOfRange, HasSubstr("row 0 is outside shape [0,4]")));
  const Tensor no_columns = *Tensor::Create(DType::kString, TensorShape({4, 0}));
  EXPECT_EQ(no_columns.Slice(1, 3)->shape(), TensorShape({2, 0}));
  EXPECT_EQ(no_columns.SubSlice(3)->shape(), TensorShape({0}));
}

TEST(TensorSlices, RefusesSlicesOutside) {
  const Tensor tensor = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}, {5, 6}});
  struct Case {
    int64_t start, limit;
  };
  for (const Case row : {Case{-1, 2}, Case{2, 1}, Case{0, 4}, Case{4, 4}, Case{INT64_MIN, INT64_MAX}}) {
    EXPECT_THAT(tensor.Slice(row.start, row.limit), StatusIs(Code::kOutOfRange, HasSubstr("outside shape [3,2]")));
  }
  for (const int64_t index : {int64_t{-1}, int64_t{3}, INT64_MIN, INT64_MAX}) {
    EXPECT_THAT(tensor.SubSlice(index), StatusIs(Code::kOutOfRange, HasSubstr("outside shape [3,2]")));
  }
  EXPECT_THAT(Tensor::Scalar(1).Slice(0, 0), StatusIs(Code::kInvalidArgument, HasSubstr("scalar")));
  EXPECT_THAT(Tensor::Scalar(1).SubSlice(0), StatusIs(Code::kInvalidArgument, HasSubstr("scalar")));
}

TEST(TensorSlices, Reshapes) {
  const Tensor tensor = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  ASSERT_OK_AND_ASSIGN(const Tensor turned, tensor.Reshape(TensorShape({3, 1, 2})));
  EXPECT_EQ(turned.dtype(), DType::kInt32);
  EXPECT_EQ((turned.tensor<int32_t, 3>()(2, 0, 1)), 6);
  EXPECT_TRUE(turned.SharesBufferWith(tensor));
  EXPECT_THAT(tensor.Reshape(TensorShape({7})),
              StatusIs(Code::kInvalidArgument, HasSubstr("[2,3] has 6 elements, [7] has 7")));
  EXPECT_OK(Tensor().Reshape(TensorShape({5, 0})));
  EXPECT_THAT(Tensor().Reshape(TensorShape()), StatusIs(Code::kInvalidArgument));
}

TEST(TensorSlices, Bitcasts) {
  const Tensor tensor = Tensor::FromValues<uint8_t>({{0, 0, 0x80, 0x3f}, {0, 0, 0, 0x40}});
  ASSERT_OK_AND_ASSIGN(const Tensor floats, tensor.Bitcast(DType::kFloat32, TensorShape({2})));
  EXPECT_THAT(Values<float>(floats), ElementsAre(1.0f, 2.0f));
  EXPECT_TRUE(floats.SharesBufferWith(tensor));
  EXPECT_OK(floats.Bitcast(DType::kComplex64, TensorShape()));
  EXPECT_OK(Tensor().Bitcast(DType::kInt64, TensorShape({3, 0})));
  const Tensor bools = Tensor::FromValues<bool>({true, false});
  EXPECT_THAT(Values<uint8_t>(*bools.Bitcast(DType::kUint8, TensorShape({2}))), ElementsAre(1, 0));
  EXPECT_OK(bools.Bitcast(DType::kBool, TensorShape({1, 2})));

  const auto refused = [](const char* says) { return StatusIs(Code::kInvalidArgument, HasSubstr(says)); };
  EXPECT_THAT(tensor.Bitcast(DType::kBool, TensorShape({8})), refused("uint8 [2,4] as bool [8]"));
  EXPECT_THAT(tensor.Bitcast(DType::kFloat32, TensorShape({3})), refused("bytes differ"));
  EXPECT_THAT(tensor.Bitcast(DType::kInt64, TensorShape({(int64_t{1} << 61) + 1})), refused("bytes differ"));
  EXPECT_THAT(tensor.Bitcast(DType::kString, TensorShape({1})), refused("fixed size"));
  EXPECT_THAT(tensor.Bitcast(DType::kInvalid, TensorShape({8})), refused("fixed size"));
  EXPECT_THAT(Tensor::Scalar<std::string>("x").Bitcast(DType::kUint8, TensorShape({32})), refused("fixed size"));
  const Tensor odd = *Tensor::FromValues<uint8_t>({0, 1, 2, 3, 4}).Slice(1, 5);
  EXPECT_THAT(odd.Bitcast(DType::kInt16, TensorShape({2})), refused("not a multiple of 2"));
}

TEST(TensorSlices, Strings) {
  Tensor tensor = Tensor::FromValues<std::string>({{"a", "bb"}, {"ccc", std::string(100, 'd')}});
  EXPECT_EQ(tensor.TotalBytes(), 4 * sizeof(std::string) + 1 + 2 + 3 + 100);
  EXPECT_EQ(tensor.AllocatedBytes(), 4 * sizeof(std::string));
  EXPECT_EQ(tensor.element_size(), 0u);
  EXPECT_TRUE(tensor.IsAligned());
  Tensor row = *tensor.SubSlice(1);
  EXPECT_TRUE(row.IsAligned()) << "strings always are";
  EXPECT_EQ(row.vec<std::string>()[0], "ccc");
  row.mutable_vec<std::string>()[0] = "changed";
  EXPECT_EQ(tensor.matrix<std::string>()(1, 0), "changed");
  EXPECT_EQ(Values<std::string>(*tensor.Slice(0, 1)), Strings({"a", "bb"}));
  EXPECT_EQ(tensor.Reshape(TensorShape({4}))->vec<std::string>()[3], std::string(100, 'd'));
  const Tensor clone = *row.Clone();
  tensor = Tensor();
  row.mutable_vec<std::string>()[0] = "again";
  EXPECT_EQ(Values<std::string>(clone), Strings({"changed", std::string(100, 'd')}));
}

TEST(TensorSlices, CloneOfASliceIsWhole) {
  const Tensor tensor = Tensor::FromValues<int16_t>({1, 2, 3, 4});
  const Tensor clone = *tensor.Slice(1, 3)->Clone();
  EXPECT_EQ(clone.AllocatedBytes(), 4u);
  EXPECT_TRUE(clone.IsAligned());
  EXPECT_THAT(Values<int16_t>(clone), ElementsAre(2, 3));
}

}  // namespace
}  // namespace tensorcask
