#include "tensorcask/tensor/strided/view.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/maybe_owned.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/counted_allocations.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using Code = absl::StatusCode;
using Numbers = std::vector<int64_t>;

// All elements of `view`, row-major, by nothing but its geometry.
template <typename T>
std::vector<T> Elements(const TensorView& view) {
  std::vector<T> elements;
  if (view.num_elements() == 0) return elements;
  Numbers index(static_cast<size_t>(view.rank()), 0);
  while (true) {
    int64_t position = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) position += index[axis] * view.strides()[axis];
    elements.push_back(view.data<T>()[position]);
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == view.dims()[axis - 1]) index[--axis] = 0;
    if (axis == 0) return elements;
  }
}

template <typename T>
Tensor Ramp(const TensorShape& shape) {
  Tensor tensor = *Tensor::Create(kDTypeOf<T>, shape);
  for (int64_t i = 0; i < shape.num_elements(); ++i) tensor.mutable_data<T>()[i] = static_cast<T>(i);
  return tensor;
}

RefPtr<TensorBuffer> External(void* data, size_t size_bytes, bool writable = true) {
  TensorBuffer::External memory;
  memory.data = data;
  memory.size_bytes = size_bytes;
  memory.writable = writable;
  return TensorBuffer::WrapExternal(std::move(memory));
}

TEST(TensorView, IsATensorSeenOtherwise) {
  Tensor tensor = Ramp<int32_t>(TensorShape({2, 3}));
  TensorView view = tensor;
  EXPECT_EQ(view.ToString(), "int32 [2,3] strides [3,1] offset 0");
  EXPECT_EQ(view.data<int32_t>(), tensor.data<int32_t>());
  EXPECT_EQ(view.shape(), tensor.shape());
  EXPECT_EQ(view.element_size(), 4U);
  ASSERT_OK_AND_ASSIGN(TensorView columns, view.Transpose(0, 1));
  EXPECT_THAT(Elements<int32_t>(columns), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_TRUE(columns.SharesBufferWith(view));
  ASSERT_OK_AND_ASSIGN(TensorView last, columns.Select(0, -1));
  *last.mutable_data<int32_t>() = 70;
  EXPECT_EQ(tensor.matrix<int32_t>()(0, 2), 70);
  EXPECT_EQ(last.bounds().begin, 8U);
  EXPECT_EQ(last.bounds().end, 24U);
  std::ostringstream out;
  out << last;
  EXPECT_EQ(last.ToString(), "int32 [2] strides [3] offset 2");
  EXPECT_EQ(out.str(), "int32 [2] strides [3] offset 2: [70 5]");
}

TEST(TensorView, PrintsItsValues) {
  const Tensor words = Tensor::FromValues<std::string>({{"a", "b"}, {"c", "d"}});
  const Tensor sketch =
      *Tensor::FromBuffer(DType::kInt32, TensorShape({10}), TensorBuffer::MakeWithoutData(40, "a sketch"));
  const Tensor one = Tensor::Scalar<float>(1.5f);
  EXPECT_EQ(SummarizeValue(*TensorView(words).Transpose(0, 1)), R"([["a" "c"] ["b" "d"]])");
  EXPECT_EQ(SummarizeValue(*TensorView(words).Flip({1})), R"([["b" "a"] ["d" "c"]])");
  EXPECT_EQ(SummarizeValue(sketch), "<no data: a sketch>");
  EXPECT_EQ(SummarizeValue(one), "1.5");
  EXPECT_EQ(SummarizeValue(TensorView()), "[]");
  EXPECT_EQ(SummarizeValue(*TensorView(one).Expand({int64_t{1} << 60})), "[1.5 1.5 1.5 ... 1.5 1.5 1.5]");
}

TEST(TensorView, KeepsTheMemoryAlive) {
  TensorView view;
  {
    const Tensor tensor = Ramp<float>(TensorShape({100}));
    view = *TensorView(tensor).Slice(0, 98, std::nullopt);
    EXPECT_EQ(tensor.buffer()->use_count(), 2);
  }
  EXPECT_EQ(view.buffer()->use_count(), 1);
  EXPECT_THAT(Elements<float>(view), ElementsAre(98.0F, 99.0F));
}

TEST(TensorView, WithoutElementsHasNoData) {
  TensorView view;
  EXPECT_EQ(view.ToString(), "float32 [0] strides [1] offset 0");
  EXPECT_EQ(view.data<float>(), nullptr);
  EXPECT_EQ(view.mutable_data<float>(), nullptr);
  EXPECT_OK(view.EnsureMutable());
  EXPECT_FALSE(view.SharesBufferWith(view));
  TensorView moved_from = Ramp<float>(TensorShape({}));
  const TensorView moved = std::move(moved_from);
  EXPECT_EQ(moved.num_elements(), 1);
  EXPECT_EQ(moved_from.num_elements(), 0);  // NOLINT(bugprone-use-after-move): what it must be
  // A part without elements keeps the buffer: other geometry over it may have some.
  const TensorView none = *TensorView(Ramp<float>(TensorShape({3}))).Slice(0, 3, 3);
  EXPECT_EQ(none.data<float>(), nullptr);
  EXPECT_THAT(Elements<float>(*none.AsStrided({2}, {1}, 1)), ElementsAre(1.0F, 2.0F));
  EXPECT_OK(none.Clone());
  EXPECT_OK(none.Contiguous());
  ASSERT_OK_AND_ASSIGN(const Tensor dense, none.ToTensor());
  EXPECT_EQ(dense.shape(), TensorShape({0}));
}

// Only the class itself leaves out the checks.
static_assert(!std::is_constructible_v<TensorView, std::initializer_list<int>, RefPtr<TensorBuffer>, Layout, DType>);

// ST-01, ST-02, ST-03, ST-04, ST-07 and the rest of what may come from outside.
TEST(TensorView, CreateChecksTheMemory) {
  alignas(16) char memory[64] = {};
  const RefPtr<TensorBuffer> bytes = External(memory, 40);  // ten float32
  const auto create = [&](const RefPtr<TensorBuffer>& buffer, DType dtype, const Numbers& dims, const Numbers& strides,
                          int64_t offset = 0) {
    return TensorView::Create(buffer, dtype, *Layout::Create(dims, strides, offset));
  };
  const DType f32 = DType::kFloat32;
  EXPECT_THAT(create(bytes, f32, {10}, {1}), IsOk());
  EXPECT_THAT(create(bytes, f32, {10}, {-1}, 9), IsOk());         // ST-03
  EXPECT_THAT(create(bytes, f32, {0, 3}, {1, 1}, 1000), IsOk());  // ST-04
  EXPECT_THAT(create(nullptr, f32, {0}, {1}), IsOk());
  EXPECT_THAT(create(bytes, f32, {int64_t{1} << 40}, {0}, 9), IsOk());  // ST-08: the view may exist
  EXPECT_THAT(create(bytes, DType::kComplex128, {2}, {1}), IsOk());
  const auto refused = [](const char* says) { return StatusIs(Code::kInvalidArgument, HasSubstr(says)); };
  EXPECT_THAT(create(bytes, f32, {11}, {1}), refused("number 10, of 4 bytes each; the buffer has 40 bytes"));
  EXPECT_THAT(create(bytes, f32, {2}, {1}, 9), refused("element is number 10"));
  EXPECT_THAT(create(bytes, f32, {2}, {-1}, 10), refused("element is number 10"));
  EXPECT_THAT(create(bytes, DType::kComplex128, {3}, {1}), refused("number 2, of 16 bytes"));
  EXPECT_THAT(create(bytes, f32, {2}, {INT64_MAX - 1}), refused("element is number 9223372036854775806"));
  EXPECT_THAT(create(nullptr, f32, {}, {}), refused("its buffer is null"));
  EXPECT_THAT(create(bytes, DType::kInvalid, {0}, {1}), refused("no tensor has this dtype"));
  EXPECT_THAT(create(bytes, DType::kString, {1}, {1}), refused("no std::string objects"));
  EXPECT_THAT(create(bytes, DType::kVariant, {1}, {1}), refused("no Variant objects"));
  EXPECT_THAT(create(bytes, DType::kResource, {1}, {1}), refused("no ResourceHandle objects"));
  // ST-07: pointers to elements are handed out, so each must be aligned; bytes that are not are copied by who has them.
  EXPECT_THAT(create(External(memory + 1, 32), f32, {2}, {1}), refused("not a multiple of 4"));
  EXPECT_THAT(create(External(memory + 1, 32), DType::kInt8, {2}, {1}), IsOk());
  EXPECT_THAT(create(External(memory + 8, 32), DType::kComplex128, {2}, {1}), IsOk());
  const RefPtr<TensorBuffer> strings = *TensorBuffer::AllocateElements<std::string>(3);
  EXPECT_THAT(create(strings, DType::kString, {3}, {1}), IsOk());
  EXPECT_THAT(create(strings, DType::kString, {4}, {1}), refused("number 3, of 32 bytes"));
  EXPECT_THAT(create(strings, DType::kUint8, {3}, {1}), refused("holds objects"));
  EXPECT_THAT(create(TensorBuffer::MakeSubBuffer(strings, 8, 64), DType::kString, {1}, {1}),
              refused("inside a std::string"));
  EXPECT_THAT(create(bytes, f32, {4}, {1})->AsStrided({11}, {1}), refused("element is number 10"));
}

TEST(TensorView, CopiesOnlyWhereItMust) {
  const Tensor tensor = Ramp<int16_t>(TensorShape({2, 3, 4}));
  const TensorView view = tensor;
  ASSERT_OK_AND_ASSIGN(const TensorView turned, view.Permute({2, 0, 1}));

  ASSERT_OK_AND_ASSIGN(const TensorView same, view.Contiguous());
  EXPECT_EQ(same.data<int16_t>(), view.data<int16_t>());
  ASSERT_OK_AND_ASSIGN(const TensorView dense, turned.Contiguous());
  EXPECT_FALSE(dense.SharesBufferWith(view));
  EXPECT_EQ(Elements<int16_t>(dense), Elements<int16_t>(turned));
  EXPECT_TRUE(dense.IsContiguous());

  ASSERT_OK_AND_ASSIGN(const TensorView kept, turned.Clone());
  EXPECT_EQ(kept.strides(), turned.strides());
  EXPECT_EQ(Elements<int16_t>(kept), Elements<int16_t>(turned));
  ASSERT_OK_AND_ASSIGN(const TensorView row_major, turned.Clone(MemoryFormat::kContiguous));
  EXPECT_TRUE(row_major.IsContiguous());

  ASSERT_OK_AND_ASSIGN(const TensorView shaped, view.ReshapeOrCopy({6, -1}));
  EXPECT_TRUE(shaped.SharesBufferWith(view));
  ASSERT_OK_AND_ASSIGN(const TensorView copied, turned.ReshapeOrCopy({6, -1}));
  EXPECT_FALSE(copied.SharesBufferWith(view));
  EXPECT_EQ(Elements<int16_t>(copied), Elements<int16_t>(turned));
  EXPECT_THAT(turned.ReshapeOrCopy({5, -1}), StatusIs(Code::kInvalidArgument, HasSubstr("not a multiple of 5")));
  ASSERT_OK_AND_ASSIGN(const TensorView flat, turned.FlattenOrCopy(0, 1));
  EXPECT_EQ(flat.shape(), TensorShape({8, 3}));
  EXPECT_THAT(turned.Flatten(0, 1), StatusIs(Code::kInvalidArgument, HasSubstr("only a copy (ReshapeOrCopy) does")));
  EXPECT_THAT(turned.FlattenOrCopy(2, 1), StatusIs(Code::kInvalidArgument, HasSubstr("comes after")));

  ASSERT_OK_AND_ASSIGN(const Tensor whole, view.ToTensor());
  EXPECT_EQ(whole.buffer().get(), tensor.buffer().get());
  ASSERT_OK_AND_ASSIGN(const Tensor part, view.Select(0, 1)->ToTensor());
  EXPECT_TRUE(part.SharesBufferWith(tensor));
  EXPECT_EQ(part.matrix<int16_t>()(2, 3), 23);
  ASSERT_OK_AND_ASSIGN(const Tensor gathered, turned.ToTensor());
  EXPECT_FALSE(gathered.SharesBufferWith(tensor));
  EXPECT_EQ((gathered.tensor<int16_t, 3>()(3, 1, 2)), 23);
}

TEST(TensorView, GoesToChannelsLastAndBack) {
  const TensorView view = Ramp<float>(TensorShape({2, 3, 4, 5}));
  ASSERT_OK_AND_ASSIGN(const TensorView last, view.Contiguous(MemoryFormat::kChannelsLast2d));
  EXPECT_THAT(last.strides(), ElementsAre(60, 1, 15, 3));
  EXPECT_EQ(Elements<float>(last), Elements<float>(view));
  ASSERT_OK_AND_ASSIGN(const TensorView again, last.Contiguous(MemoryFormat::kChannelsLast2d));
  EXPECT_TRUE(again.SharesBufferWith(last));
  ASSERT_OK_AND_ASSIGN(const TensorView back, last.Contiguous());
  EXPECT_EQ(Elements<float>(back), Elements<float>(view));
  EXPECT_THAT(view.Contiguous(MemoryFormat::kChannelsLast3d), StatusIs(Code::kInvalidArgument, HasSubstr("rank 5")));
}

// Each element size, and all kinds of steps on both sides.
template <typename T>
class CopyOf : public ::testing::Test {};
using ElementTypes = ::testing::Types<uint8_t, int16_t, float, double, std::complex<double>, bfloat16, std::string>;
TYPED_TEST_SUITE(CopyOf, ElementTypes);
TYPED_TEST(CopyOf, AnyGeometry) {
  Tensor tensor = *Tensor::Create(kDTypeOf<TypeParam>, TensorShape({3, 4, 5}));
  for (int i = 0; i < 60; ++i) {
    if constexpr (std::is_same_v<TypeParam, std::string>) {
      tensor.mutable_data<TypeParam>()[i] = std::string(static_cast<size_t>(i), 'x');
    } else {
      tensor.mutable_data<TypeParam>()[i] = TypeParam(static_cast<float>(i));
    }
  }
  const TensorView view = tensor;
  const std::optional<int64_t> none;
  const std::vector<absl::StatusOr<TensorView>> views = {view,
                                                         view.Permute({2, 1, 0}),
                                                         view.Slice(2, none, none, 2),
                                                         view.Slice(1, none, none, -1),
                                                         view.Flip({0, 1, 2}),
                                                         view.Select(1, 2),
                                                         view.Select(2, 4)->Expand({2, 3, 4}),
                                                         view.Diagonal(1, 0, 2),
                                                         view.Unfold(1, 3, 1),
                                                         view.Select(0, 0)->Select(0, 0)->Select(0, 3),
                                                         view.Slice(0, 2, 2),
                                                         view.Narrow(2, 1, 3)->Transpose(0, 1)};
  for (const absl::StatusOr<TensorView>& source : views) {
    ASSERT_OK(source);
    SCOPED_TRACE(source->ToString());
    const std::vector<TypeParam> wanted = Elements<TypeParam>(*source);
    for (const MemoryFormat format : {MemoryFormat::kContiguous, MemoryFormat::kPreserve}) {
      ASSERT_OK_AND_ASSIGN(const TensorView copy, source->Clone(format));
      EXPECT_FALSE(copy.SharesBufferWith(view));
      EXPECT_EQ(copy.layout(), *source->layout().Dense(format));
      EXPECT_EQ(Elements<TypeParam>(copy), wanted);
    }
    ASSERT_OK_AND_ASSIGN(const Tensor dense, source->ToTensor());
    EXPECT_EQ(std::vector<TypeParam>(dense.flat<TypeParam>().begin(), dense.flat<TypeParam>().end()), wanted);
  }
}

TEST(TensorView, TakesOverTheBufferOfATensor) {
  Tensor tensor = Ramp<float>(TensorShape({2, 3}));
  const void* const data = tensor.data<float>();
  const TensorView view = std::move(tensor);
  EXPECT_EQ(view.ToString(), "float32 [2,3] strides [3,1] offset 0");
  EXPECT_EQ(view.data<float>(), data);
  EXPECT_TRUE(view.buffer().IsUnique());
  EXPECT_FALSE(tensor.buffer());  // NOLINT(bugprone-use-after-move): promised
  EXPECT_EQ(tensor.shape(), TensorShape({0}));
}

TEST(TensorView, CastsBytesOnly) {
  const TensorView view = Ramp<float>(TensorShape({2, 4}));
  ASSERT_OK_AND_ASSIGN(const TensorView wide, view.Bitcast(DType::kFloat64));
  EXPECT_EQ(wide.ToString(), "float64 [2,2] strides [2,1] offset 0");
  ASSERT_OK_AND_ASSIGN(const TensorView bytes, view.Select(0, 1)->Bitcast(DType::kUint8));
  EXPECT_EQ(bytes.ToString(), "uint8 [16] strides [1] offset 16");
  EXPECT_EQ(static_cast<const void*>(bytes.data<uint8_t>()), view.data<float>() + 4);
  ASSERT_OK_AND_ASSIGN(const TensorView complex, view.Reshape({2, 2, 2})->ViewAsComplex());
  EXPECT_THAT(Elements<std::complex<float>>(*complex.Select(0, 1)),
              ElementsAre(std::complex<float>(4, 5), std::complex<float>(6, 7)));
  EXPECT_EQ(complex.ViewAsReal()->layout(), view.Reshape({2, 2, 2})->layout());

  const auto refused = [](const char* says) { return StatusIs(Code::kInvalidArgument, HasSubstr(says)); };
  EXPECT_THAT(view.Bitcast(DType::kBool), refused("cannot become bools"));
  EXPECT_THAT(view.Bitcast(DType::kString), refused("fixed size"));
  EXPECT_THAT(view.Bitcast(DType::kInvalid), refused("fixed size"));
  EXPECT_THAT(view.ViewAsReal(), refused("the dtype is not complex"));
  const TensorView strings = Tensor::FromValues<std::string>({"a", "b"});
  EXPECT_THAT(strings.Bitcast(DType::kUint8), refused("fixed size"));
  EXPECT_THAT(strings.ViewAsComplex(), refused("neither float32 nor float64"));
  EXPECT_THAT(Elements<std::string>(*strings.Flip({0})), ElementsAre("b", "a"));
  alignas(16) char memory[32] = {};
  ASSERT_OK_AND_ASSIGN(const TensorView shifted,
                       TensorView::Create(External(memory + 2, 16), DType::kInt16, *Layout::Create({8}, {1})));
  EXPECT_THAT(shifted.Bitcast(DType::kFloat32), refused("not a multiple of 4"));
}

TEST(TensorView, ExpectContiguousBorrowsOrOwns) {
  const Tensor tensor = Ramp<int32_t>(TensorShape({2, 3}));
  const TensorView view = tensor;
  ASSERT_OK_AND_ASSIGN(const MaybeOwned<TensorView> borrowed, view.ExpectContiguous());
  EXPECT_TRUE(borrowed.is_borrowed());
  EXPECT_EQ(&*borrowed, &view);
  EXPECT_EQ(tensor.buffer()->use_count(), 2);  // the tensor and the view
  MaybeOwned<TensorView> copy = borrowed;
  EXPECT_EQ(&*copy, &view);
  const TensorView taken = std::move(copy).Take();
  EXPECT_EQ(tensor.buffer()->use_count(), 3);

  ASSERT_OK_AND_ASSIGN(const TensorView turned, view.Transpose(0, 1));
  ASSERT_OK_AND_ASSIGN(MaybeOwned<TensorView> owned, turned.ExpectContiguous());
  EXPECT_FALSE(owned.is_borrowed());
  EXPECT_THAT(Elements<int32_t>(*owned), ElementsAre(0, 3, 1, 4, 2, 5));
  const TensorView kept = std::move(owned).Take();
  EXPECT_EQ(kept.buffer()->use_count(), 1);
  EXPECT_EQ(owned->num_elements(), 0);  // NOLINT(bugprone-use-after-move): it owned, and is empty now
}

TEST(TensorView, CopiesTakeMemoryFromWhereTheElementsHaveTheirs) {
  const auto allocator = MakeRef<testing::FailingAllocator>();
  const TensorView turned = *TensorView(Tensor::FromValues<int32_t>({{0, 1, 2}, {3, 4, 5}}, allocator)).Transpose(0, 1);
  const auto is_there = [&](const auto& copy) { return copy->buffer()->allocator_name() == allocator->name(); };
  EXPECT_TRUE(is_there(turned.Contiguous()));
  EXPECT_TRUE(is_there(turned.ToTensor()));
  EXPECT_TRUE(is_there(turned.ReshapeOrCopy({6})));
  EXPECT_TRUE(is_there(turned.FlattenOrCopy()));
  EXPECT_TRUE(is_there(turned.ExpectContiguous().value().operator->()));
  EXPECT_EQ(turned.Clone()->buffer()->allocator_name(), "cpu") << "Clone takes an allocator";
}

TEST(TensorView, FrozenGeometryStays) {
  TensorView view = Ramp<int32_t>(TensorShape({2, 3}));
  EXPECT_OK(view.SetDimsAndStrides({3, 2}, {1, 3}));
  EXPECT_THAT(view.SetDimsAndStrides({3, 3}, {-1, -1}),
              StatusIs(Code::kInvalidArgument, HasSubstr("element is number 8")));
  EXPECT_THAT(view.SetOffset(1), StatusIs(Code::kInvalidArgument, HasSubstr("element is number 6")));
  EXPECT_EQ(view.ToString(), "int32 [3,2] strides [1,3] offset 0");
  EXPECT_OK(view.SetDim(0, 2));
  EXPECT_OK(view.SetStride(1, 4));
  EXPECT_THAT(Elements<int32_t>(view), ElementsAre(0, 4, 1, 5));
  EXPECT_THAT(view.SetStride(1, 5), StatusIs(Code::kInvalidArgument, HasSubstr("element is number 6")));
  EXPECT_OK(view.SetStride(1, 3));
  EXPECT_OK(view.SetDim(0, 3));
  EXPECT_OK(view.ResizeDim(1));
  EXPECT_OK(view.SetOffset(3));
  EXPECT_THAT(Elements<int32_t>(view), ElementsAre(3, 4, 5));
  view.Freeze();
  EXPECT_TRUE(view.is_frozen());
  const auto refused = StatusIs(Code::kFailedPrecondition, HasSubstr("is frozen"));
  EXPECT_THAT(view.SetDimsAndStrides({1}, {1}), refused);
  EXPECT_THAT(view.SetDim(0, 1), refused);
  EXPECT_THAT(view.SetStride(0, 1), refused);
  EXPECT_THAT(view.SetOffset(0), refused);
  EXPECT_THAT(view.ResizeDim(0), refused);
  EXPECT_EQ(view.ToString(), "int32 [3] strides [1] offset 3");
  TensorView copy = view;
  EXPECT_THAT(copy.SetOffset(0), refused);
  *view.mutable_data<int32_t>() = 9;
  EXPECT_THAT(Elements<int32_t>(copy), ElementsAre(9, 4, 5));
  TensorView alias = view.Alias();
  EXPECT_OK(alias.SetOffset(0));
  EXPECT_EQ(alias.ToString(), "int32 [3] strides [1] offset 0");
  EXPECT_TRUE(alias.SharesBufferWith(view));
  EXPECT_FALSE(view.Squeeze().is_frozen());
  EXPECT_FALSE(view.Unsqueeze(0)->is_frozen());
}

TEST(TensorView, OverlapIsNotWritable) {  // ST-05
  const TensorView view = Ramp<int32_t>(TensorShape({4}));
  EXPECT_OK(view.CheckWritable());
  EXPECT_OK(view.Flip({0})->CheckWritable());
  EXPECT_THAT(view.Expand({2, 4})->CheckWritable(),
              StatusIs(Code::kInvalidArgument, HasSubstr("several indices for one element")));
  EXPECT_THAT(view.Unfold(0, 2, 1)->CheckWritable(), StatusIs(Code::kInvalidArgument));
  EXPECT_OK(view.Unfold(0, 2, 2)->CheckWritable());
}

TEST(TensorView, WritesToPrivateMemoryWhereItMustNotWrite) {
  int32_t memory[] = {1, 2, 3, 4};
  ASSERT_OK_AND_ASSIGN(TensorView view, TensorView::Create(External(memory, sizeof(memory), /*writable=*/false),
                                                           DType::kInt32, *Layout::Create({2}, {-2}, 2)));
  EXPECT_EQ(view.data<int32_t>(), memory + 2);
  EXPECT_OK(view.EnsureMutable());
  view.mutable_data<int32_t>()[-2] = 10;
  EXPECT_THAT(Elements<int32_t>(view), ElementsAre(3, 10));
  EXPECT_EQ(memory[0], 1);
}

TEST(TensorView, SaysSoWhenMemoryIsShort) {
  const TensorView view = Ramp<int32_t>(TensorShape({4}));
  const RefPtr<Allocator> failing = MakeRef<testing::FailingAllocator>(/*fail_at=*/1);
  EXPECT_THAT(view.Clone(MemoryFormat::kPreserve, failing), StatusIs(Code::kResourceExhausted, HasSubstr("int32 [4]")));
  ASSERT_OK_AND_ASSIGN(const TensorView vast, view.Select(0, 1)->Expand({int64_t{1} << 61, 2}));  // ST-08
  EXPECT_THAT(vast.Contiguous(), StatusIs(Code::kInvalidArgument, HasSubstr("2^63-1")));
}

TEST(TensorView, PiecesShareTheMemory) {
  const TensorView view = Ramp<int32_t>(TensorShape({5}));
  ASSERT_OK_AND_ASSIGN(const std::vector<TensorView> pieces, view.Split(0, 2));
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_THAT(Elements<int32_t>(pieces[1]), ElementsAre(2, 3));
  EXPECT_TRUE(pieces[2].SharesBufferWith(view));
  EXPECT_THAT(Elements<int32_t>(view.SplitSizes(0, {4, 1})->back()), ElementsAre(4));
  EXPECT_THAT(Elements<int32_t>(view.Chunk(0, 2)->front()), ElementsAre(0, 1, 2));
  EXPECT_THAT(Elements<int32_t>(view.TensorSplit(0, 4)->front()), ElementsAre(0, 1));
  EXPECT_THAT(Elements<int32_t>(view.TensorSplitAt(0, {-1})->back()), ElementsAre(4));
  EXPECT_THAT(view.Split(1, 1), StatusIs(Code::kInvalidArgument, HasSubstr("axis 1")));
}

TEST(TensorView, IsSmallAndDoesNotAllocate) {
  EXPECT_LE(sizeof(TensorView), 128U);
  EXPECT_EQ(sizeof(Layout), 104U);
  const Tensor tensor = Ramp<float>(TensorShape({2, 3, 4, 5}));
  const std::optional<int64_t> none;
  const int64_t before = testing::NumAllocations();
  const TensorView view = tensor;
  bool ok = true;
  const auto keep = [&ok](const absl::StatusOr<TensorView>& made) { ok = ok && made.ok(); };
  keep(view.Slice(1, none, none, -1));
  keep(view.Narrow(1, 0, 2));
  keep(view.Select(0, 1));
  keep(view.Diagonal());
  keep(view.Unfold(1, 2, 1));
  keep(view.Transpose(0, 3));
  keep(view.Permute({3, 2, 1, 0}));
  keep(view.MoveAxis(0, 2));
  keep(view.Flip({0, 1}));
  keep(view.Reshape({6, -1}));
  keep(view.Flatten());
  keep(view.Squeeze());
  keep(view.Squeeze(0));
  keep(view.Unsqueeze(0));
  keep(view.Expand({7, 2, 3, 4, 5}));
  keep(view.AsStrided({2, 2, 2, 2, 2}, {1, 1, 1, 1, 1}));
  keep(view.Bitcast(DType::kUint8));
  keep(view.Contiguous());
  keep(TensorView::Create(view.buffer(), DType::kFloat32, view.layout()));
  ok = ok && view.ExpectContiguous()->is_borrowed() && view.CheckWritable().ok();
  TensorView copy = view;
  copy = *view.Unsqueeze(0);
  EXPECT_EQ(testing::NumAllocations(), before);
  EXPECT_TRUE(ok);
  keep(copy.Unsqueeze(0));  // rank 6: dims and strides go to the heap
  EXPECT_GT(testing::NumAllocations(), before);
}

TEST(TensorViewDeathTest, WrongElementType) {
  const TensorView view = Ramp<float>(TensorShape({2}));
  EXPECT_DEATH(view.data<int32_t>(), "the elements of this view are float32, not int32");
}

}  // namespace
}  // namespace tensorcask
