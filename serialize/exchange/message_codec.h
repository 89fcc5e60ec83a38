// Messages of tensors to and from what a frame carries: a body, inline data and descriptors (FORMAT.md sections 4, 5).
//
// Internal to this room but for Message and ChannelOptions; channel.h is the door.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_MESSAGE_CODEC_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_MESSAGE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/exchange/scoped_descriptor.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {

struct Message {
  std::string topic;                   // any bytes; what it means is between the two sides
  std::vector<DecodedTensor> tensors;  // each a view and its metadata; at most 65536
  absl::Status status;                 // of a reply: what came of the request. Payloads do not travel
  uint64_t request = 0;                // the number of a request and of the reply to it; 0: no reply is awaited
  bool is_reply = false;
};

struct ChannelOptions {
  // Sending: adds a checksum of each tensor's bytes. It is checked whenever it is there, which for shared memory that
  // is not sealed against writing takes a copy.
  bool checksum = false;
  // Sending: the order of tensors that are not in shared memory. Those in shared memory keep their strides always.
  StoredLayout layout = StoredLayout::kPreserve;
  // Receiving: limits (max_message_bytes of one message, what it maps included), allocator, device map.
  DecodeOptions decode;
  AllowedPeers allowed = AllowedPeers::kSameUser;  // Connect and Listen
};

namespace exchange {

// What a frame carries for a message. The pieces point into the message and into `owners`.
struct EncodedMessage {
  std::string body;
  std::vector<absl::string_view> inline_pieces;  // in order, none empty
  uint64_t inline_bytes = 0;                     // of these
  std::vector<int> descriptors;                  // the tensors' own
  uint64_t shared_bytes = 0;                     // behind these, as far as tensors show them
  std::vector<RefPtr<RefCounted>> owners;
};

// Freezes the memory of tensors that go by descriptor. Errors: InvalidArgument for metadata that a tensor cannot have,
// for more than kMaxTensors tensors or `max_descriptors` blocks of shared memory; as EncodeTensorToPieces.
absl::StatusOr<EncodedMessage> EncodeMessage(const Message& message, const ChannelOptions& options,
                                             size_t max_descriptors);

// What came with one frame. Body and inline data lie in `memory`.
struct ReceivedFrame {
  absl::string_view body;
  absl::string_view inline_data;
  RefPtr<TensorBuffer> memory;
  std::vector<ScopedDescriptor> descriptors;
};

// The message in `frame`, trusting nothing of it. Errors, which name the tensor: InvalidArgument; ResourceExhausted
// past a limit; DataLoss for a wrong checksum; Unimplemented for dtypes newer than this build.
absl::StatusOr<Message> DecodeMessage(ReceivedFrame frame, const DecodeOptions& options);

}  // namespace exchange
}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_MESSAGE_CODEC_H_
