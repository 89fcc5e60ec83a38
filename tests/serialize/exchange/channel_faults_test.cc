// Peers that die, lie or change their minds: each ends in a clear status, at once, and leaves nothing behind.

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/exchange/channel_faults_testing.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Catch;
using ::tensorcask::testing::Caught;
using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::ExpectSame;
using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::Frame;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::kShort;
using ::tensorcask::testing::Mixed;
using ::tensorcask::testing::ReceiveOf;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Victim;
using ::tensorcask::testing::WithChecksum;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// ---- Cut, trickled, changed -----------------------------------------------------------------------------------------

TEST(ChannelFaults, AFrameCutAnywhereIsADeath) {
  const Caught caught = Catch(Mixed());
  const std::string frame = caught.message.bytes();
  const int before = CountOpenDescriptors();
  for (size_t size = 0; size < frame.size(); ++size) {
    Victim victim;
    victim.Play(caught.hello);
    if (size > 0) victim.Play(frame.substr(0, size), caught.message.numbers());
    victim.peer.Shutdown();
    EXPECT_THAT(victim.channel.Receive(kLong), StatusIs(Code::kUnavailable)) << size;
  }
  for (size_t size = 0; size < caught.hello.size(); ++size) {
    Victim victim;
    victim.Play(caught.hello.substr(0, size));
    victim.peer.Shutdown();
    EXPECT_THAT(victim.channel.Receive(kLong), StatusIs(Code::kUnavailable)) << size;
  }
  EXPECT_EQ(CountOpenDescriptors(), before);
}

TEST(ChannelFaults, BytesThatComeOneByOneAreTheSameMessage) {
  const Caught caught = Catch(Mixed());
  const std::string all = caught.hello + caught.message.bytes();
  for (const size_t step : {1, 2, 7, 43, 45}) {
    Victim victim;
    std::thread slow([&] {
      for (size_t at = 0; at < all.size();) {
        // A piece ends where the frame begins, with which the descriptors come.
        size_t size = step;
        if (at < caught.hello.size()) size = std::min(size, caught.hello.size() - at);
        victim.Play(absl::string_view(all).substr(at, size),
                    at == caught.hello.size() ? caught.message.numbers() : std::vector<int>());
        at += size;
      }
    });
    const absl::StatusOr<Message> message = victim.channel.Receive(kLong);
    slow.join();
    ASSERT_OK(message);
    EXPECT_EQ(message->request, Mixed().request);
    ExpectSame(*message, Mixed());
  }
}

TEST(ChannelFaults, AChangedByteIsFoundWithAChecksum) {
  const Caught caught = Catch(Mixed(), WithChecksum());
  const std::string frame = caught.message.bytes();
  size_t passed = 0;
  for (size_t at = 0; at < frame.size(); ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string changed = frame;
      changed[at] = static_cast<char>(changed[at] ^ change);
      Victim victim;
      victim.Play(caught.hello);
      victim.Play(changed, caught.message.numbers());
      victim.peer.Shutdown();
      const absl::StatusOr<Message> message = victim.channel.Receive(kLong);
      if (!message.ok()) continue;
      ++passed;  // padding and names in the inline data, which no checksum covers
      EXPECT_EQ(message->topic, "batch");
      EXPECT_EQ(SummarizeValue(message->tensors.at(1).view), SummarizeValue(Mixed().tensors[1].view)) << at;
    }
  }
  EXPECT_LT(passed, 3 * 80u);
}

TEST(ChannelFaults, AChangedBodyThatLooksWhole) {
  const Caught caught = Catch(Mixed());
  const std::string body = caught.message.body();
  for (size_t at = 0; at < body.size(); ++at) {
    for (const int change : {1, 2, 0x10, 0x80, 0xff}) {
      std::string changed = body;
      changed[at] = static_cast<char>(changed[at] ^ change);
      Victim victim;
      victim.Play(caught.hello);
      Frame frame;
      frame.header = caught.message.header;
      frame.rest = caught.message.rest;
      frame.SetBody(changed);
      victim.Play(frame.bytes(), caught.message.numbers());
      victim.peer.Shutdown();
      const absl::StatusOr<Message> message = victim.channel.Receive(kLong);
      if (!message.ok()) {
        EXPECT_THAT(message, AnyOf(StatusIs(Code::kInvalidArgument), StatusIs(Code::kUnimplemented),
                                   StatusIs(Code::kResourceExhausted)));
        continue;
      }
      for (const DecodedTensor& tensor : message->tensors) EXPECT_FALSE(SummarizeValue(tensor.view).empty());
    }
  }
}

// ---- Heads ----------------------------------------------------------------------------------------------------------

struct HeadCase {
  const char* name;
  void (*change)(Frame* frame);
  Code code;
  const char* says;
};

const HeadCase kHeaderCases[] = {
    {"BodyOf2To63", [](Frame* f) { f->header.body_bytes = uint64_t{1} << 63; }, Code::kResourceExhausted, "limit"},
    {"InlineOf2To64", [](Frame* f) { f->header.inline_bytes = UINT64_MAX; }, Code::kResourceExhausted, "limit"},
    {"OneByteTooMany", [](Frame* f) { f->header.inline_bytes = (uint64_t{2} << 30) - f->header.body_bytes + 1; },
     Code::kResourceExhausted, "max_message_bytes is 2147483648"},
    {"WithoutBody", [](Frame* f) { f->header.inline_bytes += std::exchange(f->header.body_bytes, 0); }, Code::kDataLoss,
     "checksum"},
    {"Replayed", [](Frame* f) { f->header.sequence = 0; }, Code::kDataLoss, "frame 0 came instead of 1"},
    {"Lost", [](Frame* f) { f->header.sequence = 2; }, Code::kDataLoss, "frame 2 came instead of 1"},
    {"SecondHello",
     [](Frame* f) {
       f->rest = "";
       f->header = {};
       f->header.sequence = 1;
     },
     Code::kInvalidArgument, "a second hello"},
    {"OneDescriptorMore", [](Frame* f) { ++f->header.num_descriptors; }, Code::kInvalidArgument, "2 descriptors"},
    {"OneDescriptorLess", [](Frame* f) { --f->header.num_descriptors; }, Code::kInvalidArgument, "2 descriptors"},
};

class HeadFaults : public ::testing::TestWithParam<HeadCase> {};
TEST_P(HeadFaults, AreRefused) {
  Caught caught = Catch(Mixed());
  const int before = CountOpenDescriptors();
  GetParam().change(&caught.message);
  EXPECT_THAT(ReceiveOf(caught.message, caught.message.numbers(), caught.hello),
              StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_EQ(CountOpenDescriptors(), before);
}
INSTANTIATE_TEST_SUITE_P(Rows, HeadFaults, ::testing::ValuesIn(kHeaderCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ChannelFaults, WhatIsNoChannelIsRefused) {
  Victim victim;
  victim.Play("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n");
  EXPECT_THAT(victim.channel.Receive(kLong), StatusIs(Code::kInvalidArgument, HasSubstr("not a frame")));
  EXPECT_THAT(victim.channel.Receive(kLong), StatusIs(Code::kFailedPrecondition, HasSubstr("not a frame")));
  char hello[200];  // the other side sees the end
  EXPECT_THAT(victim.peer.ReceiveExactly(absl::MakeSpan(hello), kLong), StatusIs(Code::kUnavailable));
}

TEST(ChannelFaults, AMessageBeforeTheHelloIsRefused) {
  Caught caught = Catch(Mixed());
  caught.message.header.sequence = 0;
  EXPECT_THAT(ReceiveOf(caught.message, caught.message.numbers(), ""),
              StatusIs(Code::kInvalidArgument, HasSubstr("not a hello")));
}

// SO-05: memory follows the bytes that came.
TEST(ChannelFaults, AClaimTakesNoMemory) {
  const auto allocator = MakeRef<FailingAllocator>();
  ChannelOptions options;
  options.decode.allocator = allocator;
  Caught caught = Catch({});
  caught.message.header.inline_bytes = uint64_t{1} << 30;
  Victim victim(options);
  victim.Play(caught.hello);
  victim.Play(caught.message.bytes());
  std::thread receiver([&] { EXPECT_THAT(victim.channel.Receive(kLong), StatusIs(Code::kUnavailable)); });
  absl::SleepFor(kShort);
  EXPECT_LE(allocator->live_bytes(), (1 << 20) + 4096);
  victim.Play(std::string(3 << 20, 'x'));
  absl::SleepFor(kShort);
  EXPECT_LE(allocator->live_bytes(), (8 << 20) + 4096);
  victim.peer.Shutdown();
  receiver.join();
  EXPECT_EQ(allocator->live_blocks(), 0);
}

TEST(ChannelFaults, WithoutMemoryItSaysSo) {
  const Caught caught = Catch(Mixed(), WithChecksum());
  const int before = CountOpenDescriptors();
  for (int64_t n = 1;; ++n) {
    ASSERT_LT(n, 100);
    const auto allocator = MakeRef<FailingAllocator>(n);
    ChannelOptions options;
    options.decode.allocator = allocator;
    absl::Status status;
    {
      Victim victim(options);
      victim.Play(caught.hello);
      victim.Play(caught.message.bytes(), caught.message.numbers());
      status = victim.channel.Receive(kLong).status();
    }
    EXPECT_EQ(allocator->live_blocks(), 0);
    if (status.ok()) break;
    EXPECT_THAT(status, StatusIs(Code::kResourceExhausted));
  }
  EXPECT_EQ(CountOpenDescriptors(), before);
}

}  // namespace
}  // namespace tensorcask
