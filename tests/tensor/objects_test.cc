// Elements that are objects - strings, resources, variants - through everything that tensors and views do.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/compat/chunk_filler.h"
#include "tensorcask/tensor/compat/resizable.h"
#include "tensorcask/tensor/concat.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/partial_shape.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

// Object number `i` of each class; all differ, and none is empty.
template <typename T>
T Object(int i);
template <>
std::string Object(int i) {
  return "text " + std::string(static_cast<size_t>(i), 'x');
}
template <>
ResourceHandle Object(int i) {
  ResourceHandle handle;
  handle.device = "/device:CPU:0";
  handle.name = Object<std::string>(i);
  handle.dtypes_and_shapes = {{DType::kFloat32, PartialTensorShape({-1, i})}};
  return handle;
}
template <>
Variant Object(int i) {
  Variant variant;
  variant.type_name = Object<std::string>(i);
  variant.metadata = std::string(100, '\xff');
  variant.tensors = {Tensor::Scalar(i), Tensor::FromValues<std::string>({"a", "b"})};
  return variant;
}

template <typename T>
class Objects : public ::testing::Test {
 protected:
  // [2,3] with numbers 0 to 5.
  static Tensor Six() {
    Tensor tensor = *Tensor::Create(kDTypeOf<T>, TensorShape({2, 3}));
    for (int i = 0; i < 6; ++i) tensor.mutable_flat<T>()[i] = Object<T>(i);
    return tensor;
  }
  static std::vector<int> Numbers(const Tensor& tensor) {
    std::vector<int> numbers;
    for (const T& object : tensor.flat<T>()) {
      int number = 0;
      while (number < 6 && object != Object<T>(number)) ++number;
      numbers.push_back(object == T() ? -1 : number);
    }
    return numbers;
  }
  static std::vector<int> Numbers(const TensorView& view) { return Numbers(*view.ToTensor()); }
};
using Classes = ::testing::Types<std::string, ResourceHandle, Variant>;
TYPED_TEST_SUITE(Objects, Classes);

using Ints = std::vector<int>;

TYPED_TEST(Objects, AreMadeEmpty) {
  const DType dtype = kDTypeOf<TypeParam>;
  EXPECT_TRUE(IsObject(dtype));
  EXPECT_FALSE(IsFixedSize(dtype));
  EXPECT_EQ(ObjectBytes(dtype), sizeof(TypeParam));
  EXPECT_EQ(ElementAlignment(dtype), alignof(TypeParam));
  for (const int64_t count : {0, 1, 3, 1000}) {
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::Create(dtype, TensorShape({count})));
    ASSERT_OK_AND_ASSIGN(const Tensor zeros, Tensor::Zeros(dtype, TensorShape({count})));
    EXPECT_EQ(this->Numbers(tensor), Ints(static_cast<size_t>(count), -1));
    EXPECT_EQ(this->Numbers(zeros), Ints(static_cast<size_t>(count), -1));
    EXPECT_EQ(tensor.TotalBytes(), static_cast<size_t>(count) * sizeof(TypeParam));
    EXPECT_TRUE(tensor.IsAligned());
    EXPECT_EQ(tensor.element_size(), 0u);
  }
  EXPECT_THAT(Tensor::Create(dtype, TensorShape({int64_t{1} << 60})), StatusIs(Code::kInvalidArgument));
}

TYPED_TEST(Objects, FromValues) {
  EXPECT_EQ(Tensor::Scalar(Object<TypeParam>(2)).template scalar<TypeParam>(), Object<TypeParam>(2));
  const Tensor row = Tensor::FromValues<TypeParam>({Object<TypeParam>(1), Object<TypeParam>(0)});
  EXPECT_EQ(this->Numbers(row), (Ints{1, 0}));
  const std::vector<TypeParam> values = {Object<TypeParam>(3), Object<TypeParam>(4)};
  ASSERT_OK_AND_ASSIGN(const Tensor copy, Tensor::FromSpan<TypeParam>(TensorShape({2, 1}), values));
  EXPECT_EQ(this->Numbers(copy), (Ints{3, 4}));
}

TYPED_TEST(Objects, Geometry) {
  const Tensor six = this->Six();
  EXPECT_EQ(this->Numbers(*six.Slice(1, 2)), (Ints{3, 4, 5}));
  EXPECT_EQ(this->Numbers(*six.SubSlice(0)), (Ints{0, 1, 2}));
  EXPECT_EQ(this->Numbers(*six.Reshape(TensorShape({6}))), (Ints{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(this->Numbers(*TensorView(six).Transpose(0, 1)), (Ints{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(this->Numbers(*TensorView(six).Flip({1})), (Ints{2, 1, 0, 5, 4, 3}));
  ASSERT_OK_AND_ASSIGN(const TensorView row, TensorView(*six.SubSlice(1)).Expand({2, 3}));
  EXPECT_EQ(this->Numbers(row), (Ints{3, 4, 5, 3, 4, 5}));
}

TYPED_TEST(Objects, ClonesStandAlone) {
  for (const bool lazy : {false, true}) {
    Tensor six = this->Six();
    ASSERT_OK_AND_ASSIGN(Tensor clone, lazy ? six.LazyClone() : six.Clone());
    ASSERT_OK_AND_ASSIGN(const Tensor part, (*six.Slice(1, 2)).LazyClone());
    ASSERT_OK_AND_ASSIGN(const TensorView turned, TensorView(six).Transpose(0, 1)->Clone());
    ASSERT_OK(six.EnsureMutable());
    six.mutable_flat<TypeParam>()[5] = TypeParam();
    clone.mutable_flat<TypeParam>()[0] = Object<TypeParam>(5);
    EXPECT_EQ(this->Numbers(six), (Ints{0, 1, 2, 3, 4, -1}));
    EXPECT_EQ(this->Numbers(clone), (Ints{5, 1, 2, 3, 4, 5}));
    EXPECT_EQ(this->Numbers(part), (Ints{3, 4, 5}));
    EXPECT_EQ(this->Numbers(turned), (Ints{0, 3, 1, 4, 2, 5}));
  }
}

TYPED_TEST(Objects, ConcatAndSplit) {
  const Tensor six = this->Six();
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> columns, Split(six, {1, 2}, 1));
  EXPECT_EQ(this->Numbers(columns[0]), (Ints{0, 3}));
  EXPECT_EQ(this->Numbers(columns[1]), (Ints{1, 2, 4, 5}));
  ASSERT_OK_AND_ASSIGN(const Tensor turned, Concat({columns[1], columns[0]}, 1));
  EXPECT_EQ(this->Numbers(turned), (Ints{1, 2, 0, 4, 5, 3}));
}

TYPED_TEST(Objects, CopyFillConvert) {
  const Tensor six = this->Six();
  TensorView to = *Tensor::Create(kDTypeOf<TypeParam>, TensorShape({3, 2}));
  ASSERT_OK(Copy(*TensorView(six).Transpose(0, 1), &to));
  EXPECT_EQ(this->Numbers(to), (Ints{0, 3, 1, 4, 2, 5}));
  // Onto themselves, moved by one.
  TensorView flat = *TensorView(*six.Clone()).Reshape({6});
  TensorView behind = *flat.Narrow(0, 1, 5);
  ASSERT_OK(Copy(*flat.Narrow(0, 0, 5), &behind));
  EXPECT_EQ(this->Numbers(flat), (Ints{0, 0, 1, 2, 3, 4}));
  // With an element of their own.
  ASSERT_OK(Fill(flat.template data<TypeParam>()[5], &flat));
  EXPECT_EQ(this->Numbers(flat), Ints(6, 4));
  ASSERT_OK_AND_ASSIGN(const TensorView same, ConvertTo(*TensorView(six).Flip({0}), kDTypeOf<TypeParam>));
  EXPECT_EQ(this->Numbers(same), (Ints{3, 4, 5, 0, 1, 2}));
}

TYPED_TEST(Objects, GrowAndArriveInChunks) {
  ResizableTensor tensor = ResizableTensor::FromTensor(*this->Six().Clone());
  ASSERT_OK(tensor.Extend(1, 50));
  tensor.template MutableData<TypeParam>().value()[6] = Object<TypeParam>(1);
  EXPECT_EQ(this->Numbers(*tensor.ToTensor()), (Ints{0, 1, 2, 3, 4, 5, 1, -1, -1}));
  ResizableTensor fresh;
  ASSERT_OK(fresh.Resize({3}));
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&fresh, kDTypeOf<TypeParam>));
  EXPECT_THAT(filler.WriteBytes(0, "abc"), StatusIs(Code::kInvalidArgument, HasSubstr("tensor of objects")));
  ASSERT_OK(filler.Write<TypeParam>(1, {Object<TypeParam>(4), Object<TypeParam>(5)}));
  EXPECT_THAT(filler.Write<TypeParam>(2, {TypeParam()}), StatusIs(Code::kAlreadyExists));
  ASSERT_OK(filler.Write<TypeParam>(0, {Object<TypeParam>(3)}));
  ASSERT_OK_AND_ASSIGN(const Tensor done, filler.Finish());
  EXPECT_EQ(this->Numbers(done), (Ints{3, 4, 5}));
}

TYPED_TEST(Objects, AreNoBytesAndNoNumbers) {
  const DType dtype = kDTypeOf<TypeParam>;
  const Tensor six = this->Six();
  const auto fixed_only = StatusIs(Code::kInvalidArgument, HasSubstr("only dtypes of fixed size have plain bytes"));
  EXPECT_THAT(six.Bitcast(DType::kUint8, TensorShape({6})), fixed_only);
  EXPECT_THAT(Tensor::Scalar<int64_t>(7).Bitcast(dtype, TensorShape()), fixed_only);
  EXPECT_THAT(TensorView(six).Bitcast(DType::kInt64), fixed_only);
  const auto unsupported = StatusIs(Code::kUnimplemented, HasSubstr("only dtypes of fixed size are converted"));
  EXPECT_THAT(ConvertTo(six, DType::kFloat32), unsupported);
  EXPECT_THAT(ConvertTo(Tensor::Scalar(1.0f), dtype), unsupported);
  TensorView view = *six.Clone();
  EXPECT_FALSE(Fill(1, &view).ok());
  EXPECT_FALSE(ToDLPack(six).ok());
}

TYPED_TEST(Objects, WantABufferOfTheirClass) {
  const DType dtype = kDTypeOf<TypeParam>;
  const auto refused = [](const char* says) { return StatusIs(Code::kInvalidArgument, HasSubstr(says)); };
  const RefPtr<TensorBuffer> bytes = *TensorBuffer::Allocate(4096);
  EXPECT_THAT(Tensor::FromBuffer(dtype, TensorShape({2}), bytes), refused("it holds no"));
  EXPECT_THAT(TensorView::Create(bytes, dtype, *Layout::Create({2}, {1}, 0)), refused("it holds no"));
  for (const DType other : {DType::kString, DType::kResource, DType::kVariant, DType::kFloat32}) {
    if (other == dtype) continue;
    EXPECT_THAT(Tensor::FromBuffer(other, TensorShape({1}), this->Six().buffer()), refused("it holds"));
  }
  const RefPtr<TensorBuffer> shifted = TensorBuffer::MakeSubBuffer(this->Six().buffer(), 8, 2 * sizeof(TypeParam));
  EXPECT_THAT(Tensor::FromBuffer(dtype, TensorShape({1}), shifted), refused("it starts inside a"));
}

TEST(ObjectText, SaysWhatTheyAre) {
  ResourceHandle handle = Object<ResourceHandle>(0);
  EXPECT_EQ(Tensor::Scalar(handle).ToString(), "resource []: <resource \"text \" on \"/device:CPU:0\">");
  handle.container = "c\x1b";
  EXPECT_EQ(Tensor::Scalar(handle).SummarizeValue(1), "<resource \"text \" in \"c\\x1b\" on \"/device:CPU:0\">");
  EXPECT_EQ(Tensor::FromValues<Variant>({Object<Variant>(1), Variant()}).ToString(),
            "variant [2]: [<variant \"text x\", 100 bytes, 2 tensors> <variant>]");
}

TEST(VariantEquality, LooksAtEverything) {
  const Variant variant = Object<Variant>(1);
  EXPECT_EQ(variant, Object<Variant>(1));
  Variant other = variant;
  EXPECT_EQ(other, variant);
  EXPECT_TRUE(other.tensors[0].SharesBufferWith(variant.tensors[0]));
  other.metadata[99] = 'x';
  EXPECT_NE(other, variant);
  other = variant;
  other.tensors[0] = Tensor::Scalar(int64_t{1});
  EXPECT_NE(other, variant);
  other.tensors[0] = Tensor::FromValues<int32_t>({1});
  EXPECT_NE(other, variant);
  other.tensors[0] = Tensor::Scalar(1);
  EXPECT_EQ(other, variant);
  other.tensors.pop_back();
  EXPECT_NE(other, variant);
  // Bit by bit.
  other.tensors = {Tensor::Scalar(-0.0f)};
  Variant zero = other;
  zero.tensors = {Tensor::Scalar(0.0f)};
  EXPECT_NE(other, zero);
  zero.tensors = {Tensor::FromValues<ResourceHandle>({Object<ResourceHandle>(1)})};
  other.tensors = {Tensor::FromValues<ResourceHandle>({Object<ResourceHandle>(1)})};
  EXPECT_EQ(other, zero);
  other.tensors[0].mutable_flat<ResourceHandle>()[0].dtypes_and_shapes[0].shape = PartialTensorShape();
  EXPECT_NE(other, zero);
}

// Thousands of levels, which no message has, are compared without stack; destroying them takes some.
TEST(VariantEquality, OfDeepNesting) {
  const auto nested = [](int depth, int innermost) {
    Variant variant;
    variant.tensors = {Tensor::Scalar(innermost)};
    for (int i = 0; i < depth; ++i) {
      Variant outer;
      outer.tensors = {Tensor::Scalar(std::move(variant))};
      variant = std::move(outer);
    }
    return variant;
  };
  EXPECT_EQ(nested(2000, 7), nested(2000, 7));
  EXPECT_NE(nested(2000, 7), nested(2000, 8));
  EXPECT_NE(nested(2000, 7), nested(1999, 7));
}

TEST(VariantEquality, WithoutData) {
  Variant a;
  const RefPtr<TensorBuffer> none = TensorBuffer::MakeWithoutData(4, "not loaded");
  a.tensors = {*Tensor::FromBuffer(DType::kInt32, TensorShape(), none)};
  Variant b = a;
  EXPECT_EQ(a, b);
  b.tensors = {*Tensor::FromBuffer(DType::kInt32, TensorShape(), TensorBuffer::MakeWithoutData(4, "not loaded"))};
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace tensorcask
