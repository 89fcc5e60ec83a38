// Managed tensors from a producer that these tests play: good ones, hostile ones, and who calls the deleter when.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using Code = absl::StatusCode;
using ::tensorcask::dlpack::DLDataType;
using ::tensorcask::dlpack::DLManagedTensor;
using ::tensorcask::dlpack::DLManagedTensorVersioned;
using ::tensorcask::dlpack::DLTensor;
using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();

// A producer whose tensor is float32 [2,3] of 0 ... 5, unless a test changes that. It counts calls of the deleter.
template <typename Managed>
struct Producer {
  alignas(64) float values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<int64_t> dims = {2, 3};
  std::vector<int64_t> strides = {3, 1};
  int deletes = 0;
  Managed managed = {};

  Producer() {
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) managed.version = {1, 1};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->deletes; };
    managed.dl_tensor = {values, {1, 0}, 2, {dlpack::kDLFloat, 32, 1}, dims.data(), strides.data(), 0};
  }
  void SetGeometry(std::vector<int64_t> new_dims, const std::optional<std::vector<int64_t>>& new_strides) {
    dims = std::move(new_dims);
    strides = new_strides.value_or(std::vector<int64_t>());
    managed.dl_tensor.ndim = static_cast<int32_t>(dims.size());
    managed.dl_tensor.shape = dims.empty() ? nullptr : dims.data();
    managed.dl_tensor.strides = new_strides && !dims.empty() ? strides.data() : nullptr;
  }
};

using Versioned = Producer<DLManagedTensorVersioned>;
using Legacy = Producer<DLManagedTensor>;

absl::StatusOr<TensorView> Import(DLManagedTensorVersioned* managed, const DLPackImportOptions& options = {}) {
  return FromDLPack(managed, options);
}
absl::StatusOr<TensorView> Import(DLManagedTensor* managed, const DLPackImportOptions& options = {}) {
  return FromLegacyDLPack(managed, options);
}

std::vector<float> Values(const TensorView& view) {
  const Tensor dense = *view.ToTensor();
  return std::vector<float>(dense.data<float>(), dense.data<float>() + dense.num_elements());
}

DLPackImportOptions Copying(DLPackCopy copy) {
  DLPackImportOptions options;
  options.copy = copy;
  return options;
}

// ---- Both forms -----------------------------------------------------------------------------------------------------

template <typename P>
class DLPackImport : public ::testing::Test {};
using Forms = ::testing::Types<Versioned, Legacy>;
TYPED_TEST_SUITE(DLPackImport, Forms);

TYPED_TEST(DLPackImport, SharesTheMemoryAndReleasesItOnce) {
  TypeParam producer;
  {
    ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
    EXPECT_EQ(view.ToString(), "float32 [2,3] strides [3,1] offset 0");
    EXPECT_EQ(view.data<float>(), producer.values);
    ASSERT_OK_AND_ASSIGN(const TensorView row, view.Select(0, 1));
    EXPECT_THAT(Values(row), ElementsAre(3, 4, 5));
    producer.values[4] = 40;
    EXPECT_THAT(Values(row), ElementsAre(3, 40, 5));
    EXPECT_EQ(producer.deletes, 0);
  }
  EXPECT_EQ(producer.deletes, 1);
}

TYPED_TEST(DLPackImport, AViewOfAViewKeepsTheMemory) {
  TypeParam producer;
  std::optional<TensorView> row;
  {
    ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
    row = *view.Select(0, 1);
  }
  EXPECT_EQ(producer.deletes, 0);
  EXPECT_THAT(Values(*row), ElementsAre(3, 4, 5));
  row.reset();
  EXPECT_EQ(producer.deletes, 1);
}

TYPED_TEST(DLPackImport, ANullDeleterIsNotCalled) {
  TypeParam producer;
  producer.managed.deleter = nullptr;
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
  EXPECT_THAT(Values(view), ElementsAre(0, 1, 2, 3, 4, 5));
  producer.managed.dl_tensor.ndim = -1;
  EXPECT_THAT(Import(&producer.managed), StatusIs(Code::kInvalidArgument));
}

TYPED_TEST(DLPackImport, ANullPointerIsRefused) {
  decltype(TypeParam::managed)* const none = nullptr;
  EXPECT_THAT(Import(none), StatusIs(Code::kInvalidArgument, HasSubstr("the pointer is null")));
}

TYPED_TEST(DLPackImport, NullStridesAreRowMajor) {
  TypeParam producer;
  producer.SetGeometry({3, 2}, std::nullopt);
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
  EXPECT_EQ(view.ToString(), "float32 [3,2] strides [2,1] offset 0");
}

TYPED_TEST(DLPackImport, AScalarHasNeitherShapeNorStrides) {
  TypeParam producer;
  producer.SetGeometry({}, std::nullopt);
  producer.managed.dl_tensor.byte_offset = 8;
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
  EXPECT_EQ(view.rank(), 0);
  EXPECT_EQ(*view.template data<float>(), 2);
}

TYPED_TEST(DLPackImport, NegativeStridesReachBeforeTheData) {
  TypeParam producer;
  producer.SetGeometry({2, 3}, {{-3, -1}});
  producer.managed.dl_tensor.data = producer.values + 5;
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
  EXPECT_EQ(view.ToString(), "float32 [2,3] strides [-3,-1] offset 5");
  EXPECT_EQ(view.buffer()->data(), producer.values);
  EXPECT_EQ(view.buffer()->size_bytes(), 24u);
  EXPECT_THAT(Values(view), ElementsAre(5, 4, 3, 2, 1, 0));
}

TYPED_TEST(DLPackImport, StrideZeroRepeats) {
  TypeParam producer;
  producer.SetGeometry({int64_t{1} << 40, 2}, {{0, 1}});
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
  EXPECT_EQ(view.num_elements(), int64_t{1} << 41);
  EXPECT_EQ(view.buffer()->size_bytes(), 8u);
}

TYPED_TEST(DLPackImport, StridesOfSizeOneDoNotMatter) {
  TypeParam producer;
  producer.SetGeometry({1, 3, 1}, {{kSmallest, 1, kLargest}});
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
  EXPECT_THAT(Values(view), ElementsAre(0, 1, 2));
}

TYPED_TEST(DLPackImport, OfNoElementsTheDataAreNotLookedAt) {
  for (void* const data : {static_cast<void*>(nullptr), reinterpret_cast<void*>(1)}) {
    TypeParam producer;
    producer.SetGeometry({2, 0, 3}, {{kSmallest, kLargest, -1}});
    producer.managed.dl_tensor.data = data;
    producer.managed.dl_tensor.byte_offset = std::numeric_limits<uint64_t>::max();
    ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
    EXPECT_EQ(producer.deletes, 1);  // nothing of it is used
    EXPECT_THAT(view.dims(), ElementsAre(2, 0, 3));
    EXPECT_EQ(view.template data<float>(), nullptr);
  }
}

TYPED_TEST(DLPackImport, AnyIndexOfTheHostIsTheHost) {
  TypeParam producer;
  producer.managed.dl_tensor.device.device_id = -7;
  EXPECT_OK(Import(&producer.managed));
}

TYPED_TEST(DLPackImport, MisalignedDataAreCopied) {
  TypeParam producer;
  producer.SetGeometry({3}, {{-2}});
  char* const bytes = reinterpret_cast<char*>(producer.values);
  std::memmove(bytes + 1, bytes, 5 * sizeof(float));
  producer.managed.dl_tensor.data = bytes;
  producer.managed.dl_tensor.byte_offset = 17;
  ASSERT_OK_AND_ASSIGN(TensorView view, Import(&producer.managed));
  EXPECT_EQ(producer.deletes, 1);
  EXPECT_EQ(view.ToString(), "float32 [3] strides [-2] offset 4");
  EXPECT_THAT(Values(view), ElementsAre(4, 2, 0));
  EXPECT_TRUE(view.buffer()->IsWritableInPlace());

  EXPECT_THAT(Import(&producer.managed, Copying(DLPackCopy::kNever)),
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr("float32 elements is no multiple of 4"), HasSubstr("a copy is not allowed"))));
  EXPECT_EQ(producer.deletes, 2);
}

TYPED_TEST(DLPackImport, ComplexNumbersAreAlignedToTheirParts) {
  TypeParam producer;
  producer.SetGeometry({2}, {{1}});
  producer.managed.dl_tensor.dtype = {dlpack::kDLComplex, 64, 1};
  producer.managed.dl_tensor.data = producer.values + 1;
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed, Copying(DLPackCopy::kNever)));
  EXPECT_EQ(view.template data<std::complex<float>>()[1], std::complex<float>(3, 4));
}

TYPED_TEST(DLPackImport, CopyAlwaysReleasesAtOnce) {
  TypeParam producer;
  ASSERT_OK_AND_ASSIGN(TensorView view, Import(&producer.managed, Copying(DLPackCopy::kAlways)));
  EXPECT_EQ(producer.deletes, 1);
  producer.values[0] = 100;
  EXPECT_THAT(Values(view), ElementsAre(0, 1, 2, 3, 4, 5));
  view.template mutable_data<float>()[1] = 10;
  EXPECT_EQ(producer.values[1], 1);
}

TYPED_TEST(DLPackImport, CopyAlwaysOfRepeatedElementsTakesNoMoreMemory) {
  TypeParam producer;
  producer.SetGeometry({int64_t{1} << 40, 2}, {{0, 1}});
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed, Copying(DLPackCopy::kAlways)));
  EXPECT_EQ(view.buffer()->size_bytes(), 8u);
}

TYPED_TEST(DLPackImport, NoMemoryForACopyStillReleases) {
  TypeParam producer;
  DLPackImportOptions options = Copying(DLPackCopy::kAlways);
  options.allocator = MakeRef<FailingAllocator>(/*fail_at=*/1);
  EXPECT_THAT(Import(&producer.managed, options), StatusIs(Code::kResourceExhausted, HasSubstr("24 bytes")));
  EXPECT_EQ(producer.deletes, 1);
}

TYPED_TEST(DLPackImport, BoolsOfZeroAndOneAreShared) {
  TypeParam producer;
  auto* const bytes = reinterpret_cast<unsigned char*>(producer.values);
  for (int i = 0; i < 32; ++i) bytes[i] = i % 2 == 0 ? 1 : 77;
  producer.managed.dl_tensor.dtype = {dlpack::kDLBool, 8, 1};
  producer.SetGeometry({4, 2}, {{-4, 2}});  // what lies between the elements may be anything
  producer.managed.dl_tensor.byte_offset = 12;
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed, Copying(DLPackCopy::kNever)));
  EXPECT_EQ(view.template data<bool>(), reinterpret_cast<bool*>(bytes + 12));
  EXPECT_TRUE(*view.template data<bool>());
}

TYPED_TEST(DLPackImport, OtherBytesInBoolsAreCopiedAsOne) {
  TypeParam producer;
  auto* const bytes = reinterpret_cast<unsigned char*>(producer.values);
  std::memcpy(bytes, "\x00\x01\x02\xff", 4);
  producer.managed.dl_tensor.dtype = {dlpack::kDLBool, 8, 1};
  producer.SetGeometry({4}, {{1}});
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
  EXPECT_EQ(producer.deletes, 1);
  EXPECT_EQ(std::string(static_cast<const char*>(view.buffer()->data()), 4), std::string("\0\1\1\1", 4));
  EXPECT_EQ(bytes[3], 0xff);

  EXPECT_THAT(Import(&producer.managed, Copying(DLPackCopy::kNever)),
              StatusIs(Code::kInvalidArgument, HasSubstr("neither 0 nor 1")));
  EXPECT_EQ(producer.deletes, 2);
}

TYPED_TEST(DLPackImport, ManyBoolsOnFewBytesAreReadOnce) {
  // 2^60 indices: only looking at each byte once ends in time.
  const std::vector<std::vector<int64_t>> strides = {{0, 0}, {1, 0}, {-1, 0}};
  for (const std::vector<int64_t>& steps : strides) {
    TypeParam producer;
    auto* const bytes = reinterpret_cast<unsigned char*>(producer.values);
    std::memset(bytes, 5, 32);
    producer.managed.dl_tensor.dtype = {dlpack::kDLBool, 8, 1};
    producer.managed.dl_tensor.byte_offset = 15;
    producer.SetGeometry({16, int64_t{1} << 56}, steps);
    ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
    EXPECT_TRUE(*view.template data<bool>());
  }
  // The same with steps over one another: more elements than bytes, though no stride is 0.
  std::vector<unsigned char> bytes(size_t{1} << 20, 3);
  TypeParam producer;
  producer.managed.dl_tensor.dtype = {dlpack::kDLBool, 8, 1};
  producer.managed.dl_tensor.data = bytes.data();
  producer.SetGeometry({1 << 18, 1 << 18, 1 << 18}, {{1, 1, 1}});
  ASSERT_OK_AND_ASSIGN(const TensorView view, Import(&producer.managed));
  EXPECT_TRUE(*view.template data<bool>());
}

// ---- What is refused, in both forms ---------------------------------------------------------------------------------

struct RejectCase {
  const char* name;
  void (*spoil)(DLTensor& tensor, std::vector<int64_t>& dims, std::vector<int64_t>& strides);
  Code code;
  const char* says;
};

#define SPOIL                                                                          \
  []([[maybe_unused]] DLTensor & tensor, [[maybe_unused]] std::vector<int64_t> & dims, \
     [[maybe_unused]] std::vector<int64_t> & strides)

const RejectCase kRejects[] = {{"NegativeRank", SPOIL{tensor.ndim = -1;
}  // namespace
, Code::kInvalidArgument, "rank -1; 0 to 254"
}  // namespace tensorcask
, {"HugeRank", SPOIL{tensor.ndim = 0x7fffffff;
}
, Code::kInvalidArgument, "rank 2147483647"
}
, {"RankPastOurs", SPOIL{tensor.ndim = 255;
}
, Code::kInvalidArgument, "rank 255"
}
, {"NullShape", SPOIL{tensor.shape = nullptr;
}
, Code::kInvalidArgument, "rank 2 and a null shape"
}
, {"NullData", SPOIL{tensor.data = nullptr;
}
, Code::kInvalidArgument, "6 elements and null data"
}
, {"NullDataWithOffset", SPOIL{tensor.data = nullptr;
tensor.byte_offset = 64;
}
, Code::kInvalidArgument, "null data"
}
, {"NegativeDim", SPOIL{dims[1] = -3;
}
, Code::kInvalidArgument, "-3"
}
, {"SmallestDim", SPOIL{dims[0] = kSmallest;
}
, Code::kInvalidArgument, "-9223372036854775808"
}
, {"ProductOverflows", SPOIL{dims = {int64_t{1} << 32, int64_t{1} << 32};
}
, Code::kInvalidArgument, "4294967296"
}
, {"ProductOverflowsBesideZero", SPOIL{dims = {0, int64_t{1} << 62, 8};
strides = {1, 1, 1};
tensor.ndim = 3;
}
, Code::kInvalidArgument, "4611686018427387904"
}
, {"BytesOverflow", SPOIL{dims = {kLargest / 2, 1};
strides = {1, 1};
}
, Code::kInvalidArgument, "leaves the address space"
}
, {"BytesOverflowWithoutStrides", SPOIL{dims = {kLargest / 2, 1};
tensor.strides = nullptr;
}
, Code::kInvalidArgument, "leaves the address space"
}
, {"StrideOverflows", SPOIL{strides[0] = kLargest;
}
, Code::kInvalidArgument, "pass 2^63-1"
}
, {"StrideSumOverflows", SPOIL{strides = {kLargest - 1, kLargest / 2};
}
, Code::kInvalidArgument, "pass 2^63-1"
}
, {"StepsBackOverflow", SPOIL{strides[1] = kSmallest;
}
, Code::kInvalidArgument, "axis 1 elements pass -2^63"
}
, {"StepsBackSumOverflows", SPOIL{strides = {kSmallest, -1};
}
, Code::kInvalidArgument, "pass -2^63"
}
, {"StepsBackAndForthOverflow", SPOIL{strides = {-kLargest, kLargest / 2};
}
, Code::kInvalidArgument, "2^63-1"
}
, {"StepsBackBelowZero", SPOIL{strides = {-(kLargest / 8), 1};
}
, Code::kInvalidArgument, "address space"
}
, {"StepsBackToZero", SPOIL{tensor.data = reinterpret_cast<void*>(16);
strides = {-4, 1};
}
, Code::kInvalidArgument, "address space"
}
, {"StepsPastTheEnd", SPOIL{strides = {kLargest / 4, 1};
}
, Code::kInvalidArgument, "address space"
}
, {"ElementsPastTheEnd", SPOIL{tensor.data = reinterpret_cast<void*>(~uintptr_t{0} - 7);
}
, Code::kInvalidArgument, "address space"
}
, {"ByteOffsetOverflows", SPOIL{tensor.byte_offset = ~uint64_t{0};
}
, Code::kInvalidArgument, "18446744073709551615 bytes from its data, leaves the address space"
}
, {"ZeroLanes", SPOIL{tensor.dtype.lanes = 0;
}
, Code::kInvalidArgument, "0 lanes"
}
, {"FourLanes", SPOIL{tensor.dtype.lanes = 4;
}
, Code::kUnimplemented, "code 2, 32 bits, 4 lanes"
}
, {"UnknownCode", SPOIL{tensor.dtype = {200, 8, 1};
}
, Code::kUnimplemented, "unknown dtype of code 200, 8 bits"
}
, {"NextCode", SPOIL{tensor.dtype = {18, 8, 1};
}
, Code::kUnimplemented, "code 18, 8 bits"
}
, {"OpaqueHandle", SPOIL{tensor.dtype = {3, 64, 1};
}
, Code::kUnimplemented, "code 3, 64 bits"
}
, {"ZeroBits", SPOIL{tensor.dtype = {0, 0, 1};
}
, Code::kUnimplemented, "code 0, 0 bits"
}
, {"OneBitBool", SPOIL{tensor.dtype = {6, 1, 1};
}
, Code::kUnimplemented, "code 6, 1 bits"
}
, {"WideBool", SPOIL{tensor.dtype = {6, 32, 1};
}
, Code::kUnimplemented, "code 6, 32 bits"
}
, {"LongDouble", SPOIL{tensor.dtype = {2, 128, 1};
}
, Code::kUnimplemented, "code 2, 128 bits"
}
, {"EightBitFloatWithoutKind", SPOIL{tensor.dtype = {2, 8, 1};
}
, Code::kUnimplemented, "code 2, 8 bits"
}
, {"OddInteger", SPOIL{tensor.dtype = {0, 24, 1};
}
, Code::kUnimplemented, "code 0, 24 bits"
}
, {"ComplexOfHalves", SPOIL{tensor.dtype = {5, 32, 1};
}
, Code::kUnimplemented, "code 5, 32 bits"
}
, {"PackedInt4", SPOIL{tensor.dtype = {0, 4, 1};
}
, Code::kUnimplemented, "packed elements are not supported: int4"
}
, {"PackedFloat4", SPOIL{tensor.dtype = {17, 4, 1};
}
, Code::kUnimplemented, "packed"
}
, {"Cuda", SPOIL{tensor.device = {2, 1};
}
, Code::kUnimplemented, "device type 2 (cuda)"
}
, {"CudaHost", SPOIL{tensor.device = {3, 0};
}
, Code::kUnimplemented, "(cuda_host)"
}
, {"UnknownDevice", SPOIL{tensor.device = {99, 0};
}
, Code::kUnimplemented, "device type 99 (unknown)"
}
, {"NegativeDevice", SPOIL{tensor.device = {-1, 0};
}
, Code::kUnimplemented, "device type -1 (unknown)"
}
, {"WrappingDevice", SPOIL{tensor.device = {257, 0};
}
, Code::kUnimplemented, "device type 257 (unknown)"
}
, {"NoDevice", SPOIL{tensor.device = {0, 0};
}
, Code::kUnimplemented, "device type 0 (unknown)"
}
,
}
;

class DLPackImportRejects : public ::testing::TestWithParam<RejectCase> {
 protected:
  template <typename P>
  void Check() {
    P producer;
    GetParam().spoil(producer.managed.dl_tensor, producer.dims, producer.strides);
    if (producer.managed.dl_tensor.shape != nullptr) producer.managed.dl_tensor.shape = producer.dims.data();
    if (producer.managed.dl_tensor.strides != nullptr) producer.managed.dl_tensor.strides = producer.strides.data();
    EXPECT_THAT(Import(&producer.managed), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
    EXPECT_EQ(producer.deletes, 1);
  }
};

TEST_P(DLPackImportRejects, WithCodeAndMessageAndOneCallOfTheDeleter) {
  Check<Versioned>();
  Check<Legacy>();
}

INSTANTIATE_TEST_SUITE_P(Hostile, DLPackImportRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- Version and flags ----------------------------------------------------------------------------------------------

TEST(DLPackImportVersion, OfAnotherMajorVersionOnlyTheDeleterIsTouched) {
  for (const uint32_t major : {0u, 2u, 0xffffffffu}) {
    // What follows `deleter` is not there at all: a reader that looks is seen by the sanitizer.
    struct Head {
      dlpack::DLPackVersion version;
      void* manager_ctx;
      void (*deleter)(DLManagedTensorVersioned*);
    };
    int deletes = 0;
    auto head = std::make_unique<Head>();
    *head = {{major, 7}, &deletes, [](DLManagedTensorVersioned* self) { ++*static_cast<int*>(self->manager_ctx); }};
    EXPECT_THAT(FromDLPack(reinterpret_cast<DLManagedTensorVersioned*>(head.get())),
                StatusIs(Code::kUnimplemented, HasSubstr(absl::StrCat("version ", major, ".7; this build reads 1.x"))));
    EXPECT_EQ(deletes, 1);
    head->deleter = nullptr;
    EXPECT_THAT(FromDLPack(reinterpret_cast<DLManagedTensorVersioned*>(head.get())), StatusIs(Code::kUnimplemented));
  }
}

TEST(DLPackImportVersion, MinorVersionsAndUnknownFlagsAreTaken) {
  for (const uint32_t minor : {0u, 3u, 0xffffffffu}) {
    Versioned producer;
    producer.managed.version.minor = minor;
    producer.managed.flags = ~uint64_t{7};
    ASSERT_OK_AND_ASSIGN(const TensorView view, FromDLPack(&producer.managed));
    EXPECT_TRUE(view.buffer()->IsWritableInPlace());
  }
}

TEST(DLPackImportFlags, WhatIsNotReadOnlyIsWrittenInPlace) {
  for (const uint64_t flags : {uint64_t{0}, dlpack::kDLPackFlagIsCopied}) {
    Versioned producer;
    producer.managed.flags = flags;
    ASSERT_OK_AND_ASSIGN(TensorView view, FromDLPack(&producer.managed));
    view.mutable_data<float>()[2] = 20;
    EXPECT_EQ(producer.values[2], 20);
  }
}

TEST(DLPackImportFlags, WhatIsReadOnlyIsCopiedWhenWritten) {
  Versioned producer;
  producer.managed.flags = dlpack::kDLPackFlagReadOnly;
  {
    ASSERT_OK_AND_ASSIGN(TensorView view, FromDLPack(&producer.managed));
    EXPECT_EQ(view.data<float>(), producer.values);
    view.mutable_data<float>()[2] = 20;
    EXPECT_EQ(producer.values[2], 2);
    EXPECT_THAT(Values(view), ElementsAre(0, 1, 20, 3, 4, 5));
    EXPECT_EQ(producer.deletes, 0);
  }
  EXPECT_EQ(producer.deletes, 1);
}

TEST(DLPackImportFlags, TheCopyThatAWriteMakesIsFromTheGivenAllocator) {
  Versioned producer;
  producer.managed.flags = dlpack::kDLPackFlagReadOnly;
  DLPackImportOptions options;
  options.allocator = MakeRef<FailingAllocator>(/*fail_at=*/1);
  ASSERT_OK_AND_ASSIGN(TensorView view, FromDLPack(&producer.managed, options));
  EXPECT_THAT(view.EnsureMutable(), StatusIs(Code::kResourceExhausted, HasSubstr("24 bytes")));
}

TEST(DLPackImportFlags, LegacyTensorsAreReadOnlyUnlessTheCallerKnowsBetter) {
  Legacy producer;
  ASSERT_OK_AND_ASSIGN(TensorView careful, FromLegacyDLPack(&producer.managed));
  careful.mutable_data<float>()[0] = 9;
  EXPECT_EQ(producer.values[0], 0);
  DLPackImportOptions options;
  options.legacy_is_writable = true;
  ASSERT_OK_AND_ASSIGN(TensorView writable, FromLegacyDLPack(&producer.managed, options));
  writable.mutable_data<float>()[0] = 9;
  EXPECT_EQ(producer.values[0], 9);
}

TEST(DLPackImportFlags, PaddedElementsUnderAByteAreOurs) {
  struct {
    DLDataType dtype;
    const char* says;
  } const kCases[] = {{{dlpack::kDLInt, 4, 1}, "int4 [3]"},
                      {{dlpack::kDLUInt, 2, 1}, "uint2 [3]"},
                      {{dlpack::kDLFloat6_e3m2fn, 6, 1}, "float6_e3m2 [3]"},
                      {{dlpack::kDLFloat4_e2m1fn, 4, 1}, "float4_e2m1 [3]"}};
  for (const auto& row : kCases) {
    Versioned producer;
    producer.SetGeometry({3}, {{1}});
    producer.managed.dl_tensor.dtype = row.dtype;
    producer.managed.flags = dlpack::kDLPackFlagIsSubbyteTypePadded;
    ASSERT_OK_AND_ASSIGN(const TensorView view, FromDLPack(&producer.managed));
    EXPECT_THAT(view.ToString(), HasSubstr(row.says));
    EXPECT_EQ(view.buffer()->size_bytes(), 3u);
  }
}

}  // namespace
}  // namespace tensorcask
