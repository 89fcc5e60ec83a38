// A program in which each allocation of Channel's calls fails in turn, alone or with all that follow: a caught
// std::bad_alloc leaves a channel that works or is closed, never one that is out of step, and nothing leaks.

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/support/failing_new.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Counting;
using ::tensorcask::testing::CountMappedMemoryFiles;
using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::CountOpenDescriptorsOnceSettled;
using ::tensorcask::testing::Ends;
using ::tensorcask::testing::ExpectSame;
using ::tensorcask::testing::FailingNew;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::MakeEnds;
using ::tensorcask::testing::MakePair;
using ::tensorcask::testing::Mixed;
using ::tensorcask::testing::Pair;
using ::tensorcask::testing::StatusIs;
using ::testing::AnyOf;
using Code = absl::StatusCode;

// More than any call here makes.
constexpr int kMostAllocations = 2000;

// Whether the last call of Fail made more than `count` allocations.
bool has_failed = false;

// What `call` returned while the allocation after `count` others failed, and `all` later ones; nullopt if it threw.
std::optional<absl::Status> Fail(int count, bool all, absl::FunctionRef<absl::Status()> call) {
  std::optional<absl::Status> status;
  const FailingNew failing(count, all ? FailingNew::kFromThenOn : FailingNew::kOnce, FailingNew::kThisThread);
  try {
    status = call();
  } catch (const std::bad_alloc&) {  // `status` says so
  }
  has_failed = failing.has_failed();
  return status;
}

// Calls `run(count, all)` for each allocation, until a run makes fewer.
void ForEachAllocation(absl::FunctionRef<void(int, bool)> run) {
  for (const bool all : {false, true}) {
    const int descriptors = CountOpenDescriptors();
    const int mappings = CountMappedMemoryFiles();
    int count = 0;
    for (; count < kMostAllocations; ++count) {
      SCOPED_TRACE(::testing::Message() << "allocation " << count << (all ? " and all later ones" : "") << " failed");
      run(count, all);
      EXPECT_EQ(CountOpenDescriptorsOnceSettled(descriptors), descriptors);
      EXPECT_EQ(CountMappedMemoryFiles(), mappings);
      if (!has_failed || ::testing::Test::HasFailure()) break;
    }
    EXPECT_GT(count, 1);
    EXPECT_LT(count, kMostAllocations);
  }
}

// Inline, shared and copied tensors, metadata and strings.
const Message& Everything() {
  static const auto* const message = [] {
    auto* made = new Message(Mixed());
    made->tensors.push_back({Counting(TensorShape({1 << 16}), CpuAllocator::Default()), {}});  // 256 KiB: copied
    Tensor strings = *Tensor::Create(DType::kString, TensorShape({2}));
    strings.mutable_data<std::string>()[0] = std::string(100, 's');
    made->tensors.push_back({strings, {}});
    for (int i = 0; i < 6; ++i) made->tensors.push_back(made->tensors[1]);  // more pieces than are kept without memory
    return made;
  }();
  return *message;
}

Message Marker() {
  Message message;
  message.topic = "marker";
  message.tensors.push_back({Counting(TensorShape({3}), CpuAllocator::Default()), {}});
  return message;
}

TEST(AllocationFailures, OfSendLoseNoStep) {
  const Message& message = Everything();
  const Message marker = Marker();
  ForEachAllocation([&](int count, bool all) {
    Pair pair = MakePair();
    std::vector<const Message*> sent;
    const std::optional<absl::Status> first = Fail(count, all, [&] { return pair.a.Send(message, kLong); });
    const bool has_failed_in_first = has_failed;
    if (first && first->ok()) sent.push_back(&message);
    const absl::Status second = pair.a.Send(marker, kLong);
    EXPECT_THAT(second, AnyOf(testing::IsOk(), StatusIs(Code::kFailedPrecondition)));
    if (second.ok()) sent.push_back(&marker);
    { const Channel gone = std::move(pair.a); }
    for (const Message* wanted : sent) {
      const absl::StatusOr<Message> received = pair.b.Receive(kLong);
      ASSERT_OK(received);
      ExpectSame(*received, *wanted);
    }
    EXPECT_THAT(pair.b.Receive(kLong), AnyOf(StatusIs(Code::kOutOfRange), StatusIs(Code::kUnavailable)));
    has_failed = has_failed_in_first;
  });
}

TEST(AllocationFailures, OfReceiveCloseTheChannel) {
  const Message& message = Everything();
  const Message marker = Marker();
  ForEachAllocation([&](int count, bool all) {
    Pair pair = MakePair();
    ASSERT_OK(pair.a.Send(message, kLong));
    ASSERT_OK(pair.a.Send(marker, kLong));
    Message received;
    const std::optional<absl::Status> first = Fail(count, all, [&]() -> absl::Status {
      absl::StatusOr<Message> next = pair.b.Receive(kLong);
      if (!next.ok()) return next.status();
      received = *std::move(next);
      return absl::OkStatus();
    });
    const absl::StatusOr<Message> second = pair.b.Receive(kLong);
    if (first && first->ok()) {
      ExpectSame(received, message);
      ASSERT_OK(second);
      ExpectSame(*second, marker);
      return;
    }
    if (first) {
      EXPECT_THAT(*first, StatusIs(Code::kResourceExhausted));
    }
    EXPECT_THAT(second, StatusIs(Code::kFailedPrecondition));
  });
}

TEST(AllocationFailures, OfAConversation) {
  const Message message = Marker();
  ForEachAllocation([&](int count, bool all) {
    Pair pair = MakePair();
    const std::optional<absl::Status> status = Fail(count, all, [&]() -> absl::Status {
      Message request = message;
      request.request = 1;
      absl::Status result = pair.a.Send(request, kLong);
      if (!result.ok()) return result;
      const absl::StatusOr<Message> received = pair.b.Receive(kLong);
      if (!received.ok()) return received.status();
      result = pair.b.Reply(*received, message, kLong);
      if (!result.ok()) return result;
      result = pair.a.Receive(kLong).status();
      if (!result.ok()) return result;
      return pair.a.Close(kLong);
    });
    if (!has_failed) {
      EXPECT_TRUE(status && status->ok());
    }
  });
}

TEST(AllocationFailures, OfMakingAndDestroyingAChannel) {
  ForEachAllocation([&](int count, bool all) {
    Ends ends = MakeEnds();
    Fail(count, all, [&] {
      Channel ours = Channel::FromSocket(std::move(ends.ours));
      return absl::OkStatus();
    });
  });
  // Closing after an error, and with what the peer will never receive.
  ForEachAllocation([&](int count, bool all) {
    std::optional<Pair> pair = MakePair();
    ASSERT_OK(pair->a.Send(Marker(), kLong));
    const bool is_late = count % 2 != 0;
    if (is_late) pair->b.Shutdown();
    Fail(count / 2, all, [&] {
      pair.reset();
      return absl::OkStatus();
    });
  });
}

TEST(AllocationFailures, OfMapSharedMemory) {
  const Tensor shared = Counting(TensorShape({1000}), testing::Shared());
  const int file = shared.buffer()->file_range()->descriptor;
  ForEachAllocation([&](int count, bool all) {
    ScopedDescriptor copy(dup(file));
    Fail(count, all, [&] { return MapSharedMemory(std::move(copy), 0, 4000).status(); });
  });
}

}  // namespace
}  // namespace tensorcask
