// Messages of tensors to and from what a frame carries: a body, inline data and descriptors (FORMAT.md sections 4, 5).
//
// Internal to this room but for Message and ChannelOptions; channel.h is the door.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_MESSAGE_CODEC_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_MESSAGE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/exchange/received_frame.h"
#include "tensorcask/serialize/exchange/recycled_memory.h"
#include "tensorcask/serialize/exchange/scoped_descriptor.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/ref_counted.h"

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
  // Sending: tensors of 128 KiB and more that are not in shared memory are copied to some that the channel makes, keeps
  // and uses again when the receiver has let go of it, this much at most, and go by descriptor. Through the socket go
  // those for which it has no room, bools, and all with checksums: what is checked would be copied again. 0: all.
  size_t recycled_bytes = size_t{128} << 20;
  // Receiving: limits (max_message_bytes of one message, what it maps included), allocator, device map.
  DecodeOptions decode;
  AllowedPeers allowed = AllowedPeers::kSameUser;  // Connect and Listen
};

namespace exchange {

// What a frame carries for a message. The pieces point into the message and into `owners`.
struct EncodedMessage {
  std::string body;
  absl::InlinedVector<absl::string_view, 4> inline_pieces;  // in order, none empty
  uint64_t inline_bytes = 0;                                // of these
  std::vector<int> descriptors;                             // the tensors' own, and `copies`
  ScopedDescriptor copies;                                  // memory that elements were copied to, if any
  std::string small;                                        // inline tensors that were written out
  uint64_t shared_bytes = 0;                                // behind these, as far as tensors show them
  absl::InlinedVector<RefPtr<RefCounted>, 1> owners;
};

// Fills *out, which is empty. Freezes the memory of tensors that go by descriptor, and takes some for others from
// *recycled. Errors: InvalidArgument for metadata that a tensor cannot have, for more than kMaxTensors tensors or
// `max_descriptors` blocks of shared memory; as EncodeTensorToPieces.
absl::Status EncodeMessage(const Message& message, const ChannelOptions& options, size_t max_descriptors,
                           RecycledMemory* recycled, EncodedMessage* out);

// Sets *out, but for is_reply, to the message in `frame`, trusting nothing of it. Errors, which name the tensor:
// InvalidArgument; ResourceExhausted past a limit; DataLoss for a wrong checksum; Unimplemented for dtypes newer than
// this build.
absl::Status DecodeMessage(ReceivedFrame frame, const DecodeOptions& options, Message* out);

}  // namespace exchange
}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_MESSAGE_CODEC_H_
