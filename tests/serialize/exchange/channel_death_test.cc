// One of two connected processes is killed, at every byte that it sends or receives and at every system call: the other
// gets a clear status at once and leaks nothing.

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/transport.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Catch;
using ::tensorcask::testing::Counting;
using ::tensorcask::testing::CountMappedMemoryFiles;
using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::Ends;
using ::tensorcask::testing::ExpectSame;
using ::tensorcask::testing::IsOk;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::MakeEnds;
using ::tensorcask::testing::Mixed;
using ::tensorcask::testing::StatusIs;
using Code = absl::StatusCode;

// Processes with a sanitizer are slow to make.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kStep = 13;
#else
constexpr uint64_t kStep = 1;
#endif

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// ---- A conversation -------------------------------------------------------------------------------------------------

// What each call of one side said: up to the first that failed, or the last.
using Statuses = std::vector<absl::Status>;

// The client asks once and ends the channel, the server answers and hears of the end. Both say the same message.
Statuses BeClient(Channel channel, const Message& message) {
  const absl::StatusOr<Message> reply = channel.Call(message, kLong);
  if (!reply.ok()) return {reply.status()};
  ExpectSame(*reply, message);
  return {reply.status(), channel.Close(kLong)};
}

Statuses BeServer(Channel channel, const Message& message) {
  const absl::StatusOr<Message> request = channel.Receive(kLong);
  if (!request.ok()) return {request.status()};
  ExpectSame(*request, message);
  const absl::Status replied = channel.Reply(*request, message, kLong);
  if (!replied.ok()) return {request.status(), replied};
  return {request.status(), replied, channel.Receive(kLong).status()};
}

Statuses Be(bool is_client, Channel channel, const Message& message) {
  return is_client ? BeClient(std::move(channel), message) : BeServer(std::move(channel), message);
}

// ---- At every byte --------------------------------------------------------------------------------------------------

// A socket whose process is killed once so many bytes have been sent or received.
class DeadlyTransport final : public Transport {
 public:
  DeadlyTransport(UnixSocket socket, uint64_t sends, uint64_t receives)
      : socket_(std::move(socket)), sends_(sends), receives_(receives) {
    Count(0, &sends_);
    Count(0, &receives_);
  }

  size_t max_descriptors() const override { return UnixSocket::kMaxDescriptors; }
  const std::string& name() const override { return socket_.name(); }

  absl::Status SendAll(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                       Deadline deadline) override {
    std::string bytes;
    for (const absl::string_view piece : pieces) bytes.append(piece.data(), piece.size());
    bytes.resize(std::min<uint64_t>(bytes.size(), sends_));
    const absl::Status status = socket_.SendAll({bytes}, descriptors, deadline);
    Count(bytes.size(), &sends_);
    return status;
  }
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, size_t max_descriptors,
                                     std::vector<ScopedDescriptor>* descriptors, Deadline deadline) override {
    const absl::StatusOr<size_t> received = socket_.ReceiveSome(out.first(std::min<uint64_t>(out.size(), receives_)),
                                                                max_descriptors, descriptors, deadline);
    if (received.ok()) Count(*received, &receives_);
    return received;
  }
  void Shutdown() override { socket_.Shutdown(); }

 private:
  static void Count(uint64_t bytes, uint64_t* left) {
    if (*left == kNoLimit) return;
    *left -= bytes;
    if (*left > 0) return;
    kill(getpid(), SIGKILL);
    while (true) pause();
  }

  UnixSocket socket_;
  uint64_t sends_;
  uint64_t receives_;
};

class KilledAtEveryByte : public ::testing::Test {
 protected:
  // What one side says whose peer is killed after so many bytes.
  Statuses SurviveWith(bool is_client, uint64_t sends, uint64_t receives) {
    Ends ends = MakeEnds();
    const pid_t child = fork();
    if (child == 0) {
      { const UnixSocket gone = std::move(ends.ours); }
      auto transport = std::make_unique<DeadlyTransport>(std::move(ends.theirs), sends, receives);
      Be(!is_client, Channel::FromTransport(std::move(transport)), message_);
      _exit(0);
    }
    { const UnixSocket gone = std::move(ends.theirs); }
    Statuses statuses = Be(is_client, Channel::FromSocket(std::move(ends.ours)), message_);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    EXPECT_EQ(CountOpenDescriptors(), descriptors_);
    EXPECT_EQ(CountMappedMemoryFiles(), mappings_);
    return statuses;
  }

  // The bytes that each side sends.
  const testing::Caught caught_ = Catch(Mixed());
  const uint64_t hello_bytes_ = caught_.hello.size();
  const uint64_t message_bytes_ = caught_.message.bytes().size();  // as many as the other side's
  const uint64_t goodbye_bytes_ = exchange::kFrameHeaderBytes;

  const Message message_ = Mixed();
  const int descriptors_ = CountOpenDescriptors();
  const int mappings_ = CountMappedMemoryFiles();
};

TEST_F(KilledAtEveryByte, ThatTheClientSends) {
  const uint64_t request_end = hello_bytes_ + message_bytes_;
  const uint64_t end = request_end + goodbye_bytes_;
  for (uint64_t bytes = 0; bytes <= end; bytes = bytes == end ? end + 1 : std::min(bytes + kStep, end)) {
    SCOPED_TRACE(bytes);
    const Statuses said = SurviveWith(/*is_client=*/false, bytes, kNoLimit);
    if (bytes < request_end) {
      EXPECT_THAT(said, ::testing::ElementsAre(StatusIs(Code::kUnavailable)));
      continue;
    }
    EXPECT_THAT(said[0], IsOk());
    EXPECT_THAT(said.back(), StatusIs(bytes == end ? Code::kOutOfRange : Code::kUnavailable));
  }
}

TEST_F(KilledAtEveryByte, ThatTheServerSends) {
  const uint64_t end = hello_bytes_ + message_bytes_;
  for (uint64_t bytes = 0; bytes <= end; bytes = bytes == end ? end + 1 : std::min(bytes + kStep, end)) {
    SCOPED_TRACE(bytes);
    EXPECT_THAT(SurviveWith(/*is_client=*/true, bytes, kNoLimit)[0],
                StatusIs(bytes == end ? Code::kOk : Code::kUnavailable));
  }
}

TEST_F(KilledAtEveryByte, ThatTheClientReceives) {
  const uint64_t end = hello_bytes_ + message_bytes_;
  for (uint64_t bytes = 0; bytes <= end; bytes = bytes == end ? end + 1 : std::min(bytes + kStep, end)) {
    SCOPED_TRACE(bytes);
    const Statuses said = SurviveWith(/*is_client=*/false, kNoLimit, bytes);
    if (bytes > 0) {  // it has asked before it reads
      EXPECT_THAT(said[0], IsOk());
    }
    EXPECT_THAT(said.back(), StatusIs(Code::kUnavailable));
  }
}

TEST_F(KilledAtEveryByte, ThatTheServerReceives) {
  const uint64_t request_end = hello_bytes_ + message_bytes_;
  const uint64_t end = request_end + goodbye_bytes_;
  for (uint64_t bytes = 0; bytes <= end; bytes = bytes == end ? end + 1 : std::min(bytes + kStep, end)) {
    SCOPED_TRACE(bytes);
    EXPECT_THAT(SurviveWith(/*is_client=*/true, kNoLimit, bytes)[0],
                StatusIs(bytes > request_end ? Code::kOk : Code::kUnavailable));
  }
}

// ---- At every system call -------------------------------------------------------------------------------------------

// Runs `child` until its `stop`-th entry into or return from a system call, and kills it there; false if it ended
// before that. Requires: it was forked by this thread, traces itself and has stopped.
bool KillAtStop(pid_t child, int stop) {
  int status = 0;
  for (int passed = 0;; ++passed) {
    if (passed == stop) {
      EXPECT_EQ(kill(child, SIGKILL), 0);
      EXPECT_EQ(waitpid(child, &status, 0), child);
      return true;
    }
    EXPECT_EQ(ptrace(PTRACE_SYSCALL, child, nullptr, nullptr), 0);
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) return false;
  }
}

class KilledAtEverySystemCall : public ::testing::TestWithParam<bool> {};

TEST_P(KilledAtEverySystemCall, TheOtherSideSaysSo) {
  const bool is_client = GetParam();  // the one that survives
  Message message = Mixed();
  // More than the socket's buffer holds, so that both sides wait.
  message.tensors[1].view = Counting(TensorShape({1 << 18}), CpuAllocator::Default());
  const auto be = [&message](bool is_client, UnixSocket socket) {
    return Be(is_client, Channel::FromSocket(std::move(socket)), message);
  };
  const int descriptors = CountOpenDescriptors();
  const int mappings = CountMappedMemoryFiles();
  bool was_killed = true;
  for (int stop = 0; was_killed; ++stop) {
    SCOPED_TRACE(stop);
    Ends ends = MakeEnds();
    const pid_t child = fork();
    if (child == 0) {
      { const UnixSocket gone = std::move(ends.ours); }
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
      raise(SIGSTOP);
      be(!is_client, std::move(ends.theirs));
      _exit(0);
    }
    { const UnixSocket gone = std::move(ends.theirs); }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) GTEST_SKIP() << "no tracing of processes here";
    Statuses said;
    std::thread survivor([&] { said = be(is_client, std::move(ends.ours)); });
    was_killed = KillAtStop(child, stop);
    survivor.join();
    ASSERT_FALSE(said.empty());
    for (size_t i = 0; i + 1 < said.size(); ++i) EXPECT_THAT(said[i], IsOk());
    if (said.back().code() != Code::kUnavailable) {
      EXPECT_THAT(said.back(), StatusIs(is_client ? Code::kOk : Code::kOutOfRange)) << "the whole of it";
    } else {
      EXPECT_TRUE(was_killed);
    }
    EXPECT_EQ(CountOpenDescriptors(), descriptors);
    EXPECT_EQ(CountMappedMemoryFiles(), mappings);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, KilledAtEverySystemCall, ::testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "OfTheServer" : "OfTheClient"); });

}  // namespace
}  // namespace tensorcask
