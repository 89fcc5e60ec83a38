// The states of a server: the input is a list of steps of several clients, which connect, send frames that are right,
// wrong or incomplete, read, stall and close, in any order, between the steps of the server. Whatever they do: each
// gets frames of the protocol only, in order; an honest client that comes at the end is answered; and nothing is left
// behind.
//
// Is to reach what input can reach of these files:
//   serialize/exchange/server*
//   serialize/exchange/internal/answer_queue*

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/server.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

using exchange::FrameHeader;
using exchange::FrameType;
using exchange::kFrameHeaderBytes;
using exchange::MessageBody;

constexpr size_t kMaxSteps = 200;
constexpr size_t kMaxClients = 5;  // for the input; the server accepts more
constexpr size_t kLargeBytes = size_t{3} << 20;
constexpr absl::Duration kLong = absl::Seconds(10);

// Answers with what was asked; "l": 3 MiB, "t": throws, "e": an error.
class TestService final : public Service {
 public:
  Message Answer(const Message& request) override {
    if (request.topic == "t") throw std::bad_alloc();
    Message reply;
    reply.topic = request.topic;
    reply.tensors = request.tensors;
    if (request.topic == "l") reply.tensors.push_back({large_, {}});
    if (request.topic == "e") reply.status = absl::NotFoundError("no such tensor");
    return reply;
  }
  uint64_t AnswerBytes(const Message& request) override { return request.topic == "l" ? kLargeBytes : 0; }

 private:
  const Tensor large_ = *Tensor::Zeros(DType::kUint8, TensorShape({static_cast<int64_t>(kLargeBytes)}));
};

TestService& AnyService() {
  static auto* const service = new TestService();
  return *service;
}

// A path in a folder of this process.
const std::string& SocketPath() {
  static const auto* const path = [] {
    std::string folder = "/tmp/fuzz_server_XXXXXX";
    FUZZ_CHECK(mkdtemp(&folder[0]) != nullptr, "mkdtemp");
    static const std::string made = folder;
    std::atexit([] { std::filesystem::remove_all(made); });
    return new std::string(folder + "/s");
  }();
  return *path;
}

size_t CountDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(open), end(open)));
}

std::string FrameOf(FrameType type, uint64_t sequence, const std::string& body, uint32_t num_descriptors = 0) {
  FrameHeader header;
  header.type = type;
  header.sequence = sequence;
  header.body_bytes = body.size();
  header.num_descriptors = num_descriptors;
  header.body_crc32c = Crc32c(body);
  const auto bytes = exchange::EncodeFrameHeader(header);
  return std::string(bytes.data(), bytes.size()) + body;
}

// One client of the input. Remembers what it has received, to check it.
class Client {
 public:
  bool is_connected() const { return socket_.has_value(); }

  void Connect() {
    absl::StatusOr<UnixSocket> socket = UnixSocket::Connect(SocketPath(), absl::ZeroDuration());
    if (!socket.ok()) return;  // the queue is full
    *this = Client();
    socket_.emplace(*std::move(socket));
  }

  void Close() { socket_.reset(); }
  void EndSending() { shutdown(socket_->descriptor(), SHUT_WR); }

  void SendFrame(FuzzInput* input, bool whole) {
    MessageBody body;
    const int64_t kind = input->Int(0, 9);
    constexpr std::array<const char*, 4> kTopics = {"l", "t", "e", "echo"};
    body.topic = kTopics[static_cast<size_t>(kind) % kTopics.size()];
    body.request = sequence_ + (kind == 9 ? 0 : 1);
    std::string frame;
    if (sequence_ == 0) {
      exchange::Hello hello;
      if (kind == 8) hello.max_message_bytes = 100;
      frame = FrameOf(kind == 7 ? FrameType::kMessage : FrameType::kHello, 0, exchange::EncodeHello(hello));
    } else if (kind == 4 || kind == 5) {
      frame = FrameOf(kind == 4 ? FrameType::kReply : FrameType::kGoodbye, sequence_,
                      kind == 4 ? exchange::EncodeBody(body) : "");
    } else if (kind == 6) {
      frame = FrameOf(FrameType::kHello, sequence_, exchange::EncodeHello({}));
    } else {
      frame = FrameOf(FrameType::kMessage, sequence_, exchange::EncodeBody(body));
    }
    ++sequence_;
    if (!whole) {
      const size_t cut = static_cast<size_t>(input->Bits(1)) % frame.size();
      rest_ = frame.substr(cut);
      frame.resize(cut);
    }
    Send(frame);
  }

  void SendRest() { Send(std::exchange(rest_, std::string())); }

  void Send(absl::string_view bytes, absl::Span<const int> descriptors = {}) {
    if (bytes.empty()) return;
    socket_->SendSome({bytes}, descriptors, absl::ZeroDuration()).IgnoreError();
  }

  void Read(size_t most) {
    std::vector<char> bytes(most);
    std::vector<ScopedDescriptor> none;
    const absl::StatusOr<size_t> count = socket_->ReceiveSome(absl::MakeSpan(bytes), 0, &none, absl::ZeroDuration());
    FUZZ_CHECK(!absl::IsInvalidArgument(count.status()), "the server sent a descriptor");
    if (!count.ok()) return;
    received_.append(bytes.data(), *count);
    CheckFrames();
  }

 private:
  void CheckFrames() {
    while (received_.size() >= kFrameHeaderBytes) {
      const absl::StatusOr<FrameHeader> header =
          exchange::DecodeFrameHeader(absl::string_view(received_).substr(0, kFrameHeaderBytes));
      FUZZ_CHECK(header.ok(), header.status().ToString());
      FUZZ_CHECK(header->sequence == num_received_, "a frame of another number");
      FUZZ_CHECK((num_received_ == 0) == (header->type == FrameType::kHello), "a hello, and nothing else, comes first");
      FUZZ_CHECK(header->type != FrameType::kMessage, "a server sends no requests");
      const uint64_t total = kFrameHeaderBytes + header->body_bytes + header->inline_bytes;
      if (received_.size() < total) return;
      const absl::string_view body = absl::string_view(received_).substr(kFrameHeaderBytes, header->body_bytes);
      FUZZ_CHECK(Crc32c(body) == header->body_crc32c, "a wrong checksum");
      if (header->type == FrameType::kHello) FUZZ_CHECK(exchange::DecodeHello(body).ok(), "a hello");
      if (header->type == FrameType::kReply) {
        const absl::StatusOr<MessageBody> reply = exchange::DecodeBody(body);
        FUZZ_CHECK(reply.ok() && reply->request != 0, "a reply to nothing");
      }
      ++num_received_;
      received_.erase(0, total);
    }
  }

  std::optional<UnixSocket> socket_;
  uint64_t sequence_ = 0;  // that of the next frame
  std::string rest_;       // the rest of a frame that has begun
  std::string received_;
  uint64_t num_received_ = 0;
};

int MemoryFile() {
  static const int file = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  return file;
}

void Step(FuzzInput* input, std::vector<Client>* clients, Server* server) {
  const uint64_t step = input->Bits(1);
  Client& client = (*clients)[step / 16 % clients->size()];
  const uint64_t what = step % 16;
  if (what >= 13) return server->Run(absl::ZeroDuration());
  if (what == 12) return server->Run(absl::Milliseconds(1));  // an answer may be ready
  if (!client.is_connected()) return client.Connect();
  switch (what) {
    case 0:
    case 1:
    case 2:
    case 3:
      return client.SendFrame(input, /*whole=*/true);
    case 4:
      return client.SendFrame(input, /*whole=*/false);
    case 5:
      return client.SendRest();
    case 6:
      return client.Send(input->Bytes(static_cast<size_t>(input->Bits(1))));
    case 7: {
      const std::vector<int> files(static_cast<size_t>(input->Int(1, 253)), MemoryFile());
      return client.Send("TCX\n", files);
    }
    case 8:
      return client.Read(1 + input->Bits(1));
    case 9:
    case 10:
      return client.Read(size_t{1} << 20);
    default:
      return input->Bits(1) % 2 == 0 ? client.Close() : client.EndSending();
  }
}

// An honest client is answered, whatever the others have done.
void AskHonestly(Server* server) {
  absl::StatusOr<Channel> channel = Channel::Connect(SocketPath(), absl::ZeroDuration());
  FUZZ_CHECK(channel.ok(), channel.status().ToString());
  Message request;
  request.topic = "honest";
  request.request = 7;
  const absl::Status sent = channel->Send(request, absl::ZeroDuration());
  FUZZ_CHECK(sent.ok(), sent.ToString());
  const absl::Time begin = absl::Now();
  while (true) {
    server->Run(absl::Milliseconds(1));
    const absl::StatusOr<Message> reply = channel->Receive(absl::ZeroDuration());
    if (absl::IsDeadlineExceeded(reply.status())) {
      FUZZ_CHECK(absl::Now() - begin < kLong, "an honest client waits");
      continue;
    }
    FUZZ_CHECK(reply.ok(), reply.status().ToString());
    FUZZ_CHECK(reply->is_reply && reply->request == 7 && reply->topic == "honest", "another answer");
    return;
  }
}

void Play(FuzzInput input) {
  ServerOptions options;
  options.num_threads = 1;
  options.max_answer_bytes = 2 * kLargeBytes;
  const uint64_t first = input.Bits(1);
  options.max_clients = first % 64 == 63 ? 3 : 2 * kMaxClients;
  if (first >= 192) options.timeout = absl::Milliseconds(2);
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Listen(SocketPath(), &AnyService(), options);
  FUZZ_CHECK(server.ok(), server.status().ToString());
  std::vector<Client> clients(kMaxClients);
  for (size_t i = 0; i < kMaxSteps && !input.empty(); ++i) Step(&input, &clients, server->get());
  FUZZ_CHECK((*server)->stats().num_clients <= options.max_clients, "too many clients");
  if (options.timeout > absl::Seconds(1)) AskHonestly(server->get());
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tensorcask::testing::CountDescriptors;
  tensorcask::testing::AnyService();
  tensorcask::testing::MemoryFile();
  const size_t before = CountDescriptors();
  tensorcask::testing::Play(tensorcask::testing::FuzzInput(data, size));
  // Helper processes close sockets with descriptors in their queues, a moment later.
  for (int i = 0; i < 20000 && CountDescriptors() != before; ++i) absl::SleepFor(absl::Microseconds(300));
  FUZZ_CHECK(CountDescriptors() == before,
             absl::StrCat(CountDescriptors(), " descriptors are open; there were ", before));
  return 0;
}
