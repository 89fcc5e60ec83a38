// Sockets with a path: listening, replacing what dead servers left, accepting.

#include "tensorcask/serialize/exchange/unix_socket.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
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
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/serialize/exchange/socket_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::DescriptorLimit;
using ::tensorcask::testing::IsOk;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::kShort;
using ::tensorcask::testing::Receive;
using ::tensorcask::testing::Send;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

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

TEST_F(UnixListenerTest, AClientWaitsForItsServer) {
  for (const bool is_old_socket : {false, true}) {
    SCOPED_TRACE(is_old_socket ? "a server left its socket" : "there is no path");
    if (is_old_socket) BareSocket(path_, bind);
    std::thread server([&] {
      absl::SleepFor(absl::Milliseconds(20));
      ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen());
      EXPECT_OK(listener.Accept(kLong));
    });
    EXPECT_OK(UnixSocket::Connect(path_, kLong));
    server.join();
  }
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

TEST_F(UnixListenerTest, AMovedSocketKnowsItsPeer) {
  ASSERT_OK_AND_ASSIGN(UnixListener listener, Listen());
  const pid_t child = fork();
  if (child == 0) {
    const auto socket = UnixSocket::Connect(path_, kLong);
    pause();
    _exit(0);
  }
  ASSERT_OK_AND_ASSIGN(UnixSocket accepted, listener.Accept(kLong));
  ASSERT_OK_AND_ASSIGN(auto pair, UnixSocket::Pair());
  EXPECT_EQ(pair.first.peer().process_id, getpid());
  EXPECT_EQ(accepted.peer().process_id, child);
  pair.first = std::move(accepted);
  EXPECT_EQ(pair.first.peer().process_id, child);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

// If several servers find the socket of a dead one, one listens and no other replaces it.
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

}  // namespace
}  // namespace tensorcask
