// Times of one transfer between two processes, for tests/benchmarks/rpc_peers.py.
//
//   rpc serve 256 CERTIFICATE KEY      // all servers below; prints a line "NAME PORT" each; ends with standard input
//   rpc pull 256 9 CERTIFICATE ours=PORT raw=PORT ...
//
// `pull` prints a line "NAME SECONDS PROCESSOR_SECONDS" for each transfer: one after the other, in turns, after a round
// to warm up. The processor time is that of the client. The names:
//
//   ours, tls            a tensor by TensorServer and PullInto, without and with TLS, checksums on
//   strided, turned      the same from `ours`, into rows that lie apart, and into columns
//   raw, raw_tls         the same bytes as messages of gRPC of 1 MiB, which are copied to the same memory
//   socket               a loop of send and recv: no checksums, no names, nothing but the bytes of one tensor
//   summed               the same with what ours guarantees: a header and a crc32c for each MiB, on both sides
//   message              one TensorProto as the answer of a call

#include <arpa/inet.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/serialize/rpc/tls.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int64_t kColumns = 8192;
constexpr int64_t kGap = 64;  // elements between the rows of `strided`

TensorShape ShapeOf(int64_t mebibytes) { return TensorShape({mebibytes * 32, kColumns}); }

// Sends bytes of its own to each client that calls anything: as messages of 1 MiB, or as one TensorProto.
class RawServer final : public grpc::CallbackGenericService {
 public:
  RawServer(absl::string_view bytes, const std::shared_ptr<grpc::ServerCredentials>& credentials, bool as_proto)
      : bytes_(bytes), as_proto_(as_proto) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  int port() const { return port_; }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* /*context*/) override {
    class Stream final : public grpc::ServerGenericBidiReactor {
     public:
      Stream(absl::string_view bytes, bool as_proto) : rest_(bytes) { as_proto ? SendProto() : Next(); }
      void OnWriteDone(bool ok) override { ok ? Next() : Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }

     private:
      void Next() {
        if (rest_.empty()) return Finish(grpc::Status::OK);
        const absl::string_view piece = rest_.substr(0, kPieceBytes);
        rest_.remove_prefix(piece.size());
        const grpc::Slice slice(piece.data(), piece.size(), grpc::Slice::STATIC_SLICE);
        grpc::ByteBuffer message(&slice, 1);
        message_.Swap(&message);
        StartWrite(&message_);
      }
      void SendProto() {
        TensorProto proto;
        proto.set_dtype(DataType::DT_FLOAT);
        proto.set_tensor_content(std::string(rest_));
        rest_ = "";
        bool own_buffer = false;
        grpc::SerializationTraits<TensorProto>::Serialize(proto, &message_, &own_buffer);
        StartWrite(&message_);
      }

      absl::string_view rest_;
      grpc::ByteBuffer message_;
    };
    return new Stream(bytes_, as_proto_);
  }

 private:
  const absl::string_view bytes_;
  const bool as_proto_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

struct LoopHeader {
  uint64_t offset;
  uint64_t size;
  uint32_t crc32c;
};

bool SendAll(int peer, absl::string_view bytes, int flags) {
  while (!bytes.empty()) {
    const ssize_t sent = send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL | flags);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// One tensor, in pieces; with `sums` each has a header.
void SendPieces(int peer, absl::string_view bytes, bool sums) {
  for (size_t offset = 0; offset < bytes.size(); offset += kPieceBytes) {
    const absl::string_view piece = bytes.substr(offset, kPieceBytes);
    if (sums) {
      const LoopHeader header = {offset, piece.size(), Crc32c(piece)};
      if (!SendAll(peer, {reinterpret_cast<const char*>(&header), sizeof(header)}, MSG_MORE)) return;
    }
    if (!SendAll(peer, piece, 0)) return;
  }
}

// Sends `bytes` over each connection, again for each byte that comes. Returns the port.
int ServeOverSockets(absl::string_view bytes, bool sums) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  CASK_CHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(listener, 1) == 0, "listen");
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  std::thread([=] {
    while (true) {
      const int peer = accept(listener, nullptr, nullptr);
      char begin = 0;
      while (recv(peer, &begin, 1, 0) == 1) SendPieces(peer, bytes, sums);
      close(peer);
    }
  }).detach();
  return ntohs(address.sin_port);
}

class SocketClient {
 public:
  SocketClient(int port, bool sums) : socket_(socket(AF_INET, SOCK_STREAM, 0)), sums_(sums) {
    const sockaddr_in address = Loopback(port);
    CASK_CHECK(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0, "connect");
  }
  void Pull(absl::Span<char> out) const {
    CASK_CHECK(send(socket_, "b", 1, 0) == 1, "send");
    for (size_t done = 0; done < out.size();) {
      LoopHeader header = {done, std::min(out.size() - done, kPieceBytes), 0};
      if (sums_) Receive({reinterpret_cast<char*>(&header), sizeof(header)});
      CASK_CHECK(header.offset == done && header.size <= out.size() - done, "header");
      const absl::Span<char> piece = out.subspan(done, header.size);
      Receive(piece);
      CASK_CHECK(!sums_ || Crc32c({piece.data(), piece.size()}) == header.crc32c, "sum");
      done += piece.size();
    }
  }

 private:
  void Receive(absl::Span<char> out) const {
    while (!out.empty()) {
      const ssize_t got = recv(socket_, out.data(), out.size(), 0);
      CASK_CHECK(got > 0, "recv");
      out.remove_prefix(static_cast<size_t>(got));
    }
  }

  const int socket_;
  const bool sums_;
};

std::shared_ptr<grpc::Channel> RawChannel(int port, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt("grpc.http2.max_frame_size", 2 << 20);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::StrCat("localhost:", port), credentials, arguments);
}

// A call in the thread of the caller.
template <typename Stub>
class RawCall {
 public:
  explicit RawCall(Stub* stub) : stream_(stub->PrepareCall(&context_, "/raw/Pull", &queue_)) {
    stream_->StartCall(nullptr);
    Step();
    stream_->WritesDone(nullptr);
    Step();
  }
  template <typename Message>
  bool Read(Message* message) {
    stream_->Read(message, nullptr);
    return Step();
  }
  bool Finish() {
    grpc::Status status;
    stream_->Finish(&status, nullptr);
    Step();
    return status.ok();
  }

 private:
  bool Step() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  decltype(std::declval<Stub>().PrepareCall(&context_, "", &queue_)) stream_;
};

using RawStub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;
using MessageStub = grpc::TemplatedGenericStub<grpc::ByteBuffer, TensorProto>;

void PullRaw(RawStub* stub, absl::Span<char> out) {
  RawCall<RawStub> call(stub);
  size_t done = 0;
  grpc::ByteBuffer message;
  std::vector<grpc::Slice> slices;
  while (call.Read(&message)) {
    slices.clear();
    message.Dump(&slices);
    for (const grpc::Slice& slice : slices) {
      CASK_CHECK(slice.size() <= out.size() - done, "the raw stream");
      std::memcpy(out.data() + done, slice.begin(), slice.size());
      done += slice.size();
    }
  }
  CASK_CHECK(call.Finish() && done == out.size(), "the raw stream");
}

void PullMessage(MessageStub* stub, absl::Span<char> out) {
  RawCall<MessageStub> call(stub);
  TensorProto proto;
  CASK_CHECK(call.Read(&proto) && proto.tensor_content().size() == out.size(), "the message");
  std::memcpy(out.data(), proto.tensor_content().data(), out.size());
  TensorProto none;
  CASK_CHECK(!call.Read(&none) && call.Finish(), "the message");
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

int Serve(int64_t mebibytes, const std::string& certificate, const std::string& key) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, ShapeOf(mebibytes));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.mutable_data<float>()[i] = static_cast<float>(i * 31);
  LiveTensors live;
  CASK_CHECK(live.Publish(1, {{"w", tensor}}).ok(), "publish");
  TlsServerOptions tls;
  tls.certificate_chain = ReadText(certificate);
  tls.private_key = ReadText(key);
  const auto server = TensorServer::Start(&live, {});
  TensorServerOptions options;
  options.credentials = MakeTlsCredentials(tls);
  const auto tls_server = TensorServer::Start(&live, options);
  CASK_CHECK(server.ok() && tls_server.ok(), "server");
  const absl::string_view bytes = TensorView(tensor).bytes();
  const RawServer raw(bytes, grpc::InsecureServerCredentials(), /*as_proto=*/false);
  const RawServer raw_tls(bytes, options.credentials, /*as_proto=*/false);
  const RawServer message(bytes, grpc::InsecureServerCredentials(), /*as_proto=*/true);
  std::printf("ours %d\ntls %d\nraw %d\nraw_tls %d\nmessage %d\nsocket %d\nsummed %d\n", (*server)->port(),
              (*tls_server)->port(), raw.port(), raw_tls.port(), message.port(),
              ServeOverSockets(bytes, /*sums=*/false), ServeOverSockets(bytes, /*sums=*/true));
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  std::_Exit(0);  // the thread of the sockets has no end
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The transfers of one client, all into the same memory but for those with strides.
class Transfers {
 public:
  Transfers(int64_t mebibytes, const std::string& certificate)
      : memory_(*Tensor::Zeros(DType::kFloat32, ShapeOf(mebibytes))), view_(memory_) {
    out_ = absl::MakeSpan(static_cast<char*>(view_.buffer()->mutable_data()), static_cast<size_t>(mebibytes) << 20);
    client_.authorities = ReadText(certificate);
  }

  // One transfer of the kind `name`, as a function.
  std::function<void()> Make(absl::string_view name, int port) {
    const bool tls = absl::StrContains(name, "tls");
    const auto credentials = tls ? MakeTlsCredentials(client_) : grpc::InsecureChannelCredentials();
    if (absl::StartsWith(name, "raw")) {
      auto stub = std::make_shared<RawStub>(RawChannel(port, credentials));
      return [this, stub] { PullRaw(stub.get(), out_); };
    }
    if (name == "message") {
      auto stub = std::make_shared<MessageStub>(RawChannel(port, credentials));
      return [this, stub] { PullMessage(stub.get(), out_); };
    }
    if (name == "socket" || name == "summed") {
      auto client = std::make_shared<SocketClient>(port, /*sums=*/name == "summed");
      return [this, client] { client->Pull(out_); };
    }
    RemoteOptions options;
    if (tls) options.credentials = credentials;
    auto opened = RemoteArchive::Open(absl::StrCat(tls ? "grpcs" : "grpc", "://localhost:", port), options);
    CASK_CHECK(opened.ok(), "archive");
    const std::shared_ptr<RemoteArchive> archive = *std::move(opened);
    TensorView view = view_;
    const int64_t rows = view_.shape().dim(0);
    if (name == "strided") {
      view = *TensorView(*Tensor::Zeros(DType::kFloat32, TensorShape({rows, kColumns + kGap}))).Slice(1, 0, kColumns);
    } else if (name == "turned") {
      view = *TensorView(*Tensor::Zeros(DType::kFloat32, TensorShape({kColumns, rows}))).Transpose(0, 1);
    }
    return [archive, view]() mutable {
      CASK_CHECK(PullInto(archive.get(), {{"w", std::nullopt, &view}}, {}).ok(), "pull");
    };
  }

 private:
  const Tensor memory_;
  const TensorView view_;
  absl::Span<char> out_;
  TlsClientOptions client_;
};

int Pull(int64_t mebibytes, int rounds, const std::string& certificate, absl::Span<const std::string> servers) {
  Transfers transfers(mebibytes, certificate);
  std::vector<std::pair<std::string, std::function<void()>>> all;
  for (const std::string& server : servers) {
    const size_t equals = server.find('=');
    const std::string name = server.substr(0, equals);
    all.emplace_back(name, transfers.Make(name, std::atoi(server.substr(equals + 1).c_str())));
  }
  for (int round = -1; round < rounds; ++round) {
    for (const auto& [name, transfer] : all) {
      const double cpu = CpuSeconds();
      const double seconds = SecondsOf(transfer);
      if (round >= 0) std::printf("%s %.6f %.6f\n", name.c_str(), seconds, CpuSeconds() - cpu);
    }
    std::fflush(stdout);
  }
  return 0;
}

int Run(const std::vector<std::string>& words) {
  if (words.size() == 4 && words[0] == "serve") return Serve(std::atoi(words[1].c_str()), words[2], words[3]);
  if (words.size() > 4 && words[0] == "pull") {
    return Pull(std::atoi(words[1].c_str()), std::atoi(words[2].c_str()), words[3],
                absl::MakeConstSpan(words).subspan(4));
  }
  std::fprintf(stderr, "usage: rpc serve MIB CERTIFICATE KEY | pull MIB ROUNDS CERTIFICATE NAME=PORT...\n");
  return 2;
}

}  // namespace
}  // namespace tensorcask::benchmarks

int main(int argc, char** argv) { return tensorcask::benchmarks::Run({argv + 1, argv + argc}); }
