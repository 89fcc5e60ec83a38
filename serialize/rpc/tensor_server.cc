#include "tensorcask/serialize/rpc/tensor_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/internal/connection_listener.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/internal/list_page.h"
#include "tensorcask/serialize/rpc/internal/open_streams.h"
#include "tensorcask/serialize/rpc/internal/pull_stream.h"
#include "tensorcask/serialize/rpc/internal/push_stream.h"
#include "tensorcask/serialize/rpc/internal/watch_stream.h"
#include "tensorcask/serialize/rpc/internal/work_queue.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

namespace v1 = rpc::v1;

constexpr int kMaxRequestBytes = (4 << 20) + 4096;  // a piece of kMaxPieceBytes, too
constexpr int kFileThreads = 8;

bool HasPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && colon > 0 && absl::SimpleAtoi(address.substr(colon + 1), &port) &&
         port <= UINT16_MAX;
}

// An acceptor of connections takes any credentials, and then each handshake fails. A port of gRPC's own refuses a
// certificate and a key that do not belong together.
bool CanServeWith(const std::shared_ptr<grpc::ServerCredentials>& credentials, const std::string& host) {
  grpc::CallbackGenericService nothing;  // outlives the server
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(absl::StrCat(host, ":0"), credentials, &port);
  builder.RegisterCallbackGenericService(&nothing);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  return server != nullptr && port != 0;
}

}  // namespace

class TensorServer::Impl final
    : public v1::TensorExchange::WithCallbackMethod_List<
          v1::TensorExchange::WithRawCallbackMethod_Pull<v1::TensorExchange::WithCallbackMethod_Watch<
              v1::TensorExchange::WithRawCallbackMethod_Push<v1::TensorExchange::Service>>>> {
 public:
  Impl(TensorSource* source, TensorServerOptions options)
      : source_(source),
        options_(std::move(options)),
        memory_("max_memory_bytes", static_cast<int64_t>(std::min<uint64_t>(options_.max_memory_bytes, INT64_MAX))),
        streams_(options_.max_streams, options_.slow_client) {}
  ~Impl() override;

  absl::Status Start();
  void Drain(Deadline deadline);
  TensorServerStats stats() const;
  int port() const { return port_; }
  const std::string& address() const { return address_; }

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context, const v1::ListRequest* request,
                                 v1::ListResponse* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Pull(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<v1::Version>* Watch(grpc::CallbackServerContext* context,
                                               const v1::WatchRequest* request) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* Push(grpc::CallbackServerContext* context,
                                                  grpc::ByteBuffer* response) override;

 private:
  void FollowSource();

  TensorSource* const source_;
  const TensorServerOptions options_;
  DecodeQuota memory_;
  std::string address_;
  int port_ = 0;
  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<uint64_t> pushes_{0};
  std::atomic<bool> ends_{false};
  rpc::OpenStreams streams_;

  std::unique_ptr<rpc::ConnectionListener> listener_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<rpc::WorkQueue> files_;
  std::once_flag follow_once_;
  std::thread follow_;  // tells watches of new versions; from the first watch on
};

absl::Status TensorServer::Impl::Start() {
  if (!HasPort(options_.address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(options_.address), " is not an address to listen at; wanted HOST:PORT, such as 127.0.0.1:0"));
  }
  const std::string host = options_.address.substr(0, options_.address.rfind(':'));
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
  CASK_ASSIGN_OR_RETURN(listener_, rpc::ConnectionListener::Create(options_.address));
  if (options_.credentials == nullptr && !options_.insecure && !listener_->is_loopback()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.address,
                     " is an address of other hosts, and there are no credentials: every host that reaches it could "
                     "read all tensors. Give credentials, listen at 127.0.0.1, or allow it (insecure)"));
  }
  port_ = listener_->port();
  if (options_.credentials != nullptr && !CanServeWith(options_.credentials, host)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot serve at ", options_.address, ": do the certificate and the key belong together?"));
  }
  grpc::ServerBuilder builder;
  connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      options_.credentials != nullptr ? options_.credentials : grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::UnavailableError(absl::StrCat("cannot serve at ", options_.address));
  address_ = absl::StrCat(host, ":", port_);
  files_ = std::make_unique<rpc::WorkQueue>(kFileThreads);
  listener_->Start([this](int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.fd = connection;
    connections_->HandleNewConnection(&parameters);
  });
  return absl::OkStatus();
}

TensorServer::Impl::~Impl() {
  if (server_ == nullptr) return;
  Drain(absl::ZeroDuration());
  server_->Wait();
  ends_ = true;
  if (follow_.joinable()) follow_.join();
  server_ = nullptr;
  files_ = nullptr;
}

void TensorServer::Impl::Drain(Deadline deadline) {
  streams_.Drain(deadline);
  listener_->Stop();
  server_->Shutdown(std::chrono::system_clock::now());  // cuts what is left
}

TensorServerStats TensorServer::Impl::stats() const {
  const rpc::OpenStreams::Counts counts = streams_.counts();
  TensorServerStats stats;
  stats.num_streams = counts.open;
  stats.total_streams = counts.accepted;
  stats.refused_streams = counts.refused;
  stats.slow_streams = counts.slow;
  stats.sent_bytes = sent_bytes_;
  stats.pushes = pushes_;
  return stats;
}

grpc::ServerUnaryReactor* TensorServer::Impl::List(grpc::CallbackServerContext* context, const v1::ListRequest* request,
                                                   v1::ListResponse* response) {
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    CASK_RETURN_IF_ERROR(streams_.CheckAccepting());
    CASK_ASSIGN_OR_RETURN(const TensorSnapshot snapshot, source_->Current());
    return rpc::MakePage(snapshot, *request, response);
  });
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* TensorServer::Impl::Pull(grpc::CallbackServerContext* context,
                                                                     const grpc::ByteBuffer* request) {
  rpc::PullResources server;
  server.source = source_;
  server.streams = &streams_;
  server.memory = &memory_;
  server.files = files_.get();
  server.sent_bytes = &sent_bytes_;
  return rpc::ServePull(server, *request, context);
}

grpc::ServerWriteReactor<v1::Version>* TensorServer::Impl::Watch(grpc::CallbackServerContext* /*context*/,
                                                                 const v1::WatchRequest* request) {
  std::call_once(follow_once_, [this] { follow_ = std::thread([this] { FollowSource(); }); });
  return rpc::ServeWatch(source_, &streams_, *request);
}

// Offers each version to all watches. A watch that was accepted meanwhile has offered the newest to itself.
void TensorServer::Impl::FollowSource() {
  constexpr absl::Duration kTick = absl::Milliseconds(200);
  TensorVersion known;
  while (!ends_) {
    const absl::Status status = CatchExceptions([&]() -> absl::Status {
      CASK_ASSIGN_OR_RETURN(const TensorSnapshot newer, source_->WaitForNewer(known, kTick));
      known = newer.version;
      streams_.OfferToAll(known);
      return absl::OkStatus();
    });
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) absl::SleepFor(kTick);
  }
}

grpc::ServerReadReactor<grpc::ByteBuffer>* TensorServer::Impl::Push(grpc::CallbackServerContext* context,
                                                                    grpc::ByteBuffer* response) {
  if (!options_.accept_pushes) {
    return new rpc::RefusedStream<grpc::ServerReadReactor<grpc::ByteBuffer>>(
        absl::PermissionDeniedError("the server accepts no pushes"));
  }
  rpc::PushResources server;
  server.source = source_;
  server.streams = &streams_;
  server.limits = &options_.push_limits;
  server.pushes = &pushes_;
  return rpc::ServePush(server, context, response);
}

// ---------------------------------------------------------------------------------------------------------------------

TensorServer::TensorServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TensorServer::~TensorServer() = default;

absl::StatusOr<std::unique_ptr<TensorServer>> TensorServer::Start(TensorSource* source, TensorServerOptions options) {
  auto impl = std::make_unique<Impl>(source, std::move(options));
  CASK_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<TensorServer>(new TensorServer(std::move(impl)));
}

int TensorServer::port() const { return impl_->port(); }
const std::string& TensorServer::address() const { return impl_->address(); }
void TensorServer::Drain(Deadline deadline) { impl_->Drain(deadline); }
TensorServerStats TensorServer::stats() const { return impl_->stats(); }

}  // namespace tensorcask
