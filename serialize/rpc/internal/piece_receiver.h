// Stores the pieces of a Pull where the caller wants them, and refuses all that the request did not ask for: what a
// client does with each message, whatever brings it.
//
//   PieceReceiver receiver(name, version_id, limits, absl::MakeSpan(targets));
//   while (stream.Read(&message)) CASK_RETURN_IF_ERROR(receiver.Receive(message));
//   CASK_RETURN_IF_ERROR(receiver.CheckComplete());
//
// After an interruption, BeginAttempt() tells what to ask for, and the pieces go on from there.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_PIECE_RECEIVER_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_PIECE_RECEIVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/internal/piece.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::rpc {

// One item, and where its bytes go.
struct PullTarget {
  std::string name;  // as the server knows it
  std::optional<TensorSlice> slice;
  TensorView* out = nullptr;       // elements of fixed size on the host, no two of which overlap; or
  std::string* message = nullptr;  // a message, of one of these kinds:
  enum class Message { kTensor, kMetadataAlone, kFileMetadata };
  Message kind = Message::kTensor;
};

class PieceReceiver {
 public:
  // What comes next: byte `offset` of targets[target].
  struct Position {
    size_t target = 0;
    uint64_t offset = 0;
  };

  // `server` names the other side in errors. The targets outlive this. Their items count from `first_item`. The size of
  // each message is charged to `messages`, unless that is null.
  PieceReceiver(absl::string_view server, uint64_t version_id, const DecodeLimits& limits,
                absl::Span<const PullTarget> targets, uint32_t first_item = 0, DecodeQuota* messages = nullptr);

  // Checks and stores one message, whose bytes come in parts. Errors, after which the elements of all targets are
  // unspecified: DataLoss for another version, an item that is not asked for, an offset that is not the next one, too
  // many bytes, a wrong checksum, bools that are neither 0 nor 1; ResourceExhausted for a message past
  // max_message_bytes or the quota.
  absl::Status Receive(absl::Span<const absl::string_view> parts);
  // Errors: DataLoss if bytes are missing.
  absl::Status CheckComplete() const;
  bool is_complete() const { return position_.target == targets_.size(); }

  // The items of the next request are the targets from here on, the first of them from this offset.
  Position BeginAttempt() {
    first_target_ = position_.target;
    return position_;
  }
  const Position& position() const { return position_; }
  uint64_t received_bytes() const { return received_bytes_; }

 private:
  absl::Status Store(const ParsedPiece& piece, absl::Span<const absl::string_view> parts);
  absl::Status StoreMessage(const ParsedPiece& piece, absl::Span<const absl::string_view> parts);
  absl::Status StoreElements(const ParsedPiece& piece, absl::Span<const absl::string_view> parts);
  void SkipEmpty();
  const PullTarget& target() const { return targets_[position_.target]; }

  const std::string server_;
  const uint64_t version_id_;
  const DecodeLimits limits_;
  const absl::Span<const PullTarget> targets_;
  const uint32_t first_item_;
  DecodeQuota* const messages_;
  Position position_;
  size_t first_target_ = 0;     // the first target of the attempt
  uint64_t message_bytes_ = 0;  // that the target's first piece has claimed; 0: no piece yet
  uint64_t received_bytes_ = 0;
  RefPtr<TensorBuffer> scratch_;  // for elements with strides
};

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_PIECE_RECEIVER_H_
