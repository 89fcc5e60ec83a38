#include "tensorcask/tensor/memory/pinned_allocator.h"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

class PinnedAllocatorTest : public ::testing::Test {
 protected:
  PinnedAllocatorTest() : device_(SimulatedBackend::Create({}).value()), pinned_(PinnedAllocator::Make(device_)) {}
  void TearDown() override {
    pinned_ = nullptr;
    EXPECT_EQ(device_->live_host_bytes(), 0U);
    EXPECT_EQ(device_->live_events(), 0);
  }

  void* New(size_t bytes) { return pinned_->TryAllocate(bytes).value(); }
  void Delete(void* block, size_t bytes) { pinned_->Deallocate(block, bytes); }
  // A copy to the host that is under way until the test completes the stream.
  void Use(void* block, StreamId stream) {
    ASSERT_OK_AND_ASSIGN(void* const there, device_->Allocate(512));
    ASSERT_OK(device_->Copy(CopyKind::kDeviceToHost, block, there, 512, stream));
    used_.push_back(there);
  }
  void FreeUsed() {
    for (void* const there : used_) ASSERT_OK(device_->Free(there, 512));
  }

  RefPtr<SimulatedBackend> device_;
  RefPtr<PinnedAllocator> pinned_;
  std::vector<void*> used_;
};

TEST_F(PinnedAllocatorTest, BlocksArePowersOfTwo) {
  const struct {
    size_t bytes;
    size_t block_bytes;
  } cases[] = {{1, 512}, {512, 512}, {513, 1024}, {5000, 8192}, {8192, 8192}, {(1 << 20) + 1, 2 << 20}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.bytes);
    void* const block = New(one.bytes);
    EXPECT_EQ(pinned_->Describe(block).allocated_bytes, one.block_bytes);
    EXPECT_EQ(pinned_->counters().used_bytes, one.block_bytes);
    Delete(block, one.bytes);
  }
  EXPECT_THAT(pinned_->TryAllocate((size_t{1} << 62) + 1), StatusIs(Code::kResourceExhausted, HasSubstr("pinned")));
}

TEST_F(PinnedAllocatorTest, AFreedBlockServesItsOwnSizeOnly) {
  void* const block = New(1000);
  Delete(block, 1000);
  EXPECT_EQ(pinned_->counters().cached_bytes, 1024U);
  void* const smaller = New(512);
  EXPECT_NE(smaller, block);
  EXPECT_EQ(New(600), block);
  EXPECT_EQ(pinned_->counters().hits, 1);
  EXPECT_EQ(pinned_->counters().misses, 2);
  EXPECT_EQ(device_->calls(Call::kAllocateHost), 2);
  Delete(block, 600);
  Delete(smaller, 512);
}

TEST_F(PinnedAllocatorTest, ABlockIsReusedWhenItsStreamsAreDone) {
  const StreamId a = device_->CreateStream().value();
  const StreamId b = device_->CreateStream().value();
  void* const block = New(512);
  Use(block, a);
  Use(block, b);
  ASSERT_OK(pinned_->RecordStream(block, a));
  ASSERT_OK(pinned_->RecordStream(block, b));
  ASSERT_OK(pinned_->RecordStream(block, b));
  Delete(block, 512);
  EXPECT_EQ(pinned_->counters().waiting_bytes, 512U);
  EXPECT_EQ(device_->live_events(), 2);

  void* const second = New(512);
  EXPECT_NE(second, block);
  device_->Complete(a);
  void* const third = New(512);
  EXPECT_NE(third, block);
  device_->Complete(b);
  EXPECT_EQ(New(512), block);
  EXPECT_EQ(pinned_->counters().waiting_bytes, 0U);
  for (void* const one : {block, second, third}) Delete(one, 512);
  FreeUsed();
}

TEST_F(PinnedAllocatorTest, RecordStreamRefusesOtherPointers) {
  void* const block = New(1024);
  EXPECT_THAT(pinned_->RecordStream(static_cast<char*>(block) + 1, 0), StatusIs(Code::kInvalidArgument, HasSubstr("")));
  Delete(block, 1024);
  EXPECT_THAT(pinned_->RecordStream(block, 0), StatusIs(Code::kInvalidArgument, HasSubstr("in use")));
}

TEST_F(PinnedAllocatorTest, EmptyCacheWaitsAndReturnsAll) {
  void* const block = New(512);
  Use(block, kDefaultStream);
  ASSERT_OK(pinned_->RecordStream(block, kDefaultStream));
  Delete(block, 512);
  void* const kept = New(2048);
  ASSERT_OK(pinned_->EmptyCache());
  EXPECT_EQ(device_->pending(kDefaultStream), 0);
  EXPECT_EQ(device_->live_host_bytes(), 2048U);
  EXPECT_EQ(pinned_->counters().cached_bytes, 0U);
  Delete(kept, 2048);
  FreeUsed();
}

TEST_F(PinnedAllocatorTest, AMissWithoutMemoryReturnsTheCacheFirst) {
  Delete(New(512), 512);
  device_->FailNext(Call::kAllocateHost, 1, 0, Code::kResourceExhausted);
  void* const block = New(4096);
  EXPECT_EQ(device_->live_host_bytes(), 4096U);
  device_->FailNext(Call::kAllocateHost, 2, 0, Code::kResourceExhausted);
  EXPECT_THAT(pinned_->TryAllocate(512), StatusIs(Code::kResourceExhausted, HasSubstr("AllocateHost")));
  device_->FailNext(Call::kAllocateHost, 1, 0, Code::kUnavailable);
  EXPECT_THAT(pinned_->TryAllocate(512), StatusIs(Code::kUnavailable, HasSubstr("AllocateHost")));
  Delete(block, 4096);
}

TEST_F(PinnedAllocatorTest, EventsThatFailAreTriedAgain) {
  void* const block = New(512);
  Use(block, kDefaultStream);
  ASSERT_OK(pinned_->RecordStream(block, kDefaultStream));
  device_->FailNext(Call::kRecordEvent, 1);
  Delete(block, 512);
  device_->FailNext(Call::kQueryEvent, 1);
  void* const second = New(512);
  EXPECT_NE(second, block) << "neither the record nor the query worked";
  device_->Complete(kDefaultStream);
  EXPECT_EQ(New(512), block);
  Delete(block, 512);
  Delete(second, 512);
  FreeUsed();
}

TEST_F(PinnedAllocatorTest, ADestroyedStreamHasFinished) {
  const StreamId stream = device_->CreateStream().value();
  void* const block = New(512);
  ASSERT_OK(pinned_->RecordStream(block, stream));
  ASSERT_OK(device_->DestroyStream(stream));
  Delete(block, 512);
  EXPECT_EQ(New(512), block);
  Delete(block, 512);
}

TEST_F(PinnedAllocatorTest, ItsTensorsAreTensorsOfTheHost) {
  Tensor tensor = Tensor::Zeros(DType::kFloat32, TensorShape({100}), pinned_).value();
  EXPECT_EQ(tensor.device(), Device());
  tensor.mutable_flat<float>()[99] = 1;
  EXPECT_EQ(tensor.flat<float>()[99], 1);
}

TEST_F(PinnedAllocatorTest, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const StreamId stream = device_->CreateStream().value();
      for (size_t i = 1; i < 200; ++i) {
        void* const block = New(i * 37);
        static_cast<char*>(block)[i * 37 - 1] = static_cast<char>(t);
        if (i % 3 == 0) {
          EXPECT_OK(pinned_->RecordStream(block, stream));
        }
        Delete(block, i * 37);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pinned_->counters().used_bytes, 0U);
}

}  // namespace
}  // namespace tensorcask
