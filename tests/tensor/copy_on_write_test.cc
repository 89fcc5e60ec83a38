// Lazy clones: what is shared until the first write, and which tensors see the write.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Kind = TensorBuffer::Kind;

constexpr size_t kBytes = 4096;  // more than a buffer object holds itself

RefPtr<TensorBuffer> Counting(size_t size_bytes, const RefPtr<Allocator>& allocator = CpuAllocator::Default()) {
  RefPtr<TensorBuffer> buffer = *TensorBuffer::Allocate(size_bytes, allocator);
  auto* const bytes = static_cast<unsigned char*>(buffer->mutable_data());
  for (size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<unsigned char>(i * 7);
  return buffer;
}

TEST(CopyOnWrite, ACloneReadsTheSameMemoryUntilOneOfThemIsWritten) {
  const RefPtr<TensorBuffer> source = Counting(kBytes);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, source->LazyClone());
  EXPECT_NE(source->root(), clone->root());
  EXPECT_EQ(source->data(), clone->data());
  EXPECT_FALSE(source->IsWritableInPlace());
  EXPECT_FALSE(clone->IsWritableInPlace());
  EXPECT_FALSE(source->IsExclusive()) << "the clone sees the memory";

  const void* const shared = source->data();
  const std::string before(source->bytes());
  std::memset(clone->mutable_data(), 1, 10);
  EXPECT_NE(clone->data(), shared);
  EXPECT_EQ(source->data(), shared);
  EXPECT_EQ(source->bytes(), before);
  EXPECT_EQ(clone->bytes(), std::string(10, '\1') + before.substr(10));
  EXPECT_TRUE(source->IsExclusive());
  EXPECT_TRUE(clone->IsExclusive());
}

TEST(CopyOnWrite, TheSourceMayWriteFirst) {
  const RefPtr<TensorBuffer> source = Counting(kBytes);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, source->LazyClone());
  const std::string before(clone->bytes());
  const void* const shared = clone->data();
  std::memset(source->mutable_data(), 1, kBytes);
  EXPECT_EQ(clone->data(), shared);
  EXPECT_EQ(clone->bytes(), before);
  EXPECT_EQ(source->bytes(), std::string(kBytes, '\1'));
}

TEST(CopyOnWrite, TheLastOnAMemoryWritesInPlace) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  RefPtr<TensorBuffer> source = Counting(kBytes, allocator);
  const void* const shared = source->data();
  ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> clone, source->LazyClone());
  ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> second, clone->LazyClone());
  source = nullptr;
  second = nullptr;
  EXPECT_TRUE(clone->IsWritableInPlace());
  EXPECT_EQ(clone->mutable_data(), shared);
  EXPECT_EQ(allocator->calls(), 1) << "nothing was copied";
  EXPECT_EQ(clone->allocator_name(), "failing");
  clone = nullptr;
  EXPECT_EQ(allocator->live_blocks(), 0);
}

TEST(CopyOnWrite, EveryTensorOnTheRootSeesTheWriteAndNoOther) {
  const RefPtr<TensorBuffer> source = Counting(kBytes);
  const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(source, 100, 50);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, source->LazyClone());
  const RefPtr<TensorBuffer> part_of_clone = TensorBuffer::MakeSubBuffer(clone, 100, 50);
  static_cast<char*>(part->mutable_data())[0] = 'x';
  EXPECT_EQ(source->bytes()[100], 'x');
  EXPECT_NE(clone->bytes()[100], 'x');
  EXPECT_NE(part_of_clone->bytes()[0], 'x');
  EXPECT_EQ(part->data(), static_cast<const char*>(source->data()) + 100);
}

TEST(CopyOnWrite, APartIsClonedAsARootOfItsOwnSize) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  const RefPtr<TensorBuffer> source = Counting(kBytes, allocator);
  const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(source, 1000, 3000);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, part->LazyClone(10, 2000));
  EXPECT_TRUE(clone->is_root());
  EXPECT_EQ(clone->size_bytes(), 2000u);
  EXPECT_EQ(clone->data(), static_cast<const char*>(source->data()) + 1010);
  const int64_t bytes_before = allocator->live_bytes();
  const std::string before(clone->bytes());
  ASSERT_OK(clone->EnsureMutable());
  EXPECT_LT(allocator->live_bytes() - bytes_before, 2000 + 16) << "only the part is copied, with its alignment";
  EXPECT_EQ(clone->bytes(), before);
}

TEST(CopyOnWrite, ClonesOfClonesAreEqualAmongThemselves) {
  std::vector<RefPtr<TensorBuffer>> chain = {Counting(kBytes)};
  for (int i = 0; i < 20; ++i) chain.push_back(*chain.back()->LazyClone());
  for (const RefPtr<TensorBuffer>& clone : chain) EXPECT_EQ(clone->data(), chain[0]->data());
  const std::string before(chain[0]->bytes());
  for (size_t i = 0; i < chain.size(); i += 2) *static_cast<unsigned char*>(chain[i]->mutable_data()) = 0xff;
  for (size_t i = 0; i < chain.size(); ++i) {
    EXPECT_EQ(chain[i]->bytes()[0], i % 2 == 0 ? '\xff' : before[0]);
    EXPECT_EQ(chain[i]->bytes().substr(1), before.substr(1));
  }
}

TEST(CopyOnWrite, SmallAndForeignMemoryIsCopiedAtOnce) {
  std::string text(2000, 'e');
  TensorBuffer::External memory;
  memory.data = text.data();
  memory.size_bytes = text.size();
  memory.writable = false;
  const RefPtr<TensorBuffer> cases[] = {Counting(100), Counting(896), TensorBuffer::MakeScalar(1.5),
                                        TensorBuffer::WrapExternal(memory)};
  for (const RefPtr<TensorBuffer>& source : cases) {
    SCOPED_TRACE(source->size_bytes());
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, source->LazyClone());
    EXPECT_NE(clone->data(), source->data());
    EXPECT_EQ(clone->bytes(), source->bytes());
    EXPECT_EQ(clone->kind(), Kind::kBytes);
    EXPECT_TRUE(clone->IsExclusive());
  }
}

TEST(CopyOnWrite, ForeignMemoryThatWasReplacedIsSharedLikeOurs) {
  std::string text(2000, 'e');
  TensorBuffer::External memory;
  memory.data = text.data();
  memory.size_bytes = text.size();
  memory.writable = false;
  const RefPtr<TensorBuffer> source = TensorBuffer::WrapExternal(memory);
  *static_cast<char*>(source->mutable_data()) = 'x';
  EXPECT_TRUE(source->IsExclusive());
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, source->LazyClone());
  EXPECT_EQ(clone->data(), source->data());
  EXPECT_FALSE(source->IsExclusive());
  *static_cast<char*>(source->mutable_data()) = 'y';
  EXPECT_EQ(clone->bytes()[0], 'x');
  EXPECT_EQ(text[0], 'e');
}

TEST(CopyOnWrite, StringsAreCopiedAsObjects) {
  for (const size_t count : {size_t{3}, size_t{200}}) {
    SCOPED_TRACE(count);
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> source, TensorBuffer::AllocateElements<std::string>(count));
    auto* const values = static_cast<std::string*>(source->mutable_data());
    for (size_t i = 0; i < count; ++i) values[i] = "a string too long to stand in the object " + std::to_string(i);
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone,
                         source->LazyClone(sizeof(std::string), 2 * sizeof(std::string)));
    EXPECT_EQ(clone->size_bytes(), 2 * sizeof(std::string));
    EXPECT_TRUE(clone->HoldsElements<std::string>());
    auto* const cloned = static_cast<std::string*>(clone->mutable_data());
    EXPECT_EQ(cloned[0], values[1]);
    EXPECT_NE(cloned[0].data(), values[1].data());
    cloned[1] = "changed";
    EXPECT_EQ(values[2], "a string too long to stand in the object 2");
  }
}

TEST(CopyOnWrite, ObjectsThatCannotBeCopiedAreRefused) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> source, TensorBuffer::AllocateElements<std::unique_ptr<int>>(1000));
  EXPECT_THAT(source->LazyClone(), StatusIs(Code::kUnimplemented, HasSubstr("cannot be copied")));
  EXPECT_TRUE(source->IsWritableInPlace());
}

TEST(CopyOnWrite, WhenMemoryIsShortNothingHasChanged) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>(/*fail_at=*/2, /*for_good=*/true);
  {
    const RefPtr<TensorBuffer> source = Counting(kBytes, allocator);
    const std::string before(source->bytes());
    const void* const shared = source->data();
    ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> clone, source->LazyClone());
    for (const RefPtr<TensorBuffer>& buffer : {clone, source}) {
      EXPECT_THAT(buffer->EnsureMutable(), StatusIs(Code::kResourceExhausted, HasSubstr("no memory for 4096 bytes")));
      EXPECT_EQ(source->data(), shared);
      EXPECT_EQ(clone->data(), shared);
      EXPECT_EQ(source->bytes(), before);
      EXPECT_FALSE(buffer->IsWritableInPlace());
    }
    // With one of them gone there is nothing to copy.
    clone = nullptr;
    ASSERT_OK(source->EnsureMutable());
    EXPECT_EQ(source->mutable_data(), shared);
  }
  EXPECT_EQ(allocator->live_blocks(), 0);
}

// What was aligned for its elements stays so, although the whole moves to other memory.
TEST(CopyOnWrite, PartsStayAligned) {
  const RefPtr<TensorBuffer> source = Counting(kBytes);
  for (const size_t offset : {4, 8, 12, 36, 60, 64, 68}) {
    SCOPED_TRACE(offset);
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, source->LazyClone(offset, 1000));
    const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(clone, 64 - offset % 64, 100);
    EXPECT_TRUE(part->IsAlignedTo(16));
    const std::string before(part->bytes());
    part->mutable_data();
    EXPECT_TRUE(part->IsAlignedTo(16));
    EXPECT_EQ(part->bytes(), before);
  }
  alignas(64) char bytes[200] = {};
  TensorBuffer::External memory;
  memory.data = bytes + 4;
  memory.size_bytes = 100;
  memory.writable = false;
  const RefPtr<TensorBuffer> foreign = TensorBuffer::WrapExternal(memory);
  const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(foreign, 4, 80);
  EXPECT_TRUE(part->IsAlignedTo(8));
  part->mutable_data();
  EXPECT_TRUE(part->IsAlignedTo(8));
}

TEST(CopyOnWrite, HeldMemoryStaysWhateverTheRootTurnsTo) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  {
    const RefPtr<TensorBuffer> buffer = Counting(kBytes, allocator);
    EXPECT_TRUE(buffer->IsExclusive());
    const std::string before(buffer->bytes());
    RefPtr<RefCounted> held = buffer->HoldMemory();
    const absl::string_view bytes = buffer->bytes();
    EXPECT_FALSE(buffer->IsExclusive()) << "somebody else can see the memory";
    EXPECT_EQ(buffer->mutable_data(), bytes.data()) << "no lazy clone: written in place";
    ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> clone, buffer->LazyClone());
    *static_cast<char*>(buffer->mutable_data()) = 'x';
    clone = nullptr;
    EXPECT_EQ(bytes, before);
    EXPECT_EQ(allocator->live_blocks(), 2);
    held = nullptr;
    EXPECT_EQ(allocator->live_blocks(), 1);
    EXPECT_TRUE(buffer->IsExclusive());
  }
  const RefPtr<TensorBuffer> small = Counting(100);
  const RefPtr<RefCounted> held = small->HoldMemory();
  EXPECT_EQ(held.get(), small.get()) << "the bytes are part of the object";
}

TEST(CopyOnWrite, EmptyBuffers) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> source, TensorBuffer::Allocate(0));
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, source->LazyClone());
  EXPECT_EQ(clone->size_bytes(), 0u);
  ASSERT_OK(clone->EnsureMutable());
  const RefPtr<TensorBuffer> null = TensorBuffer::WrapExternal({});
  EXPECT_EQ(null->data(), nullptr);
  ASSERT_OK(null->LazyClone());
}

// Run under ThreadSanitizer: each thread clones for itself and writes its own, while others read or drop theirs.
TEST(CopyOnWrite, ThreadsMaterialiseTheirOwnClones) {
  for (int round = 0; round < 20; ++round) {
    RefPtr<TensorBuffer> source = Counting(size_t{64} * 1024);
    const std::string before(source->bytes());
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
      RefPtr<TensorBuffer> mine = *source->LazyClone();
      threads.emplace_back([i, &before, mine = std::move(mine)]() mutable {
        const RefPtr<TensorBuffer> again = *mine->LazyClone();
        if (i % 3 != 0) std::memset(mine->mutable_data(), i, mine->size_bytes());
        const std::string wanted = i % 3 != 0 ? std::string(mine->size_bytes(), static_cast<char>(i)) : before;
        EXPECT_EQ(mine->bytes(), wanted);
        EXPECT_EQ(again->bytes(), before);
        mine = nullptr;
        std::memset(again->mutable_data(), i, 100);
      });
    }
    source = nullptr;
    for (std::thread& thread : threads) thread.join();
  }
}

// Run under ThreadSanitizer: LazyClone is const, so threads may clone one source together.
TEST(CopyOnWrite, ThreadsCloneOneSource) {
  const RefPtr<TensorBuffer> source = Counting(kBytes);
  const std::string before(source->bytes());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i, &before, &source] {
      for (int k = 0; k < 200; ++k) {
        const RefPtr<TensorBuffer> clone = *source->LazyClone();
        std::memset(clone->mutable_data(), i, 10);
        EXPECT_EQ(source->bytes(), before);
        EXPECT_FALSE(clone->bytes() == before);
        EXPECT_EQ(source->allocator_name(), "cpu");
        source->IsExclusive();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- Tensors --------------------------------------------------------------------------------------------------------

TEST(CopyOnWriteTensor, AliasesSeeTheWriteAndClonesDoNot) {
  ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::Zeros(DType::kInt32, TensorShape({32, 32})));
  const Tensor alias = tensor;
  ASSERT_OK_AND_ASSIGN(const Tensor row, tensor.SubSlice(1));
  ASSERT_OK_AND_ASSIGN(Tensor clone, tensor.LazyClone());
  EXPECT_EQ(clone.data<int32_t>(), tensor.data<int32_t>());
  EXPECT_FALSE(clone.SharesBufferWith(tensor));
  EXPECT_EQ(clone.shape(), tensor.shape());

  tensor.mutable_matrix<int32_t>()(1, 2) = 7;
  EXPECT_EQ(alias.matrix<int32_t>()(1, 2), 7);
  EXPECT_EQ(row.vec<int32_t>()[2], 7);
  EXPECT_EQ(clone.matrix<int32_t>()(1, 2), 0);
  clone.mutable_matrix<int32_t>()(1, 2) = 9;
  EXPECT_EQ(tensor.matrix<int32_t>()(1, 2), 7);
}

TEST(CopyOnWriteTensor, WithoutElements) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::Create(DType::kInt32, TensorShape({0, 3})));
  ASSERT_OK_AND_ASSIGN(const Tensor clone, tensor.LazyClone());
  EXPECT_EQ(clone.shape(), tensor.shape());
  EXPECT_EQ(clone.dtype(), DType::kInt32);
}

// ---- Versions -------------------------------------------------------------------------------------------------------

TEST(Version, CountsMutableAccessOnTheRoot) {
  const RefPtr<TensorBuffer> root = *TensorBuffer::Allocate(kBytes);
  const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(root, 10, 10);
  EXPECT_EQ(root->version(), 0u);
  root->mutable_data();
  EXPECT_EQ(part->version(), 1u);
  part->mutable_data();
  EXPECT_EQ(root->version(), 2u);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, root->LazyClone());
  EXPECT_EQ(clone->version(), 0u) << "a root of its own";
  clone->mutable_data();
  EXPECT_EQ(root->version(), 2u);
  EXPECT_EQ(root->bytes().size(), kBytes);
  EXPECT_EQ(root->version(), 2u) << "reading is no write";
}

// ---- No data --------------------------------------------------------------------------------------------------------

TEST(WithoutData, SaysWhyToWhoeverTouchesIt) {
  const RefPtr<TensorBuffer> buffer = TensorBuffer::MakeWithoutData(kBytes, "\"w\" was only listed; read it first");
  EXPECT_EQ(buffer->kind(), Kind::kNoData);
  EXPECT_EQ(buffer->size_bytes(), kBytes);
  EXPECT_FALSE(buffer->IsExclusive());
  EXPECT_EQ(buffer->allocator_name(), "");
  const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(buffer, 64, 128);
  for (const RefPtr<TensorBuffer>& each : {buffer, part}) {
    EXPECT_THAT(each->CheckReadable(),
                StatusIs(Code::kFailedPrecondition, HasSubstr("no data: \"w\" was only listed")));
    EXPECT_THAT(each->EnsureMutable(), StatusIs(Code::kFailedPrecondition, HasSubstr("read it first")));
    EXPECT_THAT(each->LazyClone(), StatusIs(Code::kFailedPrecondition, HasSubstr("read it first")));
  }
}

TEST(WithoutData, ATensorOnItHasGeometryAndRefusesCopies) {
  ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::FromBuffer(DType::kFloat32, TensorShape({32, 32}),
                                                         TensorBuffer::MakeWithoutData(kBytes, "a sketch")));
  ASSERT_OK_AND_ASSIGN(const Tensor row, tensor.SubSlice(3));
  EXPECT_EQ(row.shape(), TensorShape({32}));
  EXPECT_EQ(tensor.TotalBytes(), kBytes);
  EXPECT_THAT(tensor.Clone(), StatusIs(Code::kFailedPrecondition, HasSubstr("no data: a sketch")));
  EXPECT_THAT(tensor.LazyClone(), StatusIs(Code::kFailedPrecondition, HasSubstr("no data: a sketch")));
  EXPECT_EQ(tensor.ToString(), "float32 [32,32]: <no data: a sketch>");
}

TEST(WithoutDataDeathTest, TouchingItEndsTheProcessWithTheMessage) {
  const RefPtr<TensorBuffer> buffer = TensorBuffer::MakeWithoutData(kBytes, "a sketch");
  EXPECT_DEATH(buffer->data(), "no data: a sketch");
  EXPECT_DEATH(buffer->mutable_data(), "no data: a sketch");
}

// ---- Weak references ------------------------------------------------------------------------------------------------

TEST(WeakBuffer, MemoryGoesBackWithTheLastOwner) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  int released = 0;
  std::string text(2000, 'e');
  TensorBuffer::External memory;
  memory.data = text.data();
  memory.size_bytes = text.size();
  memory.release = [&released] { ++released; };
  RefPtr<TensorBuffer> owned = Counting(kBytes, allocator);
  RefPtr<TensorBuffer> external = TensorBuffer::WrapExternal(std::move(memory));
  RefPtr<TensorBuffer> strings = *TensorBuffer::AllocateElements<std::string>(3);
  static_cast<std::string*>(strings->mutable_data())[1] = "a string too long to stand in the object";
  RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(Counting(kBytes, allocator), 0, 10);
  EXPECT_EQ(allocator->live_blocks(), 2);
  const WeakPtr<TensorBuffer> weak[] = {WeakPtr<TensorBuffer>(owned), WeakPtr<TensorBuffer>(external),
                                        WeakPtr<TensorBuffer>(strings), WeakPtr<TensorBuffer>(part)};
  owned = external = strings = part = nullptr;
  EXPECT_EQ(allocator->live_blocks(), 0);
  EXPECT_EQ(released, 1);
  for (const WeakPtr<TensorBuffer>& each : weak) EXPECT_FALSE(each.Lock());
}

}  // namespace
}  // namespace tensorcask
