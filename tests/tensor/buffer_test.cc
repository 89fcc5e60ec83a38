#include "tensorcask/tensor/buffer.h"

#include <atomic>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Kind = TensorBuffer::Kind;

uintptr_t Address(const void* data) { return reinterpret_cast<uintptr_t>(data); }

// A buffer on `text`, whose release counts.
RefPtr<TensorBuffer> Wrap(std::string* text, bool writable, int* released, RefPtr<Allocator> allocator = nullptr) {
  TensorBuffer::External memory;
  memory.data = text->data();
  memory.size_bytes = text->size();
  memory.writable = writable;
  memory.kind = writable ? Kind::kExternal : Kind::kMapped;
  memory.release = [released] { ++*released; };
  memory.allocator = std::move(allocator);
  return TensorBuffer::WrapExternal(std::move(memory));
}

TEST(TensorBuffer, AllocatesAlignedBytesOfAnySize) {
  for (const size_t bytes : {0, 1, 2, 15, 63, 64, 65, 127, 500, 895, 896, 897, 1024, 5000, 1 << 20, 5 << 20}) {
    SCOPED_TRACE(bytes);
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(bytes));
    EXPECT_EQ(buffer->size_bytes(), bytes);
    EXPECT_EQ(Address(buffer->data()) % Allocator::kAlignment, 0u);
    EXPECT_EQ(buffer->kind(), Kind::kBytes);
    EXPECT_EQ(buffer->allocator_name(), "cpu");
    EXPECT_EQ(buffer->root(), buffer.get());
    EXPECT_TRUE(buffer->is_root());
    EXPECT_EQ(buffer->offset_bytes(), 0u);
    std::memset(buffer->mutable_data(), 0x5a, bytes);
    EXPECT_EQ(buffer->bytes(), std::string(bytes, 0x5a));
  }
}

TEST(TensorBuffer, GivesMemoryBackToItsAllocator) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(100, allocator));
  EXPECT_EQ(buffer->allocator_name(), "failing");
  EXPECT_EQ(allocator->live_bytes(), 100);
  EXPECT_EQ(allocator->use_count(), 2) << "a buffer keeps its allocator";
  buffer = nullptr;
  EXPECT_EQ(allocator->live_bytes(), 0);
  EXPECT_EQ(allocator->use_count(), 1);
}

TEST(TensorBuffer, AsksNoAllocatorForNoBytes) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>(1);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(0, allocator));
  EXPECT_EQ(buffer->size_bytes(), 0u);
  EXPECT_EQ(allocator->calls(), 0);
}

TEST(TensorBuffer, SaysWhenMemoryIsShort) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>(1, true);
  EXPECT_THAT(TensorBuffer::Allocate(12345, allocator),
              StatusIs(Code::kResourceExhausted, HasSubstr("12345 bytes from allocator \"failing\"")));
  EXPECT_THAT(TensorBuffer::AllocateElements<std::string>(3, allocator),
              StatusIs(Code::kResourceExhausted, HasSubstr("96 bytes")));
  EXPECT_THAT(TensorBuffer::Allocate(SIZE_MAX), StatusIs(Code::kResourceExhausted, HasSubstr("\"cpu\"")));
  EXPECT_EQ(allocator->use_count(), 1);
}

struct Counted {
  static inline int alive = 0;
  Counted() noexcept { ++alive; }
  ~Counted() { --alive; }
  int64_t value = 7;
};

TEST(TensorBuffer, ConstructsAndDestroysElements) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{1000}}) {
    SCOPED_TRACE(count);
    ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> buffer, TensorBuffer::AllocateElements<Counted>(count));
    EXPECT_EQ(Counted::alive, static_cast<int>(count));
    EXPECT_EQ(buffer->kind(), Kind::kElements);
    EXPECT_EQ(buffer->size_bytes(), count * sizeof(Counted));
    EXPECT_TRUE(buffer->HoldsElements<Counted>());
    EXPECT_FALSE(buffer->HoldsElements<std::string>());
    const Counted* const elements = static_cast<const Counted*>(buffer->data());
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(elements[i].value, 7);
    const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(buffer, 0, buffer->size_bytes() / 2);
    EXPECT_TRUE(part->HoldsElements<Counted>());
    buffer = nullptr;
    EXPECT_EQ(Counted::alive, static_cast<int>(count)) << "a part keeps the whole";
  }
  EXPECT_EQ(Counted::alive, 0);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> bytes, TensorBuffer::Allocate(64));
  EXPECT_FALSE(bytes->HoldsElements<Counted>());
}

TEST(TensorBuffer, RefusesMoreElementsThanBytesCanCount) {
  EXPECT_THAT(TensorBuffer::AllocateElements<std::string>(SIZE_MAX / sizeof(std::string) + 1),
              StatusIs(Code::kInvalidArgument, HasSubstr("overflows")));
  EXPECT_THAT(TensorBuffer::AllocateElements<std::string>(SIZE_MAX / sizeof(std::string)),
              StatusIs(Code::kResourceExhausted, HasSubstr("bytes")));
}

TEST(TensorBuffer, Scalars) {
  const RefPtr<TensorBuffer> scalar = TensorBuffer::MakeScalar(std::complex<double>(1, -2));
  EXPECT_EQ(scalar->kind(), Kind::kScalar);
  EXPECT_EQ(scalar->size_bytes(), 16u);
  EXPECT_EQ(Address(scalar->data()) % Allocator::kAlignment, 0u);
  EXPECT_EQ(*static_cast<const std::complex<double>*>(scalar->data()), std::complex<double>(1, -2));
  EXPECT_EQ(scalar->allocator_name(), "");
  EXPECT_TRUE(scalar->IsExclusive());
}

TEST(TensorBuffer, SubBuffersHoldTheRoot) {
  ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> root, TensorBuffer::Allocate(4096));
  for (int i = 0; i < 4096; ++i) static_cast<uint8_t*>(root->mutable_data())[i] = static_cast<uint8_t>(i * 7);
  RefPtr<TensorBuffer> row = TensorBuffer::MakeSubBuffer(root, 1024, 256);
  const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(row, 16, 8);
  EXPECT_EQ(part->root(), root.get());
  EXPECT_EQ(part->offset_bytes(), 1040u);
  EXPECT_EQ(part->size_bytes(), 8u);
  EXPECT_EQ(part->data(), static_cast<const char*>(root->data()) + 1040);
  EXPECT_EQ(part->mutable_data(), part->data());
  EXPECT_EQ(part->bytes(), root->bytes().substr(1040, 8));
  EXPECT_FALSE(part->is_root());
  EXPECT_EQ(part->kind(), Kind::kBytes);
  EXPECT_EQ(part->allocator_name(), "cpu");
  EXPECT_EQ(root->use_count(), 3);
  row = nullptr;
  EXPECT_EQ(root->use_count(), 2) << "a part of a part does not hold the part";
  root = nullptr;
  EXPECT_EQ(static_cast<const uint8_t*>(part->data())[1], static_cast<uint8_t>(1041 * 7));
  EXPECT_TRUE(part->IsExclusive());
}

TEST(TensorBuffer, SubBuffersMayBeEmptyAndEndAtTheEnd) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> root, TensorBuffer::Allocate(16));
  EXPECT_EQ(TensorBuffer::MakeSubBuffer(root, 16, 0)->bytes(), "");
  EXPECT_EQ(TensorBuffer::MakeSubBuffer(root, 0, 16)->size_bytes(), 16u);
}

TEST(TensorBuffer, IsExclusive) {
  ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> root, TensorBuffer::Allocate(16));
  EXPECT_TRUE(root->IsExclusive());
  RefPtr<TensorBuffer> alias = root;
  EXPECT_FALSE(root->IsExclusive());
  alias = nullptr;
  EXPECT_TRUE(root->IsExclusive());
  RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(root, 0, 8);
  EXPECT_FALSE(root->IsExclusive());
  EXPECT_FALSE(part->IsExclusive()) << "the root has another owner";
  root = nullptr;
  EXPECT_TRUE(part->IsExclusive());
  alias = part;
  EXPECT_FALSE(part->IsExclusive());
}

TEST(TensorBuffer, ReleasesExternalMemoryOnce) {
  std::string text = "0123456789";
  int released = 0;
  RefPtr<TensorBuffer> buffer = Wrap(&text, /*writable=*/true, &released);
  EXPECT_EQ(buffer->kind(), Kind::kExternal);
  EXPECT_EQ(buffer->allocator_name(), "");
  EXPECT_FALSE(buffer->IsExclusive());
  RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(buffer, 2, 3);
  buffer = nullptr;
  EXPECT_EQ(released, 0);
  static_cast<char*>(part->mutable_data())[0] = 'x';
  EXPECT_EQ(text, "01x3456789") << "writable memory is written in place";
  part = nullptr;
  EXPECT_EQ(released, 1);

  TensorBuffer::External without_release;
  without_release.data = text.data();
  without_release.size_bytes = text.size();
  EXPECT_EQ(TensorBuffer::WrapExternal(without_release)->bytes(), text);
}

TEST(TensorBuffer, CopiesReadOnlyMemoryOnTheFirstWrite) {
  std::string text = "0123456789";
  int released = 0;
  RefPtr<TensorBuffer> root = Wrap(&text, /*writable=*/false, &released);
  RefPtr<TensorBuffer> first = TensorBuffer::MakeSubBuffer(root, 0, 5);
  const RefPtr<TensorBuffer> second = TensorBuffer::MakeSubBuffer(root, 5, 5);
  const void* const original = root->data();
  EXPECT_EQ(root->kind(), Kind::kMapped);
  EXPECT_EQ(original, text.data());

  static_cast<char*>(second->mutable_data())[0] = 'x';
  EXPECT_EQ(text, "0123456789");
  EXPECT_EQ(root->bytes(), "01234x6789");
  EXPECT_EQ(second->bytes(), "x6789");
  EXPECT_EQ(first->bytes(), "01234");
  EXPECT_EQ(static_cast<const char*>(first->data()) + 5, second->data()) << "parts moved along with the root";
  EXPECT_EQ(Address(root->data()) % Allocator::kAlignment, 0u);
  EXPECT_EQ(released, 0) << "pointers taken before stay readable";
  EXPECT_EQ(std::memcmp(original, "0123456789", 10), 0);

  const void* const moved = root->data();
  static_cast<char*>(first->mutable_data())[0] = 'y';
  EXPECT_EQ(root->data(), moved) << "copied once";
  EXPECT_EQ(root->bytes(), "y1234x6789");
  EXPECT_EQ(root->kind(), Kind::kMapped) << "what a buffer is does not change";

  first = nullptr;
  root = nullptr;
  EXPECT_TRUE(second->IsExclusive()) << "the memory is ours by now";
  EXPECT_EQ(released, 0);
}

TEST(TensorBuffer, FailedCopyChangesNothing) {
  std::string text = "0123456789";
  // A copy has the alignment of what it copies.
  const auto copied_bytes = static_cast<int64_t>(text.size() + Address(text.data()) % alignof(std::max_align_t));
  int released = 0;
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>(1);
  {
    const RefPtr<TensorBuffer> root = Wrap(&text, /*writable=*/false, &released, allocator);
    const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(root, 5, 5);
    EXPECT_THAT(part->EnsureMutable(),
                StatusIs(Code::kResourceExhausted, HasSubstr(absl::StrCat(" ", copied_bytes, " bytes"))));
    EXPECT_EQ(root->data(), text.data());
    EXPECT_EQ(part->bytes(), "56789");
    EXPECT_EQ(released, 0);
    EXPECT_FALSE(root->IsExclusive());

    EXPECT_OK(part->EnsureMutable()) << "the second attempt has memory";
    EXPECT_NE(root->data(), text.data());
    EXPECT_EQ(part->bytes(), "56789");
    EXPECT_EQ(allocator->live_bytes(), copied_bytes);
    EXPECT_OK(root->EnsureMutable());
    EXPECT_EQ(allocator->calls(), 2);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(allocator->live_bytes(), 0);
}

TEST(TensorBuffer, EnsureMutableLeavesWritableMemoryAlone) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(16));
  const void* const before = buffer->data();
  EXPECT_OK(buffer->EnsureMutable());
  EXPECT_EQ(buffer->data(), before);
}

TEST(TensorBuffer, EmptyExternalMemory) {
  TensorBuffer::External memory;
  memory.writable = false;
  const RefPtr<TensorBuffer> buffer = TensorBuffer::WrapExternal(memory);
  EXPECT_EQ(buffer->size_bytes(), 0u);
  EXPECT_OK(buffer->EnsureMutable());
}

// Handles come and go on several threads while each reads; the last one gives the memory back. For ThreadSanitizer,
// too.
TEST(TensorBuffer, SharedByThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  std::string text(64, 'a');
  std::atomic<int> released{0};
  {
    TensorBuffer::External memory;
    memory.data = text.data();
    memory.size_bytes = text.size();
    memory.release = [&released, &text] {
      text[0] = 'z';  // a race with any reader that is left
      ++released;
    };
    const RefPtr<TensorBuffer> buffer = TensorBuffer::WrapExternal(std::move(memory));
    std::vector<std::thread> threads;
    std::atomic<int64_t> sum{0};
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([mine = buffer, &sum]() mutable {
        for (int i = 0; i < kRounds; ++i) {
          RefPtr<TensorBuffer> alias = mine;
          const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(alias, static_cast<size_t>(i % 60), 4);
          mine = std::move(alias);
          sum += part->bytes()[3];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(sum, int64_t{kThreads} * kRounds * 'a');
    EXPECT_EQ(buffer->use_count(), 1);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

// The thread that drops the last reference sees what the other threads wrote.
TEST(TensorBuffer, LastOwnerSeesAllWrites) {
  for (int round = 0; round < 200; ++round) {
    RefPtr<TensorBuffer> buffer = *TensorBuffer::Allocate(2 * sizeof(int));
    int* const values = static_cast<int*>(buffer->mutable_data());
    std::thread other([alias = buffer, values]() mutable {
      values[0] = 1;
      alias = nullptr;
    });
    values[1] = 2;
    while (!buffer->IsExclusive()) std::this_thread::yield();
    EXPECT_EQ(values[0] + values[1], 3);
    other.join();
  }
}

TEST(TensorBufferDeathTest, RefusesRangesOutsideTheParent) {
  const RefPtr<TensorBuffer> root = *TensorBuffer::Allocate(16);
  EXPECT_DEATH(TensorBuffer::MakeSubBuffer(root, 9, 8), "the range leaves its parent");
  EXPECT_DEATH(TensorBuffer::MakeSubBuffer(root, SIZE_MAX, 2), "the range leaves its parent");
  const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(root, 0, 8);
  EXPECT_DEATH(TensorBuffer::MakeSubBuffer(part, 0, 9), "the range leaves its parent");
}

TEST(TensorBufferDeathTest, MutableDataNeedsMemory) {
  std::string text = "0123456789";
  int released = 0;
  const RefPtr<TensorBuffer> buffer = Wrap(&text, false, &released, MakeRef<FailingAllocator>(1, true));
  EXPECT_DEATH(buffer->mutable_data(), "no memory for 10 bytes");
}

}  // namespace
}  // namespace tensorcask
