// What a consumer of ours sees: fields, flags, who may write where, and how long the memory stays.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using Code = absl::StatusCode;
using ::tensorcask::dlpack::DLTensor;
using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const int64_t> Dims(const DLTensor& tensor) { return {tensor.shape, static_cast<size_t>(tensor.ndim)}; }
absl::Span<const int64_t> Strides(const DLTensor& tensor) { return {tensor.strides, static_cast<size_t>(tensor.ndim)}; }

// float32 of 256 elements 0, 1, ...: too large to be part of the buffer object, so that LazyClone shares its memory.
Tensor Large() {
  Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape({16, 16}));
  for (int64_t i = 0; i < 256; ++i) tensor.mutable_flat<float>()(i) = static_cast<float>(i);
  return tensor;
}

TensorView ReadOnly(absl::Span<float> values, std::function<void()> release = nullptr) {
  TensorBuffer::External external;
  external.data = values.data();
  external.size_bytes = values.size() * sizeof(float);
  external.writable = false;
  external.release = std::move(release);
  return *TensorView::Create(TensorBuffer::WrapExternal(std::move(external)), DType::kFloat32,
                             *Layout::Create({static_cast<int64_t>(values.size())}, {1}));
}

DLPackExportOptions Copying(DLPackCopy copy) {
  DLPackExportOptions options;
  options.copy = copy;
  return options;
}

// ---- Fields ---------------------------------------------------------------------------------------------------------

struct FieldsCase {
  const char* name;
  TensorView (*make)(const TensorView& view);  // gets float32 [2,3] 0 ... 5
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  int first;  // the element that data points at
};

const FieldsCase kFields[] = {
    {"Dense", [](const TensorView& view) { return view; }, {2, 3}, {3, 1}, 0},
    {"Transposed", [](const TensorView& view) { return *view.Transpose(0, 1); }, {3, 2}, {1, 3}, 0},
    {"Flipped",
     [](const TensorView& view) {
       return *view.Flip({0, 1});
     },
     {2, 3},
     {-3, -1},
     5},
    {"SecondRow", [](const TensorView& view) { return *view.Select(0, 1); }, {3}, {1}, 3},
    {"Stepping", [](const TensorView& view) { return *view.Slice(1, 0, 3, 2); }, {2, 2}, {3, 2}, 0},
    {"Broadcast",
     [](const TensorView& view) {
       return *view.Expand({4, 2, 3});
     },
     {4, 2, 3},
     {0, 3, 1},
     0},
    {"Scalar", [](const TensorView& view) { return *view.Select(0, 1)->Select(0, 1); }, {}, {}, 4},
    {"RankSix",
     [](const TensorView& view) {
       return *view.Reshape({1, 2, 1, 3, 1, 1});
     },
     {1, 2, 1, 3, 1, 1},
     {6, 3, 3, 1, 1, 1},
     0},
};

class DLPackExportFields : public ::testing::TestWithParam<FieldsCase> {};

TEST_P(DLPackExportFields, AreThoseOfTheView) {
  const Tensor tensor = Tensor::FromValues<float>({{0, 1, 2}, {3, 4, 5}});
  const TensorView view = GetParam().make(tensor);
  const auto check = [&](const DLTensor& out) {
    EXPECT_EQ(out.data, tensor.data<float>() + GetParam().first);
    EXPECT_EQ(out.byte_offset, 0u);
    EXPECT_EQ(out.device.device_type, 1);
    EXPECT_EQ(out.device.device_id, 0);
    EXPECT_EQ(out.dtype.code, dlpack::kDLFloat);
    EXPECT_EQ(out.dtype.bits, 32);
    EXPECT_EQ(out.dtype.lanes, 1);
    EXPECT_NE(out.strides, nullptr);
    EXPECT_EQ(Dims(out), absl::MakeConstSpan(GetParam().dims));
    EXPECT_EQ(Strides(out), absl::MakeConstSpan(GetParam().strides));
  };
  ASSERT_OK_AND_ASSIGN(const DLPackPtr versioned, ToDLPack(view, Copying(DLPackCopy::kNever)));
  check(versioned->dl_tensor);
  EXPECT_EQ(versioned->version.major, 1u);
  EXPECT_EQ(versioned->version.minor, 1u);
  EXPECT_EQ(versioned->flags, 0u);
  ASSERT_OK_AND_ASSIGN(LegacyDLPackPtr legacy, ToLegacyDLPack(view, Copying(DLPackCopy::kNever)));
  check(legacy->dl_tensor);

  // And back: the same view of the same memory.
  ASSERT_OK_AND_ASSIGN(const TensorView back, FromLegacyDLPack(legacy.release()));
  EXPECT_EQ(back.dims(), view.dims());
  EXPECT_EQ(back.strides(), view.strides());
  EXPECT_EQ(back.data<float>(), view.data<float>());
}

INSTANTIATE_TEST_SUITE_P(Views, DLPackExportFields, ::testing::ValuesIn(kFields),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DLPackExportTest, WithoutElementsDataIsNull) {
  for (const bool read_only : {false, true}) {
    DLPackExportOptions options;
    options.read_only = read_only;
    const Tensor none = *Tensor::Create(DType::kInt16, TensorShape({3, 0}));
    ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(none, options));
    EXPECT_EQ(out->dl_tensor.data, nullptr);
    EXPECT_THAT(Dims(out->dl_tensor), ElementsAre(3, 0));
    EXPECT_EQ(out->flags, 0u);
    ASSERT_OK_AND_ASSIGN(const LegacyDLPackPtr legacy, ToLegacyDLPack(none, options));
    EXPECT_EQ(legacy->dl_tensor.data, nullptr);
    ASSERT_OK_AND_ASSIGN(const DLPackPtr part, ToDLPack(*TensorView(Large()).Narrow(0, 3, 0)));
    EXPECT_EQ(part->dl_tensor.data, nullptr);
  }
}

// ---- DTypes ---------------------------------------------------------------------------------------------------------

struct DTypeRow {
  DType dtype;
  int code;
  int bits;
};

// The table of the specification, written out a second time on purpose.
const DTypeRow kDTypes[] = {
    {DType::kInt8, 0, 8},           {DType::kInt16, 0, 16},
    {DType::kInt32, 0, 32},         {DType::kInt64, 0, 64},
    {DType::kUint8, 1, 8},          {DType::kUint16, 1, 16},
    {DType::kUint32, 1, 32},        {DType::kUint64, 1, 64},
    {DType::kFloat16, 2, 16},       {DType::kFloat32, 2, 32},
    {DType::kFloat64, 2, 64},       {DType::kBfloat16, 4, 16},
    {DType::kComplex64, 5, 64},     {DType::kComplex128, 5, 128},
    {DType::kBool, 6, 8},           {DType::kFloat8E3m4, 7, 8},
    {DType::kFloat8E4m3, 8, 8},     {DType::kFloat8E4m3b11fnuz, 9, 8},
    {DType::kFloat8E4m3fn, 10, 8},  {DType::kFloat8E4m3fnuz, 11, 8},
    {DType::kFloat8E5m2, 12, 8},    {DType::kFloat8E5m2fnuz, 13, 8},
    {DType::kFloat8E8m0fnu, 14, 8}, {DType::kFloat6E2m3, 15, 6},
    {DType::kFloat6E3m2, 16, 6},    {DType::kFloat4E2m1, 17, 4},
    {DType::kInt4, 0, 4},           {DType::kInt2, 0, 2},
    {DType::kUint4, 1, 4},          {DType::kUint2, 1, 2},
};

TEST(DLPackExportTest, EveryDTypeHasItsCodeAndComesBack) {
  for (const DTypeRow& row : kDTypes) {
    SCOPED_TRACE(DTypeName(row.dtype));
    Tensor tensor = *Tensor::Zeros(row.dtype, TensorShape({2, 2}));
    tensor.mutable_bytes()[0] = 1;
    ASSERT_OK_AND_ASSIGN(DLPackPtr out, ToDLPack(tensor));
    EXPECT_EQ(out->dl_tensor.dtype.code, row.code);
    EXPECT_EQ(out->dl_tensor.dtype.bits, row.bits);
    EXPECT_EQ(out->dl_tensor.dtype.lanes, 1);
    EXPECT_EQ(out->flags, row.bits < 8 ? dlpack::kDLPackFlagIsSubbyteTypePadded : 0);
    ASSERT_OK_AND_ASSIGN(const TensorView back, FromDLPack(out.release()));
    EXPECT_EQ(back.dtype(), row.dtype);
    EXPECT_EQ(back.ToTensor()->bytes(), tensor.bytes());

    absl::StatusOr<LegacyDLPackPtr> legacy = ToLegacyDLPack(tensor);
    if (row.bits < 8) {
      EXPECT_THAT(legacy, StatusIs(Code::kUnimplemented, HasSubstr("uses one byte per element")));
    } else {
      ASSERT_OK(legacy);
      EXPECT_EQ((*legacy)->dl_tensor.dtype.code, row.code);
      EXPECT_EQ(FromLegacyDLPack(legacy->release())->dtype(), row.dtype);
    }
  }
}

TEST(DLPackExportTest, OtherDTypesAreRefused) {
  size_t refused = 0;
  for (int number = 1; number < 256; ++number) {
    const std::optional<DType> dtype = DTypeFromNumber(number);
    if (!dtype || *dtype == DType::kResource || *dtype == DType::kVariant) continue;
    const Tensor tensor = *Tensor::Zeros(*dtype, TensorShape({2}));
    const absl::StatusOr<DLPackPtr> out = ToDLPack(tensor);
    if (out.ok()) continue;
    ++refused;
    EXPECT_TRUE(IsQuantized(*dtype) || *dtype == DType::kString) << DTypeName(*dtype);
    EXPECT_THAT(out, StatusIs(Code::kUnimplemented, HasSubstr(std::string(DTypeName(*dtype)))));
    EXPECT_THAT(ToLegacyDLPack(tensor), StatusIs(Code::kUnimplemented, HasSubstr("there is no dtype for")));
  }
  EXPECT_EQ(refused, 6u);
}

// ---- Lifetime -------------------------------------------------------------------------------------------------------

TEST(DLPackExportTest, TheMemoryOutlivesOurTensor) {
  RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  DLPackPtr out;
  {
    Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({4}), allocator);
    tensor.mutable_flat<float>()(3) = 33;
    out = *ToDLPack(tensor);
    EXPECT_GT(tensor.buffer()->use_count(), 1);
    EXPECT_FALSE(tensor.RefCountIsOne());
  }
  EXPECT_EQ(allocator->live_blocks(), 1);
  EXPECT_EQ(static_cast<float*>(out->dl_tensor.data)[3], 33);
  out.reset();
  EXPECT_EQ(allocator->live_blocks(), 0);
}

TEST(DLPackExportTest, OurTensorOutlivesTheConsumer) {
  const Tensor tensor = Tensor::FromValues<float>({1, 2, 3});
  ASSERT_OK_AND_ASSIGN(LegacyDLPackPtr out, ToLegacyDLPack(tensor));
  EXPECT_GT(tensor.buffer()->use_count(), 1);
  dlpack::DLManagedTensor* const managed = out.release();
  static_cast<float*>(managed->dl_tensor.data)[0] = 10;
  managed->deleter(managed);
  EXPECT_EQ(tensor.buffer()->use_count(), 1);
  EXPECT_EQ(tensor.flat<float>()(0), 10);
}

TEST(DLPackExportTest, AConsumerMayChangeItsFields) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2, 3}});
  ASSERT_OK_AND_ASSIGN(DLPackPtr out, ToDLPack(*TensorView(tensor).Reshape({1, 1, 1, 1, 1, 3})));
  out->dl_tensor.shape[5] = -1;
  out->dl_tensor.strides[0] = 1 << 30;
  out->dl_tensor = {};
  out.reset();
  EXPECT_EQ(tensor.buffer()->use_count(), 1);
}

// ---- Who may write --------------------------------------------------------------------------------------------------

TEST(DLPackExportTest, ReadOnlyMemoryIsFlagged) {
  float values[] = {1, 2, 3};
  int releases = 0;
  DLPackPtr out;
  {
    const TensorView view = ReadOnly(absl::MakeSpan(values), [&] { ++releases; });
    out = *ToDLPack(view, Copying(DLPackCopy::kNever));
  }
  EXPECT_EQ(out->flags, dlpack::kDLPackFlagReadOnly);
  EXPECT_EQ(out->dl_tensor.data, values);
  EXPECT_EQ(releases, 0);
  out.reset();
  EXPECT_EQ(releases, 1);
}

TEST(DLPackExportTest, ReadOnlyMemoryStaysWhenOurTensorIsWritten) {
  float values[] = {1, 2, 3};
  TensorView view = ReadOnly(absl::MakeSpan(values));
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(view));
  view.mutable_data<float>()[0] = 9;
  EXPECT_EQ(static_cast<float*>(out->dl_tensor.data)[0], 1);
  // From now on the memory is ours, and written in place.
  ASSERT_OK_AND_ASSIGN(const DLPackPtr again, ToDLPack(view));
  EXPECT_EQ(again->flags, 0u);
  EXPECT_EQ(again->dl_tensor.data, view.data<float>());
}

TEST(DLPackExportTest, LegacyReadOnlyMemoryIsCopiedOrRefused) {
  float values[] = {1, 2, 3};
  const TensorView view = ReadOnly(absl::MakeSpan(values));
  EXPECT_THAT(ToLegacyDLPack(view, Copying(DLPackCopy::kNever)),
              StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("float32 [3]"), HasSubstr("is read-only"))));
  ASSERT_OK_AND_ASSIGN(const LegacyDLPackPtr out, ToLegacyDLPack(view));
  static_cast<float*>(out->dl_tensor.data)[0] = 9;
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(view.data<float>()[0], 1);
}

TEST(DLPackExportTest, EnsureMutableMakesTheLegacyFormShare) {
  float values[] = {1, 2, 3};
  TensorView view = ReadOnly(absl::MakeSpan(values));
  ASSERT_OK(view.EnsureMutable());
  ASSERT_OK_AND_ASSIGN(const LegacyDLPackPtr out, ToLegacyDLPack(view, Copying(DLPackCopy::kNever)));
  static_cast<float*>(out->dl_tensor.data)[0] = 9;
  EXPECT_EQ(view.data<float>()[0], 9);
  EXPECT_EQ(values[0], 1);
}

TEST(DLPackExportTest, MemorySharedWithALazyCloneIsReadOnlyAndStays) {
  RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  Tensor tensor = *Large().Clone(allocator);
  Tensor clone = *tensor.LazyClone();
  const float* const shared = clone.data<float>();
  ASSERT_OK_AND_ASSIGN(const TensorView row, TensorView(tensor).Select(0, 2));
  ASSERT_OK_AND_ASSIGN(DLPackPtr out, ToDLPack(row, Copying(DLPackCopy::kNever)));
  EXPECT_EQ(out->flags, dlpack::kDLPackFlagReadOnly);
  EXPECT_EQ(out->dl_tensor.data, shared + 32);
  ASSERT_OK_AND_ASSIGN(const LegacyDLPackPtr legacy, ToLegacyDLPack(row));
  EXPECT_NE(legacy->dl_tensor.data, shared + 32);

  // Both writers leave: the consumer's is then the last hold on the memory.
  tensor.mutable_flat<float>()(32) = -1;
  clone.mutable_flat<float>()(32) = -2;
  clone = Tensor();
  EXPECT_EQ(static_cast<const float*>(out->dl_tensor.data)[0], 32);
  EXPECT_EQ(allocator->live_blocks(), 2);  // the tensor's own and the consumer's
  out.reset();
  EXPECT_EQ(allocator->live_blocks(), 1);
}

TEST(DLPackExportTest, TheMemoryStaysWhenOurTensorLeavesIt) {
  RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  Tensor tensor = *Large().Clone(allocator);
  ASSERT_OK_AND_ASSIGN(DLPackPtr out, ToDLPack(tensor));
  Tensor clone = *tensor.LazyClone();
  tensor.mutable_flat<float>()(0) = -1;  // moves to a copy
  clone = Tensor();                      // had the consumer's memory
  EXPECT_EQ(static_cast<const float*>(out->dl_tensor.data)[0], 0);
  EXPECT_EQ(allocator->live_blocks(), 2);
  out.reset();
  EXPECT_EQ(allocator->live_blocks(), 1);
}

TEST(DLPackExportTest, TheLastOfLazyClonesIsSharedForWriting) {
  Tensor tensor = Large();
  *tensor.LazyClone();  // gone at once, but the tensor has not written since
  ASSERT_OK_AND_ASSIGN(const LegacyDLPackPtr out, ToLegacyDLPack(tensor, Copying(DLPackCopy::kNever)));
  tensor.mutable_flat<float>()(0) = -1;
  EXPECT_EQ(static_cast<const float*>(out->dl_tensor.data)[0], -1);
}

TEST(DLPackExportTest, ReadOnlyByWishStillShares) {
  DLPackExportOptions options;
  options.read_only = true;
  Tensor tensor = Tensor::FromValues<float>({1, 2});
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(tensor, options));
  EXPECT_EQ(out->flags, dlpack::kDLPackFlagReadOnly);
  tensor.mutable_flat<float>()(1) = 5;
  EXPECT_EQ(static_cast<float*>(out->dl_tensor.data)[1], 5);
  ASSERT_OK_AND_ASSIGN(const LegacyDLPackPtr legacy, ToLegacyDLPack(tensor, options));
  EXPECT_NE(legacy->dl_tensor.data, tensor.data<float>());
  options.copy = DLPackCopy::kNever;
  EXPECT_THAT(ToLegacyDLPack(tensor, options), StatusIs(Code::kFailedPrecondition));
}

TEST(DLPackExportTest, CopyAlwaysIsDenseWritableAndFlagged) {
  const Tensor tensor = Tensor::FromValues<float>({{0, 1, 2}, {3, 4, 5}});
  DLPackExportOptions options = Copying(DLPackCopy::kAlways);
  options.read_only = true;
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(*TensorView(tensor).Flip({1}), options));
  EXPECT_EQ(out->flags, dlpack::kDLPackFlagIsCopied);
  EXPECT_THAT(Strides(out->dl_tensor), ElementsAre(3, 1));
  const auto* const data = static_cast<float*>(out->dl_tensor.data);
  EXPECT_THAT(std::vector<float>(data, data + 6), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_EQ(tensor.buffer()->use_count(), 1);
}

TEST(DLPackExportTest, NoMemoryForACopy) {
  DLPackExportOptions options = Copying(DLPackCopy::kAlways);
  options.allocator = MakeRef<FailingAllocator>(/*fail_at=*/1);
  EXPECT_THAT(ToDLPack(Large(), options), StatusIs(Code::kResourceExhausted, HasSubstr("1024 bytes")));
}

TEST(DLPackExportTest, ABufferWithoutDataIsRefused) {
  const TensorView view = *TensorView::Create(TensorBuffer::MakeWithoutData(8, "only its shape was read"),
                                              DType::kFloat32, Layout::RowMajor(TensorShape({2})));
  for (const DLPackCopy copy : {DLPackCopy::kNever, DLPackCopy::kIfNeeded, DLPackCopy::kAlways}) {
    EXPECT_THAT(ToDLPack(view, Copying(copy)),
                StatusIs(Code::kFailedPrecondition, HasSubstr("only its shape was read")));
    EXPECT_THAT(ToLegacyDLPack(view, Copying(copy)), StatusIs(Code::kFailedPrecondition));
  }
}

}  // namespace
}  // namespace tensorcask
