// Messages of tensors and the options of a channel; and how a message becomes the parts of a frame, and back: a body,
// inline data and descriptors (FORMAT.md sections 4 and 5).
//
//   Message message;
//   message.topic = "predict";
//   message.tensors.push_back({image, {}});
//   ChannelOptions options;
//   options.copy_unsealed = true;   // received tensors are saved
//   CASK_ASSIGN_OR_RETURN(Channel channel, Channel::Connect("/run/x.sock", absl::Seconds(1), options));
//
// Message and ChannelOptions are public; the rest is internal to this room. channel.h is the door.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_MESSAGE_CODEC_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_MESSAGE_CODEC_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/received_frame.h"
#include "tensorcask/serialize/exchange/internal/recycled_memory.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask {

struct Message {
  std::string topic;                   // any bytes; the two sides agree on the meaning
  std::vector<DecodedTensor> tensors;  // each a view and its metadata; at most 65536
  absl::Status status;                 // in a reply: the result of the request. Its payloads are not sent
  uint64_t request = 0;                // the number of a request and of the reply to it; 0: no reply is awaited
  bool is_reply = false;
};

struct ChannelOptions {
  // Sending: adds a checksum of each tensor's bytes. A receiver verifies every checksum; for shared memory that is not
  // sealed against writing this needs a copy.
  bool checksum = false;
  // Sending: the order of elements of tensors that are not in shared memory. Those in shared memory keep their strides.
  StoredLayout layout = StoredLayout::kPreserve;
  // Sending: tensors of 128 KiB and more that are not in shared memory are copied into shared memory that the channel
  // makes, and reuses when the receiver has released it. This option limits that memory. Tensors that exceed the limit
  // go through the socket. So do bools and tensors with checksums, because the receiver would copy them again. 0: all
  // go through the socket.
  size_t recycled_bytes = size_t{128} << 20;
  // Receiving: copies shared memory on arrival, unless it is sealed against writing. The sender of memory that is not
  // sealed can change it at any time, for example after a checksum was computed and before the bytes are written. Set
  // this option if you save received tensors.
  bool copy_unsealed = false;
  // Receiving: limits (max_message_bytes counts one message with what it maps), allocator (may belong to a device),
  // device map.
  DecodeOptions decode;
  AllowedPeers allowed = AllowedPeers::kSameUser;  // who may be the peer, for Connect and Listen
};

namespace exchange {

// The parts of a frame for a message. The pieces point into the message and into `owners`.
struct EncodedMessage {
  std::string body;
  absl::InlinedVector<absl::string_view, 4> inline_pieces;  // in order, none empty
  uint64_t inline_bytes = 0;                                // the total of inline_pieces
  std::vector<int> descriptors;                             // the tensors' own, and `copies`
  ScopedDescriptor copies;                                  // shared memory that elements were copied into, if any
  std::string small;                                        // the messages of small inline tensors
  uint64_t shared_bytes = 0;                                // the total of the tensors in shared memory
  absl::InlinedVector<RefPtr<RefCounted>, 1> owners;
};

// Fills *out, which must be empty. Freezes the memory of tensors that travel by descriptor; copies others into memory
// of *recycled.
// Errors: InvalidArgument for metadata that a tensor cannot have, for more than kMaxTensors tensors or
// `max_descriptors` blocks of shared memory; those of EncodeTensorToPieces.
absl::Status EncodeMessage(const Message& message, const ChannelOptions& options, size_t max_descriptors,
                           RecycledMemory* recycled, EncodedMessage* out);

// The header of the frame that carries `body` and the rest of `message`.
std::array<char, kFrameHeaderBytes> EncodeHeader(FrameType type, uint64_t sequence, absl::string_view body,
                                                 const EncodedMessage& message);

// Sets all of *out except is_reply to the message in `frame`, and trusts nothing in it.
// Errors, which name the tensor: InvalidArgument; ResourceExhausted past a limit; DataLoss for a wrong checksum;
// Unimplemented for dtypes newer than this build.
absl::Status DecodeMessage(ReceivedFrame frame, const ChannelOptions& options, Message* out);

}  // namespace exchange
}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_MESSAGE_CODEC_H_
