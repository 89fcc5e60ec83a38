#include "tensorcask/tests/benchmarks/exchange_peers.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bars.h"

namespace tensorcask::benchmarks {
namespace {

constexpr absl::Duration kLong = absl::Minutes(1);

void MustWork(bool worked, const char* what) {
  if (worked) return;
  std::perror(what);
  std::exit(1);
}

// Those that the process had at first.
const cpu_set_t& AllProcessors() {
  static const cpu_set_t all = [] {
    cpu_set_t processors;
    MustWork(sched_getaffinity(0, sizeof(processors), &processors) == 0, "sched_getaffinity");
    return processors;
  }();
  return all;
}

// The `index`-th of all; of fewer the first.
void StayOn(int index) {
  if (index >= CPU_COUNT(&AllProcessors())) index = 0;
  int processor = 0;
  for (int left = index;; ++processor) {
    if (CPU_ISSET(processor, &AllProcessors()) && left-- == 0) break;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  MustWork(sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity");
}

bool HasOwnProcessor() {
  cpu_set_t processors;
  MustWork(sched_getaffinity(0, sizeof(processors), &processors) == 0, "sched_getaffinity");
  return CPU_COUNT(&processors) == 1;
}

void Serve(Channel channel, ChannelPeer::Answers answers) {
  while (true) {
    Message answer;
    {
      absl::StatusOr<Message> message = channel.Receive(kLong);
      if (absl::IsOutOfRange(message.status())) return;
      Require(message.status());
      if (answers == ChannelPeer::Answers::kEcho) answer = *std::move(message);
    }
    if (answers == ChannelPeer::Answers::kReceipt) answer.request = static_cast<uint64_t>(PageFaults());
    Require(channel.Send(answer, kLong));
  }
}

bool ReadAll(int socket, std::string* bytes) {
  for (size_t done = 0; done < bytes->size();) {
    const ssize_t got = read(socket, &(*bytes)[done], bytes->size() - done);
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

void WriteAll(int socket, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put = write(socket, bytes.data() + done, bytes.size() - done);
    MustWork(put > 0, "write");
    done += static_cast<size_t>(put);
  }
}

}  // namespace

OwnProcessors::OwnProcessors() {
  AllProcessors();
  StayOn(0);
}

OwnProcessors::~OwnProcessors() { sched_setaffinity(0, sizeof(cpu_set_t), &AllProcessors()); }

int64_t PageFaults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

Message MessageOf(int64_t bytes, const RefPtr<Allocator>& allocator) {
  Tensor tensor = Require(Tensor::Create(DType::kFloat32, TensorShape({bytes / 4}), allocator));
  for (float& x : tensor.mutable_flat<float>()) x = 1;
  Message message;
  message.tensors.push_back({std::move(tensor), {}});
  return message;
}

Child::Child(absl::FunctionRef<void()> run) {
  std::fflush(nullptr);
  process_ = fork();
  MustWork(process_ >= 0, "fork");
  if (process_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (HasOwnProcessor()) StayOn(1);
  run();
  _exit(0);
}

Child::~Child() { waitpid(process_, nullptr, 0); }

ChannelPeer::ChannelPeer(Answers answers, ChannelOptions options) {
  options.decode.limits.max_message_bytes = int64_t{8} << 30;
  std::pair<UnixSocket, UnixSocket> ends = Require(UnixSocket::Pair());
  child_ = std::make_unique<Child>([&] { Serve(Channel::FromSocket(std::move(ends.second), options), answers); });
  channel_ = std::make_unique<Channel>(Channel::FromSocket(std::move(ends.first), options));
}

ChannelPeer::~ChannelPeer() { Require(channel_->Close(kLong)); }

Message ChannelPeer::Ask(const Message& message) {
  Require(channel_->Send(message, kLong));
  return Require(channel_->Receive(kLong));
}

SocketPeer::SocketPeer(size_t bytes) : bytes_(bytes, 'x') {
  int ends[2];
  MustWork(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  child_ = std::make_unique<Child>([&] {
    while (ReadAll(ends[1], &bytes_)) WriteAll(ends[1], bytes_);
  });
  close(ends[1]);
  socket_ = ends[0];
}

// By shutdown(2): children that were made later have the socket open, too.
SocketPeer::~SocketPeer() {
  shutdown(socket_, SHUT_RDWR);
  close(socket_);
}

void SocketPeer::RoundTrip() {
  WriteAll(socket_, bytes_);
  MustWork(ReadAll(socket_, &bytes_), "read");
}

}  // namespace tensorcask::benchmarks
