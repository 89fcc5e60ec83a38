// Each test of the suite Caffe2 is one rule of Caffe2's tensor, with the numbers of its documentation and tests.

#include "tensorcask/tensor/strided/resizable.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Dims = std::vector<int64_t>;

constexpr int64_t k2To29 = int64_t{1} << 29;

// A tensor of these dims whose elements are 0, 1, 2, ...
template <typename T>
ResizableTensor Counting(const Dims& dims, ResizableOptions options = {}) {
  ResizableTensor tensor(std::move(options));
  EXPECT_OK(tensor.Resize(dims));
  const auto data = tensor.MutableData<T>();
  EXPECT_OK(data);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if constexpr (std::is_same_v<T, std::string>) {
      (*data)[i] = "a string that is too long for the object itself, number " + std::to_string(i);
    } else {
      (*data)[i] = static_cast<T>(i);
    }
  }
  return tensor;
}

template <typename T>
std::vector<T> Values(const ResizableTensor& tensor) {
  const auto data = tensor.Data<T>();
  EXPECT_OK(data);
  if (!data.ok()) return {};
  return std::vector<T>(*data, *data + tensor.num_elements());
}

const void* Pointer(const ResizableTensor& tensor) {
  const auto view = tensor.View();
  return view.ok() && view->buffer() ? view->buffer()->data() : nullptr;
}

// ---- dtype and memory, each there or not ----------------------------------------------------------------------------

TEST(Caffe2, FreshTensorHasShapeZeroAndNoDType) {
  const ResizableTensor fresh;
  EXPECT_EQ(fresh.shape(), TensorShape({0}));
  EXPECT_EQ(fresh.num_elements(), 0);
  EXPECT_EQ(fresh.dtype(), DType::kInvalid);
  EXPECT_FALSE(fresh.dtype_initialized());
  EXPECT_TRUE(fresh.storage_initialized()) << "there is nothing to store";
  EXPECT_EQ(fresh.capacity_bytes(), 0u);
}

TEST(Caffe2, FourStatesOfInitialisation) {
  ResizableTensor tensor;
  EXPECT_THAT(tensor.CheckFullyInitialized(), StatusIs(Code::kFailedPrecondition, HasSubstr("shape [0] has no dtype")));
  ASSERT_OK(tensor.Resize({2, 3}));
  EXPECT_FALSE(tensor.storage_initialized());
  EXPECT_THAT(tensor.CheckFullyInitialized(),
              StatusIs(Code::kFailedPrecondition, HasSubstr("[2,3] has neither dtype nor memory")));
  ASSERT_OK(tensor.MutableData<float>());
  EXPECT_TRUE(tensor.dtype_initialized() && tensor.storage_initialized());
  EXPECT_OK(tensor.CheckFullyInitialized());
  tensor.FreeMemory();
  EXPECT_TRUE(tensor.dtype_initialized());
  EXPECT_FALSE(tensor.storage_initialized());
  EXPECT_THAT(tensor.CheckFullyInitialized(), StatusIs(Code::kFailedPrecondition, HasSubstr("has no memory")));
}

// What hands elements out, or takes them from another, refuses each state but the full one.
TEST(Caffe2, PartlyInitialisedTensorsAreRefused) {
  ResizableTensor no_dtype;
  ResizableTensor nothing;
  ASSERT_OK(nothing.Resize({4}));
  ResizableTensor no_memory = Counting<float>({4});
  no_memory.FreeMemory();
  for (const ResizableTensor* tensor : {&no_dtype, &nothing, &no_memory}) {
    SCOPED_TRACE(tensor->shape().ToString() + " " + std::string(DTypeName(tensor->dtype())));
    EXPECT_THAT(tensor->Data<float>(), StatusIs(Code::kFailedPrecondition));
    EXPECT_THAT(tensor->View(), StatusIs(Code::kFailedPrecondition));
    EXPECT_THAT(tensor->ToTensor(), StatusIs(Code::kFailedPrecondition));
    ResizableTensor other = Counting<float>({tensor->num_elements()});
    EXPECT_THAT(other.ShareData(*tensor), StatusIs(Code::kFailedPrecondition));
  }
}

TEST(Caffe2, CopyOfTensorWithoutDTypeIsAnother) {
  ResizableTensor source;
  ASSERT_OK(source.Resize({2, 3}));
  ASSERT_OK_AND_ASSIGN(const ResizableTensor clone, source.Clone());
  EXPECT_EQ(clone.shape(), TensorShape({2, 3}));
  EXPECT_FALSE(clone.dtype_initialized());
  ResizableTensor target = Counting<float>({5});
  ASSERT_OK(target.CopyFrom(source));
  EXPECT_EQ(target.shape(), TensorShape({2, 3}));
  EXPECT_FALSE(target.dtype_initialized() || target.storage_initialized());
}

// ---- MutableData and Data -------------------------------------------------------------------------------------------

TEST(Caffe2, MutableDataAllocatesOnFirstUseOnly) {
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({2, 3, 5}));
  ASSERT_OK_AND_ASSIGN(float* const first, tensor.MutableData<float>());
  EXPECT_EQ(tensor.dtype(), DType::kFloat32);
  EXPECT_EQ(tensor.capacity_bytes(), 120u);
  first[29] = 7;
  EXPECT_EQ(*tensor.MutableData<float>(), first);
  EXPECT_EQ((*tensor.Data<float>())[29], 7);
}

TEST(Caffe2, MutableDataOfAnotherTrivialTypeReusesMemory) {
  ResizableTensor tensor = Counting<float>({2, 3});
  const void* const pointer = Pointer(tensor);
  ASSERT_OK_AND_ASSIGN(int32_t* const ints, tensor.MutableData<int32_t>());
  EXPECT_EQ(ints, pointer);
  EXPECT_EQ(tensor.dtype(), DType::kInt32);
  ASSERT_OK_AND_ASSIGN(int8_t* const bytes, tensor.MutableData<int8_t>());
  EXPECT_EQ(bytes, pointer) << "smaller elements fit, too";
  EXPECT_EQ(tensor.capacity_bytes(), 24u);
  ASSERT_OK_AND_ASSIGN(double* const doubles, tensor.MutableData<double>());
  EXPECT_EQ(tensor.capacity_bytes(), 48u) << "larger ones do not";
  doubles[5] = 1;
}

TEST(Caffe2, MutableDataOfStringsTakesMemoryOfItsOwn) {
  ResizableTensor tensor = Counting<float>({100});
  ASSERT_OK_AND_ASSIGN(std::string* const strings, tensor.MutableData<std::string>());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(strings[i], "");
  strings[99] = "x";
  EXPECT_EQ(Values<std::string>(tensor)[99], "x");
  ASSERT_OK_AND_ASSIGN(int64_t* const ints, tensor.MutableData<int64_t>());
  ints[99] = 1;
  EXPECT_EQ(tensor.capacity_bytes(), 800u);
}

TEST(Caffe2, MutableDataLeavesSharedMemoryToOthers) {
  ResizableTensor tensor = Counting<float>({3});
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK_AND_ASSIGN(int32_t* const ints, tensor.MutableData<int32_t>());
  ints[0] = 99;
  EXPECT_THAT(std::vector<float>(alias.data<float>(), alias.data<float>() + 3), ElementsAre(0, 1, 2));
}

TEST(Caffe2, MutableDataWithoutElementsSetsTheDType) {
  ResizableTensor tensor;
  EXPECT_OK(tensor.MutableData<int16_t>());
  EXPECT_EQ(tensor.dtype(), DType::kInt16);
  EXPECT_OK(tensor.MutableData<std::string>());
  EXPECT_EQ(tensor.dtype(), DType::kString);
  EXPECT_EQ(*tensor.Data<std::string>(), nullptr);
  EXPECT_EQ(tensor.ToTensor()->shape(), TensorShape({0}));
}

TEST(Caffe2, MutableRawDataRefusesWhatIsNoElement) {
  ResizableTensor tensor = Counting<float>({3});
  EXPECT_THAT(tensor.MutableRawData(DType::kInvalid), StatusIs(Code::kInvalidArgument, HasSubstr("invalid")));
  EXPECT_THAT(Values<float>(tensor), ElementsAre(0, 1, 2));
  // Before all else: also without memory, and before what external memory does not do for.
  ResizableTensor fresh;
  EXPECT_THAT(fresh.MutableRawData(DType::kInvalid), StatusIs(Code::kInvalidArgument, HasSubstr("invalid")));
  EXPECT_FALSE(fresh.dtype_initialized());
  float memory[3] = {};
  ASSERT_OK(tensor.ShareExternal(DType::kFloat32, memory));
  EXPECT_THAT(tensor.MutableRawData(static_cast<DType>(200)), StatusIs(Code::kInvalidArgument, HasSubstr("200")));
}

TEST(Caffe2, DataWantsTheExactType) {
  const ResizableTensor tensor = Counting<float>({2});
  EXPECT_THAT(tensor.Data<int32_t>(), StatusIs(Code::kInvalidArgument, HasSubstr("are float32, not int32")));
  ResizableTensor empty;
  ASSERT_OK(empty.MutableData<float>());
  EXPECT_OK(empty.Data<float>());
  EXPECT_EQ(*empty.Data<float>(), nullptr);
  EXPECT_THAT(empty.Data<double>(), StatusIs(Code::kInvalidArgument, HasSubstr("are float32, not float64")));
}

// ---- Resize ---------------------------------------------------------------------------------------------------------

TEST(Caffe2, ResizeToAsManyElementsKeepsAll) {
  ResizableTensor tensor = Counting<int32_t>({2, 3});
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK(tensor.Resize({3, 1, 2}));
  EXPECT_EQ(tensor.shape(), TensorShape({3, 1, 2}));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(Pointer(tensor), alias.data<int32_t>()) << "and stays shared";
}

TEST(Caffe2, ResizeToFewerKeepsMemoryByDefault) {
  ResizableTensor tensor = Counting<float>({4, 4});
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.Resize({2}));
  EXPECT_EQ(tensor.capacity_bytes(), 64u);
  EXPECT_EQ(*tensor.MutableData<float>(), pointer);
  ASSERT_OK(tensor.Resize({4, 4}));
  EXPECT_EQ(*tensor.MutableData<float>(), pointer) << "and grows back into it";
}

TEST(Caffe2, ResizeToMoreDropsMemoryUntilMutableData) {
  ResizableTensor tensor = Counting<float>({4});
  ASSERT_OK(tensor.Resize({5}));
  EXPECT_FALSE(tensor.storage_initialized());
  EXPECT_EQ(tensor.dtype(), DType::kFloat32);
  ASSERT_OK(tensor.MutableData<float>());
  EXPECT_EQ(tensor.capacity_bytes(), 20u);
}

TEST(Caffe2, ResizeToFewerWithoutKeepOnShrinkDropsMemory) {
  ResizableOptions options;
  options.keep_on_shrink = false;
  ResizableTensor tensor = Counting<float>({4}, options);
  ASSERT_OK(tensor.Resize({3}));
  EXPECT_FALSE(tensor.storage_initialized());
}

TEST(Caffe2, ResizeDropsWhatWouldLieIdleBeyondTheLimit) {
  ResizableOptions options;
  options.max_idle_bytes = 8;
  ResizableTensor tensor = Counting<float>({4}, options);
  ASSERT_OK(tensor.Resize({2}));
  EXPECT_EQ(tensor.capacity_bytes(), 16u) << "8 bytes idle";
  ASSERT_OK(tensor.Resize({1}));
  EXPECT_EQ(tensor.capacity_bytes(), 0u) << "12 bytes would be";
}

TEST(Caffe2, ReservedMemoryIsKeptWhateverTheOptions) {
  ResizableOptions options;
  options.keep_on_shrink = false;
  options.max_idle_bytes = 0;
  ResizableTensor tensor = Counting<float>({2, 2}, options);
  ASSERT_OK(tensor.ReserveSpace(10));
  ASSERT_OK(tensor.Resize({1, 2}));
  EXPECT_EQ(tensor.capacity_bytes(), 80u);
  ASSERT_OK(tensor.Resize({11, 2}));
  EXPECT_EQ(tensor.capacity_bytes(), 0u) << "but for what does not fit";
  ASSERT_OK(tensor.MutableData<float>());
  ASSERT_OK(tensor.Resize({1, 2}));
  EXPECT_EQ(tensor.capacity_bytes(), 0u) << "new memory is not reserved";
}

TEST(Caffe2, ResizeOfStringsReusesTheirObjects) {
  ResizableTensor tensor = Counting<std::string>({4});
  ASSERT_OK(tensor.Resize({2}));
  EXPECT_EQ(tensor.capacity_bytes(), 4 * sizeof(std::string));
  ASSERT_OK_AND_ASSIGN(std::string* const strings, tensor.MutableData<std::string>());
  strings[1] = "y";
  EXPECT_EQ(Values<std::string>(tensor)[1], "y");
}

TEST(Caffe2, ResizeLetsGoOfSharedMemory) {
  for (const Dims& dims : {Dims{2}, Dims{5}}) {
    SCOPED_TRACE(dims[0]);
    ResizableTensor tensor = Counting<float>({3});
    ResizableTensor alias;
    ASSERT_OK(alias.Resize({3}));
    ASSERT_OK(alias.ShareData(tensor));
    const void* const pointer = Pointer(alias);
    ASSERT_OK(tensor.Resize(dims));
    EXPECT_FALSE(tensor.storage_initialized());
    EXPECT_EQ(Pointer(alias), pointer);
    ASSERT_OK_AND_ASSIGN(float* const data, tensor.MutableData<float>());
    data[0] = 99;
    EXPECT_THAT(Values<float>(alias), ElementsAre(0, 1, 2));
    // The last one has it for itself again.
    ASSERT_OK(alias.Resize({2}));
    EXPECT_EQ(Pointer(alias), pointer);
  }
}

struct ResizeRejectCase {
  const char* name;
  Dims dims;
  const char* says;
};
const ResizeRejectCase kResizeRejected[] = {
    {"Negative", {2, -1}, "dim 1 is -1"},
    {"Product", {int64_t{1} << 40, int64_t{1} << 40}, "exceeds 2^63-1"},
    {"Bytes", {2, 4, k2To29, k2To29}, "float64 [2,4,536870912,536870912]: the size in bytes exceeds 2^63-1"},
    {"Rank", Dims(255, 1), "255 dims"},
};
class ResizeRejects : public ::testing::TestWithParam<ResizeRejectCase> {};
TEST_P(ResizeRejects, WithCodeAndMessageAndNothingChanges) {
  ResizableTensor tensor = Counting<double>({2});
  EXPECT_THAT(tensor.Resize(GetParam().dims), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_THAT(Values<double>(tensor), ElementsAre(0, 1));
}
INSTANTIATE_TEST_SUITE_P(All, ResizeRejects, ::testing::ValuesIn(kResizeRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Caffe2, TooManyBytesShowOnceTheDTypeIsKnown) {
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({2, 4, k2To29, k2To29}));
  EXPECT_THAT(tensor.MutableData<double>(), StatusIs(Code::kInvalidArgument, HasSubstr("exceeds 2^63-1")));
  EXPECT_FALSE(tensor.dtype_initialized());
}

TEST(Caffe2, FreeMemoryLeavesItToAliases) {
  ResizableTensor tensor = Counting<float>({3});
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  const float* const pointer = alias.data<float>();
  tensor.FreeMemory();
  EXPECT_EQ(tensor.capacity_bytes(), 0u);
  EXPECT_EQ(alias.data<float>(), pointer);
  EXPECT_EQ(pointer[2], 2);
  EXPECT_NE(*tensor.MutableData<float>(), pointer);
}

TEST(Caffe2, ReshapeKeepsTheElements) {
  ResizableTensor tensor = Counting<int32_t>({2, 3});
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.Reshape({6}));
  EXPECT_EQ(Pointer(tensor), pointer);
  EXPECT_THAT(tensor.Reshape({4}), StatusIs(Code::kInvalidArgument, HasSubstr("[6] has 6 elements, [4] has 4")));
  EXPECT_THAT(tensor.Reshape({-1, 2}), StatusIs(Code::kInvalidArgument, HasSubstr("dim 0 is -1")));
  EXPECT_EQ(tensor.shape(), TensorShape({6}));
}

TEST(Caffe2, ResizeLike) {
  ResizableTensor tensor = Counting<float>({2, 3});
  const void* const pointer = Pointer(tensor);
  const Tensor other = *Tensor::Create(DType::kInt8, TensorShape({3, 2}));
  ASSERT_OK(tensor.ResizeLike(other));
  EXPECT_EQ(tensor.shape(), TensorShape({3, 2}));
  ASSERT_OK(tensor.ResizeLike(tensor));
  EXPECT_EQ(Pointer(tensor), pointer);
  EXPECT_THAT(tensor.ResizeLike(*TensorView(other).Transpose(0, 1)),
              StatusIs(Code::kInvalidArgument, HasSubstr("not contiguous")));
}

// ---- Extend, Shrink, ReserveSpace -----------------------------------------------------------------------------------

TEST(Caffe2, ExtendGrowsByPercent) {
  ResizableTensor tensor = Counting<int32_t>({2, 3});
  ASSERT_OK(tensor.Extend(1, 100));
  EXPECT_EQ(tensor.shape(), TensorShape({3, 3}));
  EXPECT_EQ(tensor.capacity_bytes(), 12 * sizeof(int32_t)) << "room for 4 rows";
  EXPECT_THAT(absl::MakeConstSpan(*tensor.Data<int32_t>(), 6), ElementsAre(0, 1, 2, 3, 4, 5));
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.Extend(1, 100));
  EXPECT_EQ(tensor.shape(), TensorShape({4, 3}));
  EXPECT_EQ(Pointer(tensor), pointer) << "the second allocates nothing";
  ASSERT_OK(tensor.Extend(5, 50));
  EXPECT_EQ(tensor.capacity_bytes(), 27 * sizeof(int32_t)) << "what is needed is more than 6";
  EXPECT_THAT(absl::MakeConstSpan(*tensor.Data<int32_t>(), 6), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Caffe2, ExtendRoundsTheGrowthUp) {
  ResizableTensor tensor = Counting<int8_t>({10});
  ASSERT_OK(tensor.Extend(1, 31));
  EXPECT_EQ(tensor.capacity_bytes(), 14u);
  ASSERT_OK(tensor.Resize({0}));
  tensor = Counting<int8_t>({10});
  ASSERT_OK(tensor.Extend(1, 30));
  EXPECT_EQ(tensor.capacity_bytes(), 13u);
}

TEST(Caffe2, ExtendWithoutMemoryIsResize) {
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({0, 4}));
  ASSERT_OK(tensor.Extend(2, 100));
  EXPECT_EQ(tensor.shape(), TensorShape({2, 4}));
  EXPECT_FALSE(tensor.dtype_initialized() || tensor.storage_initialized());
  ASSERT_OK(tensor.MutableData<int8_t>());
  EXPECT_EQ(tensor.capacity_bytes(), 8u);
}

TEST(Caffe2, ExtendByNothing) {
  ResizableTensor tensor = Counting<int8_t>({3});
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.Extend(0, 1000));
  EXPECT_EQ(Pointer(tensor), pointer);
  EXPECT_EQ(tensor.shape(), TensorShape({3}));
}

TEST(Caffe2, ExtendKeepsStrings) {
  ResizableTensor tensor = Counting<std::string>({3});
  const std::vector<std::string> before = Values<std::string>(tensor);
  ASSERT_OK(tensor.Extend(2, 0));
  const std::vector<std::string> after = Values<std::string>(tensor);
  EXPECT_THAT(absl::MakeConstSpan(after).first(3), ::testing::ElementsAreArray(before));
  EXPECT_THAT(absl::MakeConstSpan(after).last(2), Each(""));

  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK(tensor.Extend(1, 0));
  EXPECT_EQ(alias.flat<std::string>()[2], before[2]) << "of shared strings a copy is taken";
  EXPECT_EQ(Values<std::string>(tensor)[2], before[2]);
}

TEST(Caffe2, ExtendNeverWritesIntoSharedMemory) {
  ResizableTensor tensor = Counting<int32_t>({4});
  ResizableTensor other;
  ASSERT_OK(tensor.ReserveSpace(10));
  for (int i = 0; i < 4; ++i) (*tensor.MutableData<int32_t>())[i] = i;
  ASSERT_OK(other.Resize({4}));
  ASSERT_OK(other.ShareData(tensor));
  ASSERT_OK(tensor.Extend(1, 0));  // both have room behind the same four elements
  ASSERT_OK(other.Extend(1, 0));
  (*tensor.MutableData<int32_t>())[4] = 100;
  (*other.MutableData<int32_t>())[4] = 200;
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1, 2, 3, 100));
  EXPECT_THAT(Values<int32_t>(other), ElementsAre(0, 1, 2, 3, 200));
}

struct ExtendRejectCase {
  const char* name;
  Dims dims;
  int64_t num;
  double percent;
  const char* says;
};
const ExtendRejectCase kExtendRejected[] = {
    {"Negative", {2}, -1, 0, "by -1 rows"},
    {"Scalar", {}, 1, 0, "Extend: a scalar has no rows"},
    {"NegativeGrowth", {2}, 1, -1, "growth by -1 percent"},
    {"NanGrowth", {2}, 1, std::numeric_limits<double>::quiet_NaN(), "growth by nan percent"},
    {"InfiniteGrowth", {2}, 1, std::numeric_limits<double>::infinity(), "growth by inf percent"},
    {"HugeGrowth", {2}, 1, 1e300, "growth by 1e+300 percent is too much"},
    {"GrowthInBytes", {2}, 1, 2e20, "exceeds 2^63-1"},
    {"RowsOverflow", {2}, INT64_MAX, 0, "by 9223372036854775807 rows: too many"},
    {"ElementsOverflow", {2, 4}, int64_t{1} << 61, 0, "Extend: dim 1 is 4 in shape [2305843009213693954,4]"},
    {"BytesOverflow", {2, 1}, int64_t{1} << 61, 0, "the size in bytes exceeds 2^63-1"},
};
class ExtendRejects : public ::testing::TestWithParam<ExtendRejectCase> {};
TEST_P(ExtendRejects, WithCodeAndMessageAndNothingChanges) {
  ResizableTensor tensor = Counting<double>(GetParam().dims);
  const void* const pointer = Pointer(tensor);
  EXPECT_THAT(tensor.Extend(GetParam().num, GetParam().percent),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_EQ(tensor.shape(), *TensorShape::Create(GetParam().dims));
  EXPECT_EQ(Pointer(tensor), pointer);
}
INSTANTIATE_TEST_SUITE_P(All, ExtendRejects, ::testing::ValuesIn(kExtendRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Caffe2, ShrinkFreesNothing) {
  ResizableOptions options;
  options.keep_on_shrink = false;
  ResizableTensor tensor = Counting<int32_t>({4, 2}, options);
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK(tensor.Shrink(3));
  EXPECT_EQ(tensor.shape(), TensorShape({3, 2}));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(Pointer(tensor), alias.data<int32_t>());
  EXPECT_EQ(tensor.ToTensor()->buffer()->size_bytes(), 24u) << "of as many bytes as there are elements";
  ASSERT_OK(tensor.Shrink(0));
  EXPECT_EQ(tensor.shape(), TensorShape({0, 2}));
  EXPECT_THAT(tensor.Shrink(1), StatusIs(Code::kOutOfRange, HasSubstr("Shrink [0,2] to 1 rows: it has 0")));
  EXPECT_THAT(tensor.Shrink(-1), StatusIs(Code::kOutOfRange, HasSubstr("Shrink [0,2] to -1 rows")));
  EXPECT_EQ(tensor.shape(), TensorShape({0, 2}));
  ResizableTensor scalar = Counting<int32_t>({});
  EXPECT_THAT(scalar.Shrink(0), StatusIs(Code::kInvalidArgument, HasSubstr("a scalar has no rows")));
}

TEST(Caffe2, ReserveSpaceDiscardsAndKeepsTheDims) {
  ResizableTensor tensor = Counting<float>({2, 3});
  ASSERT_OK(tensor.ReserveSpace(100));
  EXPECT_EQ(tensor.shape(), TensorShape({2, 3}));
  EXPECT_EQ(tensor.capacity_bytes(), 1200u);
  EXPECT_TRUE(tensor.storage_initialized());
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.Extend(98, 0));
  ASSERT_OK(tensor.Resize({1, 3}));
  ASSERT_OK(tensor.ReserveSpace(50));
  EXPECT_EQ(Pointer(tensor), pointer);
  EXPECT_EQ(tensor.capacity_bytes(), 1200u);
}

TEST(Caffe2, ReserveSpaceRefuses) {
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({2}));
  EXPECT_THAT(tensor.ReserveSpace(5), StatusIs(Code::kFailedPrecondition, HasSubstr("without a dtype")));
  ASSERT_OK(tensor.MutableData<float>());
  EXPECT_THAT(tensor.ReserveSpace(-5), StatusIs(Code::kInvalidArgument, HasSubstr("ReserveSpace: dim 0 is -5")));
  EXPECT_THAT(tensor.ReserveSpace(INT64_MAX), StatusIs(Code::kInvalidArgument, HasSubstr("exceeds 2^63-1")));
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  EXPECT_THAT(tensor.ReserveSpace(5), StatusIs(Code::kFailedPrecondition, HasSubstr("others see")));
  ResizableTensor scalar = Counting<float>({});
  EXPECT_THAT(scalar.ReserveSpace(5), StatusIs(Code::kInvalidArgument, HasSubstr("a scalar has no rows")));
}

TEST(Caffe2, ReserveSpaceWithoutMemoryHasRoomForTheDims) {
  ResizableTensor tensor = Counting<float>({4});
  tensor.FreeMemory();
  ASSERT_OK(tensor.ReserveSpace(1));
  EXPECT_EQ(tensor.capacity_bytes(), 16u);
}

// ---- Sharing --------------------------------------------------------------------------------------------------------

TEST(Caffe2, ShareDataSharesAndKeepsTheDims) {
  ResizableTensor source = Counting<float>({2, 3});
  ResizableTensor target = Counting<int8_t>({6});
  ASSERT_OK(target.ShareData(source));
  EXPECT_EQ(target.shape(), TensorShape({6}));
  EXPECT_EQ(target.dtype(), DType::kFloat32);
  EXPECT_TRUE(target.SharesMemoryWith(source));
  (*target.MutableData<float>())[1] = 10;
  EXPECT_THAT(Values<float>(source), ElementsAre(0, 10, 2, 3, 4, 5));
  ASSERT_OK(source.ShareData(source));
  EXPECT_TRUE(target.SharesMemoryWith(source));
}

TEST(Caffe2, ShareDataRefuses) {
  ResizableTensor target = Counting<float>({2});
  ResizableTensor source;
  ASSERT_OK(source.Resize({2}));
  EXPECT_THAT(target.ShareData(source), StatusIs(Code::kFailedPrecondition, HasSubstr("dtype of the source")));
  source = Counting<float>({2});
  source.FreeMemory();
  EXPECT_THAT(target.ShareData(source),
              StatusIs(Code::kFailedPrecondition, HasSubstr("the source, float32 [2], has no memory")));
  EXPECT_THAT(target.ShareData(Counting<float>({3})),
              StatusIs(Code::kInvalidArgument, HasSubstr("[3] has 3 elements, [2] has 2")));
  EXPECT_THAT(Values<float>(target), ElementsAre(0, 1));
}

TEST(Caffe2, ShareExternal) {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  int released = 0;
  {
    ResizableTensor tensor = Counting<int8_t>({3});
    ASSERT_OK(tensor.ShareExternal(DType::kFloat32, memory, sizeof(memory), [&] { ++released; }));
    EXPECT_THAT(Values<float>(tensor), ElementsAre(0, 1, 2));
    (*tensor.MutableData<float>())[0] = 7;
    EXPECT_EQ(memory[0], 7);
    ASSERT_OK(tensor.Extend(2, 100));
    EXPECT_THAT(Values<float>(tensor), ElementsAre(7, 1, 2, 3, 4));
    ASSERT_OK(tensor.Resize({2, 3}));
    ASSERT_OK_AND_ASSIGN(int32_t* const ints, tensor.MutableData<int32_t>());
    EXPECT_EQ(static_cast<void*>(ints), memory) << "another type of the same size";

    // Whatever needs more is refused, and nothing has changed.
    const auto refused = StatusIs(Code::kFailedPrecondition, HasSubstr("external memory of 24 bytes does not do"));
    EXPECT_THAT(tensor.Resize({7}), refused);
    EXPECT_THAT(tensor.Extend(1, 0), refused);
    EXPECT_THAT(tensor.ReserveSpace(3), refused);
    EXPECT_THAT(tensor.MutableData<double>(), refused);
    EXPECT_THAT(tensor.MutableData<std::string>(), refused);
    EXPECT_THAT(tensor.CopyFrom(Tensor::FromValues<int32_t>({1, 2, 3, 4, 5, 6, 7})), refused);
    EXPECT_THAT(tensor.CopyFrom(Tensor::FromValues<double>({1})), refused);
    EXPECT_EQ(tensor.shape(), TensorShape({2, 3}));
    EXPECT_EQ(*tensor.MutableData<int32_t>(), ints);

    // It stays where it is, also when somebody else sees it.
    ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
    ASSERT_OK(tensor.Resize({1}));
    EXPECT_EQ(Pointer(tensor), memory);
    tensor.FreeMemory();
    EXPECT_EQ(released, 0) << "the alias uses it";
    ASSERT_OK(tensor.Resize({100}));
    EXPECT_OK(tensor.MutableData<double>());
  }
  EXPECT_EQ(released, 1);
}

TEST(Caffe2, ShareExternalOfSizeZeroIsJustLargeEnough) {
  int64_t memory[2] = {5, 6};
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({2}));
  ASSERT_OK(tensor.ShareExternal(DType::kInt64, memory));
  EXPECT_EQ(tensor.capacity_bytes(), 16u);
  EXPECT_THAT(Values<int64_t>(tensor), ElementsAre(5, 6));
}

TEST(Caffe2, ShareExternalRefusesAndReleases) {
  alignas(8) char memory[24] = {};
  int released = 0;
  const auto release = [&] { ++released; };
  ResizableTensor tensor = Counting<float>({2});
  const auto refuses = [&](const char* says) { return StatusIs(Code::kInvalidArgument, HasSubstr(says)); };
  EXPECT_THAT(tensor.ShareExternal(DType::kInvalid, memory, 24, release), refuses("dtype invalid"));
  EXPECT_THAT(tensor.ShareExternal(DType::kString, memory, 24, release), refuses("dtype string"));
  EXPECT_THAT(tensor.ShareExternal(DType::kFloat64, memory, 15, release), refuses("15 bytes, 16 are needed"));
  EXPECT_THAT(tensor.ShareExternal(DType::kFloat64, memory + 4, 16, release), refuses("no multiple of 8"));
  EXPECT_THAT(tensor.ShareExternal(DType::kFloat64, nullptr, 16, release), refuses("16 are needed"));
  EXPECT_EQ(released, 5);
  EXPECT_THAT(Values<float>(tensor), ElementsAre(0, 1));
  ResizableTensor huge;
  ASSERT_OK(huge.Resize({2, 4, k2To29, k2To29}));
  EXPECT_THAT(huge.ShareExternal(DType::kFloat64, memory, 0, release), refuses("exceeds 2^63-1"));
  EXPECT_THAT(huge.ShareExternal(DType::kFloat64, memory, 24, release), refuses("exceeds 2^63-1"));
  EXPECT_EQ(released, 7);
  ResizableTensor empty;
  EXPECT_OK(empty.ShareExternal(DType::kFloat64, memory, 24, release));
  EXPECT_EQ(released, 8) << "without elements at once";
}

// ---- Copying --------------------------------------------------------------------------------------------------------

TEST(Caffe2, CopyFromTakesDimsAndDType) {
  ResizableTensor tensor = Counting<float>({6});
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<float>({{1, 2}, {3, 4}})));
  EXPECT_EQ(tensor.shape(), TensorShape({2, 2}));
  EXPECT_THAT(Values<float>(tensor), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(Pointer(tensor), pointer) << "in the memory that was there";
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<int32_t>({7})));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(7));
  EXPECT_EQ(tensor.capacity_bytes(), 4u) << "another dtype, other memory";
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<std::string>({"a", "b"})));
  EXPECT_THAT(Values<std::string>(tensor), ElementsAre("a", "b"));
  ASSERT_OK(tensor.CopyFrom(*Tensor::Create(DType::kInt8, TensorShape({0, 3}))));
  EXPECT_EQ(tensor.shape(), TensorShape({0, 3}));
  EXPECT_EQ(tensor.dtype(), DType::kInt8);
}

TEST(Caffe2, CopyFromItselfAndFromItsOwnViews) {
  ResizableTensor tensor = Counting<int32_t>({2, 3});
  ASSERT_OK(tensor.CopyFrom(tensor));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  ASSERT_OK(tensor.CopyFrom(*tensor.View()->Transpose(0, 1)));
  EXPECT_EQ(tensor.shape(), TensorShape({3, 2}));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 3, 1, 4, 2, 5));
  ASSERT_OK(tensor.CopyFrom(*tensor.View()->Slice(0, 1, 3)));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(1, 4, 2, 5));
}

TEST(ResizableTensor, CopyFromAnotherBufferOnTheSameMemory) {
  int32_t memory[5] = {1, 2, 3, 4, 5};
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({4}));
  ASSERT_OK(tensor.ShareExternal(DType::kInt32, memory + 1));
  ASSERT_OK_AND_ASSIGN(const Tensor source, Tensor::FromExternal(DType::kInt32, TensorShape({4}), memory, 16, nullptr));
  ASSERT_OK(tensor.CopyFrom(source));
  EXPECT_THAT(memory, ElementsAre(1, 1, 2, 3, 4));
  ASSERT_OK(tensor.CopyFrom(*TensorView(source).Flip({0})));
  EXPECT_THAT(memory, ElementsAre(1, 3, 2, 1, 1));
}

TEST(Caffe2, CopyFromWritesWhereAliasesSeeIt) {
  ResizableTensor tensor = Counting<float>({2});
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<float>({8, 9})));
  EXPECT_EQ(alias.flat<float>()[1], 9);
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<float>({1, 2, 3})));
  EXPECT_EQ(alias.flat<float>()[1], 9) << "another number of elements has let go of it";
}

TEST(Caffe2, CopyFromATensorWithoutMemoryIsRefused) {
  ResizableTensor source = Counting<float>({2});
  source.FreeMemory();
  ResizableTensor target = Counting<float>({1});
  EXPECT_THAT(target.CopyFrom(source), StatusIs(Code::kFailedPrecondition, HasSubstr("no memory")));
  EXPECT_THAT(source.Clone(), StatusIs(Code::kFailedPrecondition, HasSubstr("no memory")));
  const auto absent = Tensor::FromBuffer(DType::kFloat32, TensorShape({2}),
                                         TensorBuffer::MakeWithoutData(8, "the payload was skipped"));
  ASSERT_OK(absent);
  EXPECT_THAT(target.CopyFrom(*absent), StatusIs(Code::kFailedPrecondition, HasSubstr("payload was skipped")));
  ResizableTensor there = ResizableTensor::FromTensor(*absent);
  EXPECT_THAT(there.Data<float>(), StatusIs(Code::kFailedPrecondition, HasSubstr("payload was skipped")));
  EXPECT_THAT(there.MutableData<float>(), StatusIs(Code::kFailedPrecondition, HasSubstr("payload was skipped")));
  EXPECT_THAT(there.Extend(1, 0), StatusIs(Code::kFailedPrecondition, HasSubstr("payload was skipped")));
  EXPECT_EQ(target.shape(), TensorShape({1}));
}

TEST(Caffe2, CloneHasMemoryOfItsOwn) {
  const ResizableTensor source = Counting<std::string>({2, 2});
  ASSERT_OK_AND_ASSIGN(const ResizableTensor clone, source.Clone());
  EXPECT_FALSE(clone.SharesMemoryWith(source));
  EXPECT_EQ(Values<std::string>(clone), Values<std::string>(source));
}

// ---- Ours -----------------------------------------------------------------------------------------------------------

TEST(ResizableTensor, FromAndToTensorShareMemory) {
  const Tensor tensor = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}});
  ResizableTensor resizable = ResizableTensor::FromTensor(tensor);
  EXPECT_EQ(resizable.ToTensor()->data<int32_t>(), tensor.data<int32_t>());
  EXPECT_EQ(resizable.View()->dims(), absl::MakeConstSpan(Dims{2, 2}));
  // Growing a slice never reaches behind it.
  ResizableTensor row = ResizableTensor::FromTensor(*tensor.Slice(0, 1));
  ASSERT_OK(row.Extend(1, 0));
  for (int i = 0; i < 4; ++i) (*row.MutableData<int32_t>())[i] = 9;
  EXPECT_EQ(tensor.matrix<int32_t>()(1, 0), 3);
}

TEST(ResizableTensor, LazyClonesDoNotSeeWrites) {
  ResizableTensor resizable = Counting<int32_t>({1000});  // large enough to be shared until written
  ASSERT_OK_AND_ASSIGN(const Tensor clone, resizable.ToTensor()->LazyClone());
  (*resizable.MutableData<int32_t>())[0] = 7;
  EXPECT_EQ(clone.flat<int32_t>()[0], 0);
  EXPECT_EQ(Values<int32_t>(resizable)[0], 7);
}

TEST(ResizableTensor, MovedFromIsAsNew) {
  ResizableTensor tensor = Counting<float>({2});
  const ResizableTensor taken = std::move(tensor);
  EXPECT_THAT(Values<float>(taken), ElementsAre(0, 1));
  EXPECT_EQ(tensor.shape(), TensorShape({0}));  // NOLINT(bugprone-use-after-move): this is the point
  EXPECT_FALSE(tensor.dtype_initialized());
  EXPECT_EQ(tensor.capacity_bytes(), 0u);
}

TEST(ResizableTensor, DimsSequenceCountsChanges) {
  ResizableTensor tensor;
  const uint64_t start = tensor.dims_sequence();
  ASSERT_OK(tensor.Resize({0}));
  EXPECT_EQ(tensor.dims_sequence(), start) << "the same dims";
  ASSERT_OK(tensor.Resize({2, 3}));
  EXPECT_EQ(tensor.dims_sequence(), start + 1);
  ASSERT_OK(tensor.MutableData<float>());
  EXPECT_FALSE(tensor.Resize({-1}).ok());
  EXPECT_EQ(tensor.dims_sequence(), start + 1);
  ASSERT_OK(tensor.Reshape({3, 2}));
  ASSERT_OK(tensor.Extend(1, 100));
  ASSERT_OK(tensor.Extend(1, 0));
  ASSERT_OK(tensor.Shrink(1));
  EXPECT_EQ(tensor.dims_sequence(), start + 5);
}

// ---- No memory ------------------------------------------------------------------------------------------------------

struct FailureCase {
  const char* name;
  std::function<absl::Status(ResizableTensor&)> act;
};
const FailureCase kFailures[] = {
    {"MutableDataOfLarger", [](ResizableTensor& t) { return t.MutableData<double>().status(); }},
    {"MutableDataOfStrings", [](ResizableTensor& t) { return t.MutableData<std::string>().status(); }},
    {"Extend", [](ResizableTensor& t) { return t.Extend(1, 100); }},
    {"ReserveSpace", [](ResizableTensor& t) { return t.ReserveSpace(10); }},
    {"CopyFromLarger",
     [](ResizableTensor& t) {
       return t.CopyFrom(Tensor::FromValues<int32_t>({1, 2, 3, 4, 5}));
     }},
    {"CopyFromOtherDType",
     [](ResizableTensor& t) {
       return t.CopyFrom(Tensor::FromValues<float>({1, 2, 3}));
     }},
    {"CopyFromStrings", [](ResizableTensor& t) { return t.CopyFrom(Tensor::FromValues<std::string>({"a"})); }},
    {"Clone", [](ResizableTensor& t) { return t.Clone().status(); }},
};
class WithoutMemory : public ::testing::TestWithParam<FailureCase> {};
TEST_P(WithoutMemory, TheTensorIsAsItWas) {
  const auto allocator = MakeRef<FailingAllocator>(/*fail_at=*/2, /*for_good=*/true);
  ResizableOptions options;
  options.allocator = allocator;
  ResizableTensor tensor = Counting<int32_t>({3}, options);
  const void* const pointer = Pointer(tensor);
  const uint64_t sequence = tensor.dims_sequence();
  EXPECT_THAT(GetParam().act(tensor), StatusIs(Code::kResourceExhausted, HasSubstr("bytes")));
  EXPECT_EQ(tensor.dtype(), DType::kInt32);
  EXPECT_EQ(tensor.shape(), TensorShape({3}));
  EXPECT_EQ(tensor.dims_sequence(), sequence);
  EXPECT_EQ(tensor.capacity_bytes(), 12u);
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1, 2));
  EXPECT_EQ(Pointer(tensor), pointer);
  EXPECT_EQ(allocator->live_blocks(), 1);
}
INSTANTIATE_TEST_SUITE_P(All, WithoutMemory, ::testing::ValuesIn(kFailures),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ResizableTensor, FirstAllocationFails) {
  ResizableOptions options;
  options.allocator = MakeRef<FailingAllocator>(1);
  ResizableTensor tensor(options);
  ASSERT_OK(tensor.Resize({3}));
  EXPECT_THAT(tensor.MutableData<float>(), StatusIs(Code::kResourceExhausted, HasSubstr("float32 [3]")));
  EXPECT_FALSE(tensor.dtype_initialized() || tensor.storage_initialized());
  EXPECT_OK(tensor.MutableData<float>());
}

}  // namespace
}  // namespace tensorcask
