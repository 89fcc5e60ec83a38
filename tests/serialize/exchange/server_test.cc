// A server with clients of which most are hostile. (tests/attack attacks the tool's server for longer.)

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/server_client.h"
#include "tensorcask/serialize/exchange/internal/socket_calls.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/server.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Catch;
using ::tensorcask::testing::Caught;
using ::tensorcask::testing::Counting;
using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::Ends;
using ::tensorcask::testing::Frame;
using ::tensorcask::testing::IsOk;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::MakeEnds;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using Code = absl::StatusCode;

constexpr int64_t kLargeElements = 1 << 20;  // 4 MiB

class TestService final : public Service {
 public:
  Message Answer(const Message& request) override {
    if (request.topic == "bad_alloc") throw std::bad_alloc();
    if (request.topic == "runtime_error") throw std::runtime_error("a secret of the server");
    if (request.topic == "number") throw 7;
    while (request.topic == "slow" && !is_released_) absl::SleepFor(absl::Milliseconds(1));
    Message reply;
    reply.topic = request.topic;
    reply.tensors = request.tensors;
    if (request.topic == "large") reply.tensors.push_back({large_, {}});
    return reply;
  }
  uint64_t AnswerBytes(const Message& request) override {
    return request.topic == "large" || request.topic == "slow" ? 4 * kLargeElements : 0;
  }
  void Release() { is_released_ = true; }  // the answers to "slow"

 private:
  std::atomic<bool> is_released_{false};
  const Tensor large_ = Counting(TensorShape({kLargeElements}), CpuAllocator::Default());
};

Message Request(const std::string& topic) {
  Message request;
  request.topic = topic;
  request.tensors.push_back({Counting(TensorShape({7}), CpuAllocator::Default()), {}});
  return request;
}

class ServerTest : public ::testing::Test {
 protected:
  void Start(const ServerOptions& options = {}) {
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Listen(path_, &service_, options);
    ASSERT_OK(server);
    server_ = *std::move(server);
    thread_ = std::thread([this] {
      while (!stop_) server_->Run(absl::Milliseconds(10));
    });
  }
  ~ServerTest() override {
    service_.Release();
    Stop();
  }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  Channel Connect() { return *Channel::Connect(path_, kLong); }
  UnixSocket ConnectBare() { return *UnixSocket::Connect(path_, kLong); }
  void Play(UnixSocket* socket, const std::string& bytes, absl::Span<const int> descriptors = {}) {
    socket->SendAll({bytes}, descriptors, kLong).IgnoreError();
  }
  // True if the server ends the connection.
  bool IsCutOff(UnixSocket* socket) {
    char bytes[4096];
    std::vector<ScopedDescriptor> descriptors;
    while (true) {
      const absl::StatusOr<size_t> received = socket->ReceiveSome(absl::MakeSpan(bytes), 0, &descriptors, kLong);
      if (!received.ok()) return absl::IsUnavailable(received.status());
      if (*received == 0) return true;
    }
  }
  void Ask(const std::string& topic, Channel* client) {
    Message request = Request(topic);
    request.request = 1;
    EXPECT_OK(client->Send(request, kLong));
  }
  absl::Duration HonestWait() {
    const absl::Time begin = absl::Now();
    Channel client = Connect();
    EXPECT_OK(client.Call(Request("echo"), kLong));
    return absl::Now() - begin;
  }

  const TempFolder folder_{"/tmp/"};
  const std::string path_ = folder_.Path("s");
  TestService service_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

TEST_F(ServerTest, AnswersManyRequestsOfManyClients) {
  Start();
  std::vector<Channel> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(Connect());
  for (int round = 0; round < 3; ++round) {
    for (Channel& client : clients) {
      ASSERT_OK_AND_ASSIGN(const Message reply, client.Call(Request(round == 1 ? "large" : "echo"), kLong));
      ASSERT_OK(reply.status);
      EXPECT_EQ(reply.tensors.size(), round == 1 ? 2u : 1u);
    }
  }
  Stop();
  EXPECT_EQ(server_->stats().num_answers, 60u);
  EXPECT_EQ(server_->stats().num_clients, 20u);
  EXPECT_EQ(server_->stats().num_evicted, 0u);
}

TEST_F(ServerTest, RequestsThatComeTogetherAreAllAnswered) {
  Start();
  Channel client = Connect();
  for (uint64_t i = 1; i <= 10; ++i) {
    Message request = Request("echo");
    request.request = i;
    ASSERT_OK(client.Send(request, kLong));
  }
  for (uint64_t i = 1; i <= 10; ++i) {
    ASSERT_OK_AND_ASSIGN(const Message reply, client.Receive(kLong));
    EXPECT_EQ(reply.request, i);
  }
}

TEST_F(ServerTest, AnExceptionBecomesAStatus) {
  Start();
  Channel client = Connect();
  for (const char* const thrown : {"bad_alloc", "runtime_error", "number"}) {
    ASSERT_OK_AND_ASSIGN(const Message reply, client.Call(Request(thrown), kLong));
    EXPECT_THAT(reply.status, StatusIs(Code::kResourceExhausted, ::testing::HasSubstr("failed to compute"))) << thrown;
    EXPECT_THAT(reply.status.message(), ::testing::Not(::testing::HasSubstr("secret")));
  }
  EXPECT_OK(client.Call(Request("echo"), kLong));
}

TEST_F(ServerTest, AnAnswerThatTheClientDoesNotAcceptBecomesAStatus) {
  Start();
  ChannelOptions options;
  options.decode.limits.max_message_bytes = 1 << 20;
  Channel client = *Channel::Connect(path_, kLong, options);
  ASSERT_OK_AND_ASSIGN(const Message reply, client.Call(Request("large"), kLong));
  EXPECT_THAT(reply.status, StatusIs(Code::kResourceExhausted, ::testing::HasSubstr("accepts 1048576")));
}

TEST_F(ServerTest, SilentClientsMakeRoom) {
  ServerOptions options;
  options.max_clients = 8;
  Start(options);
  std::vector<UnixSocket> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(ConnectBare());
  EXPECT_LT(HonestWait(), absl::Seconds(5));
  Stop();
  EXPECT_GT(server_->stats().num_evicted, 0u);
}

TEST_F(ServerTest, AnswersThatNobodyReadsMakeRoom) {
  ServerOptions options;
  options.max_answer_bytes = 6 << 20;  // one large answer
  Start(options);
  std::vector<Channel> unread;
  for (int i = 0; i < 5; ++i) {
    unread.push_back(Connect());
    Ask("large", &unread.back());
  }
  Channel client = Connect();
  const absl::Time begin = absl::Now();
  EXPECT_OK(client.Call(Request("large"), kLong));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

// None of them is ever silent, asks too much or reads slowly.
TEST_F(ServerTest, BusyClientsMakeRoom) {
  ServerOptions options;
  options.max_clients = 4;
  Start(options);
  std::atomic<bool> is_done{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 6; ++i) {
    busy.emplace_back([&] {
      while (!is_done) {
        absl::StatusOr<Channel> client = Channel::Connect(path_, kLong);
        while (!is_done && client.ok() && client->Call(Request("echo"), kLong).ok()) {
        }
      }
    });
  }
  absl::SleepFor(absl::Milliseconds(200));
  for (int i = 0; i < 5; ++i) EXPECT_LT(HonestWait(), absl::Seconds(5));
  is_done = true;
  for (std::thread& one : busy) one.join();
}

TEST_F(ServerTest, LargeAnswersHaveHalfOfThePlaces) {
  ServerOptions options;
  options.max_clients = 4;
  Start(options);
  std::vector<Channel> large;
  for (int i = 0; i < 2; ++i) {
    large.push_back(Connect());
    Ask("slow", &large.back());
  }
  absl::SleepFor(absl::Milliseconds(100));  // until the server has received both requests
  for (int i = 0; i < 3; ++i) {
    Channel client = Connect();
    ASSERT_OK_AND_ASSIGN(const Message reply, client.Call(Request("slow"), kLong));
    EXPECT_THAT(reply.status, StatusIs(Code::kResourceExhausted, ::testing::HasSubstr("busy with 2 answers")));
    EXPECT_OK(client.Call(Request("echo"), kLong)) << "the connection goes on";
    EXPECT_LT(HonestWait(), absl::Seconds(5));
  }
  service_.Release();
  for (Channel& client : large) {
    ASSERT_OK_AND_ASSIGN(const Message reply, client.Receive(kLong));
    EXPECT_OK(reply.status);
  }
  ASSERT_OK_AND_ASSIGN(const Message reply, large[0].Call(Request("slow"), kLong));
  EXPECT_OK(reply.status) << "there is room again";
}

TEST_F(ServerTest, AnAnswerThatDoesNotBeginHasADeadline) {
  ServerOptions options;
  options.timeout = absl::Milliseconds(500);
  options.max_answer_bytes = 1;  // one large answer
  Start(options);
  Channel first = Connect();
  Ask("slow", &first);
  absl::SleepFor(absl::Milliseconds(100));
  Channel second = Connect();
  Ask("large", &second);
  EXPECT_THAT(second.Receive(kLong), StatusIs(Code::kUnavailable));
  absl::SleepFor(absl::Milliseconds(200));
  service_.Release();
  ASSERT_OK_AND_ASSIGN(const Message reply, first.Receive(kLong));
  EXPECT_OK(reply.status) << "an answer that is being computed may take as long as it takes";
}

TEST_F(ServerTest, ADescriptorIsRefusedBeforeItsClientIsAccepted) {
  Ends ends = MakeEnds();
  const int none = 0;
  if (setsockopt(ends.ours.descriptor(), SOL_SOCKET, SO_PASSRIGHTS, &none, sizeof(none)) != 0) {
    GTEST_SKIP() << "before Linux 6.16";
  }
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Listen(path_, &service_);  // that does not run
  ASSERT_OK(server);
  UnixSocket client = ConnectBare();
  const ScopedDescriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(client.SendAll({"x"}, {file.get()}, kLong), StatusIs(Code::kPermissionDenied));
}

TEST_F(ServerTest, EachStateHasADeadline) {
  ServerOptions options;
  options.timeout = absl::Milliseconds(100);
  options.idle_timeout = absl::Milliseconds(300);
  Start(options);
  Message message = Request("echo");
  message.request = 1;
  const Caught caught = Catch(message);
  const std::string request = caught.message.bytes();
  for (const std::string& bytes : {std::string(), caught.hello, caught.hello + request.substr(0, 50),
                                   caught.hello + request, caught.hello + request + request.substr(0, 50)}) {
    UnixSocket client = ConnectBare();
    Play(&client, bytes);
    EXPECT_TRUE(IsCutOff(&client)) << bytes.size();
  }
}

TEST_F(ServerTest, WrongRequestsEndTheirConnectionOnly) {
  Start();
  Message message = Request("echo");
  message.request = 1;
  const Caught caught = Catch(message);
  Frame reply;
  reply.header = caught.message.header;
  reply.rest = caught.message.rest;
  reply.header.type = exchange::FrameType::kReply;
  Frame large;
  large.header = caught.message.header;
  large.header.inline_bytes = 64 << 10;
  Frame goodbye;
  goodbye.header.type = exchange::FrameType::kGoodbye;
  goodbye.header.sequence = 1;
  const Caught no_request = Catch({});
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n, and more than a header has"), caught.hello + reply.bytes(),
        caught.hello + large.bytes(), caught.hello + goodbye.bytes(), caught.hello + no_request.message.bytes()}) {
    UnixSocket client = ConnectBare();
    Play(&client, bytes);
    EXPECT_TRUE(IsCutOff(&client)) << bytes.size();
  }
  UnixSocket with_descriptor = ConnectBare();
  const ScopedDescriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const absl::Status sent = with_descriptor.SendAll({caught.hello}, {file.get()}, kLong);
  if (sent.ok()) {
    EXPECT_TRUE(IsCutOff(&with_descriptor));
  }
  EXPECT_LT(HonestWait(), absl::Seconds(5));
}

TEST(RequestTransportTest, NoDescriptorOfAClientGetsIntoTheProcess) {
  Ends ends = MakeEnds();
  exchange::RequestTransport transport(std::move(ends.ours));
  // As on a system that does not refuse descriptors on the server's behalf.
  const int all = 1;
  static_cast<void>(setsockopt(transport.socket().descriptor(), SOL_SOCKET, SO_PASSRIGHTS, &all, sizeof(all)));
  char bytes[100];
  std::vector<ScopedDescriptor> none;
  const auto receive = [&](size_t size) {
    return transport.ReceiveSome(absl::MakeSpan(bytes, size), 0, &none, absl::ZeroDuration());
  };
  ASSERT_OK(ends.theirs.SendAll({"four"}, {}, kLong));
  ASSERT_OK_AND_ASSIGN(const size_t received, receive(3));
  EXPECT_EQ(received, 3u);
  const ScopedDescriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_OK(ends.theirs.SendAll({"x"}, std::vector<int>(UnixSocket::kMaxDescriptors, file.get()), kLong));
  const int before = CountOpenDescriptors();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(receive(100), StatusIs(Code::kInvalidArgument, ::testing::HasSubstr("a request has descriptors")));
  }
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(CountOpenDescriptors(), before);
}

TEST(RequestTransportTest, ItsEnds) {
  Ends ends = MakeEnds();
  exchange::RequestTransport transport(std::move(ends.ours));
  char byte;
  std::vector<ScopedDescriptor> none;
  const auto receive = [&] { return transport.ReceiveSome(absl::MakeSpan(&byte, 1), 0, &none, absl::ZeroDuration()); };
  EXPECT_THAT(receive(), StatusIs(Code::kDeadlineExceeded));
  { const UnixSocket gone = std::move(ends.theirs); }
  ASSERT_OK_AND_ASSIGN(const size_t received, receive());
  EXPECT_EQ(received, 0u);
}

TEST_F(ServerTest, AChildThatDestroysItsCopyDoesNotEndTheServer) {
  Start();
  Channel client = Connect();
  ASSERT_OK(client.Call(Request("echo"), kLong));
  const pid_t child = fork();
  if (child == 0) {
    server_.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_OK(client.Call(Request("echo"), kLong));
  EXPECT_LT(HonestWait(), absl::Seconds(5));
}

TEST_F(ServerTest, ItsEndIsNotADeath) {
  Start();
  Channel client = Connect();
  ASSERT_OK(client.Call(Request("echo"), kLong));
  Stop();
  server_.reset();
  EXPECT_THAT(client.Receive(kLong), StatusIs(Code::kOutOfRange));
  EXPECT_THAT(UnixSocket::Connect(path_, absl::ZeroDuration()), StatusIs(Code::kNotFound));
}

}  // namespace
}  // namespace tensorcask
