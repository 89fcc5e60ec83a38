#include "tensorcask/serialize/rpc/internal/pull_stream.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/internal/item_bytes.h"
#include "tensorcask/serialize/rpc/internal/list_page.h"
#include "tensorcask/serialize/rpc/internal/piece.h"
#include "tensorcask/serialize/rpc/internal/piece_slices.h"
#include "tensorcask/serialize/wire/slice_codec.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::rpc {
namespace {

// The numbers of the fields of PullRequest in proto/exchange_service.proto.
enum PullRequestField : uint32_t { kVersion = 1, kItems = 2 };
// What one byte of an item becomes at most while the item is parsed: an empty extent of a slice has two bytes.
constexpr uint64_t kParsedBytes = 32;

struct ParsedPull {
  std::optional<v1::Version> version;
  std::vector<ItemRequest> items;
};

absl::Status NoPullRequest() { return absl::InvalidArgumentError("the request is not a PullRequest"); }

template <typename Message>
absl::StatusOr<Message> ParseField(absl::string_view bytes) {
  Message message;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return message;
  return NoPullRequest();
}

absl::StatusOr<ItemRequest> DecodeItem(absl::string_view bytes) {
  CASK_ASSIGN_OR_RETURN(v1::PullItem item, ParseField<v1::PullItem>(bytes));
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

// The items, one after the other: protobuf makes much of few bytes. They are charged to *kept.
absl::StatusOr<ParsedPull> ParsePull(absl::string_view request, DecodeQuota* memory, QuotaCharge* kept) {
  size_t count = 0;
  WireReader counter(request);
  for (WireReader::Field field; counter.Next(&field);) {
    count += field.number == kItems && field.type == WireType::kBytes ? 1 : 0;
  }
  if (!counter.status().ok()) return NoPullRequest();
  CASK_RETURN_IF_ERROR(kept->Add(count * sizeof(ItemRequest) + request.size()));
  ParsedPull pull;
  pull.items.reserve(count);
  WireReader reader(request);
  for (WireReader::Field field; reader.Next(&field);) {
    if (field.type != WireType::kBytes) continue;
    if (field.number == kVersion) {
      CASK_ASSIGN_OR_RETURN(pull.version, ParseField<v1::Version>(field.bytes));
    } else if (field.number == kItems) {
      QuotaCharge parsed(memory);
      CASK_RETURN_IF_ERROR(parsed.Add(kParsedBytes * field.bytes.size()));
      CASK_ASSIGN_OR_RETURN(ItemRequest item, DecodeItem(field.bytes));
      if (item.slice.has_value()) {
        CASK_RETURN_IF_ERROR(kept->Add(static_cast<uint64_t>(item.slice->rank()) * sizeof(TensorSlice::Extent)));
      }
      pull.items.push_back(std::move(item));
    }
  }
  return pull;
}

// Its steps follow one another: a piece is made, written, and when gRPC has taken it, the next one is made. No
// exception leaves a step.
class PullStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public OpenStream {
 public:
  PullStream(const PullResources& server, grpc::CallbackServerContext* context)
      : server_(server), context_(context), items_memory_(server.memory) {}

  void Begin(const grpc::ByteBuffer& request) {
    const absl::Status begun = CatchExceptions([&] { return Parse(request); });
    if (begun.ok()) {
      Advance();
    } else {
      FinishWith(begun);
    }
  }

  void OnWriteDone(bool ok) override {
    clock_.Stop();
    if (!ok) {
      FinishWith(absl::CancelledError("the client has gone"));
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
  absl::Status Parse(const grpc::ByteBuffer& request) {
    grpc::Slice bytes;
    if (!request.DumpToSingleSlice(&bytes).ok()) return NoPullRequest();
    const absl::string_view message(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
    CASK_ASSIGN_OR_RETURN(ParsedPull pull, ParsePull(message, server_.memory, &items_memory_));
    items_ = std::move(pull.items);
    CASK_ASSIGN_OR_RETURN(snapshot_, server_.source->Current());
    return CheckVersion(pull.version.has_value(), pull.version.value_or(v1::Version()), snapshot_.version);
  }

  void Advance() {
    if (snapshot_.in_memory) {
      MakePiece();
      return;
    }
    const absl::Status added = CatchExceptions([&] {
      server_.files->Add([this] { MakePiece(); });
      return absl::OkStatus();
    });
    if (!added.ok()) FinishWith(added);
  }

  void MakePiece() {
    bool has_piece = false;
    const absl::Status made = CatchExceptions([&]() -> absl::Status {
      CASK_ASSIGN_OR_RETURN(has_piece, NextPiece());
      return absl::OkStatus();
    });
    if (!has_piece) {
      FinishWith(made);
      return;
    }
    clock_.Begin();
    StartWrite(&buffer_);
  }

  // The last step. Gives the memory back first: a client that has the status may ask again.
  void FinishWith(const absl::Status& status) {
    bytes_ = nullptr;
    items_ = {};
    items_memory_.Clear();
    Finish(ToGrpc(status));
  }

  // Fills buffer_; false at the end of all items.
  absl::StatusOr<bool> NextPiece() {
    while (true) {
      if (bytes_ == nullptr) {
        if (item_ == items_.size()) return false;
        CASK_ASSIGN_OR_RETURN(bytes_, OpenItem(snapshot_, items_[item_], server_.memory));
        offset_ = items_[item_].offset;
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
    header.version_id = snapshot_.version.id;
    if (items_[item_].is_message()) header.message_bytes = bytes_->total_bytes();
    piece_bytes_ = piece.bytes.size();
    grpc::ByteBuffer filled = MakePieceBuffer(header, std::move(piece));
    buffer_.Swap(&filled);
    offset_ += piece_bytes_;
  }

  const PullResources server_;
  grpc::CallbackServerContext* const context_;
  QuotaCharge items_memory_;
  std::vector<ItemRequest> items_;
  TensorSnapshot snapshot_;
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
  auto stream = std::make_unique<PullStream>(server, context);
  const absl::Status accepted = server.streams->Accept(stream.get());
  if (!accepted.ok()) return new RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>(accepted);
  stream->Begin(request);
  return stream.release();  // OnDone deletes it
}

}  // namespace tensorcask::rpc
