// Large tensors that are not in shared memory are copied there, and the memory of the copies is reused.

#include <sys/stat.h>

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/recycled_memory.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Counting;
using ::tensorcask::testing::ExpectSame;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::MakePair;
using ::tensorcask::testing::Pair;
using ::tensorcask::testing::Shared;

class ChannelCopies : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!exchange::RecycledMemory(1 << 20).Lend(1)) GTEST_SKIP() << "no /proc, memory files or leases";
  }
};

// More than is sent through the socket.
Tensor Large() { return Counting(TensorShape({100'000}), CpuAllocator::Default()); }

uint64_t FileOf(const TensorView& view) {
  if (!view.buffer()->file_range()) return 0;
  struct stat about;
  EXPECT_EQ(fstat(view.buffer()->file_range()->descriptor, &about), 0);
  return about.st_ino;
}

TEST_F(ChannelCopies, TheirMemoryIsUsedAgainOnceTheReceiverLetsGo) {
  Pair pair = MakePair();
  Tensor tensor = Large();
  uint64_t first_file = 0;
  for (float value = 10; value < 15; ++value) {
    tensor.mutable_flat<float>()[99'999] = value;
    ASSERT_OK(pair.a.SendTensor(tensor, {}, kLong));
    tensor.mutable_flat<float>()[99'999] = -1;  // in place, and nothing that was sent
    ASSERT_OK_AND_ASSIGN(const DecodedTensor same, pair.b.ReceiveTensor(kLong));
    EXPECT_EQ(same.view.data<float>()[99'999], value);
    if (first_file == 0) first_file = FileOf(same.view);
    EXPECT_EQ(FileOf(same.view), first_file);
  }
}

TEST_F(ChannelCopies, TheirMemoryIsNotUsedAgainWhileSomebodyHasIt) {
  Pair pair = MakePair();
  Pair onward = MakePair();
  Tensor tensor = Large();
  std::vector<TensorView> held;
  for (int i = 0; i < 5; ++i) {
    tensor.mutable_flat<float>()[0] = static_cast<float>(i);
    ASSERT_OK(pair.a.SendTensor(tensor, {}, kLong));
    ASSERT_OK_AND_ASSIGN(const DecodedTensor same, pair.b.ReceiveTensor(kLong));
    ASSERT_OK(onward.a.SendTensor(same.view, {}, kLong));
    if (i % 2 == 0) held.push_back(same.view);
  }
  for (int i = 0; i < 5; ++i) {
    if (i % 2 == 0) {
      EXPECT_EQ(held[static_cast<size_t>(i / 2)].data<float>()[0], static_cast<float>(i));
    }
    ASSERT_OK_AND_ASSIGN(const DecodedTensor handed_on, onward.b.ReceiveTensor(kLong));
    EXPECT_EQ(handed_on.view.data<float>()[0], static_cast<float>(i));
  }
}

TEST_F(ChannelCopies, ThoseOfOneMessageShareABlock) {
  Message message;
  message.tensors.push_back({Large(), {}});
  message.tensors.push_back({Counting(TensorShape({5}), Shared()), {}});
  message.tensors.push_back({Counting(TensorShape({7}), CpuAllocator::Default()), {}});
  message.tensors.push_back(
      {*TensorView(Counting(TensorShape({301, 501}), CpuAllocator::Default())).Transpose(0, 1), {}});
  message.tensors.push_back({Large(), {}});
  Pair pair = MakePair();
  ASSERT_OK(pair.a.Send(message, kLong));
  ASSERT_OK_AND_ASSIGN(const Message same, pair.b.Receive(kLong));
  ASSERT_EQ(same.tensors.size(), 5u);
  ExpectSame(same, message);
  for (size_t i = 0; i < 5; ++i) {
    SCOPED_TRACE(i);
    const TensorView& view = same.tensors[i].view;
    EXPECT_EQ(view.SharesBufferWith(same.tensors[0].view), i != 1 && i != 2);
    if (i != 1) {
      EXPECT_TRUE(view.buffer()->IsAlignedTo(exchange::kInlineAlignment));
    }
  }
}

TEST_F(ChannelCopies, WhereThereIsNoRoomTheSocketIsTaken) {
  ChannelOptions options;
  options.recycled_bytes = 1'000'000;  // two and a half times as much as one takes
  Pair pair = MakePair(options);
  const auto pass_on = [&](const Message& message) {
    std::thread sender([&] { EXPECT_OK(pair.a.Send(message, kLong)); });
    absl::StatusOr<Message> same = pair.b.Receive(kLong);
    sender.join();
    EXPECT_OK(same);
    return *std::move(same);
  };
  Message message;
  message.tensors = {{Large(), {}}};
  const Message first = pass_on(message);
  const Message second = pass_on(message);
  const Message third = pass_on(message);
  EXPECT_NE(FileOf(first.tensors[0].view), 0u);
  EXPECT_NE(FileOf(second.tensors[0].view), FileOf(first.tensors[0].view));
  EXPECT_EQ(FileOf(third.tensors[0].view), 0u);
  ExpectSame(third, message);

  pair = MakePair(options);
  message.tensors.resize(3, {Large(), {}});
  const Message three = pass_on(message);
  EXPECT_EQ(FileOf(three.tensors[1].view), FileOf(three.tensors[0].view));
  EXPECT_EQ(FileOf(three.tensors[2].view), 0u) << "what does not fit";
  ExpectSame(three, message);

  // With as many blocks of its own as a message takes there is no place for one more.
  message.tensors.resize(1);
  for (int i = 0; i < 253; ++i) message.tensors.push_back({Counting(TensorShape({1}), Shared()), {}});
  EXPECT_EQ(FileOf(pass_on(message).tensors[0].view), 0u);
}

}  // namespace
}  // namespace tensorcask
