#include "tensorcask/serialize/exchange/unix_socket.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
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
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/scoped_descriptor.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::CountOpenDescriptorsOnceSettled;
using ::tensorcask::testing::IsOk;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

// Longer than anything here takes; a test that waits for it has failed.
constexpr absl::Duration kLong = absl::Seconds(30);
constexpr absl::Duration kShort = absl::Milliseconds(50);

std::string Pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
}

absl::StatusOr<std::string> Receive(UnixSocket* socket, size_t size, Deadline deadline = kLong) {
  std::string text(size, '?');
  const absl::Status status = socket->ReceiveExactly(absl::MakeSpan(&text[0], size), deadline);
  if (!status.ok()) return status;
  return text;
}

absl::Status Send(UnixSocket* socket, absl::string_view text, absl::Span<const int> descriptors = {}) {
  return socket->SendAll({text}, descriptors, kLong);
}

// Descriptors of `count` pipes' reading ends, all of the same pipe.
std::vector<ScopedDescriptor> Pipes(size_t count) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const ScopedDescriptor reader(ends[0]);
  const ScopedDescriptor writer(ends[1]);
  std::vector<ScopedDescriptor> copies;
  for (size_t i = 0; i < count; ++i) copies.emplace_back(fcntl(reader.get(), F_DUPFD_CLOEXEC, 0));
  return copies;
}

std::vector<int> Numbers(const std::vector<ScopedDescriptor>& descriptors) {
  std::vector<int> numbers;
  for (const ScopedDescriptor& descriptor : descriptors) numbers.push_back(descriptor.get());
  return numbers;
}

uint64_t InodeOf(int descriptor) {
  struct stat about;
  EXPECT_EQ(fstat(descriptor, &about), 0);
  return about.st_ino;
}

// A Unix socket of the bare system, to be a peer that behaves badly.
ScopedDescriptor BareSocket(const std::string& path, int (*use)(int, const sockaddr*, socklen_t),
                            int type = SOCK_STREAM) {
  ScopedDescriptor descriptor(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(use(descriptor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0) << path;
  return descriptor;
}

// Lets the process have `more` descriptors than it has, and no further.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int more) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    // New ones take the lowest free number.
    const ScopedDescriptor next(fcntl(0, F_DUPFD_CLOEXEC, 0));
    const struct rlimit limit = {static_cast<rlim_t>(next.get() + more), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  struct rlimit before_;
};

class UnixSocketTest : public ::testing::Test {
 protected:
  UnixSocketTest() : pair_(*UnixSocket::Pair()), a_(pair_.first), b_(pair_.second) {}
  ~UnixSocketTest() override {
    CloseA();
    { const UnixSocket gone = std::move(b_); }
    EXPECT_EQ(CountOpenDescriptors(), before_) << "descriptors are left open";
  }
  void CloseA() { const UnixSocket gone = std::move(a_); }

  const int before_ = CountOpenDescriptors();
  std::pair<UnixSocket, UnixSocket> pair_;
  UnixSocket& a_;
  UnixSocket& b_;
};

// ---- Deadline -------------------------------------------------------------------------------------------------------

TEST(Deadline, CountsDown) {
  const Deadline soon = absl::Milliseconds(20);
  EXPECT_FALSE(soon.is_never());
  EXPECT_GT(soon.poll_timeout_ms(), 0);
  EXPECT_LE(soon.poll_timeout_ms(), 20);
  absl::SleepFor(absl::Milliseconds(21));
  EXPECT_EQ(soon.poll_timeout_ms(), 0);
  EXPECT_EQ(soon.remaining(), absl::ZeroDuration());
}

TEST(Deadline, Extremes) {
  EXPECT_TRUE(Deadline::Never().is_never());
  EXPECT_EQ(Deadline::Never().poll_timeout_ms(), -1);
  EXPECT_EQ(Deadline::Never().remaining(), absl::InfiniteDuration());
  EXPECT_EQ(Deadline(-absl::InfiniteDuration()).poll_timeout_ms(), 0);
  EXPECT_EQ(Deadline(absl::ZeroDuration()).remaining(), absl::ZeroDuration());
  EXPECT_TRUE(Deadline(absl::Hours(24 * 365 * 300)).is_never());
  EXPECT_EQ(Deadline(absl::Hours(24 * 365)).poll_timeout_ms(), INT32_MAX);
  EXPECT_EQ(Deadline(absl::Microseconds(1500)).poll_timeout_ms(), 2) << "rounded up";
}

// ---- Bytes ----------------------------------------------------------------------------------------------------------

TEST_F(UnixSocketTest, PiecesArriveInOrder) {
  EXPECT_OK(a_.SendAll({"one ", "", "two ", "three"}, {}, kLong));
  EXPECT_OK(a_.SendAll({}, {}, kLong));
  EXPECT_OK(a_.SendAll({"", ""}, {}, kLong));
  EXPECT_OK(b_.SendAll({"back"}, {}, kLong));
  EXPECT_THAT(*Receive(&b_, 5), "one t");
  EXPECT_THAT(*Receive(&b_, 0), "");
  EXPECT_THAT(*Receive(&b_, 8), "wo three");
  EXPECT_THAT(*Receive(&a_, 4), "back");
}

TEST_F(UnixSocketTest, ManySmallAndLargePiecesThroughASmallBuffer) {
  const int small = 1;  // the system makes the least it can of it, about 4 KiB
  ASSERT_EQ(setsockopt(a_.descriptor(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
  const std::string text = Pattern(300'000);
  std::vector<absl::string_view> pieces;
  for (size_t at = 0, size = 0; at < text.size(); at += size, size = size % 2000 + 7) {
    pieces.push_back(absl::string_view(text).substr(at, size));
  }
  ASSERT_GT(pieces.size(), 200u);
  std::thread sender([&] { EXPECT_OK(a_.SendAll(pieces, {}, kLong)); });
  ASSERT_OK_AND_ASSIGN(const std::string received, Receive(&b_, text.size()));
  EXPECT_EQ(received, text);
  sender.join();
}

TEST_F(UnixSocketTest, BothWaysAtOnce) {
  const std::string text = Pattern(3'000'000);
  std::thread a_sends([&] { EXPECT_OK(Send(&a_, text)); });
  std::thread b_sends([&] { EXPECT_OK(Send(&b_, text)); });
  std::thread a_receives([&] { EXPECT_EQ(*Receive(&a_, text.size()), text); });
  EXPECT_EQ(*Receive(&b_, text.size()), text);
  a_sends.join();
  b_sends.join();
  a_receives.join();
}

TEST_F(UnixSocketTest, ReceivingHasOneDeadlineForAllItsBytes) {
  std::atomic<bool> done{false};
  std::thread trickle([&] {
    while (!done) {
      EXPECT_OK(Send(&a_, "x"));
      absl::SleepFor(absl::Milliseconds(5));
    }
  });
  const absl::Time start = absl::Now();
  EXPECT_THAT(Receive(&b_, 1 << 20, kShort),
              StatusIs(Code::kDeadlineExceeded, AllOf(HasSubstr("socket pair"), HasSubstr("of 1048576 bytes"))));
  EXPECT_GE(absl::Now() - start, kShort - absl::Milliseconds(1));
  EXPECT_LT(absl::Now() - start, kLong);
  done = true;
  trickle.join();
}

TEST_F(UnixSocketTest, SendingHasADeadline) {
  const std::string text = Pattern(8 << 20);
  EXPECT_THAT(a_.SendAll({text}, {}, kShort), StatusIs(Code::kDeadlineExceeded, HasSubstr("of 8388608 bytes")));
  EXPECT_THAT(a_.SendAll({text}, {}, absl::ZeroDuration()), StatusIs(Code::kDeadlineExceeded, HasSubstr("sent 0 of")));
}

TEST_F(UnixSocketTest, WhatIsThereNeedsNoTime) {
  EXPECT_OK(a_.SendAll({"ready"}, {}, absl::ZeroDuration()));
  EXPECT_THAT(*Receive(&b_, 5, absl::ZeroDuration()), "ready");
  EXPECT_THAT(Receive(&b_, 1, absl::ZeroDuration()), StatusIs(Code::kDeadlineExceeded, HasSubstr("received 0 of 1")));
}

TEST_F(UnixSocketTest, AClosedPeerIsUnavailable) {
  EXPECT_OK(Send(&a_, "abc"));
  CloseA();
  EXPECT_THAT(Receive(&b_, 5), StatusIs(Code::kUnavailable, HasSubstr("closed after 3 of 5 bytes")));
  EXPECT_THAT(Receive(&b_, 5), StatusIs(Code::kUnavailable, HasSubstr("closed after 0 of 5 bytes")));
  EXPECT_THAT(Send(&b_, "to nobody"), StatusIs(Code::kUnavailable, HasSubstr("the peer has closed")));
}

TEST_F(UnixSocketTest, APeerThatClosesOnWhatItWasSentIsUnavailable) {
  EXPECT_OK(Send(&b_, "never read"));
  CloseA();  // with unread bytes: the system says "connection reset"
  EXPECT_THAT(Receive(&b_, 1), StatusIs(Code::kUnavailable, HasSubstr("received 0 of 1 bytes: the peer has closed")));
}

TEST_F(UnixSocketTest, ReceivingSomeTellsTheCleanEnd) {
  std::string text(5, '?');
  std::vector<ScopedDescriptor> descriptors;
  const auto receive = [&](Deadline deadline) {
    return b_.ReceiveSome(absl::MakeSpan(&text[0], text.size()), 0, &descriptors, deadline);
  };
  EXPECT_THAT(receive(kShort), StatusIs(Code::kDeadlineExceeded, HasSubstr("socket pair")));
  EXPECT_OK(Send(&a_, "ab"));
  EXPECT_EQ(*receive(kLong), 2u);
  EXPECT_EQ(text, "ab???");
  EXPECT_OK(Send(&a_, "1234567"));
  EXPECT_EQ(*receive(absl::ZeroDuration()), 5u);
  EXPECT_EQ(*receive(absl::ZeroDuration()), 2u);
  std::thread closer([&] {
    absl::SleepFor(absl::Milliseconds(10));
    CloseA();
  });
  EXPECT_EQ(*receive(kLong), 0u);
  closer.join();
  EXPECT_EQ(*receive(absl::ZeroDuration()), 0u);
  EXPECT_DEATH(b_.ReceiveSome({}, 0, &descriptors, kLong).IgnoreError(), "room for a byte");
}

TEST_F(UnixSocketTest, ShutdownWakesAllWhoWait) {
  std::thread receiver([&] { EXPECT_THAT(Receive(&b_, 1, Deadline::Never()), StatusIs(Code::kUnavailable)); });
  std::thread sender(
      [&] { EXPECT_THAT(b_.SendAll({Pattern(8 << 20)}, {}, Deadline::Never()), StatusIs(Code::kUnavailable)); });
  absl::SleepFor(absl::Milliseconds(20));
  b_.Shutdown();
  receiver.join();
  sender.join();
}

// ---- Descriptors ----------------------------------------------------------------------------------------------------

TEST_F(UnixSocketTest, DescriptorsArriveWithTheFirstByte) {
  const std::string large = Pattern(1 << 20);
  std::vector<ScopedDescriptor> sent = Pipes(3);
  const uint64_t inode = InodeOf(sent[0].get());
  std::thread sender([&] {
    EXPECT_OK(Send(&a_, "before"));
    EXPECT_OK(a_.SendAll({"", large}, Numbers(sent), kLong));
    EXPECT_OK(Send(&a_, "after"));
  });
  std::string text(6, '?');
  std::vector<ScopedDescriptor> received;
  EXPECT_OK(b_.ReceiveExactly(absl::MakeSpan(&text[0], 6), 3, &received, kLong));
  EXPECT_EQ(text, "before");
  EXPECT_TRUE(received.empty());
  EXPECT_OK(b_.ReceiveExactly(absl::MakeSpan(&text[0], 1), 3, &received, kLong));
  EXPECT_EQ(received.size(), 3u);
  for (const ScopedDescriptor& descriptor : received) {
    EXPECT_EQ(InodeOf(descriptor.get()), inode);
    EXPECT_EQ(fcntl(descriptor.get(), F_GETFD), FD_CLOEXEC);
  }
  EXPECT_THAT(*Receive(&b_, large.size() - 1), large.substr(1));
  EXPECT_THAT(*Receive(&b_, 5), "after");
  sender.join();
}

TEST_F(UnixSocketTest, AsManyAsTheSystemCarries) {
  const std::vector<ScopedDescriptor> sent = Pipes(UnixSocket::kMaxDescriptors);
  EXPECT_OK(Send(&a_, "x", Numbers(sent)));
  char byte;
  std::vector<ScopedDescriptor> received;
  EXPECT_OK(b_.ReceiveExactly(absl::MakeSpan(&byte, 1), UnixSocket::kMaxDescriptors, &received, kLong));
  EXPECT_EQ(received.size(), UnixSocket::kMaxDescriptors);
}

TEST_F(UnixSocketTest, TooManyAreRefusedAndClosed) {
  const std::vector<ScopedDescriptor> pipes = Pipes(UnixSocket::kMaxDescriptors);
  const std::vector<int> numbers = Numbers(pipes);
  for (const size_t sent : {size_t{1}, size_t{2}, size_t{3}, numbers.size()}) {
    for (const size_t wanted : {size_t{0}, size_t{1}, size_t{2}, size_t{200}}) {
      if (wanted >= sent) continue;
      SCOPED_TRACE(::testing::Message() << sent << " sent, " << wanted << " wanted");
      const int before = CountOpenDescriptors();
      EXPECT_OK(Send(&a_, "x", absl::MakeSpan(numbers).first(sent)));
      char byte;
      std::vector<ScopedDescriptor> received;
      EXPECT_THAT(b_.ReceiveExactly(absl::MakeSpan(&byte, 1), wanted, &received, kLong),
                  StatusIs(Code::kInvalidArgument, HasSubstr("more descriptors than the " + std::to_string(wanted))));
      EXPECT_TRUE(received.empty());
      EXPECT_EQ(CountOpenDescriptorsOnceSettled(before), before);
    }
  }
}

TEST_F(UnixSocketTest, ReceivingSomeAddsToTheDescriptorsThereAre) {
  const std::vector<ScopedDescriptor> pipes = Pipes(2);
  char byte;
  std::vector<ScopedDescriptor> descriptors;
  for (size_t wanted = 2; wanted <= 4; wanted += 2) {
    EXPECT_OK(Send(&a_, "x", Numbers(pipes)));
    EXPECT_EQ(*b_.ReceiveSome(absl::MakeSpan(&byte, 1), 5, &descriptors, kLong), 1u);
    EXPECT_EQ(descriptors.size(), wanted);
  }
  EXPECT_OK(Send(&a_, "x", Numbers(pipes)));
  const int before = CountOpenDescriptors();
  EXPECT_THAT(b_.ReceiveSome(absl::MakeSpan(&byte, 1), 5, &descriptors, kLong),
              StatusIs(Code::kInvalidArgument, HasSubstr("more descriptors than the 5 wanted")));
  EXPECT_EQ(descriptors.size(), 4u);
  EXPECT_EQ(CountOpenDescriptorsOnceSettled(before), before);
}

TEST_F(UnixSocketTest, DescriptorsOfSeveralMessagesAddUp) {
  const std::vector<ScopedDescriptor> pipes = Pipes(2);
  for (int i = 0; i < 3; ++i) EXPECT_OK(Send(&a_, "x", Numbers(pipes)));
  std::string text(2, '?');
  std::vector<ScopedDescriptor> received;
  EXPECT_OK(b_.ReceiveExactly(absl::MakeSpan(&text[0], 2), 4, &received, kLong));
  EXPECT_EQ(received.size(), 4u);
  received.clear();
  EXPECT_OK(Send(&a_, "x", Numbers(pipes)));
  EXPECT_THAT(b_.ReceiveExactly(absl::MakeSpan(&text[0], 2), 3, &received, kLong),
              StatusIs(Code::kInvalidArgument, HasSubstr("more descriptors than the 3 wanted")));
  EXPECT_TRUE(received.empty());
}

TEST_F(UnixSocketTest, AnErrorLaterClosesWhatCameFirst) {
  const std::vector<ScopedDescriptor> pipes = Pipes(2);
  EXPECT_OK(Send(&a_, "x", Numbers(pipes)));
  const int before = CountOpenDescriptors();
  std::string text(2, '?');
  std::vector<ScopedDescriptor> received;
  EXPECT_THAT(b_.ReceiveExactly(absl::MakeSpan(&text[0], 2), 2, &received, kShort),
              StatusIs(Code::kDeadlineExceeded, HasSubstr("received 1 of 2")));
  EXPECT_TRUE(received.empty());
  EXPECT_EQ(CountOpenDescriptorsOnceSettled(before), before);
}

TEST_F(UnixSocketTest, NoRoomForReceivedDescriptors) {
  const std::vector<ScopedDescriptor> pipes = Pipes(3);
  for (const int room : {0, 2}) {
    SCOPED_TRACE(room);
    EXPECT_OK(Send(&a_, "x", Numbers(pipes)));
    const int before = CountOpenDescriptors();
    char byte;
    std::vector<ScopedDescriptor> received;
    absl::Status status;
    {
      const DescriptorLimit limit(room);
      status = b_.ReceiveExactly(absl::MakeSpan(&byte, 1), 3, &received, kLong);
    }
    EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("RLIMIT_NOFILE")));
    EXPECT_EQ(CountOpenDescriptorsOnceSettled(before), before);
  }
}

TEST_F(UnixSocketTest, ABadDescriptorIsNotSent) {
  EXPECT_THAT(a_.SendAll({"x"}, {12345}, kLong), Not(IsOk()));
  EXPECT_THAT(Receive(&b_, 1, absl::ZeroDuration()), StatusIs(Code::kDeadlineExceeded, HasSubstr("received 0 of 1")));
  EXPECT_DEATH(a_.SendAll({""}, {0}, kLong).IgnoreError(), "travel with a byte");
}

// ---- Faults ---------------------------------------------------------------------------------------------------------

TEST_F(UnixSocketTest, SignalsInterruptNothing) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};  // no SA_RESTART
  struct sigaction old_action;
  ASSERT_EQ(sigaction(SIGALRM, &action, &old_action), 0);
  const itimerval every_half_ms = {{0, 500}, {0, 500}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every_half_ms, nullptr), 0);
  const std::string text = Pattern(4 << 20);
  std::thread sender([&] {
    for (int i = 0; i < 10; ++i) {
      absl::SleepFor(absl::Milliseconds(5));
      EXPECT_OK(Send(&a_, text));
    }
  });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(*Receive(&b_, text.size()), text);
  sender.join();
  const absl::Time start = absl::Now();
  EXPECT_THAT(Receive(&b_, 1, kShort), StatusIs(Code::kDeadlineExceeded));
  EXPECT_GE(absl::Now() - start, kShort - absl::Milliseconds(1));
  const itimerval none = {};
  setitimer(ITIMER_REAL, &none, nullptr);
  sigaction(SIGALRM, &old_action, nullptr);
}

// A peer killed after each of some numbers of bytes, while it holds nothing of ours.
TEST_F(UnixSocketTest, APeerKilledInTheMiddle) {
  for (const size_t sent : {0, 1, 5, 4095, 70000}) {
    SCOPED_TRACE(sent);
    const int before = CountOpenDescriptors();
    ASSERT_OK_AND_ASSIGN(auto ends, UnixSocket::Pair());
    const pid_t child = fork();
    if (child == 0) {
      { const UnixSocket other = std::move(ends.second); }
      const std::vector<ScopedDescriptor> pipes = Pipes(1);
      static_cast<void>(
          ends.first.SendAll({Pattern(sent)}, sent == 0 ? std::vector<int>() : Numbers(pipes), kLong).ok());
      raise(SIGKILL);
    }
    { const UnixSocket other = std::move(ends.first); }
    std::string text(100'000, '?');
    std::vector<ScopedDescriptor> received;
    EXPECT_THAT(ends.second.ReceiveExactly(absl::MakeSpan(&text[0], text.size()), 1, &received, kLong),
                StatusIs(Code::kUnavailable, HasSubstr("closed after " + std::to_string(sent) + " of 100000 bytes")));
    { const UnixSocket other = std::move(ends.second); }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(CountOpenDescriptors(), before);
  }
}

TEST_F(UnixSocketTest, SendingToAPeerThatIsKilled) {
  ASSERT_OK_AND_ASSIGN(auto ends, UnixSocket::Pair());
  const pid_t child = fork();
  if (child == 0) {
    { const UnixSocket other = std::move(ends.second); }
    char byte;
    static_cast<void>(ends.first.ReceiveExactly(absl::MakeSpan(&byte, 1), kLong).ok());
    raise(SIGKILL);
  }
  { const UnixSocket other = std::move(ends.first); }
  EXPECT_THAT(ends.second.SendAll({Pattern(8 << 20)}, {}, kLong),
              StatusIs(Code::kUnavailable, HasSubstr("of 8388608")));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
}

// ---- Listening ------------------------------------------------------------------------------------------------------

class UnixListenerTest : public ::testing::Test {
 protected:
  ~UnixListenerTest() override { EXPECT_EQ(CountOpenDescriptors(), before_) << "descriptors are left open"; }

  absl::StatusOr<UnixListener> Listen(UnixListener::Options options = {}) {
    return UnixListener::Listen(path_, options);
  }
  // Whether this process can act as, and make files of, user 65534: in a sandbox root may be the only user there is.
  bool KnowsAnotherUser() const { return chown(folder_.Write("theirs", "").c_str(), 65534, 65534) == 0; }
  bool Exists() const {
    struct stat about;
    return lstat(path_.c_str(), &about) == 0;
  }

  const TempFolder folder_{"/tmp/"};  // the place Bazel gives tests has a longer path than a socket can
  const std::string path_ = folder_.Path("socket");
  const int before_ = CountOpenDescriptors();
};

TEST_F(UnixListenerTest, ClientsConnectByPath) {
  {
    ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen());
    EXPECT_EQ(listener.path(), path_);
    struct stat about;
    ASSERT_EQ(lstat(path_.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 07777, 0600u);
    ASSERT_OK_AND_ASSIGN(UnixSocket client, UnixSocket::Connect(path_, kLong));
    ASSERT_OK_AND_ASSIGN(UnixSocket server, listener.Accept(kLong));
    EXPECT_OK(Send(&client, "hello"));
    EXPECT_THAT(*Receive(&server, 5), "hello");
    for (const UnixSocket* socket : {&client, &server}) {
      EXPECT_EQ(socket->peer().user_id, geteuid());
      EXPECT_EQ(socket->peer().group_id, getegid());
      EXPECT_EQ(socket->peer().process_id, getpid());
      EXPECT_EQ(socket->name(), "\"" + path_ + "\", process " + std::to_string(getpid()));
      EXPECT_EQ(fcntl(socket->descriptor(), F_GETFD), FD_CLOEXEC);
    }
    EXPECT_THAT(listener.Accept(kShort), StatusIs(Code::kDeadlineExceeded, HasSubstr(path_)));
  }
  EXPECT_FALSE(Exists()) << "the path goes with its listener";
  EXPECT_THAT(UnixSocket::Connect(path_, kShort), StatusIs(Code::kNotFound, HasSubstr(path_)));
}

TEST_F(UnixListenerTest, TheModeIsAsAsked) {
  const mode_t mask = umask(022);
  const auto listener = Listen({/*mode=*/0666});
  umask(mask);
  ASSERT_OK(listener);
  struct stat about;
  ASSERT_EQ(lstat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0644u) << "less the umask";
}

TEST_F(UnixListenerTest, PathsThatCannotBe) {
  const std::string nul("a\0b", 3);
  for (const auto& [path, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "is empty"},
           {nul, "has a NUL byte"},
           {std::string(1, '\0') + "abstract", "has a NUL byte"},
           {"/" + std::string(107, 'a'), "has 108 bytes; at most 107 are possible"},
           {std::string(100000, 'a'), "has 100000 bytes"}}) {
    EXPECT_THAT(UnixListener::Listen(path, {}), StatusIs(Code::kInvalidArgument, HasSubstr(says)));
    EXPECT_THAT(UnixSocket::Connect(path, kLong), StatusIs(Code::kInvalidArgument, HasSubstr(says)));
  }
  EXPECT_THAT(UnixListener::Listen(folder_.Path("no/socket"), {}), StatusIs(Code::kNotFound, HasSubstr("/no\"")));
  EXPECT_THAT(UnixListener::Listen(folder_.Write("file", "") + "/socket", {}), Not(IsOk()));
}

TEST_F(UnixListenerTest, TheLongestPath) {
  const std::string path = folder_.Path(std::string(107 - folder_.path().size() - 1, 'x'));
  ASSERT_EQ(path.size(), 107u);
  ASSERT_OK_AND_ASSIGN(UnixListener listener, UnixListener::Listen(path, {}));
  EXPECT_OK(UnixSocket::Connect(path, kLong));
}

TEST_F(UnixListenerTest, OneListenerForAPath) {
  ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen());
  EXPECT_THAT(Listen(), StatusIs(Code::kAlreadyExists, HasSubstr("another server listens here")));
  EXPECT_OK(UnixSocket::Connect(path_, kLong)) << "the first is not disturbed";
}

TEST_F(UnixListenerTest, WhatADeadServerLeftIsReplaced) {
  BareSocket(path_, bind);  // and closed
  ASSERT_TRUE(Exists());
  EXPECT_THAT(UnixSocket::Connect(path_, kShort), StatusIs(Code::kUnavailable, HasSubstr("connect")));
  ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen());
  EXPECT_OK(UnixSocket::Connect(path_, kLong));
}

TEST_F(UnixListenerTest, NothingButAnOldSocketIsRemoved) {
  const auto refused = [&] { return StatusIs(Code::kAlreadyExists, HasSubstr("exists and is not a socket")); };
  folder_.Write("socket", "precious");
  EXPECT_THAT(Listen(), refused());
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_THAT(Listen(), refused());
  ASSERT_EQ(rmdir(path_.c_str()), 0);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Listen(), refused());
  ASSERT_EQ(unlink(path_.c_str()), 0);
  BareSocket(folder_.Path("old"), bind);
  ASSERT_EQ(symlink("old", path_.c_str()), 0);
  EXPECT_THAT(Listen(), refused()) << "not even a link to an old socket";
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(symlink("nowhere", path_.c_str()), 0);
  EXPECT_THAT(Listen(), refused());
  ASSERT_EQ(unlink(path_.c_str()), 0);
  const ScopedDescriptor datagrams = BareSocket(path_, bind, SOCK_DGRAM);
  EXPECT_THAT(Listen(), StatusIs(Code::kAlreadyExists, HasSubstr("another server")));
  EXPECT_TRUE(Exists());
}

TEST_F(UnixListenerTest, AFolderInWhichAnybodyMayRenameIsRefused) {
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);
  EXPECT_THAT(Listen(), StatusIs(Code::kPermissionDenied, HasSubstr("writable by all, not sticky")));
  ASSERT_EQ(chmod(folder_.path().c_str(), 01777), 0);
  EXPECT_OK(Listen());
}

TEST_F(UnixListenerTest, OnlyItsOwnPathIsRemoved) {
  {
    ASSERT_OK_AND_ASSIGN(const UnixListener listener, Listen());
    ASSERT_EQ(unlink(path_.c_str()), 0);
    BareSocket(path_, bind);
  }
  EXPECT_TRUE(Exists()) << "it is another one's by now";
  {
    ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen());
    const pid_t child = fork();
    if (child == 0) {
      { const UnixListener copy = std::move(listener); }
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(Exists()) << "a child does not take it from its parent";
    UnixListener moved = std::move(listener);
    EXPECT_TRUE(Exists());
    ASSERT_OK_AND_ASSIGN(UnixListener other, UnixListener::Listen(folder_.Path("other"), {}));
    moved = std::move(other);
    EXPECT_FALSE(Exists()) << "assigning to a listener ends it";
    EXPECT_EQ(moved.path(), folder_.Path("other"));
    EXPECT_OK(UnixSocket::Connect(moved.path(), kLong));
  }
}

// Of several servers that find a dead one's socket, one listens and no other takes its place.
TEST_F(UnixListenerTest, ServersThatStartTogether) {
  for (int round = 0; round < 20; ++round) {
    BareSocket(path_, bind);
    std::atomic<int> listening{0};
    std::atomic<int> done{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const auto listener = Listen();
        if (listener.ok()) {
          ++listening;
        } else {
          EXPECT_THAT(listener, StatusIs(Code::kAlreadyExists));
        }
        for (++done; done < 4;) absl::SleepFor(absl::Milliseconds(1));
        if (listener.ok()) {
          EXPECT_OK(UnixSocket::Connect(path_, kLong));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(listening, 1);
    EXPECT_FALSE(Exists());
  }
}

TEST_F(UnixListenerTest, AFullQueueHasADeadline) {
  ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen({0600, /*backlog=*/0}));
  ASSERT_OK_AND_ASSIGN(UnixSocket first, UnixSocket::Connect(path_, kLong));
  EXPECT_THAT(UnixSocket::Connect(path_, kShort), StatusIs(Code::kDeadlineExceeded, HasSubstr("connect")));
  EXPECT_THAT(UnixSocket::Connect(path_, absl::ZeroDuration()), StatusIs(Code::kDeadlineExceeded));
  std::thread server([&] {
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_OK(listener.Accept(kLong));
  });
  EXPECT_OK(UnixSocket::Connect(path_, kLong)) << "it waits for its place";
  server.join();
}

TEST_F(UnixListenerTest, ShutdownWakesAccept) {
  ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen());
  std::thread server(
      [&] { EXPECT_THAT(listener.Accept(Deadline::Never()), StatusIs(Code::kUnavailable, HasSubstr("shut down"))); });
  absl::SleepFor(absl::Milliseconds(20));
  listener.Shutdown();
  server.join();
  EXPECT_THAT(listener.Accept(kLong), StatusIs(Code::kUnavailable));
}

TEST_F(UnixListenerTest, WithoutDescriptorsItPausesAndServesLater) {
  ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen());
  ASSERT_OK_AND_ASSIGN(UnixSocket client, UnixSocket::Connect(path_, kLong));
  int refusals = 0;
  const absl::Time start = absl::Now();
  {
    const DescriptorLimit limit(0);
    while (absl::Now() - start < absl::Milliseconds(200)) {  // a server that just goes on
      EXPECT_THAT(listener.Accept(kLong), StatusIs(Code::kResourceExhausted, HasSubstr("accept")));
      ++refusals;
    }
    EXPECT_THAT(listener.Accept(absl::ZeroDuration()), StatusIs(Code::kResourceExhausted))
        << "no pause past the deadline";
  }
  EXPECT_LE(refusals, 5);
  ASSERT_OK_AND_ASSIGN(UnixSocket server, listener.Accept(kLong));
  EXPECT_OK(Send(&client, "still here"));
  EXPECT_THAT(*Receive(&server, 10), "still here");
}

TEST_F(UnixListenerTest, TenThousandConnectsAndAborts) {
  ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen());
  const int before = CountOpenDescriptors();
  std::thread clients([&] {
    for (int i = 0; i < 10000; ++i) {
      absl::StatusOr<UnixSocket> client = UnixSocket::Connect(path_, kLong);
      ASSERT_OK(client);
      if (i % 3 == 0) {
        EXPECT_OK(Send(&*client, "half"));
      }
    }
  });
  for (int i = 0; i < 10000; ++i) {
    absl::StatusOr<UnixSocket> server = listener.Accept(kLong);
    ASSERT_OK(server);
    if (i % 3 == 0) {
      EXPECT_THAT(Receive(&*server, 8), StatusIs(Code::kUnavailable, HasSubstr("closed after 4 of 8")));
    }
  }
  clients.join();
  EXPECT_EQ(CountOpenDescriptors(), before);
}

TEST_F(UnixListenerTest, SignalsDoNotDisturbConnecting) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  struct sigaction old_action;
  ASSERT_EQ(sigaction(SIGALRM, &action, &old_action), 0);
  const itimerval every_half_ms = {{0, 500}, {0, 500}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every_half_ms, nullptr), 0);
  {
    ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen({0600, /*backlog=*/0}));
    std::thread clients([&] {
      for (int i = 0; i < 50; ++i) EXPECT_OK(UnixSocket::Connect(path_, kLong));
    });
    for (int i = 0; i < 50; ++i) {
      EXPECT_OK(listener.Accept(kLong));
      absl::SleepFor(absl::Milliseconds(2));
    }
    clients.join();
  }
  const itimerval none = {};
  setitimer(ITIMER_REAL, &none, nullptr);
  sigaction(SIGALRM, &old_action, nullptr);
}

// Needs root, which can change to another user.
TEST_F(UnixListenerTest, AnotherUserIsRefusedAtBothEnds) {
  if (!KnowsAnotherUser()) GTEST_SKIP() << "only root can try, and outside of sandboxes";
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  const mode_t mask = umask(0);
  auto listener = Listen({/*mode=*/0666});
  umask(mask);
  ASSERT_OK(listener);
  const auto as_nobody = [&](AllowedPeers allowed) {
    const pid_t child = fork();
    if (child != 0) return child;
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(99);
    absl::StatusOr<UnixSocket> server = UnixSocket::Connect(path_, kLong, allowed);
    if (!server.ok()) _exit(static_cast<int>(server.status().code()));
    _exit(Receive(&*server, 1).status().code() == Code::kUnavailable ? 0 : 98);
  };
  const auto exit_code = [](pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
  };
  const pid_t trusting = as_nobody(AllowedPeers::kAnyUser);
  EXPECT_THAT(listener->Accept(kLong),
              StatusIs(Code::kPermissionDenied, HasSubstr("belongs to user 65534, only user 0")));
  EXPECT_EQ(exit_code(trusting), 0) << "and is disconnected";
  EXPECT_EQ(exit_code(as_nobody(AllowedPeers::kSameUser)), static_cast<int>(Code::kPermissionDenied))
      << "the server is another user's";
}

TEST_F(UnixListenerTest, AnotherUsersOldSocketIsNotReplaced) {
  if (!KnowsAnotherUser()) GTEST_SKIP() << "only root can try, and outside of sandboxes";
  BareSocket(path_, bind);
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(Listen(), StatusIs(Code::kPermissionDenied, HasSubstr("is a socket of user 65534")));
  EXPECT_TRUE(Exists());
}

TEST_F(UnixSocketTest, AnErrorClosesWhatTheCallerHadThere) {
  const int before = CountOpenDescriptors();
  std::vector<ScopedDescriptor> descriptors = Pipes(1);
  char byte;
  EXPECT_THAT(b_.ReceiveExactly(absl::MakeSpan(&byte, 1), 2, &descriptors, kShort), StatusIs(Code::kDeadlineExceeded));
  EXPECT_TRUE(descriptors.empty());
  EXPECT_EQ(CountOpenDescriptors(), before);
}

}  // namespace
}  // namespace tensorcask
