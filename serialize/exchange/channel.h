// Messages of tensors between two processes.
//
//   // A server, for each client a thread of its own:
//   CASK_ASSIGN_OR_RETURN(ChannelListener listener, ChannelListener::Listen("/run/user/1000/tensors.sock"));
//   CASK_ASSIGN_OR_RETURN(Channel client, listener.Accept(Deadline::Never()));
//   CASK_ASSIGN_OR_RETURN(Message request, client.Receive(absl::Minutes(1)));
//   CASK_RETURN_IF_ERROR(client.Reply(request, Answer(request), absl::Seconds(5)));
//
//   // A client:
//   CASK_ASSIGN_OR_RETURN(Channel server, Channel::Connect("/run/user/1000/tensors.sock", absl::Seconds(1)));
//   Message question;
//   question.topic = "predict";
//   question.tensors.push_back({image, {}});
//   CASK_ASSIGN_OR_RETURN(Message reply, server.Call(question, absl::Seconds(5)));
//
//   // Or just tensors:
//   CASK_RETURN_IF_ERROR(server.SendTensor(weights, metadata, absl::Seconds(5)));
//   CASK_ASSIGN_OR_RETURN(DecodedTensor same, client.ReceiveTensor(absl::Seconds(5)));
//
// A tensor whose memory is a file (SharedMemoryAllocator, or received from another channel) crosses by its descriptor,
// in the same time whatever its size, with its strides; views on one block share it on the other side, too. From then
// on it is frozen: who writes to it copies first, on either side. All other tensors are copied: large ones once, into
// shared memory of the channel's own, which it uses again when the receiver has let go of it
// (ChannelOptions::recycled_bytes); the rest, strings among them, through the socket. Who gets such a copy can read all
// of that memory, what the channel sent before in it, too; and so can whoever the receiver sends the tensor on to, by
// another channel: Clone() it first.
//
// What comes is checked before it is used, as if a stranger had sent it. Elements in shared memory are not looked at,
// but for bools and those with a checksum, which are copied first unless the sender has sealed them
// (SharedMemoryAllocator::SealAgainstWriting): a sender that breaks its word can change the rest while it is read.
//
// Errors name the peer:
//   DeadlineExceeded    the deadline passed
//   OutOfRange          Receive: the other side has ended the channel, and everything before was received
//   Unavailable         the other side died, or was cut off in a frame; Shutdown was called
//   InvalidArgument     what came is no frame of a channel, or its fields disagree
//   Unimplemented       it is from a newer version
//   DataLoss            a checksum is wrong; a frame is missing, or came twice
//   ResourceExhausted   past a limit; no memory or descriptors
//   FailedPrecondition  there was an error before
// After an error the channel is closed, and every further call says so: the stream has lost its place, or the other
// side cannot be trusted. Exceptions: Receive whose deadline passes before the first byte of a frame, and Send of what
// cannot be sent at all, refused before the first byte (InvalidArgument, ResourceExhausted, FailedPrecondition), and
// ReceiveTensor of a message that is another (InvalidArgument).
//
// One thread may send while another receives; Call does both. Frames are described in FORMAT.md.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_CHANNEL_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_CHANNEL_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/transport.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

class Channel {
 public:
  // Errors: as UnixSocket::Connect.
  static absl::StatusOr<Channel> Connect(const std::string& path, Deadline deadline, ChannelOptions options = {});
  // One end of a connection. Nothing waits: the first frame says who we are, and if it cannot be sent the first Send
  // tells.
  static Channel FromSocket(UnixSocket socket, ChannelOptions options = {});
  static Channel FromTransport(std::unique_ptr<Transport> transport, ChannelOptions options = {});

  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  // Closes, without waiting.
  ~Channel();

  // Waits until the transport has taken all of it; what the receiver has not taken yet is the transport's to keep.
  // While its buffer is full this waits, too. Of `message` request and status travel as they are, is_reply does not.
  // Besides: InvalidArgument for what DecodeOptions cannot express, for more than 65536 tensors or 253 blocks of shared
  // memory; ResourceExhausted for more than the other side said it takes, if Receive has seen it say so.
  absl::Status Send(const Message& message, Deadline deadline);
  // The next message. Its tensors hold the memory that came with it: those that came inline share one block, and so do
  // those that were copied to shared memory, where the first write copies once more.
  absl::StatusOr<Message> Receive(Deadline deadline);

  // Sends `message` as a request and gives the reply, whose status is what the other side made of it. Replies to calls
  // that had given up before are dropped; a message that is no reply is an error (FailedPrecondition): who wants both
  // at once sends requests with numbers of their own and sorts what Receive gives.
  absl::StatusOr<Message> Call(const Message& message, Deadline deadline);
  // Sends `message` as the answer to `request`. Requires: request.request is not 0.
  absl::Status Reply(const Message& request, const Message& message, Deadline deadline);

  // A message of one tensor and nothing else. Error of the second: InvalidArgument for any other, which is dropped.
  absl::Status SendTensor(const TensorView& view, const TensorMetadata& metadata, Deadline deadline);
  absl::StatusOr<DecodedTensor> ReceiveTensor(Deadline deadline);

  // Tells the other side that this is the end, so that it does not take it for a death, and ends both directions.
  // Belongs to the sending thread. Errors: those of the last frame. Once is enough.
  absl::Status Close(Deadline deadline);
  // Ends both directions at once. The one call that may come from any thread at any time.
  void Shutdown();

  const std::string& name() const;  // of the peer, for messages

 private:
  class State;

  explicit Channel(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;  // null once moved from
};

// A Unix socket with a path, at which clients connect.
class ChannelListener {
 public:
  // `socket.allowed` is replaced by options.allowed. Errors: as UnixListener::Listen.
  static absl::StatusOr<ChannelListener> Listen(const std::string& path, ChannelOptions options = {},
                                                UnixListener::Options socket = {});

  // The next client. It does not wait for anything that the client sends, so one that says nothing holds up nobody.
  // Thread safety and errors: as UnixListener::Accept.
  absl::StatusOr<Channel> Accept(Deadline deadline);
  void Shutdown() { listener_.Shutdown(); }

  const std::string& path() const { return listener_.path(); }

 private:
  ChannelListener(UnixListener listener, ChannelOptions options)
      : listener_(std::move(listener)), options_(std::move(options)) {}

  UnixListener listener_;
  ChannelOptions options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_CHANNEL_H_
