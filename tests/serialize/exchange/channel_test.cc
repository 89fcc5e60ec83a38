#include "tensorcask/serialize/exchange/channel.h"

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
#include "tensorcask/tests/support/emulator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Catch;
using ::tensorcask::testing::Caught;
using ::tensorcask::testing::Counting;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::kShort;
using ::tensorcask::testing::MakePair;
using ::tensorcask::testing::Pair;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Victim;
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
  if (testing::IsEmulated()) GTEST_SKIP() << "an emulator touches pages that the program does not";
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
    options.decode.device_map = DeviceMap::RefuseOthers();
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

}  // namespace
}  // namespace tensorcask
