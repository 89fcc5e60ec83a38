// The operations of a device: memory, copies, streams, events, and their errors.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/cuda_backend.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tests/gpu/gpu_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::GpuTest;
using ::tensorcask::testing::HoldsInATry;
using ::tensorcask::testing::kMiB;
using ::tensorcask::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::vector<uint8_t> Numbers(size_t count) {
  std::vector<uint8_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), uint8_t{0});
  return numbers;
}

class BackendTest : public GpuTest {
 protected:
  // A block of the device that is freed after the test.
  char* New(size_t bytes) {
    char* const block = static_cast<char*>(backend().Allocate(bytes).value());
    blocks_.emplace_back(block, bytes);
    return block;
  }
  // The same of pinned memory of the host.
  uint8_t* NewHost(size_t bytes) {
    auto* const block = static_cast<uint8_t*>(backend().AllocateHost(bytes).value());
    host_blocks_.emplace_back(block, bytes);
    return block;
  }
  void TearDown() override {
    for (const auto& [block, bytes] : blocks_) EXPECT_OK(backend().Free(block, bytes));
    for (const auto& [block, bytes] : host_blocks_) EXPECT_OK(backend().FreeHost(block, bytes));
    GpuTest::TearDown();
  }

 private:
  std::vector<std::pair<void*, size_t>> blocks_;
  std::vector<std::pair<void*, size_t>> host_blocks_;
};

CASK_ON_EACH_DEVICE(BackendTest);

// Calls that the driver refuses. compute-sanitizer reports them.
class BackendErrorsTest : public BackendTest {};
CASK_ON_EACH_DEVICE(BackendErrorsTest);

TEST_P(BackendTest, BlocksAreAlignedAndApart) {
  std::vector<char*> blocks;
  for (const size_t bytes : {size_t{1}, size_t{511}, 2 * kMiB, 20 * kMiB + 1}) {
    char* const block = New(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0U) << bytes;
    ASSERT_OK(backend().Fill(block, static_cast<uint8_t>(blocks.size() + 1), bytes, kDefaultStream));
    blocks.push_back(block);
  }
  EXPECT_THAT(Bytes(blocks[0], 1), Each(1));
  EXPECT_THAT(Bytes(blocks[1], 511), Each(2));
  EXPECT_THAT(Bytes(blocks[2] + 2 * kMiB - 1, 1), Each(3));
  EXPECT_THAT(Bytes(blocks[3] + 20 * kMiB, 1), Each(4));
}

TEST_P(BackendTest, MemoryInfoCountsBlocks) {
  EXPECT_TRUE(HoldsInATry([&] {
    const DeviceMemoryInfo before = backend().MemoryInfo().value();
    void* const block = backend().Allocate(128 * kMiB).value();
    const DeviceMemoryInfo during = backend().MemoryInfo().value();
    EXPECT_OK(backend().Free(block, 128 * kMiB));
    const DeviceMemoryInfo after = backend().MemoryInfo().value();
    EXPECT_GT(before.total_bytes, 128 * kMiB);
    EXPECT_EQ(during.total_bytes, before.total_bytes);
    return before.free_bytes <= before.total_bytes && during.free_bytes + 128 * kMiB <= before.free_bytes &&
           after.free_bytes >= during.free_bytes + 128 * kMiB;
  }));
}

TEST_P(BackendTest, CopiesOfAllKindsAndSizes) {
  for (const size_t bytes : {size_t{1}, size_t{7}, size_t{4096}, kMiB + 3, 16 * kMiB}) {
    SCOPED_TRACE(bytes);
    const std::vector<uint8_t> pageable = Numbers(bytes);
    uint8_t* const pinned = NewHost(bytes);
    std::memcpy(pinned, pageable.data(), bytes);
    for (const uint8_t* const from : {pageable.data(), static_cast<const uint8_t*>(pinned)}) {
      char* const a = New(bytes + 64);
      char* const b = New(bytes + 64);
      ASSERT_OK(backend().Copy(CopyKind::kHostToDevice, a + 1, from, bytes, kDefaultStream));
      ASSERT_OK(backend().Copy(CopyKind::kDeviceToDevice, b + 3, a + 1, bytes, kDefaultStream));
      uint8_t* const to = NewHost(bytes);
      ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, to, b + 3, bytes, kDefaultStream));
      EXPECT_TRUE(Bytes(b + 3, bytes) == pageable);
      EXPECT_EQ(std::memcmp(to, pageable.data(), bytes), 0) << "Bytes has waited for the stream";
    }
  }
}

TEST_P(BackendTest, FillsOfAnyRange) {
  char* const block = New(1000);
  ASSERT_OK(backend().Fill(block, 1, 1000, kDefaultStream));
  ASSERT_OK(backend().Fill(block + 3, 255, 501, kDefaultStream));
  const std::vector<uint8_t> bytes = Bytes(block, 1000);
  for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], i < 3 || i >= 504 ? 1 : 255) << i;
}

TEST_P(BackendTest, NoBytesAreNoWork) {
  if (cuda() == nullptr) GTEST_SKIP() << "the simulated device wants a byte";
  EXPECT_OK(backend().Copy(CopyKind::kHostToDevice, nullptr, nullptr, 0, kDefaultStream));
  EXPECT_OK(backend().Fill(nullptr, 0, 0, kDefaultStream));
}

TEST_P(BackendTest, PinnedMemoryIsOrdinaryMemoryOfTheHost) {
  uint8_t* const host = NewHost(3 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(host) % Allocator::kAlignment, 0U);
  std::memset(host, 5, 3 * kMiB);
  EXPECT_EQ(host[3 * kMiB - 1], 5);
}

// ---- Streams and events ---------------------------------------------------------------------------------------------

TEST_P(BackendTest, AnEventIsCompleteAfterTheWorkBeforeIt) {
  const StreamId stream = NewStream();
  const StreamId other = NewStream();
  char* const block = New(kMiB);
  Hold(stream);
  ASSERT_OK(backend().Fill(block, 1, kMiB, stream));
  ASSERT_OK_AND_ASSIGN(const EventId event, backend().RecordEvent(stream));
  EXPECT_FALSE(backend().QueryEvent(event).value());
  ASSERT_OK_AND_ASSIGN(const EventId elsewhere, backend().RecordEvent(other));
  EXPECT_OK(backend().SynchronizeEvent(elsewhere)) << "streams are independent";
  EXPECT_FALSE(backend().QueryEvent(event).value());
  EXPECT_FALSE(backend().IsIdle(stream).value());
  Release(stream);
  EXPECT_TRUE(backend().QueryEvent(event).value());
  EXPECT_OK(backend().SynchronizeEvent(event));
  backend().DestroyEvent(event);
  backend().DestroyEvent(elsewhere);
  EXPECT_THAT(backend().QueryEvent(event), StatusIs(Code::kInvalidArgument, HasSubstr("event")));
}

TEST_P(BackendTest, AStreamWithoutWorkIsIdle) {
  if (cuda() == nullptr) GTEST_SKIP() << "the simulated device executes nothing without being asked, not even an event";
  const StreamId stream = NewStream();
  EXPECT_TRUE(backend().IsIdle(stream).value());
  ASSERT_OK(backend().Fill(New(kMiB), 1, kMiB, stream));
  ASSERT_OK(backend().Synchronize(stream));
  EXPECT_TRUE(backend().IsIdle(stream).value());
}

TEST_P(BackendTest, AStreamWaitsForAnEventOfAnother) {
  const StreamId earlier = NewStream();
  const StreamId later = NewStream();
  char* const block = New(4 * kMiB);
  ASSERT_OK(backend().Fill(block, 1, 4 * kMiB, earlier));
  ASSERT_OK(backend().Synchronize(earlier));
  uint8_t* const host = NewHost(4 * kMiB);
  Hold(earlier);
  ASSERT_OK(backend().Fill(block, 2, 4 * kMiB, earlier));
  ASSERT_OK_AND_ASSIGN(const EventId event, backend().RecordEvent(earlier));
  ASSERT_OK(backend().WaitForEvent(later, event));
  backend().DestroyEvent(event);  // while it is pending
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, host, block, 4 * kMiB, later));
  ASSERT_OK_AND_ASSIGN(const EventId copied, backend().RecordEvent(later));
  EXPECT_FALSE(backend().QueryEvent(copied).value());
  Release(earlier);
  ASSERT_OK(backend().Synchronize(later));
  EXPECT_TRUE(backend().QueryEvent(copied).value());
  EXPECT_EQ(host[0], 2);
  EXPECT_EQ(host[4 * kMiB - 1], 2);
  backend().DestroyEvent(copied);
}

TEST_P(BackendTest, OrderHoldsInBothDirectionsOfStreamZero) {
  const StreamId stream = NewStream();
  char* const block = New(kMiB);
  uint8_t* const host = NewHost(2);
  Hold(kDefaultStream);
  ASSERT_OK(backend().Fill(block, 3, kMiB, kDefaultStream));
  ASSERT_OK(backend().Order(kDefaultStream, stream));
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, host, block + kMiB - 1, 1, stream));
  Release(kDefaultStream);
  ASSERT_OK(backend().Synchronize(stream));
  EXPECT_EQ(host[0], 3);
  Hold(stream);
  ASSERT_OK(backend().Fill(block, 4, kMiB, stream));
  ASSERT_OK(backend().Order(stream, kDefaultStream));
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, host + 1, block + kMiB - 1, 1, kDefaultStream));
  Release(stream);
  ASSERT_OK(backend().Synchronize(kDefaultStream));
  EXPECT_EQ(host[1], 4);
}

TEST_P(BackendTest, StreamZeroDoesNotWaitForOthers) {
  const StreamId stream = NewStream();
  char* const block = New(2 * kMiB);
  uint8_t* const host = NewHost(1);
  Hold(stream);
  ASSERT_OK(backend().Fill(block, 1, kMiB, stream));
  ASSERT_OK_AND_ASSIGN(const EventId event, backend().RecordEvent(stream));
  ASSERT_OK(backend().Fill(block + kMiB, 2, kMiB, kDefaultStream));
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, host, block + kMiB, 1, kDefaultStream));
  ASSERT_OK(backend().Synchronize(kDefaultStream));
  EXPECT_EQ(host[0], 2);
  EXPECT_FALSE(backend().QueryEvent(event).value());
  Release(stream);
  backend().DestroyEvent(event);
}

TEST_P(BackendTest, DestroyingAStreamWaitsForItsWork) {
  ASSERT_OK_AND_ASSIGN(const StreamId stream, backend().CreateStream());
  char* const block = New(64 * kMiB);
  uint8_t* const host = NewHost(64 * kMiB);
  ASSERT_OK(backend().Fill(block, 9, 64 * kMiB, stream));
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, host, block, 64 * kMiB, stream));
  ASSERT_OK(backend().DestroyStream(stream));
  EXPECT_EQ(host[64 * kMiB - 1], 9);
  EXPECT_THAT(backend().Synchronize(stream), StatusIs(Code::kInvalidArgument, HasSubstr("stream")));
}

TEST_P(BackendTest, FreeWaitsForTheWorkOfAllStreams) {
  const StreamId stream = NewStream();
  uint8_t* const host = NewHost(64 * kMiB);
  ASSERT_OK_AND_ASSIGN(void* const block, backend().Allocate(64 * kMiB));
  ASSERT_OK(backend().Fill(block, 9, 64 * kMiB, stream));
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, host, block, 64 * kMiB, stream));
  ASSERT_OK(backend().Free(block, 64 * kMiB));
  EXPECT_EQ(host[64 * kMiB - 1], 9);
}

TEST_P(BackendTest, ManyEventsAndStreams) {
  char* const block = New(512);
  std::vector<EventId> events;
  for (int i = 0; i < 32; ++i) {
    const StreamId stream = NewStream();
    for (int j = 0; j < 32; ++j) {
      ASSERT_OK(backend().Fill(block + i, static_cast<uint8_t>(j), 1, stream));
      ASSERT_OK_AND_ASSIGN(const EventId event, backend().RecordEvent(stream));
      events.push_back(event);
    }
  }
  for (const EventId event : events) {
    ASSERT_OK(backend().SynchronizeEvent(event));
    backend().DestroyEvent(event);
  }
  EXPECT_THAT(Bytes(block, 32), Each(31));
}

// ---- Errors ---------------------------------------------------------------------------------------------------------

TEST_P(BackendErrorsTest, TooMuchMemoryIsResourceExhausted) {
  ASSERT_OK_AND_ASSIGN(const DeviceMemoryInfo info, backend().MemoryInfo());
  EXPECT_THAT(backend().Allocate(info.total_bytes + kMiB),
              StatusIs(Code::kResourceExhausted, HasSubstr(std::to_string(info.total_bytes + kMiB))));
  char* const block = New(kMiB);
  ASSERT_OK(backend().Fill(block, 1, kMiB, kDefaultStream));
  EXPECT_THAT(Bytes(block, 100), Each(1)) << "the error does not stay";
}

TEST_P(BackendErrorsTest, WhatDoesNotExistIsInvalid) {
  char* const block = New(8);
  const StreamId stream = 987654;
  EXPECT_THAT(backend().Fill(block, 0, 8, stream), StatusIs(Code::kInvalidArgument, HasSubstr("stream 987654")));
  EXPECT_THAT(backend().Copy(CopyKind::kDeviceToDevice, block, block + 4, 4, stream),
              StatusIs(Code::kInvalidArgument, HasSubstr("stream 987654")));
  EXPECT_THAT(backend().RecordEvent(stream), StatusIs(Code::kInvalidArgument, HasSubstr("stream 987654")));
  EXPECT_THAT(backend().Synchronize(stream), StatusIs(Code::kInvalidArgument, HasSubstr("stream 987654")));
  EXPECT_THAT(backend().IsIdle(stream), StatusIs(Code::kInvalidArgument, HasSubstr("stream 987654")));
  EXPECT_THAT(backend().WaitForEvent(kDefaultStream, 12345),
              StatusIs(Code::kInvalidArgument, HasSubstr("event 12345")));
  EXPECT_THAT(backend().SynchronizeEvent(12345), StatusIs(Code::kInvalidArgument, HasSubstr("event 12345")));
  EXPECT_THAT(backend().DestroyStream(kDefaultStream), StatusIs(Code::kInvalidArgument, HasSubstr("stream 0")));
}

TEST_P(BackendErrorsTest, AnAddressThatIsNoBlockIsNotFreed) {
  int on_host = 0;
  EXPECT_THAT(backend().Free(&on_host, 4), StatusIs(Code::kInvalidArgument));
  char* const block = New(kMiB);
  EXPECT_THAT(backend().Free(block + 512, kMiB - 512), StatusIs(Code::kInvalidArgument));
  ASSERT_OK(backend().Fill(block, 1, kMiB, kDefaultStream));
  EXPECT_THAT(Bytes(block, 100), Each(1)) << "the errors do not stay";
}

TEST_P(BackendErrorsTest, DevicesOutOfRange) {
  if (!on_gpu()) GTEST_SKIP() << "cuda_backend_test has this";
  EXPECT_THAT(CudaBackend::Create({4096}), StatusIs(Code::kUnimplemented, HasSubstr("cuda:4096")));
  EXPECT_THAT(CudaBackend::Create({-1}), StatusIs(Code::kInvalidArgument, HasSubstr("device -1")));
}

// ---- Other users of the device --------------------------------------------------------------------------------------

TEST_P(BackendTest, TwoBackendsShareTheDevice) {
  const RefPtr<DeviceBackend> other = OtherBackend();
  char* const block = New(kMiB);
  ASSERT_OK_AND_ASSIGN(const StreamId stream, other->CreateStream());
  ASSERT_OK(other->Fill(block, 6, kMiB, stream));
  ASSERT_OK(other->Synchronize(stream));
  EXPECT_THAT(Bytes(block, 100), Each(6));
  // Memory of one is freed by the other: both work in the same context.
  ASSERT_OK_AND_ASSIGN(void* const passed, other->Allocate(kMiB));
  ASSERT_OK(backend().Fill(passed, 1, kMiB, kDefaultStream));
  ASSERT_OK(backend().Free(passed, kMiB));
  ASSERT_OK(other->DestroyStream(stream));
}

TEST_P(BackendTest, AdoptedStreams) {
  if (cuda() == nullptr) GTEST_SKIP() << "the simulated device adopts no streams";
  const StreamId original = NewStream();
  ASSERT_OK_AND_ASSIGN(void* const handle, cuda()->StreamHandle(original));
  EXPECT_NE(handle, nullptr);
  EXPECT_EQ(cuda()->StreamHandle(kDefaultStream).value(), nullptr);
  const StreamId adopted = cuda()->AdoptStream(handle);
  EXPECT_NE(adopted, original);
  char* const block = New(kMiB);
  uint8_t* const host = NewHost(1);
  // Work of both ids is work of one stream.
  Hold(original);
  ASSERT_OK(backend().Fill(block, 8, kMiB, adopted));
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, host, block, 1, original));
  ASSERT_OK_AND_ASSIGN(const EventId event, backend().RecordEvent(adopted));
  EXPECT_FALSE(backend().QueryEvent(event).value());
  Release(adopted);
  EXPECT_TRUE(backend().QueryEvent(event).value());
  EXPECT_EQ(host[0], 8);
  backend().DestroyEvent(event);
  ASSERT_OK(backend().DestroyStream(adopted));
  ASSERT_OK(backend().Fill(block, 9, kMiB, original)) << "the stream itself was not destroyed";
  ASSERT_OK(backend().Synchronize(original));
  // The per-thread default stream and the legacy one have numbers as handles.
  for (const uintptr_t special : {uintptr_t{1}, uintptr_t{2}}) {
    const StreamId id = cuda()->AdoptStream(reinterpret_cast<void*>(special));
    ASSERT_OK(backend().Fill(block, static_cast<uint8_t>(special), kMiB, id));
    EXPECT_THAT(Bytes(block, 10, id), Each(static_cast<uint8_t>(special)));
    ASSERT_OK(backend().DestroyStream(id));
  }
}

TEST_P(BackendTest, ThreadsWithoutAContext) {
  constexpr int kThreads = 6;
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        const auto value = static_cast<uint8_t>(10 * t + round);
        const absl::StatusOr<StreamId> stream = backend().CreateStream();
        const absl::StatusOr<void*> block = backend().Allocate(kMiB);
        const absl::StatusOr<void*> host = backend().AllocateHost(4096);
        if (!stream.ok() || !block.ok() || !host.ok()) return;
        absl::Status status = backend().Fill(*block, value, kMiB, *stream);
        status.Update(backend().Copy(CopyKind::kDeviceToHost, *host, *block, 4096, *stream));
        const absl::StatusOr<EventId> event = backend().RecordEvent(*stream);
        status.Update(event.status());
        if (event.ok()) {
          status.Update(backend().SynchronizeEvent(*event));
          backend().DestroyEvent(*event);
        }
        const bool is_right = static_cast<uint8_t*>(*host)[4095] == value;
        status.Update(backend().FreeHost(*host, 4096));
        status.Update(backend().Free(*block, kMiB));
        status.Update(backend().DestroyStream(*stream));
        EXPECT_OK(status);
        good += status.ok() && is_right ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, kThreads * 20);
}

// ---- Virtual memory -------------------------------------------------------------------------------------------------

TEST_P(BackendTest, MemoryIsMappedToReservedAddresses) {
  const size_t step = backend().MappingGranularity();
  if (step == 0) GTEST_SKIP() << "the device has no virtual memory";
  EXPECT_EQ(20 * kMiB % step, 0U) << "steps of expandable segments are multiples";
  ASSERT_OK_AND_ASSIGN(const DeviceMemoryInfo info, backend().MemoryInfo());
  const size_t reserved = info.total_bytes / 8 * 9 / (20 * kMiB) * (20 * kMiB);
  ASSERT_OK_AND_ASSIGN(void* const start, backend().ReserveAddresses(reserved));
  char* const first = static_cast<char*>(start);
  char* const second = first + step;
  ASSERT_OK(backend().Map(second, step));
  ASSERT_OK(backend().Map(first, step));
  // Fills and copies across the border of two mappings, and from one mapping to the other.
  ASSERT_OK(backend().Fill(first, 7, 2 * step, kDefaultStream));
  EXPECT_THAT(Bytes(second - 50, 100), Each(7));
  const std::vector<uint8_t> numbers = Numbers(200);
  ASSERT_OK(backend().Copy(CopyKind::kHostToDevice, second - 100, numbers.data(), 200, kDefaultStream));
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToDevice, first, second - 100, 200, kDefaultStream));
  EXPECT_EQ(Bytes(first, 200), numbers);
  // A step that is unmapped and mapped again; the other keeps its bytes.
  ASSERT_OK(backend().Unmap(first, step));
  EXPECT_EQ(Bytes(second, 100), std::vector<uint8_t>(numbers.begin() + 100, numbers.end()));
  ASSERT_OK(backend().Map(first, step));
  ASSERT_OK(backend().Fill(first, 1, step, kDefaultStream));
  EXPECT_THAT(Bytes(second - 10, 10), Each(1));
  ASSERT_OK(backend().Unmap(first, step));
  ASSERT_OK(backend().Unmap(second, step));
  ASSERT_OK(backend().FreeAddresses(start, reserved));
}

TEST_P(BackendTest, AddressesTakeNoMemoryAndMappingsDo) {
  const size_t step = backend().MappingGranularity();
  if (step == 0) GTEST_SKIP() << "the device has no virtual memory";
  const size_t bytes = 64 * kMiB / step * step;
  EXPECT_TRUE(HoldsInATry([&] {
    const uint64_t before = FreeBytes();
    void* const start = backend().ReserveAddresses(16 * bytes).value();
    const uint64_t reserved = FreeBytes();
    EXPECT_OK(backend().Map(start, bytes));
    const uint64_t mapped = FreeBytes();
    EXPECT_OK(backend().Unmap(start, bytes));
    const uint64_t unmapped = FreeBytes();
    EXPECT_OK(backend().FreeAddresses(start, 16 * bytes));
    // A driver needs some memory for its tables, too.
    return reserved + bytes / 2 > before && mapped + bytes / 2 <= reserved && unmapped >= mapped + bytes / 2;
  }));
}

TEST_P(BackendErrorsTest, AFailedMappingLeavesTheAddressesUsable) {
  const size_t step = backend().MappingGranularity();
  if (step == 0) GTEST_SKIP() << "the device has no virtual memory";
  ASSERT_OK_AND_ASSIGN(void* const start, backend().ReserveAddresses(2 * step));
  EXPECT_THAT(backend().Map(start, step / 2), StatusIs(Code::kInvalidArgument)) << "half a step";
  ASSERT_OK(backend().Map(start, step));
  EXPECT_TRUE(HoldsInATry([&] {
    const uint64_t free_bytes = FreeBytes();
    EXPECT_FALSE(backend().Map(start, step).ok()) << "mapped already";
    return FreeBytes() >= free_bytes;  // the memory of the failed mapping was released
  }));
  ASSERT_OK(backend().Fill(start, 3, step, kDefaultStream));
  EXPECT_THAT(Bytes(start, 10), Each(3));
  ASSERT_OK(backend().Unmap(start, step));
  ASSERT_OK(backend().FreeAddresses(start, 2 * step));
}

}  // namespace
}  // namespace tensorcask
