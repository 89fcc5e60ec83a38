// Peers that die, stall or lie, and a process that runs out of memory: no call waits for longer than its
// deadline, and what is reported is what happened.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
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
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/serialize/exchange/lingering_socket.h"
#include "tensorcask/tests/support/failing_new.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Catch;
using ::tensorcask::testing::Caught;
using ::tensorcask::testing::Counting;
using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::CountOpenDescriptorsOnceSettled;
using ::tensorcask::testing::Ends;
using ::tensorcask::testing::FailingNew;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::kShort;
using ::tensorcask::testing::LingeringSocket;
using ::tensorcask::testing::MakeEnds;
using ::tensorcask::testing::MakeLingeringSocket;
using ::tensorcask::testing::MakePair;
using ::tensorcask::testing::Mixed;
using ::tensorcask::testing::Pair;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::tensorcask::testing::Victim;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// ---- Descriptors whose close blocks ---------------------------------------------------------------------------------

TEST(HostilePeer, ADescriptorWhoseCloseBlocksDelaysNoReceiver) {
  std::optional<LingeringSocket> lingering = MakeLingeringSocket(absl::Seconds(20));
  if (!lingering) GTEST_SKIP() << "no TCP here";
  const Caught caught = Catch(Mixed());
  const absl::Time begin = absl::Now();
  {
    Victim victim;
    victim.Play(caught.hello);
    victim.Play(caught.message.bytes(), {lingering->file.get()});
    lingering->file.Close();  // the last one is on its way
    EXPECT_THAT(victim.channel.Receive(kLong), StatusIs(Code::kInvalidArgument, HasSubstr("not a file in memory")));
  }
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST(HostilePeer, ADescriptorThatIsNeverReceivedDelaysNoDestructor) {
  std::optional<LingeringSocket> lingering = MakeLingeringSocket(absl::Seconds(20));
  if (!lingering) GTEST_SKIP() << "no TCP here";
  const absl::Time begin = absl::Now();
  {
    Victim victim;
    victim.Play("some bytes");
    victim.Play("x", {lingering->file.get()});
    lingering->file.Close();
  }
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST(HostilePeer, MapSharedMemoryClosesWithoutWaiting) {
  std::optional<LingeringSocket> lingering = MakeLingeringSocket(absl::Seconds(20));
  if (!lingering) GTEST_SKIP() << "no TCP here";
  const absl::Time begin = absl::Now();
  EXPECT_THAT(MapSharedMemory(std::move(lingering->file), 0, 4096), StatusIs(Code::kInvalidArgument));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST(HostilePeer, DescriptorsOfAllKindsAreClosed) {
  const Caught caught = Catch(Mixed());
  const int before = CountOpenDescriptors();
  for (int i = 0; i < 20; ++i) {
    std::vector<ScopedDescriptor> files;
    std::vector<int> numbers;
    for (int k = 0; k < 20; ++k) numbers.push_back(files.emplace_back(open("/dev/zero", O_RDONLY | O_CLOEXEC)).get());
    Victim victim;
    victim.Play(caught.hello);
    victim.Play(caught.message.bytes(), numbers);
    if (i % 2 == 0) {
      EXPECT_THAT(victim.channel.Receive(kLong), StatusIs(Code::kInvalidArgument));
    }
  }
  // Fewer if one of a test before was closed meanwhile.
  EXPECT_LE(CountOpenDescriptorsOnceSettled(before), before);
}

// ---- What was received ----------------------------------------------------------------------------------------------

TEST(HostilePeer, CloseTellsThatThePeerDiedBeforeItReceived) {
  Ends ends = MakeEnds();
  Channel channel = Channel::FromSocket(std::move(ends.ours));
  ASSERT_OK(channel.SendTensor(Counting(TensorShape({5}), Shared()), {}, kLong)) << "the system took it";
  { const UnixSocket dies = std::move(ends.theirs); }
  EXPECT_THAT(channel.Close(kLong), StatusIs(Code::kUnavailable));
  EXPECT_THAT(channel.Close(kLong), StatusIs(Code::kUnavailable)) << "again";
}

TEST(HostilePeer, CloseTellsThatThePeerDoesNotReceive) {
  Pair pair = MakePair();
  ASSERT_OK(pair.a.SendTensor(Counting(TensorShape({5}), Shared()), {}, kLong));
  EXPECT_THAT(pair.a.Close(kShort), StatusIs(Code::kDeadlineExceeded, HasSubstr("received everything")));
}

TEST(HostilePeer, CloseTellsThatASendFailed) {
  Ends ends = MakeEnds();
  Channel channel = Channel::FromSocket(std::move(ends.ours));
  { const UnixSocket dies = std::move(ends.theirs); }
  EXPECT_THAT(channel.SendTensor(Counting(TensorShape({5}), Shared()), {}, kLong), StatusIs(Code::kUnavailable));
  EXPECT_THAT(channel.Close(kLong), StatusIs(Code::kUnavailable, HasSubstr("not everything was sent")));
}

TEST(HostilePeer, CloseIsFineWhenAllWasReceivedOrNothingSent) {
  Pair pair = MakePair();
  ASSERT_OK(pair.a.SendTensor(Counting(TensorShape({5}), Shared()), {}, kLong));
  ASSERT_OK(pair.b.ReceiveTensor(kLong));
  EXPECT_OK(pair.b.Close(kLong));
  Pair other = MakePair();
  ASSERT_OK(other.a.SendTensor(Counting(TensorShape({5}), Shared()), {}, kLong));
  ASSERT_OK(other.b.ReceiveTensor(kLong));
  EXPECT_OK(other.a.Close(kLong));
}

TEST(HostilePeer, ConnectWaitsForTheServer) {
  const TempFolder folder("/tmp/");
  const std::string path = folder.Path("s");
  EXPECT_THAT(UnixSocket::Connect(path, kShort), StatusIs(Code::kNotFound));
  std::thread server([&] {
    absl::SleepFor(absl::Milliseconds(100));
    const absl::StatusOr<ChannelListener> dead = ChannelListener::Listen(path);
    ASSERT_OK(dead);
    absl::StatusOr<ChannelListener> listener = *ChannelListener::Listen(folder.Path("t"));
    absl::SleepFor(absl::Milliseconds(100));
  });
  EXPECT_OK(Channel::Connect(path, kLong));
  server.join();
}

// ---- Listeners ------------------------------------------------------------------------------------------------------

TEST(HostilePeer, AListenerNeverRemovesTheNextOnesSocket) {
  const TempFolder folder("/tmp/");
  const std::string path = folder.Path("s");
  std::atomic<int> lost{0};
  const auto listen_often = [&] {
    for (int i = 0; i < 1500; ++i) {
      absl::StatusOr<UnixListener> listener = UnixListener::Listen(path, {});
      if (!listener.ok()) continue;  // the other one listens
      struct stat about;
      std::this_thread::yield();
      lost += lstat(path.c_str(), &about) != 0;
      listener->Shutdown();  // from here on the other one may replace the socket
    }
  };
  std::thread other(listen_often);
  listen_often();
  other.join();
  EXPECT_EQ(lost, 0);
}

// ---- No memory ------------------------------------------------------------------------------------------------------

TEST(HostilePeer, WithoutMemoryReceiveLosesNothingOrCloses) {
  const Caught caught = Catch(Mixed());
  int failures = 0;
  for (int n = 0; n < 60; ++n) {
    SCOPED_TRACE(n);
    Victim victim;
    victim.Play(caught.hello);
    victim.Play(caught.message.bytes(), caught.message.numbers());
    absl::Status first;
    bool has_thrown = false;
    try {
      const FailingNew failing(n, FailingNew::kOnce, FailingNew::kThisThread);
      first = victim.channel.Receive(kLong).status();
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
    if (!has_thrown && first.ok()) break;
    ++failures;
    if (!has_thrown) {
      EXPECT_THAT(first, StatusIs(Code::kResourceExhausted));
    }
    EXPECT_THAT(victim.channel.Receive(kLong).status(), AnyOf(testing::IsOk(), StatusIs(Code::kFailedPrecondition)));
  }
  EXPECT_GT(failures, 1);
}

// ---- Shared memory that changes -------------------------------------------------------------------------------------

TEST(HostilePeer, UnsealedMemoryIsCopiedOnRequest) {
  ChannelOptions options;
  options.copy_unsealed = true;
  Pair pair = MakePair(options);
  Tensor tensor = Counting(TensorShape({100}), Shared());
  float* const elements = tensor.mutable_flat<float>().data();
  Message message;
  message.tensors.push_back({*TensorView(tensor).Slice(0, 3, 50), {}});  // not at the start of the block
  ASSERT_OK(pair.a.Send(message, kLong));
  ASSERT_OK_AND_ASSIGN(const Message received, pair.b.Receive(kLong));
  for (int i = 0; i < 100; ++i) elements[i] = -1;  // breaks the promise
  ASSERT_OK_AND_ASSIGN(const Tensor copy, received.tensors[0].view.ToTensor());
  EXPECT_EQ(copy.flat<float>()[0], 4);
  EXPECT_EQ(copy.flat<float>()[46], 50);
  EXPECT_FALSE(received.tensors[0].view.buffer()->file_range().has_value());
}

}  // namespace
}  // namespace tensorcask
