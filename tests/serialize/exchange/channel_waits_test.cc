// Messages that cannot be sent, deadlines, and the end of a channel.

#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Catch;
using ::tensorcask::testing::Caught;
using ::tensorcask::testing::Counting;
using ::tensorcask::testing::Ends;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::kShort;
using ::tensorcask::testing::MakeEnds;
using ::tensorcask::testing::MakePair;
using ::tensorcask::testing::Pair;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Victim;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// ---- What cannot be sent, which harms nothing -----------------------------------------------------------------------

TEST(Channel, MoreThanTheOtherSideTakesIsNotSent) {
  ChannelOptions small;
  small.decode.limits.max_message_bytes = 1000;
  Ends ends = MakeEnds();
  Channel a = Channel::FromSocket(std::move(ends.ours));
  Channel b = Channel::FromSocket(std::move(ends.theirs), small);
  ASSERT_OK(b.Send({}, kLong));
  ASSERT_OK(a.Receive(kLong));  // from here on a knows
  for (const auto& allocator : {RefPtr<Allocator>(Shared()), CpuAllocator::Default()}) {
    EXPECT_THAT(a.SendTensor(Counting(TensorShape({500}), allocator), {}, kLong),
                StatusIs(Code::kResourceExhausted, HasSubstr("accepts 1000")));
  }
  ASSERT_OK(a.SendTensor(Counting(TensorShape({5}), Shared()), {}, kLong));
  EXPECT_OK(b.ReceiveTensor(kLong));
}

TEST(Channel, MoreThanThisSideTakesIsRefused) {
  ChannelOptions small;
  small.decode.limits.max_message_bytes = 1000;
  for (const auto& allocator : {RefPtr<Allocator>(Shared()), CpuAllocator::Default()}) {
    Ends ends = MakeEnds();
    Channel a = Channel::FromSocket(std::move(ends.ours));
    Channel b = Channel::FromSocket(std::move(ends.theirs), small);
    ASSERT_OK(a.SendTensor(Counting(TensorShape({500}), allocator), {}, kLong));
    EXPECT_THAT(b.Receive(kLong), StatusIs(Code::kResourceExhausted, HasSubstr("max_message_bytes")));
    EXPECT_THAT(b.Receive(kLong), StatusIs(Code::kFailedPrecondition, HasSubstr("the channel is closed")));
  }
}

// A few bytes that many indices name: nothing of what they may be copied to is there.
TEST(Channel, RepeatedElementsAreBounded) {
  const TensorView view = *TensorView(Counting(TensorShape({1}), Shared())).Expand({int64_t{1} << 40});
  Pair pair = MakePair();
  ASSERT_OK(pair.a.SendTensor(view, {}, kLong));
  EXPECT_THAT(pair.b.Receive(kLong), StatusIs(Code::kResourceExhausted, HasSubstr("limit")));
}

TEST(Channel, WhatIsNoMessageIsNotSent) {
  Pair pair = MakePair();
  TensorMetadata metadata;
  metadata.requires_grad = true;
  for (const auto& allocator : {RefPtr<Allocator>(Shared()), CpuAllocator::Default()}) {
    const Tensor numbers = *Tensor::Zeros(DType::kInt32, TensorShape({2}), allocator);
    EXPECT_THAT(pair.a.SendTensor(numbers, metadata, kLong),
                StatusIs(Code::kInvalidArgument, HasSubstr("requires_grad")));
  }
  Message blocks;
  for (int i = 0; i < 254; ++i) blocks.tensors.push_back({Counting(TensorShape({1}), Shared()), {}});
  EXPECT_THAT(pair.a.Send(blocks, kLong),
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("tensor 253"), HasSubstr("253 blocks"))));
  blocks.tensors.pop_back();
  ASSERT_OK(pair.a.Send(blocks, kLong));  // as many as there can be
  ASSERT_OK_AND_ASSIGN(const Message same, pair.b.Receive(kLong));
  EXPECT_EQ(same.tensors.size(), 253u);
}

// ---- Ends and waits -------------------------------------------------------------------------------------------------

TEST(Channel, TheEndIsNotADeath) {
  Pair pair = MakePair();
  ASSERT_OK(pair.a.SendTensor(Counting(TensorShape({2}), Shared()), {}, kLong));
  std::thread closing([&] { EXPECT_OK(pair.a.Close(kLong)); });
  EXPECT_OK(pair.b.ReceiveTensor(kLong));
  closing.join();
  EXPECT_THAT(pair.b.Receive(kLong), StatusIs(Code::kOutOfRange, HasSubstr("the other side has ended")));
  EXPECT_THAT(pair.b.Receive(kLong), StatusIs(Code::kOutOfRange));
  EXPECT_THAT(pair.b.Send({}, kLong), StatusIs(Code::kUnavailable));
  EXPECT_THAT(pair.b.Send({}, kLong), StatusIs(Code::kFailedPrecondition));
  EXPECT_THAT(pair.a.Send({}, kLong), StatusIs(Code::kFailedPrecondition, HasSubstr("Close was called")));
  EXPECT_THAT(pair.a.Receive(kLong), StatusIs(Code::kUnavailable, HasSubstr("this side")));
}

TEST(Channel, TheSecondSideToCloseSucceedsIfNothingWasLost) {
  for (const bool received : {true, false}) {
    Pair pair = MakePair();
    ASSERT_OK(pair.b.SendTensor(Counting(TensorShape({2}), Shared()), {}, kLong));
    if (received) {
      ASSERT_OK(pair.a.ReceiveTensor(kLong));
    }
    {
      Channel first = std::move(pair.a);
      EXPECT_OK(first.Close(kLong));
    }
    EXPECT_THAT(pair.b.Receive(kLong), StatusIs(Code::kOutOfRange, HasSubstr("the other side has ended")));
    const absl::Status closed = pair.b.Close(kLong);
    EXPECT_EQ(closed.code(), received ? Code::kOk : Code::kUnavailable) << closed;
  }
}

// A consumer that takes one tensor and is gone, by Close or by its destructor, has received it, whatever the other side
// did meanwhile: both sides know that.
TEST(Channel, AConsumerThatTakesATensorAndLeavesHasReceivedIt) {
  constexpr int kRuns = 100;
  for (const bool closes : {true, false}) {
    for (const int64_t size : {2, 100'000}) {
      for (int run = 0; run < kRuns; ++run) {
        Pair pair = MakePair();
        absl::Status consumed;
        std::thread consumer([&] {
          Channel channel = std::move(pair.b);
          consumed = channel.ReceiveTensor(kLong).status();
          if (consumed.ok() && closes) consumed = channel.Close(kLong);
        });
        const absl::Status sent = pair.a.SendTensor(Counting(TensorShape({size}), CpuAllocator::Default()), {}, kLong);
        const absl::Status closed = pair.a.Close(kLong);
        consumer.join();
        ASSERT_OK(sent);
        ASSERT_OK(closed) << (closes ? "Close" : "destructor") << ", run " << run;
        ASSERT_OK(consumed) << "run " << run;
      }
    }
  }
}

// What the peer sent before its goodbye is not lost when Close looks for the goodbye.
TEST(Channel, CloseKeepsMessagesThatCameBeforeTheGoodbye) {
  Message message;
  message.topic = "last words";
  const Caught caught = Catch(message);
  testing::Frame goodbye;
  goodbye.header.type = exchange::FrameType::kGoodbye;
  goodbye.header.sequence = 2;
  Victim victim;
  victim.Play(caught.hello + caught.message.bytes() + goodbye.bytes());
  std::string hello(caught.hello.size(), '\0');
  ASSERT_OK(victim.peer.ReceiveExactly(absl::MakeSpan(hello), kLong));
  victim.peer.Shutdown();
  ASSERT_OK(victim.channel.Close(kLong));
  ASSERT_OK_AND_ASSIGN(const Message received, victim.channel.Receive(kLong));
  EXPECT_EQ(received.topic, "last words");
  EXPECT_THAT(victim.channel.Receive(kLong), StatusIs(Code::kOutOfRange));
}

// A peer that received everything and was killed says no goodbye.
TEST(Channel, CloseTellsADeathFromAGoodbye) {
  const Caught caught = Catch({});
  testing::Frame goodbye;
  goodbye.header.type = exchange::FrameType::kGoodbye;
  goodbye.header.sequence = 1;
  for (const bool says_goodbye : {true, false}) {
    Victim victim;
    victim.Play(caught.hello + (says_goodbye ? goodbye.bytes() : std::string()));
    ASSERT_OK(victim.channel.Send({}, kLong));
    std::string all(caught.hello.size() + caught.message.bytes().size(), '\0');
    ASSERT_OK(victim.peer.ReceiveExactly(absl::MakeSpan(all), kLong));
    victim.peer.Shutdown();
    EXPECT_EQ(victim.channel.Close(kLong).code(), says_goodbye ? Code::kOk : Code::kUnavailable);
  }
}

TEST(Channel, ItsDestructorEndsIt) {
  Ends ends = MakeEnds();
  { const Channel gone = Channel::FromSocket(std::move(ends.ours)); }
  Channel channel = Channel::FromSocket(std::move(ends.theirs));  // its hello has nowhere to go
  EXPECT_THAT(channel.Receive(kLong), StatusIs(Code::kOutOfRange));
}

TEST(Channel, ADeathIsNotTheEnd) {
  Caught caught = Catch({});
  for (const std::string& sent : {std::string(), caught.hello, caught.hello + caught.message.bytes()}) {
    Victim victim;
    victim.Play(sent);
    victim.peer.Shutdown();
    absl::StatusOr<Message> message = victim.channel.Receive(kLong);
    if (message.ok()) message = victim.channel.Receive(kLong);
    EXPECT_THAT(message, StatusIs(Code::kUnavailable, HasSubstr("died"))) << sent.size();
  }
}

TEST(Channel, AReceiveThatWaitedInVainCanBeDoneAgain) {
  Pair pair = MakePair();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(pair.b.Receive(kShort), StatusIs(Code::kDeadlineExceeded));
  ASSERT_OK(pair.a.Send({}, kLong));
  EXPECT_OK(pair.b.Receive(kLong));
}

// SO-01.
TEST(Channel, AHeadThatNeverEndsRunsIntoTheDeadline) {
  const Caught caught = Catch({});
  Victim victim;
  victim.Play(caught.hello + caught.message.bytes().substr(0, 1));
  EXPECT_THAT(victim.channel.Receive(kShort), StatusIs(Code::kDeadlineExceeded, HasSubstr("1 of 44")));
  EXPECT_THAT(victim.channel.Receive(kShort), StatusIs(Code::kFailedPrecondition));
}

TEST(Channel, ASendThatNobodyTakesRunsIntoTheDeadline) {
  ChannelOptions options;
  options.recycled_bytes = 0;
  Pair pair = MakePair(options);
  EXPECT_THAT(pair.a.SendTensor(Counting(TensorShape({1 << 20}), CpuAllocator::Default()), {}, kShort),
              StatusIs(Code::kDeadlineExceeded, HasSubstr("sent ")));
  EXPECT_THAT(pair.a.Send({}, kLong), StatusIs(Code::kFailedPrecondition, HasSubstr("deadline")));
  EXPECT_THAT(pair.b.Receive(kLong), StatusIs(Code::kUnavailable));
}

TEST(Channel, ShutdownWakesWhoWaits) {
  Pair pair = MakePair();
  std::thread waker([&] {
    absl::SleepFor(kShort);
    pair.a.Shutdown();
  });
  EXPECT_THAT(pair.a.Receive(kLong), StatusIs(Code::kUnavailable, HasSubstr("this side")));
  waker.join();
}

TEST(Channel, OneSendsWhileAnotherReceives) {
  Pair pair = MakePair();
  constexpr int kMessages = 200;
  const Tensor large = Counting(TensorShape({20000}), CpuAllocator::Default());
  const Tensor shared = Counting(TensorShape({20000}), Shared());
  const auto send = [&](Channel* channel) {
    for (int i = 0; i < kMessages; ++i) {
      Message message;
      message.request = static_cast<uint64_t>(i);
      message.tensors = {{i % 2 == 0 ? large : shared, {}}};
      ASSERT_OK(channel->Send(message, kLong));
    }
  };
  const auto receive = [&](Channel* channel) {
    for (int i = 0; i < kMessages; ++i) {
      absl::StatusOr<Message> message = channel->Receive(kLong);
      ASSERT_OK(message);
      ASSERT_EQ(message->request, static_cast<uint64_t>(i));
      ASSERT_EQ(message->tensors.at(0).view.data<float>()[19999], 20000);
    }
  };
  std::thread threads[] = {std::thread(send, &pair.a), std::thread(receive, &pair.a), std::thread(send, &pair.b),
                           std::thread(receive, &pair.b)};
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tensorcask
