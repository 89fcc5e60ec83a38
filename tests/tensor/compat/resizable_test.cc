// Each test of the suite Caffe2 is one rule of Caffe2's tensor, with the numbers of its documentation and tests.
// Growing and reserving: resizable_growth_test.cc; sharing and copying: resizable_sharing_test.cc.

#include "tensorcask/tensor/compat/resizable.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/compat/resizable_testing.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Dims = std::vector<int64_t>;

constexpr int64_t k2To29 = int64_t{1} << 29;

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

// ---- Ours -----------------------------------------------------------------------------------------------------------

TEST(ResizableTensor, FromAndToTensorShareMemory) {
  const Tensor tensor = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}});
  ResizableTensor resizable = ResizableTensor::FromTensor(tensor);
  EXPECT_EQ(resizable.ToTensor()->data<int32_t>(), tensor.data<int32_t>());
  EXPECT_EQ(resizable.View()->dims(), absl::MakeConstSpan(Dims{2, 2}));
  // Growing a slice never reaches past it.
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
