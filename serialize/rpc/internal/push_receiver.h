// Puts together the tensors of one Push, in memory of their own (FORMAT.md section 6), whatever brings the messages.
//
//   PushReceiver receiver(limits);
//   while (stream.Read(&message)) CASK_RETURN_IF_ERROR(receiver.Receive(message));
//   CASK_ASSIGN_OR_RETURN(TensorSet pushed, receiver.Finish());

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_PUSH_RECEIVER_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_PUSH_RECEIVER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/internal/piece_receiver.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::rpc {

class PushReceiver {
 public:
  // max_file_decoded_bytes, max_memory_beyond_input, max_message_bytes, max_entries and max_name_bytes count, the first
  // two for all tensors together.
  explicit PushReceiver(const DecodeLimits& limits);
  PushReceiver(const PushReceiver&) = delete;
  PushReceiver& operator=(const PushReceiver&) = delete;

  // One message, whose bytes come in parts. The header makes memory for the tensors that it lists.
  // Errors, after which nothing else may be called: those of PieceReceiver::Receive; InvalidArgument for a header that
  // lists what cannot be a tensor; ResourceExhausted past a limit.
  absl::Status Receive(absl::Span<const absl::string_view> parts);

  // After the last message. Errors: DataLoss if bytes are missing, or a message is not of the tensor that the header
  // lists; ResourceExhausted past a limit; those of DecodeSerializedTensorWithMetadata.
  absl::StatusOr<TensorSet> Finish();

 private:
  struct Arriving {
    std::string name;
    bool as_message = false;
    DType dtype = DType::kInvalid;
    TensorShape shape;
    TensorView view;          // elements of a fixed size
    TensorMetadata metadata;  // for elements
    std::string message;      // for other tensors, with their metadata
  };

  absl::Status Begin(absl::Span<const absl::string_view> parts);
  absl::Status ReadHeader();
  absl::Status Add(v1::PushedTensor* tensor);
  absl::Status AddElements(const v1::PushedTensor& tensor, Arriving* pushed);
  absl::Status DecodeMessage(Arriving* tensor);

  const DecodeLimits limits_;
  DecodeQuota quota_;          // of max_file_decoded_bytes
  MessageQuota beyond_input_;  // of max_memory_beyond_input, for all messages
  uint64_t version_id_ = 0;
  std::string header_;
  bool has_header_ = false;
  int64_t step_ = 0;
  FileMetadata file_metadata_;
  std::deque<Arriving> tensors_;  // whose addresses stay
  std::vector<PullTarget> targets_;
  std::unique_ptr<PieceReceiver> receiver_;  // for the header, then for the tensors; null before the first message
};

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_PUSH_RECEIVER_H_
