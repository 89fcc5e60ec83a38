#include "tensorcask/tensor/memory/device_backend.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

RefPtr<SimulatedBackend> Simulated(uint64_t memory_bytes = 1 << 20) {
  SimulatedBackend::Options options;
  options.memory_bytes = memory_bytes;
  return SimulatedBackend::Create(options).value();
}

// What holds for each backend: bytes arrive after a synchronisation, and wrong streams and events are errors.
void CheckContract(DeviceBackend& device) {
  ASSERT_OK_AND_ASSIGN(void* const a, device.Allocate(1000));
  ASSERT_OK_AND_ASSIGN(void* const b, device.Allocate(1000));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  ASSERT_OK_AND_ASSIGN(const StreamId stream, device.CreateStream());
  EXPECT_NE(stream, kDefaultStream);

  std::string from(1000, 'x');
  std::string to(1000, '-');
  EXPECT_OK(device.Copy(CopyKind::kHostToDevice, a, from.data(), 1000, stream));
  EXPECT_OK(device.Fill(static_cast<char*>(a) + 10, 'y', 5, stream));
  EXPECT_OK(device.Copy(CopyKind::kDeviceToDevice, b, a, 1000, stream));
  ASSERT_OK_AND_ASSIGN(const EventId event, device.RecordEvent(stream));
  EXPECT_OK(device.WaitForEvent(kDefaultStream, event));
  EXPECT_OK(device.Copy(CopyKind::kDeviceToHost, to.data(), b, 1000, kDefaultStream));
  EXPECT_OK(device.Copy(CopyKind::kDeviceToHost, to.data(), b, 0, kDefaultStream));
  EXPECT_OK(device.Synchronize(kDefaultStream));  // and, through the event, the other stream
  from.replace(10, 5, "yyyyy");
  EXPECT_EQ(to, from);
  EXPECT_THAT(device.QueryEvent(event), testing::IsOk());
  EXPECT_TRUE(device.QueryEvent(event).value());
  EXPECT_OK(device.SynchronizeEvent(event));
  device.DestroyEvent(event);
  EXPECT_TRUE(device.IsIdle(stream).value());
  EXPECT_THAT(device.IsIdle(77), StatusIs(Code::kInvalidArgument));

  EXPECT_THAT(device.QueryEvent(event), StatusIs(Code::kInvalidArgument, HasSubstr("event")));
  EXPECT_THAT(device.RecordEvent(77), StatusIs(Code::kInvalidArgument, HasSubstr("stream 77 does not exist")));
  EXPECT_THAT(device.Fill(a, 0, 1, 77), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(device.DestroyStream(kDefaultStream), StatusIs(Code::kInvalidArgument));
  EXPECT_OK(device.DestroyStream(stream));
  EXPECT_THAT(device.Synchronize(stream), StatusIs(Code::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const DeviceMemoryInfo info, device.MemoryInfo());
  EXPECT_GT(info.total_bytes, 0u);
  EXPECT_LE(info.free_bytes, info.total_bytes);
  EXPECT_OK(device.Free(a, 1000));
  EXPECT_OK(device.Free(b, 1000));
}

TEST(DeviceBackend, TheSimulatedDeviceKeepsTheContract) {
  const RefPtr<SimulatedBackend> device = Simulated();
  EXPECT_EQ(device->device().ToString(), "ext_dev:0");
  CheckContract(*device);
  EXPECT_EQ(device->live_allocations(), 0);
  EXPECT_EQ(device->live_events(), 0);
}

TEST(DeviceBackend, AnAutomaticDeviceFinishesWorkAtOnce) {
  SimulatedBackend::Options options;
  options.automatic = true;
  ASSERT_OK_AND_ASSIGN(const RefPtr<SimulatedBackend> device, SimulatedBackend::Create(options));
  ASSERT_OK_AND_ASSIGN(void* const block, device->Allocate(8));
  EXPECT_OK(device->Fill(block, 7, 8, kDefaultStream));
  EXPECT_EQ(device->Peek(block), 7);
  CheckContract(*device);
}

TEST(SimulatedBackend, WorkWaitsUntilItIsCompleted) {
  const RefPtr<SimulatedBackend> device = Simulated();
  void* const block = device->Allocate(100).value();
  const StreamId a = device->CreateStream().value();
  const StreamId b = device->CreateStream().value();
  EXPECT_OK(device->Fill(block, 1, 100, a));
  const EventId event = device->RecordEvent(a).value();
  EXPECT_OK(device->Fill(block, 2, 100, a));
  EXPECT_OK(device->WaitForEvent(b, event));
  EXPECT_OK(device->Fill(block, 3, 50, b));
  EXPECT_EQ(device->pending(a), 3);
  EXPECT_EQ(device->pending(b), 2);
  EXPECT_EQ(device->Peek(block), 0);

  EXPECT_EQ(device->Complete(b), 0);  // waits for the event of a
  EXPECT_EQ(device->Complete(a, 1), 1);
  EXPECT_EQ(device->Peek(block), 1);
  EXPECT_FALSE(device->QueryEvent(event).value());
  EXPECT_EQ(device->Complete(a, 1), 1);
  EXPECT_TRUE(device->QueryEvent(event).value());
  device->DestroyEvent(event);
  EXPECT_EQ(device->Complete(b), 2);
  EXPECT_EQ(device->Peek(block), 3);
  EXPECT_EQ(device->Peek(static_cast<char*>(block) + 99), 1);
  EXPECT_EQ(device->Complete(a), 1);
  EXPECT_EQ(device->Peek(block), 2);
}

TEST(SimulatedBackend, WaitingForAnEventExecutesTheWorkBeforeItOnly) {
  const RefPtr<SimulatedBackend> device = Simulated();
  void* const block = device->Allocate(100).value();
  EXPECT_OK(device->Fill(block, 1, 100, kDefaultStream));
  const EventId event = device->RecordEvent(kDefaultStream).value();
  EXPECT_OK(device->Fill(block, 2, 100, kDefaultStream));
  EXPECT_OK(device->SynchronizeEvent(event));
  EXPECT_EQ(device->Peek(block), 1);
  EXPECT_EQ(device->pending(kDefaultStream), 1);
  EXPECT_OK(device->Free(block, 100));  // waits for all work
  EXPECT_EQ(device->pending(kDefaultStream), 0);
}

TEST(SimulatedBackend, MemoryIsLimitedAndPlacedAtTheLowestFreeAddress) {
  const RefPtr<SimulatedBackend> device = Simulated(4096);
  char* const a = static_cast<char*>(device->Allocate(1000).value());
  char* const b = static_cast<char*>(device->Allocate(512).value());
  char* const c = static_cast<char*>(device->Allocate(2584).value());
  EXPECT_EQ(a - device->base(), 0);
  EXPECT_EQ(b - a, 1024);
  EXPECT_EQ(c - b, 512);
  EXPECT_THAT(device->Allocate(1),
              StatusIs(Code::kResourceExhausted, HasSubstr("1 bytes: 4096 of 4096 are allocated")));
  EXPECT_EQ(device->MemoryInfo()->free_bytes, 0u);
  EXPECT_OK(device->Free(b, 512));
  EXPECT_EQ(device->MemoryInfo()->free_bytes, 512u);
  EXPECT_THAT(device->Free(b, 512), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(device->Free(a, 999), StatusIs(Code::kInvalidArgument));
  EXPECT_EQ(device->Allocate(512).value(), b);
}

TEST(SimulatedBackend, CopiesOutsideAnAllocationAreErrors) {
  const RefPtr<SimulatedBackend> device = Simulated();
  char* const block = static_cast<char*>(device->Allocate(100).value());
  std::vector<char> host(200);
  const auto copy = [&](CopyKind kind, void* to, const void* from, size_t bytes) {
    return device->Copy(kind, to, from, bytes, kDefaultStream);
  };
  EXPECT_THAT(copy(CopyKind::kHostToDevice, block, host.data(), 101), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(copy(CopyKind::kHostToDevice, block + 1, host.data(), 100), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(copy(CopyKind::kHostToDevice, host.data(), host.data(), 1), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(copy(CopyKind::kHostToDevice, block, block, 1),
              StatusIs(Code::kInvalidArgument, HasSubstr("a host pointer is needed")));
  EXPECT_THAT(copy(CopyKind::kDeviceToHost, block, block, 1), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(copy(CopyKind::kDeviceToDevice, block, host.data(), 1), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(device->Fill(block + 99, 0, 2, kDefaultStream), StatusIs(Code::kInvalidArgument));
  EXPECT_EQ(device->pending(kDefaultStream), 0);
}

TEST(SimulatedBackend, FailsOnRequest) {
  const RefPtr<SimulatedBackend> device = Simulated();
  device->FailNext(Call::kAllocate, /*count=*/2, /*skip=*/1, Code::kUnavailable);
  void* const block = device->Allocate(10).value();
  EXPECT_THAT(device->Allocate(10), StatusIs(Code::kUnavailable, HasSubstr("Allocate failed")));
  EXPECT_THAT(device->Allocate(10), StatusIs(Code::kUnavailable));
  EXPECT_OK(device->Allocate(10));
  EXPECT_EQ(device->calls(Call::kAllocate), 4);
  for (const Call call : {Call::kFree, Call::kRecordEvent, Call::kSynchronize, Call::kCopy}) device->FailNext(call, 1);
  EXPECT_THAT(device->Free(block, 10), StatusIs(Code::kInternal));
  EXPECT_THAT(device->RecordEvent(kDefaultStream), StatusIs(Code::kInternal));
  EXPECT_THAT(device->Synchronize(kDefaultStream), StatusIs(Code::kInternal));
  EXPECT_THAT(device->Fill(block, 0, 1, kDefaultStream), StatusIs(Code::kInternal));
  EXPECT_OK(device->Free(block, 10));
}

// Work is executed without the lock, by any thread.
TEST(SimulatedBackend, ThreadsExecuteEachPieceOfWorkOnce) {
  constexpr int kPieces = 2000;
  const RefPtr<SimulatedBackend> device = Simulated();
  auto* const block = static_cast<char*>(device->Allocate(kPieces).value());
  for (int i = 0; i < kPieces; ++i) ASSERT_OK(device->Fill(block + i, static_cast<uint8_t>(i), 1, kDefaultStream));
  std::atomic<int64_t> executed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (const int64_t now = device->Complete(kDefaultStream, 7)) executed += now;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(executed, kPieces);
  for (int i = 0; i < kPieces; ++i) ASSERT_EQ(device->Peek(block + i), static_cast<uint8_t>(i));
  EXPECT_OK(device->Free(block, kPieces));
}

TEST(SimulatedBackend, OnlyOneOfTwoThreadsFreesABlock) {
  for (int round = 0; round < 50; ++round) {
    const RefPtr<SimulatedBackend> device = Simulated();
    void* const block = device->Allocate(100000).value();
    ASSERT_OK(device->Fill(block, 1, 100000, kDefaultStream));
    std::atomic<int> freed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] { freed += device->Free(block, 100000).ok() ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(freed, 1);
  }
}

TEST(SimulatedBackend, FreeWaitsForEarlierWorkOnly) {
  const RefPtr<SimulatedBackend> device = Simulated();
  void* const freed = device->Allocate(100).value();
  void* const used = device->Allocate(100000).value();
  std::atomic<bool> ends{false};
  std::atomic<int64_t> added{0};
  std::thread producer([&] {
    while (!ends) {
      if (device->pending(kDefaultStream) > 100) continue;
      EXPECT_OK(device->Fill(used, 1, 100000, kDefaultStream));
      ++added;
    }
  });
  while (added < 100) std::this_thread::yield();
  EXPECT_OK(device->Free(freed, 100));  // would not return while the queue is never empty
  ends = true;
  producer.join();
  EXPECT_OK(device->Free(used, 100000));
}

TEST(SimulatedBackend, RefusesImpossibleSizes) {
  SimulatedBackend::Options options;
  options.memory_bytes = 0;
  EXPECT_THAT(SimulatedBackend::Create(options), StatusIs(Code::kInvalidArgument));
  options.memory_bytes = UINT64_MAX;
  EXPECT_THAT(SimulatedBackend::Create(options), StatusIs(Code::kInvalidArgument));
}

TEST(SimulatedBackendDeathTest, AHostAccessEndsTheProcess) {
  const RefPtr<SimulatedBackend> device = Simulated();
  volatile char* const block = static_cast<char*>(device->Allocate(100).value());
  EXPECT_DEATH(*block = 1, "");
}

}  // namespace
}  // namespace tensorcask
