#include "tensorcask/serialize/exchange/channel.h"

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/recycled_memory.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device_map.h"
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
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Victim;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

bool CanBeCopiedToShare() { return exchange::RecycledMemory(1 << 20).Lend(1).has_value(); }

// Same dtype, dims, strides and elements, whatever the offset.
void ExpectSame(const TensorView& found, const TensorView& wanted) {
  EXPECT_EQ(found.dtype(), wanted.dtype());
  EXPECT_EQ(found.dims(), wanted.dims());
  EXPECT_EQ(found.strides(), wanted.strides());
  EXPECT_EQ(SummarizeValue(found), SummarizeValue(wanted));
}

// ---- What comes through ---------------------------------------------------------------------------------------------

struct ThroughCase {
  const char* name;
  TensorView (*make)(const RefPtr<Allocator>& allocator);
  bool strides_are_kept_inline = true;
};

const ThroughCase kThroughCases[] = {
    {"RowMajor",
     [](const RefPtr<Allocator>& a) {
       return TensorView(Counting(TensorShape({3, 4}), a));
     }},
    {"Scalar", [](const RefPtr<Allocator>& a) { return TensorView(Counting(TensorShape(), a)); }},
    {"NoElements",
     [](const RefPtr<Allocator>& a) {
       return TensorView(Counting(TensorShape({0, 5}), a));
     }},
    {"Transposed",
     [](const RefPtr<Allocator>& a) {
       return *TensorView(Counting(TensorShape({3, 4}), a)).Transpose(0, 1);
     }},
    {"Flipped",
     [](const RefPtr<Allocator>& a) {
       return *TensorView(Counting(TensorShape({3, 4}), a)).Flip({0});
     }},
    {"EverySecondColumn",
     [](const RefPtr<Allocator>& a) {
       return *TensorView(Counting(TensorShape({3, 4}), a)).Slice(1, 1, std::nullopt, 2);
     },
     false},
    {"MiddleRow",
     [](const RefPtr<Allocator>& a) {
       return *TensorView(Counting(TensorShape({3, 4}), a)).Select(0, 1);
     }},
    {"Repeated",
     [](const RefPtr<Allocator>& a) {
       return *TensorView(Counting(TensorShape({1, 4}), a)).Expand({3, 4});
     },
     false},
    {"Windows", [](const RefPtr<Allocator>& a) { return *TensorView(Counting(TensorShape({9}), a)).Unfold(0, 4, 2); },
     false},
    {"Bools",
     [](const RefPtr<Allocator>& a) {
       Tensor tensor = *Tensor::Zeros(DType::kBool, TensorShape({70}), a);
       tensor.mutable_flat<bool>()[69] = true;
       return TensorView(tensor);
     }},
    {"BoolsWithGaps",
     [](const RefPtr<Allocator>& a) {
       Tensor tensor = *Tensor::Zeros(DType::kBool, TensorShape({70}), a);
       tensor.mutable_flat<bool>()[68] = true;
       return *TensorView(tensor).Slice(0, 0, std::nullopt, 2);
     },
     false},
    {"Large",
     [](const RefPtr<Allocator>& a) {
       return TensorView(Counting(TensorShape({1000, 1000}), a));
     }},
    {"LargeTransposed",
     [](const RefPtr<Allocator>& a) {
       return *TensorView(Counting(TensorShape({700, 300}), a)).Transpose(0, 1);
     }},
    {"LargeEverySecondColumn",
     [](const RefPtr<Allocator>& a) {
       return *TensorView(Counting(TensorShape({700, 300}), a)).Slice(1, 1, std::nullopt, 2);
     },
     false},
    {"Strings",
     [](const RefPtr<Allocator>&) {
       Tensor tensor = *Tensor::Create(DType::kString, TensorShape({2}));
       tensor.mutable_flat<std::string>()[0] = std::string("a\0b", 3);
       tensor.mutable_flat<std::string>()[1] = std::string(5000, 'x');
       return TensorView(tensor);
     }},
};

class ComesThrough : public ::testing::TestWithParam<ThroughCase> {};

TEST_P(ComesThrough, WithMetadata) {
  for (const bool shared : {false, true}) {
    for (const bool checksum : {false, true}) {
      for (const bool sealed : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "shared " << shared << " checksum " << checksum << " sealed " << sealed);
        ChannelOptions options;
        options.checksum = checksum;
        Pair pair = MakePair(options);
        const TensorView view = GetParam().make(shared ? RefPtr<Allocator>(Shared()) : CpuAllocator::Default());
        if (sealed && (!view.buffer() || !view.buffer()->file_range())) continue;
        if (sealed && !Shared()->SealAgainstWriting(*view.buffer()).ok()) GTEST_SKIP() << "no seals against writing";
        TensorMetadata metadata;
        metadata.name = "w";
        metadata.device = {DeviceType::kCuda, 1};
        metadata.attributes["unit"] = "m/s";
        std::thread sender([&] { EXPECT_OK(pair.a.SendTensor(view, metadata, kLong)); });  // more than the buffer holds
        const absl::StatusOr<DecodedTensor> received = pair.b.ReceiveTensor(kLong);
        sender.join();
        ASSERT_OK(received);
        const DecodedTensor& same = *received;
        EXPECT_EQ(same.metadata, metadata);
        EXPECT_EQ(same.view.dims(), view.dims());
        EXPECT_EQ(same.view.dtype(), view.dtype());
        EXPECT_EQ(SummarizeValue(same.view), SummarizeValue(view));
        const bool by_descriptor = view.buffer() && view.buffer()->file_range().has_value();
        if (by_descriptor || GetParam().strides_are_kept_inline) {
          EXPECT_EQ(same.view.strides(), view.strides());
        }
        // The receiver copies data that it checks, unless the data is sealed against writing. The sender copies other
        // data that is large and not in shared memory.
        const bool is_checked = checksum || view.dtype() == DType::kBool;
        const bool is_large = view.num_elements() * 4 >= int64_t{128} << 10;
        const bool is_shared = same.view.buffer() && same.view.buffer()->file_range().has_value();
        EXPECT_EQ(is_shared, by_descriptor ? !is_checked || sealed : !is_checked && is_large && CanBeCopiedToShare());
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, ComesThrough, ::testing::ValuesIn(kThroughCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Channel, ViewsOfOneBlockShareItAgain) {
  const Tensor root = Counting(TensorShape({100, 8}), Shared());
  const Tensor other = Counting(TensorShape({5}), Shared());
  Message message;
  message.topic = "batch";
  for (int64_t row = 0; row < 100; row += 10) {
    message.tensors.push_back({*TensorView(root).Narrow(0, row, 10), {}});
  }
  message.tensors.push_back({other, {}});
  message.tensors.push_back({*TensorView(root).Transpose(0, 1), {}});
  message.tensors.push_back({Counting(TensorShape({3}), CpuAllocator::Default()), {}});
  const Caught caught = Catch(message);
  EXPECT_EQ(caught.message.header.num_descriptors, 2u);

  Victim victim;
  victim.Play(caught.hello);
  victim.Play(caught.message.bytes(), caught.message.numbers());
  ASSERT_OK_AND_ASSIGN(const Message same, victim.channel.Receive(kLong));
  EXPECT_EQ(same.topic, "batch");
  ASSERT_EQ(same.tensors.size(), message.tensors.size());
  for (size_t i = 0; i < same.tensors.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectSame(same.tensors[i].view, message.tensors[i].view);
    EXPECT_EQ(same.tensors[i].view.SharesBufferWith(same.tensors[0].view), i < 10 || i == 11);
  }
}

TEST(Channel, ElementsInTheFrameAreUsedWhereTheyArrived) {
  Pair pair = MakePair();
  Message message;
  for (int64_t n = 1; n < 20; ++n) message.tensors.push_back({Counting(TensorShape({n}), CpuAllocator::Default()), {}});
  ASSERT_OK(pair.a.Send(message, kLong));
  ASSERT_OK_AND_ASSIGN(const Message same, pair.b.Receive(kLong));
  for (const DecodedTensor& tensor : same.tensors) {
    EXPECT_EQ(tensor.view.buffer()->kind(), TensorBuffer::Kind::kExternal);
    EXPECT_TRUE(tensor.view.buffer()->IsAlignedTo(exchange::kInlineAlignment));
  }
}

TEST(Channel, FramesThatCameTogetherKeepTheirDescriptors) {
  Pair pair = MakePair();
  for (int64_t n = 1; n <= 40; ++n) {
    const auto& allocator = n % 3 == 0 ? RefPtr<Allocator>(Shared()) : CpuAllocator::Default();
    ASSERT_OK(pair.a.SendTensor(Counting(TensorShape({n, 10}), allocator), {}, kLong));
  }
  for (int64_t n = 1; n <= 40; ++n) {
    SCOPED_TRACE(n);
    ASSERT_OK_AND_ASSIGN(const DecodedTensor same, pair.b.ReceiveTensor(kLong));
    ExpectSame(same.view, Counting(TensorShape({n, 10}), CpuAllocator::Default()));
    EXPECT_EQ(same.view.buffer()->file_range().has_value(), n % 3 == 0);
  }
}

TEST(Channel, WhatWasSentNeverChanges) {
  Pair pair = MakePair();
  Tensor tensor = Counting(TensorShape({1000}), Shared());
  ASSERT_OK(pair.a.SendTensor(tensor, {}, kLong));
  ASSERT_OK_AND_ASSIGN(DecodedTensor same, pair.b.ReceiveTensor(kLong));
  tensor.mutable_flat<float>()[0] = -1;  // copies
  EXPECT_EQ(same.view.data<float>()[0], 1);
  same.view.mutable_data<float>()[1] = -2;  // copies, too
  EXPECT_EQ(tensor.flat<float>()[1], 2);
}

TEST(Channel, WhatWasReceivedIsHandedOnByItsDescriptor) {
  Pair first = MakePair();
  Pair second = MakePair();
  const TensorView view = *TensorView(Counting(TensorShape({3, 4}), Shared())).Select(0, 2);
  ASSERT_OK(first.a.SendTensor(view, {}, kLong));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor once, first.b.ReceiveTensor(kLong));
  ASSERT_OK(second.a.SendTensor(once.view, once.metadata, kLong));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor twice, second.b.ReceiveTensor(kLong));
  ExpectSame(twice.view, view);
  EXPECT_TRUE(twice.view.buffer()->file_range().has_value());
}

TEST(Channel, NoElementIsTouchedOnTheWay) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  absl::StatusOr<Tensor> tensor = Tensor::Create(DType::kUint8, TensorShape({kBytes}), Shared());
  if (!tensor.ok()) GTEST_SKIP() << "no GiB of memory: " << tensor.status();
  Pair pair = MakePair();
  const auto faults = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  ASSERT_OK(pair.a.SendTensor(Counting(TensorShape({1}), Shared()), {}, kLong));  // warm
  ASSERT_OK(pair.b.ReceiveTensor(kLong));
  const auto before = faults();
  ASSERT_OK(pair.a.SendTensor(*tensor, {}, kLong));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor same, pair.b.ReceiveTensor(kLong));
  EXPECT_LT(faults() - before, 100);  // it has 262144 pages
  EXPECT_EQ(same.view.num_elements(), kBytes);
  EXPECT_EQ(same.view.data<uint8_t>()[kBytes - 1], 0);
}

TEST(Channel, TheDeviceMapIsApplied) {
  for (const auto& allocator : {RefPtr<Allocator>(Shared()), CpuAllocator::Default()}) {
    ChannelOptions options;
    options.decode.device_map = DeviceMap::Only();
    Pair pair = MakePair(options);
    TensorMetadata metadata;
    metadata.device = {DeviceType::kCuda, 1};
    ASSERT_OK(pair.a.SendTensor(Counting(TensorShape({2}), allocator), metadata, kLong));
    EXPECT_THAT(pair.b.ReceiveTensor(kLong), StatusIs(Code::kInvalidArgument, HasSubstr("cuda:1")));
  }
}

// ---- Requests -------------------------------------------------------------------------------------------------------

TEST(Channel, ACallGetsItsReply) {
  Pair pair = MakePair();
  std::thread server([&] {
    for (int i = 0; i < 3; ++i) {
      absl::StatusOr<Message> request = pair.b.Receive(kLong);
      ASSERT_OK(request);
      EXPECT_FALSE(request->is_reply);
      Message reply;
      reply.topic = "re: " + request->topic;
      if (i == 1) reply.status = absl::NotFoundError("no such model");
      reply.tensors = request->tensors;
      ASSERT_OK(pair.b.Reply(*request, reply, kLong));
    }
  });
  for (int i = 0; i < 3; ++i) {
    Message question;
    question.topic = "predict";
    question.tensors.push_back({Counting(TensorShape({4}), Shared()), {}});
    ASSERT_OK_AND_ASSIGN(const Message reply, pair.a.Call(question, kLong));
    EXPECT_EQ(reply.topic, "re: predict");
    EXPECT_EQ(reply.status, i == 1 ? absl::NotFoundError("no such model") : absl::OkStatus());
    ExpectSame(reply.tensors.at(0).view, question.tensors[0].view);
  }
  server.join();
}

TEST(Channel, AReplyThatComesTooLateIsDropped) {
  Pair pair = MakePair();
  EXPECT_THAT(pair.a.Call({}, kShort), StatusIs(Code::kDeadlineExceeded));
  ASSERT_OK_AND_ASSIGN(const Message first, pair.b.Receive(kLong));
  std::thread server([&] {
    Message late;
    late.topic = "late";
    ASSERT_OK(pair.b.Reply(first, late, kLong));
    absl::StatusOr<Message> second = pair.b.Receive(kLong);
    ASSERT_OK(second);
    Message reply;
    reply.topic = "in time";
    ASSERT_OK(pair.b.Reply(*second, reply, kLong));
  });
  ASSERT_OK_AND_ASSIGN(const Message reply, pair.a.Call({}, kLong));
  EXPECT_EQ(reply.topic, "in time");
  server.join();
}

TEST(Channel, AMessageThatIsNoReplyEndsACall) {
  Pair pair = MakePair();
  ASSERT_OK(pair.b.Send({}, kLong));
  EXPECT_THAT(pair.a.Call({}, kLong), StatusIs(Code::kFailedPrecondition, HasSubstr("a message with request 0")));
  EXPECT_THAT(pair.a.Receive(kLong), StatusIs(Code::kFailedPrecondition, HasSubstr("the channel is closed")));
}

TEST(Channel, ReceiveTensorWantsOneTensor) {
  Pair pair = MakePair();
  ASSERT_OK(pair.a.Send({}, kLong));
  ASSERT_OK(pair.a.SendTensor(Counting(TensorShape({2}), Shared()), {}, kLong));
  EXPECT_THAT(pair.b.ReceiveTensor(kLong), StatusIs(Code::kInvalidArgument, HasSubstr("0 tensors")));
  EXPECT_OK(pair.b.ReceiveTensor(kLong));
}

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
