#include "tensorcask/serialize/exchange/unix_socket.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/serialize/exchange/socket_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::CountOpenDescriptorsOnceSettled;
using ::tensorcask::testing::DescriptorLimit;
using ::tensorcask::testing::IsOk;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::kShort;
using ::tensorcask::testing::Receive;
using ::tensorcask::testing::Send;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

std::string Pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
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

class UnixSocketTest : public ::testing::Test {
 protected:
  UnixSocketTest() : pair_(*UnixSocket::Pair()), a_(pair_.first), b_(pair_.second) {}
  ~UnixSocketTest() override {
    CloseA();
    { const UnixSocket gone = std::move(b_); }
    EXPECT_EQ(CountOpenDescriptorsOnceSettled(before_), before_) << "descriptors are left open";
  }
  void CloseA() { const UnixSocket gone = std::move(a_); }

  const int before_ = CountOpenDescriptors();
  std::pair<UnixSocket, UnixSocket> pair_;
  UnixSocket& a_;
  UnixSocket& b_;
};

// ---- Deadline -------------------------------------------------------------------------------------------------------

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
    EXPECT_EQ(CountOpenDescriptorsOnceSettled(before), before);
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
