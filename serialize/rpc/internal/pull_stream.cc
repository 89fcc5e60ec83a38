#include "tensorcask/serialize/rpc/internal/pull_stream.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/internal/item_bytes.h"
#include "tensorcask/serialize/rpc/internal/list_page.h"
#include "tensorcask/serialize/rpc/internal/piece.h"
#include "tensorcask/serialize/rpc/internal/piece_slices.h"
#include "tensorcask/serialize/wire/slice_codec.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::rpc {
namespace {

absl::StatusOr<ItemRequest> DecodeItem(v1::PullItem item) {
  ItemRequest request;
  request.name = std::move(*item.mutable_name());
  if (item.has_slice()) {
    CASK_ASSIGN_OR_RETURN(request.slice, DecodeSlice(item.slice()));
  }
  request.as_message = item.as_message();
  request.metadata_alone = item.metadata_alone();
  request.file_metadata = item.file_metadata();
  request.offset = item.offset();
  return request;
}

struct ParsedPull {
  TensorSnapshot snapshot;
  std::vector<ItemRequest> items;
};

absl::StatusOr<ParsedPull> ParsePull(const grpc::ByteBuffer& bytes, TensorSource* source) {
  v1::PullRequest request;
  grpc::ByteBuffer buffer(bytes);  // which parsing empties
  if (!grpc::SerializationTraits<v1::PullRequest>::Deserialize(&buffer, &request).ok()) {
    return absl::InvalidArgumentError("the request is not a PullRequest");
  }
  ParsedPull pull;
  CASK_ASSIGN_OR_RETURN(pull.snapshot, source->Current());
  CASK_RETURN_IF_ERROR(CheckVersion(request.has_version(), request.version(), pull.snapshot.version));
  for (v1::PullItem& item : *request.mutable_items()) {
    CASK_ASSIGN_OR_RETURN(ItemRequest decoded, DecodeItem(std::move(item)));
    pull.items.push_back(std::move(decoded));
  }
  return pull;
}

// Its steps follow one another: a piece is made, written, and when gRPC has taken it, the next one is made. Only the
// last step calls Finish.
class PullStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public OpenStream {
 public:
  PullStream(const PullResources& server, grpc::CallbackServerContext* context, ParsedPull pull)
      : server_(server), context_(context), pull_(std::move(pull)) {}

  void Advance() {
    if (pull_.snapshot.in_memory) {
      MakePiece();
    } else {
      server_.files->Add([this] { MakePiece(); });
    }
  }

  void OnWriteDone(bool ok) override {
    clock_.Stop();
    if (!ok) {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone"));
      return;
    }
    *server_.sent_bytes += piece_bytes_;
    Advance();
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
  void MakePiece() {
    const absl::StatusOr<bool> made = NextPiece();
    if (!made.ok() || !*made) {
      bytes_ = nullptr;
      Finish(ToGrpc(made.status()));
      return;
    }
    clock_.Begin();
    StartWrite(&buffer_);
  }

  // Fills buffer_; false at the end of all items.
  absl::StatusOr<bool> NextPiece() {
    while (true) {
      if (bytes_ == nullptr) {
        if (item_ == pull_.items.size()) return false;
        CASK_ASSIGN_OR_RETURN(bytes_, OpenItem(pull_.snapshot, pull_.items[item_], server_.memory));
        offset_ = pull_.items[item_].offset;
      }
      buffer_.Clear();  // the memory of the piece before may be used again
      CASK_ASSIGN_OR_RETURN(ItemBytes::Piece piece, bytes_->Next());
      if (!piece.bytes.empty()) {
        FillBuffer(std::move(piece));
        return true;
      }
      bytes_ = nullptr;
      ++item_;
    }
  }

  void FillBuffer(ItemBytes::Piece piece) {
    PieceHeader header;
    header.item = static_cast<uint32_t>(item_);
    header.offset = offset_;
    header.version_id = pull_.snapshot.version.id;
    if (pull_.items[item_].is_message()) header.message_bytes = bytes_->total_bytes();
    piece_bytes_ = piece.bytes.size();
    grpc::ByteBuffer filled = MakePieceBuffer(header, std::move(piece));
    buffer_.Swap(&filled);
    offset_ += piece_bytes_;
  }

  const PullResources server_;
  grpc::CallbackServerContext* const context_;
  const ParsedPull pull_;
  size_t item_ = 0;
  std::unique_ptr<ItemBytes> bytes_;  // the bytes of the item; null: it is not open yet
  uint64_t offset_ = 0;               // where the next piece begins
  uint64_t piece_bytes_ = 0;
  grpc::ByteBuffer buffer_;
  WaitClock clock_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* ServePull(const PullResources& server, const grpc::ByteBuffer& request,
                                                      grpc::CallbackServerContext* context) {
  absl::StatusOr<ParsedPull> pull = ParsePull(request, server.source);
  if (!pull.ok()) return new RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>(pull.status());
  auto stream = std::make_unique<PullStream>(server, context, *std::move(pull));
  const absl::Status accepted = server.streams->Accept(stream.get());
  if (!accepted.ok()) return new RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>(accepted);
  stream->Advance();
  return stream.release();  // OnDone deletes it
}

}  // namespace tensorcask::rpc
