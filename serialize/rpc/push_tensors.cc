#include "tensorcask/serialize/rpc/push_tensors.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/internal/item_bytes.h"
#include "tensorcask/serialize/rpc/internal/piece_slices.h"
#include "tensorcask/serialize/rpc/internal/remote_address.h"
#include "tensorcask/serialize/rpc/internal/stream_call.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr char kPushMethod[] = "/tensorcask.rpc.v1.TensorExchange/Push";

// Sends one item. False: the server has ended the call.
absl::StatusOr<bool> SendItem(rpc::StreamCall* call, uint32_t number, bool as_message, uint64_t version_id,
                              rpc::ItemBytes* bytes) {
  uint64_t offset = 0;
  while (true) {
    CASK_ASSIGN_OR_RETURN(rpc::ItemBytes::Piece piece, bytes->Next());
    if (piece.bytes.empty()) return true;
    rpc::PieceHeader header;
    header.item = number;
    header.offset = offset;
    header.version_id = version_id;
    if (as_message) header.message_bytes = bytes->total_bytes();
    offset += piece.bytes.size();
    CASK_ASSIGN_OR_RETURN(const bool goes_on, call->Write(rpc::MakePieceBuffer(header, std::move(piece))));
    if (!goes_on) return false;
  }
}

// Sends all: the header as item 0, then the tensors.
absl::StatusOr<bool> SendAll(rpc::StreamCall* call, const TensorSnapshot& snapshot, DecodeQuota* memory) {
  CASK_ASSIGN_OR_RETURN(bool goes_on, call->Start());
  rpc::v1::PushHeader header;
  header.set_step(snapshot.version.step);
  for (const ArchiveEntry& entry : snapshot.tensors->entries()) {
    rpc::v1::PushedTensor* const tensor = header.add_tensors();
    tensor->set_name(entry.name);
    tensor->set_dtype(static_cast<DataType>(DTypeNumber(entry.dtype)));
    EncodeShape(entry.shape, tensor->mutable_shape());
    tensor->set_as_message(!IsFixedSize(entry.dtype));
  }
  const std::unique_ptr<rpc::ItemBytes> bytes = rpc::MessageItem(header.SerializeAsString());
  if (goes_on) {
    CASK_ASSIGN_OR_RETURN(goes_on, SendItem(call, 0, /*as_message=*/true, snapshot.version.id, bytes.get()));
  }
  uint32_t number = 0;
  for (const ArchiveEntry& entry : snapshot.tensors->entries()) {
    if (!goes_on) return false;
    rpc::ItemRequest item;
    item.name = entry.name;
    item.as_message = !IsFixedSize(entry.dtype);
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::ItemBytes> elements, rpc::OpenItem(snapshot, item, memory));
    CASK_ASSIGN_OR_RETURN(goes_on, SendItem(call, ++number, item.as_message, snapshot.version.id, elements.get()));
  }
  return goes_on ? call->WritesDone() : goes_on;
}

}  // namespace

absl::StatusOr<TensorVersion> PushTensors(const std::string& address, int64_t step, std::vector<NamedView> tensors,
                                          const RemoteOptions& options) {
  CASK_ASSIGN_OR_RETURN(const rpc::Address parsed, rpc::ParseAddress(address));
  if (!parsed.prefix.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(address, ": a push replaces all tensors of a server; wanted an address without a name"));
  }
  LiveTensors live;  // checks the names, and holds the elements as they are now
  CASK_RETURN_IF_ERROR(live.Publish(step, std::move(tensors)));
  CASK_ASSIGN_OR_RETURN(const TensorSnapshot snapshot, live.Current());
  DecodeQuota memory("max_message_bytes", options.limits.max_message_bytes);
  rpc::StreamCall::Stub stub(rpc::MakeChannel(parsed, options.credentials));
  rpc::StreamCall call(&stub, kPushMethod, options.pull.timeout, options.pull.stall_timeout, "the server took nothing",
                       options.pull.keep_going);
  CASK_ASSIGN_OR_ANNOTATE(const bool sent, SendAll(&call, snapshot, &memory), address);
  grpc::ByteBuffer answer;
  rpc::v1::PushResponse response;
  if (sent) {
    CASK_ASSIGN_OR_ANNOTATE(const bool answered, call.Read(&answer), address);
    if (answered && !grpc::SerializationTraits<rpc::v1::PushResponse>::Deserialize(&answer, &response).ok()) {
      return absl::DataLossError(absl::StrCat(address, ": the answer is not a PushResponse"));
    }
  }
  CASK_ASSIGN_OR_ANNOTATE(const grpc::Status status, call.Finish(), address);
  if (!status.ok()) {
    if (!rpc::IsInterruption(status)) return rpc::FromGrpc(status, address);
    return absl::UnavailableError(absl::StrCat(address, ": ", status.error_message()));
  }
  return TensorVersion{response.version().step(), response.version().id()};
}

}  // namespace tensorcask
