// Tensors over gRPC on one machine, beside the same bytes as raw messages of gRPC and over a bare TCP socket.
//
//   bazel run //tests/benchmarks:rpc_benchmark
//
// All three are measured in turns. raw_ratio and socket_ratio are the speed of a pull over that of the other.

#include <arpa/inet.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

// Sends `bytes` as messages of 1 MiB that lie in memory, to each client that calls anything.
class RawServer final : public grpc::CallbackGenericService {
 public:
  explicit RawServer(absl::string_view bytes) : bytes_(bytes) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  int port() const { return port_; }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* /*context*/) override {
    class Stream final : public grpc::ServerGenericBidiReactor {
     public:
      explicit Stream(absl::string_view bytes) : rest_(bytes) { Next(); }
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

      absl::string_view rest_;
      grpc::ByteBuffer message_;
    };
    return new Stream(bytes_);
  }

 private:
  const absl::string_view bytes_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Copies the messages of a raw stream to `out`.
void PullRaw(grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>* stub, absl::Span<char> out) {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto stream = stub->PrepareCall(&context, "/raw/Pull", &queue);
  const auto step = [&] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  };
  stream->StartCall(nullptr);
  step();
  stream->WritesDone(nullptr);
  step();
  size_t done = 0;
  grpc::ByteBuffer message;
  std::vector<grpc::Slice> slices;
  while (true) {
    stream->Read(&message, nullptr);
    if (!step()) break;
    slices.clear();
    message.Dump(&slices);
    for (const grpc::Slice& slice : slices) {
      std::memcpy(out.data() + done, slice.begin(), slice.size());
      done += slice.size();
    }
  }
  grpc::Status status;
  stream->Finish(&status, nullptr);
  step();
  CASK_CHECK(status.ok() && done == out.size(), "the raw stream");
}

// A loop of send and recv.
void PullOverSocket(absl::string_view bytes, absl::Span<char> out) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  CASK_CHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(listener, 1) == 0, "listen");
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  std::thread sender([&] {
    const int peer = accept(listener, nullptr, nullptr);
    for (absl::string_view rest = bytes; !rest.empty();) {
      const ssize_t sent = send(peer, rest.data(), std::min(rest.size(), kPieceBytes), 0);
      CASK_CHECK(sent > 0, "send");
      rest.remove_prefix(static_cast<size_t>(sent));
    }
    close(peer);
  });
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  CASK_CHECK(connect(client, reinterpret_cast<sockaddr*>(&address), size) == 0, "connect");
  for (size_t done = 0; done < out.size();) {
    const ssize_t got = recv(client, out.data() + done, std::min(out.size() - done, kPieceBytes), 0);
    CASK_CHECK(got > 0, "recv");
    done += static_cast<size_t>(got);
  }
  sender.join();
  close(client);
  close(listener);
}

void Pull(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  Tensor tensor = *Tensor::Create(DType::kUint8, TensorShape({bytes}));
  for (int64_t i = 0; i < bytes; ++i) tensor.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i * 31);
  LiveTensors live;
  CASK_CHECK(live.Publish(1, {{"w", tensor}}).ok(), "publish");
  const auto server = TensorServer::Start(&live, {});
  CASK_CHECK(server.ok(), "server");
  const auto archive = RemoteArchive::Open(absl::StrCat("grpc://", (*server)->address()), {});
  CASK_CHECK(archive.ok(), "archive");
  const absl::string_view elements = TensorView(tensor).bytes();
  RawServer raw(elements);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt("grpc.http2.max_frame_size", 2 << 20);
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(
      grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", raw.port()), grpc::InsecureChannelCredentials(), arguments));
  Tensor memory = *Tensor::Zeros(DType::kUint8, TensorShape({bytes}));
  TensorView view = memory;
  const absl::Span<char> out(static_cast<char*>(view.buffer()->mutable_data()), static_cast<size_t>(bytes));
  std::vector<double> ours, raws, sockets;
  for (auto _ : state) {
    ours.push_back(SecondsOf([&] {
      CASK_CHECK(PullInto(archive->get(), {{"w", std::nullopt, &view}}, {}).ok(), "pull");
    }));
    raws.push_back(SecondsOf([&] { PullRaw(&stub, out); }));
    sockets.push_back(SecondsOf([&] { PullOverSocket(elements, out); }));
    state.SetIterationTime(ours.back());
  }
  state.counters["GB/s"] = static_cast<double>(bytes) / Median(ours) / 1e9;
  state.counters["raw_ratio"] = Median(raws) / Median(ours);
  state.counters["socket_ratio"] = Median(sockets) / Median(ours);
}
BENCHMARK(Pull)->Arg(256 << 20)->Iterations(9)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tensorcask::benchmarks

BENCHMARK_MAIN();
