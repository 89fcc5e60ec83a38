#include "tensorcask/serialize/rpc/internal/push_stream.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/internal/list_page.h"
#include "tensorcask/serialize/rpc/internal/push_receiver.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::rpc {
namespace {

class PushStream final : public grpc::ServerReadReactor<grpc::ByteBuffer>, public OpenStream {
 public:
  PushStream(const PushResources& server, grpc::CallbackServerContext* context, grpc::ByteBuffer* response)
      : server_(server), context_(context), response_(response), receiver_(*server.limits) {}

  void Read() {
    clock_.Begin();
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    clock_.Stop();
    const absl::Status status = CatchExceptions([&]() -> absl::Status {
      if (ok) return Receive();
      return context_->IsCancelled() ? absl::CancelledError("the client has gone") : Complete();
    });
    message_.Clear();
    if (ok && status.ok()) {
      Read();
    } else {
      Finish(ToGrpc(status));
    }
  }
  void OnDone() override {
    server_.streams->Remove(this);
    delete this;
  }

  bool IsSlow(std::chrono::steady_clock::time_point now, absl::Duration limit) const override {
    return clock_.IsPast(now, limit);
  }
  void End() override { context_->TryCancel(); }

 private:
  absl::Status Receive() {
    std::vector<grpc::Slice> slices;
    std::vector<absl::string_view> parts;
    if (!message_.Dump(&slices).ok()) return absl::DataLossError("a message without bytes");
    for (const grpc::Slice& slice : slices) {
      parts.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return receiver_.Receive(parts);
  }

  // All has arrived, or the client stopped early.
  absl::Status Complete() {
    CASK_ASSIGN_OR_RETURN(TensorSet pushed, receiver_.Finish());
    CASK_ASSIGN_OR_RETURN(const TensorVersion version, server_.source->Replace(std::move(pushed)));
    ++*server_.pushes;
    v1::PushResponse response;
    SetVersion(version, response.mutable_version());
    bool own_buffer = false;
    grpc::SerializationTraits<v1::PushResponse>::Serialize(response, response_, &own_buffer);
    return absl::OkStatus();
  }

  const PushResources server_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  grpc::ByteBuffer message_;
  PushReceiver receiver_;
  WaitClock clock_;
};

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* ServePush(const PushResources& server, grpc::CallbackServerContext* context,
                                                     grpc::ByteBuffer* response) {
  auto stream = std::make_unique<PushStream>(server, context, response);
  const absl::Status accepted = server.streams->Accept(stream.get());
  if (!accepted.ok()) return new RefusedStream<grpc::ServerReadReactor<grpc::ByteBuffer>>(accepted);
  stream->Read();
  return stream.release();  // OnDone deletes it
}

}  // namespace tensorcask::rpc
