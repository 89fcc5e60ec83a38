#include "tensorcask/tensor/compat/handle.h"

#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/compat/handle_samples.h"

namespace tensorcask {
namespace {

using testing::BufferCount;
using testing::BufferOf;
using testing::Floats;
using ::testing::HasSubstr;
using testing::Matrix;
using testing::One;
using testing::Shown;
using testing::StatusIs;
using testing::Vector;
using Code = absl::StatusCode;

static_assert(sizeof(TensorHandle) == 8 && sizeof(WeakTensorHandle) == 8);
static_assert(std::is_nothrow_move_constructible_v<TensorHandle> && std::is_copy_constructible_v<TensorHandle>);
static_assert(!std::is_copy_constructible_v<TensorObject> && !std::is_move_constructible_v<TensorObject>);
static_assert(!std::is_copy_assignable_v<TensorObject> && !std::is_move_assignable_v<TensorObject>);

// ---- Undefined handles ----------------------------------------------------------------------------------------------

TEST(UndefinedHandle, GivesErrorsAndDoesNotCrash) {
  TensorHandle moved_from = Vector();
  const TensorHandle target = std::move(moved_from);
  ASSERT_TRUE(target.defined());
  const TensorView view = Tensor::FromValues<float>({1});
  for (const TensorHandle& undefined : {TensorHandle(), moved_from}) {
    EXPECT_FALSE(undefined.defined());
    EXPECT_EQ(undefined.object(), nullptr);
    EXPECT_EQ(undefined.use_count(), 0);
    EXPECT_EQ(undefined.weak_use_count(), 0);
    EXPECT_FALSE(undefined.SharesObjectWith(undefined));
    EXPECT_FALSE(undefined.SharesBufferWith(target));
    EXPECT_FALSE(target.SharesBufferWith(undefined));
    EXPECT_EQ(undefined.ToString(), "undefined");

    TensorHandle changed = undefined;
    const absl::Status statuses[] = {
        undefined.view().status(),
        undefined.metadata().status(),
        undefined.dtype().status(),
        undefined.shape().status(),
        undefined.is_frozen().status(),
        undefined.View([](const TensorView& view) { return view; }).status(),
        undefined.At({0}).status(),
        undefined.Select(0, 0).status(),
        undefined.Slice(0, 0, 1).status(),
        undefined.Transpose(0, 1).status(),
        undefined.Reshape({1}).status(),
        undefined.ReshapeOrCopy({1}).status(),
        undefined.Alias(false).status(),
        changed.Freeze(),
        changed.SetMetadata({}),
        changed.SetDimsAndStrides({1}, {1}),
        changed.SetOffset(0),
        changed.ResizeDim(1),
        changed.Replace(view),
        changed.AdoptMetadataFrom(target),
        TensorHandle(target).AdoptMetadataFrom(undefined),
        changed.Assign({0}, view, AssignMode::kCopyIfShared),
        changed.Assign({0}, view, AssignMode::kWriteThrough),
    };
    for (const absl::Status& status : statuses) {
      EXPECT_THAT(status, StatusIs(Code::kFailedPrecondition, HasSubstr("the tensor handle is undefined")));
    }
    const WeakTensorHandle weak(undefined);
    EXPECT_TRUE(weak.expired());
    EXPECT_FALSE(weak.Lock().defined());
  }
}

// ---- Strong and weak references -------------------------------------------------------------------------------------

TEST(WeakTensorHandle, LocksWhileAHandleLives) {
  std::optional<TensorHandle> a = Vector();
  const TensorView alias = a->object()->view();
  const WeakTensorHandle weak(*a);
  EXPECT_EQ(weak.use_count(), 1);
  EXPECT_EQ(weak.weak_use_count(), 2);
  EXPECT_EQ(a->weak_use_count(), 2);
  EXPECT_FALSE(weak.expired());
  {
    const TensorHandle locked = weak.Lock();
    EXPECT_TRUE(locked.SharesObjectWith(*a));
    EXPECT_EQ(weak.use_count(), 2);
  }
  EXPECT_EQ(alias.buffer()->use_count(), 2);
  a.reset();
  EXPECT_TRUE(weak.expired());
  EXPECT_EQ(weak.use_count(), 0);
  EXPECT_FALSE(weak.Lock().defined());
  EXPECT_EQ(alias.buffer()->use_count(), 1);  // the view went with the last handle, the object stays for `weak`
}

TEST(WeakTensorHandle, OfNothingIsExpired) {
  const WeakTensorHandle weak;
  EXPECT_TRUE(weak.expired());
  EXPECT_EQ(weak.use_count(), 0);
  EXPECT_EQ(weak.weak_use_count(), 0);
  EXPECT_FALSE(weak.Lock().defined());
}

TEST(WeakTensorHandle, LocksWhileOtherThreadsLetGo) {
  for (int round = 0; round < 50; ++round) {
    TensorHandle last = Vector();
    const WeakTensorHandle weak(last);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([weak] {
        while (true) {
          const TensorHandle locked = weak.Lock();
          if (!locked.defined()) return;
          EXPECT_EQ(locked.object()->view().num_elements(), 2);
        }
      });
    }
    last = TensorHandle();
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(weak.expired());
    EXPECT_EQ(weak.weak_use_count(), 1);
  }
}

TEST(TensorHandle, MovingKeepsTheCountsAndSelfAssignmentTheObject) {
  TensorHandle a = Vector();
  const TensorObject* const object = a.object();
  TensorHandle b = std::move(a);
  EXPECT_EQ(b.object(), object);
  EXPECT_EQ(b.use_count(), 1);
  const TensorHandle& itself = b;
  b = itself;
  EXPECT_EQ(b.object(), object);
  EXPECT_EQ(b.use_count(), 1);
}

// ---- Metadata of new objects ----------------------------------------------------------------------------------------

TensorMetadata Named() {
  TensorMetadata metadata;
  metadata.name = "w";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.memory_format = MemoryFormat::kChannelsLast2d;
  metadata.requires_grad = true;
  metadata.attributes["k"] = "v";
  return metadata;
}
TensorView Images() {
  const Tensor memory = *Tensor::Zeros(DType::kFloat32, TensorShape({2, 3, 4, 5}));
  return *TensorView::Create(memory.buffer(), DType::kFloat32, *Layout::Create({2, 3, 4, 5}, {60, 1, 15, 3}));
}

TEST(TensorHandle, CreateChecksMetadata) {
  ASSERT_OK_AND_ASSIGN(const TensorHandle handle, TensorHandle::Create(Images(), Named()));
  EXPECT_EQ(*handle.metadata(), Named());
  EXPECT_EQ(*handle.dtype(), DType::kFloat32);
  EXPECT_EQ(*handle.shape(), TensorShape({2, 3, 4, 5}));
  EXPECT_TRUE(TensorHandle(Images()).metadata()->IsDefault());

  TensorMetadata metadata = Named();
  EXPECT_THAT(TensorHandle::Create(Tensor::Scalar<float>(1), metadata),
              StatusIs(Code::kInvalidArgument, HasSubstr("float32 [] strides [] offset 0 is not channels_last_2d")));
  metadata.memory_format = MemoryFormat::kContiguous;
  EXPECT_THAT(TensorHandle::Create(Tensor::Scalar<int32_t>(1), metadata),
              StatusIs(Code::kInvalidArgument, HasSubstr("requires_grad")));
}

TEST(TensorHandle, ViewsInheritWhatIsStillTrue) {
  const TensorHandle a = *TensorHandle::Create(Images(), Named());
  TensorMetadata expected;
  expected.device = Named().device;
  expected.requires_grad = true;
  EXPECT_EQ(*a.Select(0, 0)->metadata(), expected);
  EXPECT_EQ(*a.Slice(3, 0, 2)->metadata(), expected);  // no longer dense

  const TensorHandle bits = *a.View([](const TensorView& view) { return view.Bitcast(DType::kInt32); });
  expected.requires_grad = false;
  expected.memory_format = MemoryFormat::kChannelsLast2d;
  EXPECT_EQ(*bits.metadata(), expected);
  EXPECT_FALSE(*bits.is_frozen());
}

TEST(TensorHandle, ViewPassesErrorsOn) {
  const TensorHandle a = Matrix();
  EXPECT_THAT(a.Select(0, 2), StatusIs(Code::kOutOfRange, HasSubstr("Select")));
  EXPECT_THAT(a.At({0, 0, 0}), StatusIs(Code::kInvalidArgument, HasSubstr("3 indices for the 2 axes")));
  EXPECT_EQ(BufferCount(a), 1);
}

TEST(TensorHandle, AliasCopiesEverythingButTheIdentityAndTheFlag) {
  TensorHandle a = *TensorHandle::Create(Images(), Named());
  ASSERT_OK(a.Freeze());
  for (const bool frozen : {false, true}) {
    ASSERT_OK_AND_ASSIGN(TensorHandle alias, a.Alias(frozen));
    EXPECT_FALSE(alias.SharesObjectWith(a));
    EXPECT_EQ(BufferOf(alias), BufferOf(a));
    EXPECT_EQ(BufferCount(a), 2);
    EXPECT_EQ(alias.object()->view().layout(), a.object()->view().layout());
    EXPECT_EQ(*alias.dtype(), *a.dtype());
    EXPECT_EQ(*alias.metadata(), Named());
    EXPECT_EQ(*alias.is_frozen(), frozen);
    EXPECT_EQ(alias.SetOffset(0).ok(), !frozen);
  }
}

TEST(TensorHandle, AdoptMetadataFromKeepsIdentityAndFlag) {
  TensorHandle source = *TensorHandle::Create(Images(), Named());
  ASSERT_OK(source.Freeze());
  TensorHandle a(Tensor::Scalar<int32_t>(7));
  const TensorHandle same = a;
  const TensorObject* const object = a.object();
  ASSERT_OK(a.AdoptMetadataFrom(source));
  EXPECT_EQ(a.object(), object);
  EXPECT_EQ(BufferOf(same), BufferOf(source));
  EXPECT_EQ(BufferCount(source), 2);
  EXPECT_EQ(same.object()->view().layout(), source.object()->view().layout());
  EXPECT_EQ(*same.dtype(), DType::kFloat32);
  EXPECT_EQ(*same.metadata(), Named());
  EXPECT_FALSE(*same.is_frozen());

  ASSERT_OK(a.AdoptMetadataFrom(a));
  EXPECT_EQ(BufferCount(source), 2);
}

// ---- Changes, and freezing ------------------------------------------------------------------------------------------

TEST(TensorHandle, GeometryChangesShowThroughEveryHandle) {
  TensorHandle a = Matrix();
  const TensorHandle same = a;
  const TensorHandle part = *a.Select(0, 0);
  ASSERT_OK(a.SetDimsAndStrides({2}, {2}));
  ASSERT_OK(a.SetOffset(1));
  EXPECT_EQ(same.object()->view().ToString(), "float32 [2] strides [2] offset 1");
  EXPECT_EQ(Shown(same), Floats({2, 4}));
  EXPECT_EQ(Shown(part), Floats({1, 2, 3}));
  ASSERT_OK(a.ResizeDim(2));
  EXPECT_EQ(*same.shape(), TensorShape({2, 0}));
  EXPECT_THAT(a.SetDimsAndStrides({2, 4}, {4, 1}), StatusIs(Code::kInvalidArgument, HasSubstr("buffer")));
  EXPECT_EQ(*same.shape(), TensorShape({2, 0}));
}

TEST(TensorHandle, AChangedGeometryLosesAFormatThatItNoLongerHas) {
  TensorHandle a = *TensorHandle::Create(Images(), Named());
  ASSERT_OK(a.SetDimsAndStrides({2, 3, 4, 5}, {60, 20, 5, 1}));
  TensorMetadata expected = Named();
  expected.memory_format = MemoryFormat::kContiguous;
  EXPECT_EQ(*a.metadata(), expected);
}

TEST(TensorHandle, ReplaceTakesAnyViewThatTheMetadataAllows) {
  TensorHandle a = *TensorHandle::Create(Images(), Named());
  EXPECT_THAT(a.Replace(Tensor::Scalar<int8_t>(1)), StatusIs(Code::kInvalidArgument, HasSubstr("requires_grad")));
  EXPECT_EQ(*a.shape(), TensorShape({2, 3, 4, 5}));
  ASSERT_OK(a.Replace(Tensor::Scalar<double>(1)));
  EXPECT_EQ(*a.dtype(), DType::kFloat64);
  EXPECT_EQ(a.metadata()->name, "w");
  EXPECT_EQ(a.metadata()->memory_format, MemoryFormat::kContiguous);
}

TEST(TensorHandle, SetMetadataIsChecked) {
  TensorHandle a = Vector();
  TensorMetadata metadata;
  metadata.name = "v";
  ASSERT_OK(a.SetMetadata(metadata));
  EXPECT_THAT(a.SetMetadata(Named()), StatusIs(Code::kInvalidArgument, HasSubstr("is not channels_last_2d")));
  EXPECT_EQ(a.metadata()->name, "v");
}

TEST(FrozenHandle, RefusesChangesByOneMessageAndKeepsItsElementsWritable) {
  TensorHandle a = *TensorHandle::Create(Images(), Named());
  ASSERT_OK(a.Freeze());
  ASSERT_OK(a.Freeze());
  TensorHandle same = a;
  EXPECT_TRUE(*same.is_frozen());
  const TensorHandle other(Images());
  const TensorHandle alias = *a.Alias(false);
  const TensorBuffer* const buffer = BufferOf(a);
  const absl::Status statuses[] = {
      same.SetMetadata({}),
      same.SetDimsAndStrides({2}, {1}),
      same.SetOffset(0),
      same.ResizeDim(1),
      same.Replace(Images()),
      same.AdoptMetadataFrom(other),
      same.Assign({0}, One(), AssignMode::kCopyIfShared),  // shared with `alias`: would be a new buffer
  };
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(Code::kFailedPrecondition,
                                 HasSubstr("the tensor \"w\", float32 [2,3,4,5] strides [60,1,15,3] offset 0, is "
                                           "frozen: its geometry, buffer and metadata cannot change")));
  }
  EXPECT_EQ(BufferOf(a), buffer);
  EXPECT_EQ(*a.metadata(), Named());
  EXPECT_EQ(Shown(a)[0], 0);

  ASSERT_OK(a.Assign({0}, One(), AssignMode::kWriteThrough));
  EXPECT_EQ(Shown(alias)[0], 1);
  EXPECT_THAT(a.ToString(), HasSubstr(" frozen; name \"w\""));
}

TEST(FrozenHandle, AssignsInPlaceIfUniqueAndLetsViewsGo) {
  TensorHandle a = Vector();
  ASSERT_OK(a.Freeze());
  ASSERT_OK(a.Assign({0}, Tensor::Scalar<float>(9), AssignMode::kCopyIfShared));
  EXPECT_EQ(Shown(a), Floats({9, 2}));
  ASSERT_OK_AND_ASSIGN(TensorHandle part, a.Select(0, 0));
  EXPECT_OK(part.ResizeDim(1));  // views are not frozen, nor is the copy of the view
  TensorView view = *a.view();
  EXPECT_OK(view.SetOffset(0));
}

}  // namespace
}  // namespace tensorcask
