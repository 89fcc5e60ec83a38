// A server in front of clients that are many, silent or gone before they are heard.

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
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
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
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
using ::tensorcask::testing::CountMappedMemoryFiles;
using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::CountOpenDescriptorsOnceSettled;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::kShort;
using ::tensorcask::testing::Mixed;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::AnyOf;
using ::testing::Each;
using Code = absl::StatusCode;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // what memory there is says nothing then
#else
constexpr bool kIsSanitized = false;
#endif

class ChannelListenerTest : public ::testing::Test {
 protected:
  Channel Connect() {
    absl::StatusOr<Channel> channel = Channel::Connect(listener_.path(), kLong);
    EXPECT_OK(channel);
    return *std::move(channel);
  }
  UnixSocket ConnectBare() {
    absl::StatusOr<UnixSocket> socket = UnixSocket::Connect(listener_.path(), kLong);
    EXPECT_OK(socket);
    return *std::move(socket);
  }
  Channel Accept() {
    absl::StatusOr<Channel> channel = listener_.Accept(kLong);
    EXPECT_OK(channel);
    return *std::move(channel);
  }

  const TempFolder folder_{"/tmp/"};  // the place Bazel gives tests has a longer path than a socket can
  ChannelListener listener_ = *ChannelListener::Listen(folder_.Path("s"));
};

TEST_F(ChannelListenerTest, AClientThatSaysNothingHoldsUpNobody) {
  const UnixSocket silent = ConnectBare();
  Channel client = Connect();
  Channel first = Accept();
  Channel second = Accept();
  ASSERT_OK(client.SendTensor(Counting(TensorShape({7}), Shared()), {}, kLong));
  EXPECT_OK(second.ReceiveTensor(kLong));
  EXPECT_THAT(first.Receive(kShort), StatusIs(Code::kDeadlineExceeded));
}

TEST_F(ChannelListenerTest, ManyClientsLeaveNothingBehind) {
  const Tensor tensor = Counting(TensorShape({100}), Shared());
  const int before = CountOpenDescriptors();
  for (int i = 0; i < 500; ++i) {
    Channel client = Connect();
    Channel server = Accept();
    ASSERT_OK(client.SendTensor(tensor, {}, kLong));
    if (i % 2 != 0) continue;
    ASSERT_OK(server.ReceiveTensor(kLong));
  }
  EXPECT_EQ(CountOpenDescriptorsOnceSettled(before), before);
}

// ---- Clients that go -----------------------------------------------------------------------------------------------

struct Holdings {
  int descriptors = CountOpenDescriptors();
  int mapped_files = CountMappedMemoryFiles();
  size_t allocated_bytes = mallinfo2().uordblks;
  size_t resident_pages = [] {
    size_t total = 0;
    size_t resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident;
  }();
};

// What a client does before it is gone, and what the server's Receive says of it.
struct Abort {
  const char* name;
  void (*talk)(const Caught& caught, UnixSocket* socket);
  Code received;
};

void Play(UnixSocket* socket, absl::string_view bytes, absl::Span<const int> descriptors = {}) {
  EXPECT_OK(socket->SendAll({bytes}, descriptors, kLong));
}

const Abort kAborts[] = {
    {"Nothing", [](const Caught&, UnixSocket*) {}, Code::kUnavailable},
    {"HalfAHello", [](const Caught& c, UnixSocket* s) { Play(s, c.hello.substr(0, c.hello.size() / 2)); },
     Code::kUnavailable},
    {"AHello", [](const Caught& c, UnixSocket* s) { Play(s, c.hello); }, Code::kUnavailable},
    {"HalfAHeadWithDescriptors",
     [](const Caught& c, UnixSocket* s) {
       Play(s, c.hello);
       Play(s, c.message.bytes().substr(0, exchange::kFrameHeaderBytes / 2), c.message.numbers());
     },
     Code::kUnavailable},
    {"HalfAFrameWithDescriptors",
     [](const Caught& c, UnixSocket* s) {
       Play(s, c.hello);
       Play(s, c.message.bytes().substr(0, exchange::kFrameHeaderBytes + 100), c.message.numbers());
     },
     Code::kUnavailable},
    {"NoChannel", [](const Caught&, UnixSocket* s) { Play(s, std::string(100, 'x')); }, Code::kInvalidArgument},
    {"ARequest",
     [](const Caught& c, UnixSocket* s) {
       Play(s, c.hello);
       Play(s, c.message.bytes(), c.message.numbers());
     },
     Code::kOk},
};

TEST_F(ChannelListenerTest, TenThousandThatGoLeaveNothingBehind) {
  constexpr int kWarmUp = 1000;
  const Caught caught = Catch(Mixed());
  const Message answer = Mixed();
  const auto round = [&](int i) {
    const Abort& an_abort = kAborts[static_cast<size_t>(i) % std::size(kAborts)];
    SCOPED_TRACE(an_abort.name);
    {
      UnixSocket client = ConnectBare();
      an_abort.talk(caught, &client);
    }
    Channel server = Accept();
    const absl::StatusOr<Message> request = server.Receive(kLong);
    ASSERT_THAT(request, StatusIs(an_abort.received));
    if (request.ok()) {
      EXPECT_THAT(server.Reply(*request, answer, kLong),
                  AnyOf(StatusIs(Code::kUnavailable), StatusIs(Code::kFailedPrecondition)));
    }
  };
  for (int i = 0; i < kWarmUp; ++i) round(i);
  const Holdings before;
  for (int i = kWarmUp; i < kWarmUp + 10000; ++i) round(i);
  const Holdings after;
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.mapped_files, before.mapped_files);
  if (kIsSanitized) return;
  // malloc counts what it caches, and its caches may still fill. What clients leave behind grows again and again.
  size_t last_bytes = before.allocated_bytes;
  size_t bytes = after.allocated_bytes;
  for (int again = 0; bytes != last_bytes && again < 3; ++again) {
    for (int i = kWarmUp; i < kWarmUp + 10000; ++i) round(i);
    last_bytes = std::exchange(bytes, Holdings().allocated_bytes);
  }
  EXPECT_EQ(bytes, last_bytes);
  EXPECT_LE(after.resident_pages, before.resident_pages + before.resident_pages / 100);
}

// ---- Clients that stay ---------------------------------------------------------------------------------------------

// The number of descriptors that this process may have.
class OpenFilesLimit {
 public:
  OpenFilesLimit() { EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0); }
  ~OpenFilesLimit() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  size_t most() const { return before_.rlim_max; }
  void Set(size_t limit) const {
    const rlimit to = {limit, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &to), 0);
  }

 private:
  rlimit before_;
};

// Another process that holds connections and says nothing, until it is dropped.
class IdleClients {
 public:
  IdleClients(const std::string& path, size_t count) : child_(fork()) {
    if (child_ != 0) return;
    std::vector<UnixSocket> sockets;
    while (sockets.size() < count) {
      absl::StatusOr<UnixSocket> socket = UnixSocket::Connect(path, kLong);
      if (!socket.ok()) _exit(1);
      sockets.push_back(*std::move(socket));
    }
    while (true) pause();
  }
  ~IdleClients() {
    kill(child_, SIGKILL);
    EXPECT_EQ(waitpid(child_, nullptr, 0), child_);
  }

 private:
  const pid_t child_;
};

TEST_F(ChannelListenerTest, TenThousandIdleClientsAndNoDescriptorLeft) {
  const OpenFilesLimit limit;
  const size_t count = std::min<size_t>(10000, limit.most() - 100);
  limit.Set(limit.most());
  Channel client = Connect();
  Channel server = Accept();
  const auto call = [](Channel* client, Channel* server) {
    bool answered = false;
    std::thread answering([server, &answered] {
      const absl::StatusOr<Message> request = server->Receive(kLong);
      answered = request.ok() && server->Reply(*request, *request, kLong).ok();
    });
    const bool called = client->Call({}, kLong).ok();
    answering.join();
    return called && answered;
  };
  const IdleClients others(listener_.path(), count);
  std::vector<Channel> idle;
  while (idle.size() < count) idle.push_back(Accept());
  EXPECT_TRUE(call(&client, &server));

  // No descriptor is left for the next client, which waits. A server that keeps accepting does not spin.
  Channel late = Connect();
  const absl::Time start = absl::Now();
  std::vector<absl::Status> refused;
  limit.Set(static_cast<size_t>(ScopedDescriptor(fcntl(0, F_DUPFD_CLOEXEC, 0)).get()));  // the lowest that is free
  while (refused.size() < 3) refused.push_back(listener_.Accept(kLong).status());
  const bool is_served = call(&client, &server);
  limit.Set(limit.most());  // sanitizers need some, too
  EXPECT_THAT(refused, Each(StatusIs(Code::kResourceExhausted)));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(3 * 50));
  EXPECT_TRUE(is_served);
  idle.pop_back();
  Channel welcome = Accept();
  EXPECT_TRUE(call(&late, &welcome));
}

}  // namespace
}  // namespace tensorcask
