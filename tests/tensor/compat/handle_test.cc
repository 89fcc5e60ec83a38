#include "tensorcask/tensor/compat/handle.h"

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/compat/handle_samples.h"

namespace tensorcask {
namespace {

using testing::Block;
using testing::BufferCount;
using testing::BufferOf;
using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using testing::LazyCloneOf;
using testing::Matrix;
using testing::One;
using testing::PlusOne;
using testing::Shown;
using testing::StatusIs;
using testing::Vector;
using Code = absl::StatusCode;

// ---- The table of handle.h: MegEngine's column and c10's ------------------------------------------------------------

TEST(AliasingTable, Row1MegEngineReplacesTheBufferOfTheObject) {
  TensorHandle a = Vector();
  const TensorHandle same = a;
  const TensorHandle alias = *a.Alias(/*frozen=*/false);
  const TensorObject* const object = a.object();
  const TensorBuffer* const old_buffer = BufferOf(a);
  ASSERT_EQ(old_buffer->use_count(), 2);
  const uint64_t old_version = old_buffer->version();

  ASSERT_OK(a.Replace(PlusOne(a)));

  EXPECT_EQ(a.object(), object);
  EXPECT_NE(BufferOf(a), old_buffer);
  EXPECT_EQ(old_buffer->use_count(), 1);
  EXPECT_EQ(BufferCount(a), 1);
  EXPECT_EQ(Shown(a), Floats({2, 3}));
  EXPECT_EQ(Shown(same), Floats({2, 3}));
  EXPECT_EQ(Shown(alias), Floats({1, 2}));
  EXPECT_EQ(old_buffer->version(), old_version);
}

TEST(AliasingTable, Row1C10WritesIntoTheBuffer) {
  TensorHandle a = Vector();
  const TensorHandle same = a;
  const TensorHandle alias = *a.Alias(/*frozen=*/false);
  const TensorObject* const object = a.object();
  const TensorBuffer* const buffer = BufferOf(a);
  const uint64_t version = buffer->version();

  TensorView view = *a.view();
  ASSERT_OK(Copy(PlusOne(a), &view));

  EXPECT_EQ(a.object(), object);
  EXPECT_EQ(BufferOf(a), buffer);
  EXPECT_EQ(Shown(same), Floats({2, 3}));
  EXPECT_EQ(Shown(alias), Floats({2, 3}));
  EXPECT_GT(buffer->version(), version);
}

TEST(AliasingTable, Row2BothMakeANewObjectAndBuffer) {
  TensorHandle a = Vector();
  const TensorHandle other = a;
  const TensorHandle alias = *a.Alias(/*frozen=*/false);
  ASSERT_EQ(other.use_count(), 2);
  ASSERT_EQ(BufferCount(other), 2);

  a = TensorHandle(PlusOne(a));

  EXPECT_FALSE(a.SharesObjectWith(other));
  EXPECT_FALSE(a.SharesBufferWith(other));
  EXPECT_EQ(other.use_count(), 1);
  EXPECT_EQ(BufferCount(other), 2);  // the object other stays, with its buffer
  EXPECT_EQ(Shown(a), Floats({2, 3}));
  EXPECT_EQ(Shown(other), Floats({1, 2}));
  EXPECT_EQ(Shown(alias), Floats({1, 2}));
}

TEST(AliasingTable, Row2WithoutOtherHandlesTheOldBufferLosesAReference) {
  TensorHandle a = Vector();
  const TensorHandle alias = *a.Alias(/*frozen=*/false);
  ASSERT_EQ(BufferCount(alias), 2);
  a = TensorHandle(PlusOne(a));
  EXPECT_EQ(BufferCount(alias), 1);
}

TEST(AliasingTable, Row3BothSelectOnTheSameBuffer) {
  const TensorHandle a = Matrix();
  ASSERT_OK_AND_ASSIGN(const TensorHandle b, a.Select(0, 1));
  EXPECT_FALSE(b.SharesObjectWith(a));
  EXPECT_TRUE(b.SharesBufferWith(a));
  EXPECT_EQ(a.use_count(), 1);
  EXPECT_EQ(BufferCount(a), 2);
  EXPECT_EQ(b.object()->view().data<float>(), a.object()->view().data<float>() + 3);
  EXPECT_EQ(Shown(b), Floats({4, 5, 6}));
}

TEST(AliasingTable, Row4BothReshapeOnTheSameBufferWhereStridesCan) {
  const TensorHandle a = Matrix();
  ASSERT_OK_AND_ASSIGN(const TensorHandle b, a.ReshapeOrCopy({3, 2}));
  EXPECT_FALSE(b.SharesObjectWith(a));
  EXPECT_TRUE(b.SharesBufferWith(a));
  EXPECT_EQ(BufferCount(a), 2);
  EXPECT_EQ(b.object()->view().ToString(), "float32 [3,2] strides [2,1] offset 0");
}

TEST(AliasingTable, Row4BothReshapeToANewBufferWhereStridesCannot) {
  const TensorHandle a = *Matrix().Transpose(0, 1);
  EXPECT_THAT(a.Reshape({6}), StatusIs(Code::kInvalidArgument, HasSubstr("Reshape")));
  ASSERT_OK_AND_ASSIGN(const TensorHandle b, a.ReshapeOrCopy({6}));
  EXPECT_FALSE(b.SharesBufferWith(a));
  EXPECT_EQ(BufferCount(a), 1);
  EXPECT_EQ(Shown(b), Floats({1, 4, 2, 5, 3, 6}));
}

TEST(AliasingTable, Row5BothTransposeOnTheSameBuffer) {
  const TensorHandle a = Matrix();
  ASSERT_OK_AND_ASSIGN(const TensorHandle b, a.Transpose(0, 1));
  EXPECT_FALSE(b.SharesObjectWith(a));
  EXPECT_TRUE(b.SharesBufferWith(a));
  EXPECT_THAT(a.object()->view().strides(), ElementsAre(3, 1));
  EXPECT_THAT(b.object()->view().strides(), ElementsAre(1, 3));
  EXPECT_EQ(b.object()->view().data<float>(), a.object()->view().data<float>());
}

TEST(AliasingTable, Row6MegEngineCopiesIfShared) {
  TensorHandle a = Vector();
  const TensorHandle same = a;
  const TensorHandle alias = *a.Alias(/*frozen=*/false);
  const TensorObject* const object = a.object();
  const TensorBuffer* const old_buffer = BufferOf(a);
  const uint64_t old_version = old_buffer->version();
  ASSERT_EQ(old_buffer->use_count(), 2);

  ASSERT_OK(a.Assign({0}, Tensor::Scalar<float>(9), AssignMode::kCopyIfShared));

  EXPECT_EQ(a.object(), object);
  EXPECT_NE(BufferOf(a), old_buffer);
  EXPECT_EQ(old_buffer->use_count(), 1);
  EXPECT_EQ(Shown(a), Floats({9, 2}));
  EXPECT_EQ(Shown(same), Floats({9, 2}));
  EXPECT_EQ(Shown(alias), Floats({1, 2}));
  EXPECT_EQ(old_buffer->version(), old_version);
}

TEST(AliasingTable, Row6MegEngineWritesInPlaceIfUnique) {
  TensorHandle a = Vector();
  const TensorHandle same = a;  // shares the object, so it is no other
  const WeakTensorHandle weak(a);
  const TensorBuffer* const buffer = BufferOf(a);
  const uint64_t version = buffer->version();

  ASSERT_OK(a.Assign({0}, Tensor::Scalar<float>(9), AssignMode::kCopyIfShared));

  EXPECT_EQ(BufferOf(a), buffer);
  EXPECT_EQ(buffer->use_count(), 1);
  EXPECT_GT(buffer->version(), version);
  EXPECT_EQ(Shown(same), Floats({9, 2}));
  EXPECT_EQ(Shown(weak.Lock()), Floats({9, 2}));
}

TEST(AliasingTable, Row6C10WritesThrough) {
  TensorHandle a = Vector();
  const TensorHandle same = a;
  const TensorHandle alias = *a.Alias(/*frozen=*/false);
  const TensorBuffer* const buffer = BufferOf(a);
  const uint64_t version = buffer->version();

  ASSERT_OK(a.Assign({0}, Tensor::Scalar<float>(9), AssignMode::kWriteThrough));

  EXPECT_EQ(BufferOf(a), buffer);
  EXPECT_EQ(buffer->use_count(), 2);
  EXPECT_GT(buffer->version(), version);
  EXPECT_EQ(Shown(a), Floats({9, 2}));
  EXPECT_EQ(Shown(same), Floats({9, 2}));
  EXPECT_EQ(Shown(alias), Floats({9, 2}));
}

TEST(AliasingTable, Row7BothShareTheObject) {
  const TensorHandle a = Vector();
  ASSERT_EQ(a.use_count(), 1);
  const TensorHandle b = a;
  EXPECT_TRUE(b.SharesObjectWith(a));
  EXPECT_TRUE(b.SharesBufferWith(a));
  EXPECT_EQ(a.object(), b.object());
  EXPECT_EQ(a.use_count(), 2);
  EXPECT_EQ(BufferCount(a), 1);
}

TEST(AliasingTable, Row8VersionsAreSharedByAllOnOneBuffer) {
  TensorHandle a = Vector();
  const TensorHandle part = *a.Select(0, 0);
  const uint64_t before = BufferOf(part)->version();
  ASSERT_OK(a.Assign({}, One(), AssignMode::kWriteThrough));
  EXPECT_GT(BufferOf(part)->version(), before);
  EXPECT_EQ(BufferOf(part)->version(), BufferOf(a)->version());

  const uint64_t shared = BufferOf(part)->version();
  ASSERT_OK(a.Assign({}, One(), AssignMode::kCopyIfShared));  // moves a away
  ASSERT_OK(a.Assign({}, One(), AssignMode::kCopyIfShared));  // in place now
  EXPECT_EQ(BufferOf(part)->version(), shared);
}

TEST(AliasingTable, Row9LazyClonesDoNotSeeEachOther) {
  for (const AssignMode mode : {AssignMode::kCopyIfShared, AssignMode::kWriteThrough}) {
    for (const bool write_to_clone : {false, true}) {
      TensorHandle a = Block();
      TensorHandle b = LazyCloneOf(a);
      EXPECT_FALSE(b.SharesObjectWith(a));
      EXPECT_FALSE(b.SharesBufferWith(a));
      EXPECT_EQ(a.object()->view().data<float>(), b.object()->view().data<float>());  // nothing is copied yet
      EXPECT_FALSE(BufferOf(a)->IsExclusive());

      TensorHandle& written = write_to_clone ? b : a;
      const TensorHandle& other = write_to_clone ? a : b;
      ASSERT_OK(written.Assign({3}, One(), mode));
      EXPECT_EQ(written.object()->view().data<float>()[3], 1);
      EXPECT_EQ(other.object()->view().data<float>()[3], 0);
      EXPECT_NE(a.object()->view().data<float>(), b.object()->view().data<float>());
    }
  }
}

TEST(AliasingTable, Row9WriteThroughKeepsTheRootForItsViews) {
  TensorHandle a = Block();
  const TensorHandle part = *a.Slice(0, 0, 8);
  const TensorHandle clone = LazyCloneOf(a);
  const TensorBuffer* const buffer = BufferOf(a);
  ASSERT_OK(a.Assign({3}, One(), AssignMode::kWriteThrough));
  EXPECT_EQ(BufferOf(a), buffer);
  EXPECT_EQ(part.object()->view().data<float>()[3], 1);
  EXPECT_EQ(clone.object()->view().data<float>()[3], 0);
}

// ---- The quiz -------------------------------------------------------------------------------------------------------

std::string Print(const TensorHandle& handle) {
  const std::string text = absl::StrCat("[", absl::StrJoin(Shown(handle), ","), "]");
  std::printf("%s\n", text.c_str());
  return text;
}

TEST(Quiz, InPlaceOnASharedObject) {
  TensorHandle a = Vector();
  TensorHandle b = a;                // b = a
  ASSERT_OK(b.Replace(PlusOne(b)));  // b += 1
  EXPECT_EQ(Print(a), "[2,3]");
}

TEST(Quiz, Rebinding) {
  TensorHandle a = Vector();
  TensorHandle b = a;            // b = a
  b = TensorHandle(PlusOne(b));  // b = b + 1
  EXPECT_EQ(Print(a), "[1,2]");
}

TEST(Quiz, InPlaceOnAView) {
  TensorHandle a = Vector();
  TensorHandle b = *a.At({0});       // b = a[0]
  ASSERT_OK(b.Replace(PlusOne(b)));  // b += 1
  EXPECT_EQ(Print(a), "[1,2]");
}

TEST(Quiz, AssignmentByIndexToASharedObject) {
  TensorHandle a = Vector();
  TensorHandle b = a;                                                        // b = a
  ASSERT_OK(a.Assign({0}, PlusOne(*a.At({0})), AssignMode::kCopyIfShared));  // a[0] += 1
  EXPECT_EQ(Print(b), "[2,2]");
}

}  // namespace
}  // namespace tensorcask
