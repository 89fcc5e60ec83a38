// What closing a socket does: it does not wait, whatever the peer has sent, and it takes nothing from another process
// that has the socket, too, since fork(2).

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/internal/close_received.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/transport.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/serialize/exchange/lingering_socket.h"
#include "tensorcask/tests/support/emulator.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Counting;
using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::Ends;
using ::tensorcask::testing::ExpectSame;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::LingeringSocket;
using ::tensorcask::testing::MakeEnds;
using ::tensorcask::testing::MakeLingeringSocket;
using ::tensorcask::testing::Mixed;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using Code = absl::StatusCode;

// ---- Memory files ---------------------------------------------------------------------------------------------------

TEST(CloseReceived, ClosesMemoryFilesAtOnce) {
  const int before = CountOpenDescriptors();
  const int numbers[] = {memfd_create("a", MFD_CLOEXEC), memfd_create("b", MFD_CLOEXEC)};
  ASSERT_EQ(CountOpenDescriptors(), before + 2);
  exchange::CloseReceived(absl::MakeConstSpan(numbers));
  EXPECT_EQ(CountOpenDescriptors(), before);
}

// ---- fork -----------------------------------------------------------------------------------------------------------

// A child that ends with 0 if `run` returns true.
class Child {
 public:
  explicit Child(const std::function<bool()>& run) : process_(fork()) {
    if (process_ == 0) _exit(run() && !::testing::Test::HasFailure() ? 0 : 1);
  }
  ~Child() {
    int status = 0;
    EXPECT_EQ(waitpid(process_, &status, 0), process_);
    EXPECT_EQ(status, 0) << "the child failed";
  }

 private:
  const pid_t process_;
};

std::string ReceiveText(UnixSocket* socket, size_t size, std::vector<ScopedDescriptor>* descriptors) {
  std::string text(size, '?');
  EXPECT_OK(socket->ReceiveExactly(absl::MakeSpan(&text[0], size), 1, descriptors, kLong));
  return text;
}

// Receives "hello" with a descriptor of a pipe, and answers through the pipe and the socket.
bool AnswerHello(UnixSocket* socket) {
  std::vector<ScopedDescriptor> descriptors;
  return ReceiveText(socket, 5, &descriptors) == "hello" && descriptors.size() == 1 &&
         write(descriptors[0].get(), "p", 1) == 1 && socket->SendAll({"s"}, {}, kLong).ok();
}

void ExpectAnswers(UnixSocket* socket, int pipe) {
  char byte = 0;
  EXPECT_EQ(read(pipe, &byte, 1), 1);
  EXPECT_EQ(byte, 'p');
  EXPECT_EQ(ReceiveText(socket, 1, nullptr), "s");
}

struct Pipe {
  ScopedDescriptor out;
  ScopedDescriptor in;
};

Pipe MakePipe() {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  return {ScopedDescriptor(ends[0]), ScopedDescriptor(ends[1])};
}

TEST(Fork, AParentMayDestroyTheEndOfAPairThatItsChildUses) {
  for (const bool is_sent_before : {true, false}) {
    Pipe pipe = MakePipe();
    Ends ends = MakeEnds();
    if (is_sent_before) {
      ASSERT_OK(ends.ours.SendAll({"hello"}, {pipe.in.get()}, kLong));
    }
    Pipe start = MakePipe();
    const Child child([&] {
      char byte;
      start.in.Close();
      return read(start.out.get(), &byte, 1) == 0 && AnswerHello(&ends.theirs);
    });
    { const UnixSocket gone = std::move(ends.theirs); }
    if (!is_sent_before) {
      ASSERT_OK(ends.ours.SendAll({"hello"}, {pipe.in.get()}, kLong));
    }
    start.in.Close();  // the child begins
    pipe.in.Close();
    ExpectAnswers(&ends.ours, pipe.out.get());
  }
}

TEST(Fork, AParentMayDestroyWhatItAcceptedForItsChild) {
  const TempFolder folder("/tmp/");
  absl::StatusOr<UnixListener> listener = UnixListener::Listen(folder.Path("s"), {});
  ASSERT_OK(listener);
  ASSERT_OK_AND_ASSIGN(UnixSocket client, UnixSocket::Connect(folder.Path("s"), kLong));
  absl::StatusOr<UnixSocket> accepted = listener->Accept(kLong);
  ASSERT_OK(accepted);
  Pipe pipe = MakePipe();
  ASSERT_OK(client.SendAll({"?first"}, {}, kLong));
  EXPECT_EQ(ReceiveText(&*accepted, 1, nullptr), "?") << "the parent has received some, too";
  ASSERT_OK(client.SendAll({"hello"}, {pipe.in.get()}, kLong));
  Pipe start = MakePipe();
  const Child child([&] {
    char byte;
    start.in.Close();
    std::vector<ScopedDescriptor> none;
    return read(start.out.get(), &byte, 1) == 0 && ReceiveText(&*accepted, 5, &none) == "first" &&
           AnswerHello(&*accepted);
  });
  { const UnixSocket gone = *std::move(accepted); }
  start.in.Close();
  pipe.in.Close();
  ExpectAnswers(&client, pipe.out.get());
}

TEST(Fork, ChannelsOfAPairWorkInParentAndChild) {
  Ends ends = MakeEnds();
  const Message message = Mixed();
  Channel ours = Channel::FromSocket(std::move(ends.ours));
  ASSERT_OK(ours.Send(message, kLong));  // is in the child's queue when the parent destroys its copy
  const Child child([&] {
    Channel channel = Channel::FromSocket(std::move(ends.theirs));
    const absl::StatusOr<Message> received = channel.Receive(kLong);
    if (!received.ok() || !channel.Send(*received, kLong).ok()) return false;
    return absl::IsOutOfRange(channel.Receive(kLong).status());  // the parent's goodbye
  });
  { const UnixSocket gone = std::move(ends.theirs); }
  ASSERT_OK_AND_ASSIGN(const Message echo, ours.Receive(kLong));
  ExpectSame(echo, message);
  EXPECT_OK(ours.Close(kLong));
}

TEST(Fork, AChildThatDestroysItsCopyDoesNotEndTheChannel) {
  Ends ends = MakeEnds();
  Channel a = Channel::FromSocket(std::move(ends.ours));
  Channel b = Channel::FromSocket(std::move(ends.theirs));
  ASSERT_OK(b.SendTensor(Counting(TensorShape({5}), Shared()), {}, kLong));
  {
    const Child child([&] {
      { const Channel gone_a = std::move(a), gone_b = std::move(b); }
      return true;
    });
  }
  EXPECT_OK(a.ReceiveTensor(kLong));
  EXPECT_OK(a.SendTensor(Counting(TensorShape({5}), Shared()), {}, kLong));
  EXPECT_OK(b.ReceiveTensor(kLong));
}

TEST(Fork, AChildThatDestroysItsCopyOfAListenerLeavesThePathAndTheClients) {
  const TempFolder folder("/tmp/");
  absl::StatusOr<UnixListener> listener = UnixListener::Listen(folder.Path("s"), {});
  ASSERT_OK(listener);
  ASSERT_OK_AND_ASSIGN(UnixSocket waiting, UnixSocket::Connect(folder.Path("s"), kLong));
  ASSERT_OK(waiting.SendAll({"x"}, {}, kLong));
  {
    const Child child([&] {
      { const UnixListener gone = *std::move(listener); }
      return true;
    });
  }
  ASSERT_OK_AND_ASSIGN(UnixSocket accepted, listener->Accept(kLong));
  EXPECT_EQ(ReceiveText(&accepted, 1, nullptr), "x");
  EXPECT_OK(UnixSocket::Connect(folder.Path("s"), kLong));
}

// ---- Descriptors whose close blocks, in a queue ---------------------------------------------------------------------

class Closing : public ::testing::Test {
 protected:
  void SetUp() override {
    lingering_ = MakeLingeringSocket(absl::Seconds(20));
    if (!lingering_) GTEST_SKIP() << "no TCP here";
    begin_ = absl::Now();
  }
  void TearDown() override { EXPECT_LT(absl::Now() - begin_, absl::Seconds(10)); }

  // From here on the only descriptor is the one in the peer's queue.
  void SendTo(UnixSocket* socket, absl::string_view before = "", absl::string_view after = "") {
    if (!before.empty()) {
      ASSERT_OK(socket->SendAll({before}, {}, kLong));
    }
    ASSERT_OK(socket->SendAll({"x"}, {lingering_->file.get()}, kLong));
    if (!after.empty()) {
      ASSERT_OK(socket->SendAll({after}, {}, kLong));
    }
    lingering_->file.Close();
  }

  std::optional<LingeringSocket> lingering_;
  absl::Time begin_;
};

TEST_F(Closing, APairThatNeverReceived) {
  Ends ends = MakeEnds();
  SendTo(&ends.theirs);
  { const UnixSocket gone = std::move(ends.ours); }
}

TEST_F(Closing, BehindManyBytes) {
  Ends ends = MakeEnds();
  SendTo(&ends.theirs, std::string(100000, 'b'), "after");
  { const UnixSocket gone = std::move(ends.ours); }
}

TEST_F(Closing, BetweenBytesThatAreOutOfBand) {
  Ends ends = MakeEnds();
  if (send(ends.theirs.descriptor(), "o", 1, MSG_OOB) != 1) GTEST_SKIP() << "an older kernel";
  SendTo(&ends.theirs, "before");
  if (send(ends.theirs.descriptor(), "o", 1, MSG_OOB) != 1) GTEST_SKIP() << "an older kernel";
  { const UnixSocket gone = std::move(ends.ours); }
}

TEST_F(Closing, ByAssignment) {
  Ends ends = MakeEnds();
  SendTo(&ends.theirs);
  ends.ours = std::move(MakeEnds().ours);
}

TEST_F(Closing, ASocketInAQueue) {
  Ends ends = MakeEnds();
  Ends inner = MakeEnds();
  SendTo(&inner.theirs);
  ASSERT_OK(ends.theirs.SendAll({"x"}, {inner.ours.descriptor()}, kLong));
  { const UnixSocket gone = std::move(inner.ours); }
  { const UnixSocket gone = std::move(ends.ours); }
}

TEST_F(Closing, AListenerWhoseClientWaitsToBeAccepted) {
  const TempFolder folder("/tmp/");
  absl::StatusOr<UnixListener> listener = UnixListener::Listen(folder.Path("s"), {});
  ASSERT_OK(listener);
  ASSERT_OK_AND_ASSIGN(UnixSocket client, UnixSocket::Connect(folder.Path("s"), kLong));
  SendTo(&client);
  { const UnixListener gone = *std::move(listener); }
}

TEST_F(Closing, AListenerByAssignment) {
  const TempFolder folder("/tmp/");
  absl::StatusOr<UnixListener> listener = UnixListener::Listen(folder.Path("s"), {});
  ASSERT_OK(listener);
  ASSERT_OK_AND_ASSIGN(UnixSocket client, UnixSocket::Connect(folder.Path("s"), kLong));
  SendTo(&client);
  ASSERT_OK_AND_ASSIGN(*listener, UnixListener::Listen(folder.Path("t"), {}));
}

TEST_F(Closing, AClientThatIsRefused) {
  if (getuid() != 0) GTEST_SKIP() << "only root can become another user";
  const TempFolder folder("/tmp/");
  absl::StatusOr<UnixListener> listener = UnixListener::Listen(folder.Path("s"), {});
  ASSERT_OK(listener);
  ASSERT_OK_AND_ASSIGN(UnixSocket client, UnixSocket::Connect(folder.Path("s"), kLong));
  SendTo(&client);
  if (seteuid(65534) != 0) GTEST_SKIP() << "no other user";
  EXPECT_THAT(listener->Accept(kLong), StatusIs(Code::kPermissionDenied));
  ASSERT_EQ(seteuid(0), 0);
}

TEST_F(Closing, ADescriptorThatTheReceiverDoesNotWant) {
  Ends ends = MakeEnds();
  SendTo(&ends.theirs);
  char byte;
  EXPECT_THAT(ends.ours.ReceiveExactly(absl::MakeSpan(&byte, 1), kLong), StatusIs(Code::kInvalidArgument));
}

// ---- Closers that are left behind -----------------------------------------------------------------------------------

TEST_F(Closing, AProcessThatIsKilledLeavesNoListenerAndNoConnection) {
  if (testing::IsEmulated()) GTEST_SKIP() << "qemu fails an assertion of its own in the process that is forked";
  const TempFolder folder("/tmp/");
  Pipe steps = MakePipe();
  const pid_t server = fork();
  if (server == 0) {
    lingering_->file.Close();
    absl::StatusOr<UnixListener> listener = UnixListener::Listen(folder.Path("s"), {});
    if (!listener.ok() || write(steps.in.get(), "l", 1) != 1) _exit(1);
    absl::StatusOr<UnixSocket> accepted = listener->Accept(kLong);
    char byte;
    if (!accepted.ok() || accepted->ReceiveExactly(absl::MakeSpan(&byte, 1), kLong).ok()) _exit(2);
    if (write(steps.in.get(), "r", 1) != 1) _exit(3);
    while (true) pause();
  }
  char step = 0;
  ASSERT_EQ(read(steps.out.get(), &step, 1), 1);
  ASSERT_OK_AND_ASSIGN(UnixSocket client, UnixSocket::Connect(folder.Path("s"), kLong));
  SendTo(&client);
  ASSERT_EQ(read(steps.out.get(), &step, 1), 1);
  EXPECT_EQ(step, 'r');
  ASSERT_EQ(kill(server, SIGKILL), 0);
  ASSERT_EQ(waitpid(server, nullptr, 0), server);
  char byte;
  EXPECT_THAT(client.ReceiveExactly(absl::MakeSpan(&byte, 1), kLong), StatusIs(Code::kUnavailable));
  absl::StatusOr<UnixListener> next = UnixListener::Listen(folder.Path("s"), {});
  for (int i = 0; i < 500 && !next.ok(); ++i) {  // the helper closes a moment after the end of the process
    absl::SleepFor(absl::Milliseconds(10));
    next = UnixListener::Listen(folder.Path("s"), {});
  }
  EXPECT_OK(next);
}

// True if all closers end within some seconds.
bool ClosersEnd() {
  for (int i = 0; i < 500 && exchange::CountClosers() > 0; ++i) absl::SleepFor(absl::Milliseconds(10));
  return exchange::CountClosers() == 0;
}

TEST(Closers, AreBounded) {
  if (testing::IsEmulated()) GTEST_SKIP() << "an emulator has no clone(2) that shares the descriptors alone";
  ASSERT_TRUE(ClosersEnd()) << "those of other tests";
  std::vector<LingeringSocket> lingering;
  std::vector<int> numbers;
  for (int i = 0; i < exchange::kMaxClosers; ++i) {
    std::optional<LingeringSocket> one = MakeLingeringSocket(absl::Seconds(60));
    if (!one) GTEST_SKIP() << "no TCP here";
    numbers.push_back(one->file.get());
    lingering.push_back(*std::move(one));
  }
  const TempFolder folder("/tmp/");
  UnixListener::Options options;
  absl::StatusOr<UnixListener> listener = UnixListener::Listen(folder.Path("s"), options);
  options.accepts_descriptors = false;
  absl::StatusOr<UnixListener> strict = UnixListener::Listen(folder.Path("t"), options);
  ASSERT_OK(listener);
  ASSERT_OK(strict);
  ASSERT_OK_AND_ASSIGN(const UnixSocket client, UnixSocket::Connect(folder.Path("s"), kLong));
  ASSERT_OK_AND_ASSIGN(const UnixSocket other, UnixSocket::Connect(folder.Path("t"), kLong));

  Ends ends = MakeEnds();
  ASSERT_OK(ends.theirs.SendAll({"x"}, numbers, kLong));
  for (LingeringSocket& one : lingering) one.file.Close();
  char byte;
  EXPECT_THAT(ends.ours.ReceiveExactly(absl::MakeSpan(&byte, 1), kLong), StatusIs(Code::kInvalidArgument));
  EXPECT_EQ(exchange::CountClosers(), exchange::kMaxClosers);
  EXPECT_THAT(listener->Accept(kLong), StatusIs(Code::kResourceExhausted, ::testing::HasSubstr("wait to be closed")));
  EXPECT_THAT(UnixSocket::Connect(folder.Path("s"), kLong), StatusIs(Code::kResourceExhausted));
  EXPECT_OK(strict->Accept(kLong)) << "its clients cannot add closers";

  lingering.clear();  // the peers of the sockets end, and so do the closers
  EXPECT_TRUE(ClosersEnd());
  EXPECT_OK(listener->Accept(kLong));
}

// ---- Without a gap in which the peer could send a descriptor --------------------------------------------------------

ScopedDescriptor CopyOf(int descriptor) { return ScopedDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

TEST(ClosingHonestly, ATransportEndsItsConnectionFirst) {
  Ends ends = MakeEnds();
  const ScopedDescriptor copy = CopyOf(ends.ours.descriptor());  // closing alone would not end the connection
  { const std::unique_ptr<Transport> gone = MakeTransport(std::move(ends.ours)); }
  EXPECT_THAT(ends.theirs.SendAll({"x"}, {}, kLong), StatusIs(Code::kUnavailable));
}

TEST(ClosingHonestly, AChildsCopyOfATransportDoesNot) {
  Ends ends = MakeEnds();
  std::unique_ptr<Transport> transport = MakeTransport(std::move(ends.ours));
  {
    const Child child([&] {
      transport.reset();
      return true;
    });
  }
  EXPECT_OK(ends.theirs.SendAll({"x"}, {}, kLong));
}

TEST(ClosingHonestly, AListenerStopsListeningFirst) {
  const TempFolder folder("/tmp/");
  absl::StatusOr<UnixListener> listener = UnixListener::Listen(folder.Path("s"), {});
  ASSERT_OK(listener);
  const ScopedDescriptor copy = CopyOf(listener->descriptor());
  { const UnixListener gone = *std::move(listener); }
  pollfd state = {copy.get(), POLLIN, 0};
  EXPECT_EQ(poll(&state, 1, 0), 1);
  EXPECT_NE(state.revents & POLLHUP, 0);
}

TEST(ClosingHonestly, NeedsNoProcess) {
  Ends ends = MakeEnds();
  ASSERT_OK(ends.theirs.SendAll({"unread"}, {}, kLong));
  const int before = CountOpenDescriptors();
  { const UnixSocket gone = std::move(ends.ours); }
  EXPECT_EQ(CountOpenDescriptors(), before - 1) << "is closed at once";
}

}  // namespace
}  // namespace tensorcask
