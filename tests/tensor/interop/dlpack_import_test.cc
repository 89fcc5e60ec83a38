// Managed tensors from a producer in this process: what is shared, what is copied, and when the deleter is called.
// Refused ones: dlpack_import_rejects_test.cc.

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
#include "tensorcask/tests/tensor/interop/dlpack_producer.h"

namespace tensorcask {
namespace {

using Code = absl::StatusCode;
using ::tensorcask::dlpack::DLDataType;
using ::tensorcask::dlpack::DLManagedTensor;
using ::tensorcask::dlpack::DLManagedTensorVersioned;
using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();

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
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("float32 elements is not a multiple of 4"),
                                                     HasSubstr("a copy is not allowed"))));
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
