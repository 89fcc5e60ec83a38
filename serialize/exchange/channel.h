// Messages of tensors between two processes.
//
//   // One side. (A server of many clients: server.h.)
//   CASK_ASSIGN_OR_RETURN(ChannelListener listener, ChannelListener::Listen("/run/user/1000/tensors.sock"));
//   CASK_ASSIGN_OR_RETURN(Channel client, listener.Accept(Deadline::Never()));
//   CASK_ASSIGN_OR_RETURN(Message request, client.Receive(absl::Minutes(1)));
//   CASK_RETURN_IF_ERROR(client.Reply(request, Answer(request), absl::Seconds(5)));
//
//   // The other side.
//   CASK_ASSIGN_OR_RETURN(Channel server, Channel::Connect("/run/user/1000/tensors.sock", absl::Seconds(1)));
//   Message question;
//   question.topic = "predict";
//   question.tensors.push_back({image, {}});
//   CASK_ASSIGN_OR_RETURN(Message reply, server.Call(question, absl::Seconds(5)));
//
//   // Or tensors only:
//   CASK_RETURN_IF_ERROR(server.SendTensor(weights, metadata, absl::Seconds(5)));
//   CASK_ASSIGN_OR_RETURN(DecodedTensor same, client.ReceiveTensor(absl::Seconds(5)));
//   CASK_RETURN_IF_ERROR(server.Close(absl::Seconds(5)));   // OK: the client has received everything
//
// A tensor in shared memory (of a SharedMemoryAllocator, or received from another channel) is sent as a descriptor with
// its strides. This takes the same time for any size, and views of one block share the block on the other side, too.
// Sending freezes the memory: on either side the first write copies it. All other tensors are copied: large ones once,
// into shared memory that the channel makes and reuses when the receiver has released it
// (ChannelOptions::recycled_bytes); small ones and strings through the socket. The receiver of such a copy can read all
// of that memory, including elements that the channel sent in it earlier. If the receiver passes the tensor to a third
// process, that process can read all of it, too. To prevent that, Clone() a received tensor before you pass it on.
//
// What arrives is checked before it is used, as if a stranger had sent it. Elements in shared memory are not checked,
// except bools and elements with a checksum, which are copied first unless the sender has sealed them
// (SharedMemoryAllocator::SealAgainstWriting). A sender that breaks its promise can change all other elements while
// they are read. If you save received tensors, they must not change meanwhile: see ChannelOptions::copy_unsealed.
//
// Errors name the peer:
//   DeadlineExceeded    the deadline passed
//   OutOfRange          Receive: the other side has ended the channel, and everything before was received
//   Unavailable         the other side died, or was cut off in a frame; Shutdown was called
//   InvalidArgument     the bytes are not a frame of a channel, or its fields disagree
//   Unimplemented       the frame is from a newer version
//   DataLoss            a checksum is wrong; a frame is missing, or came twice
//   ResourceExhausted   past a limit; no memory or descriptors
//   FailedPrecondition  there was an error before
// After an error the channel is closed, and every further call says so. The channel stays open in three cases: the
// deadline of Receive passes before the first byte of a frame; Send refuses a message before its first byte
// (InvalidArgument, ResourceExhausted, FailedPrecondition); ReceiveTensor gets a message that is not just one tensor
// (InvalidArgument). A C++ exception that passes through Send or Receive (std::bad_alloc) closes the channel, too, if
// bytes may have been sent or received.
//
// One thread may send while another receives; Call does both. After fork(2) a child that destroys its copy of a channel
// does not end the parent's. The process that made a channel ends the connection when it destroys it, for its children,
// too: a server that forks makes the channel in the child. FORMAT.md describes the frames.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_CHANNEL_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_CHANNEL_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
  // Waits until a server listens at the path. Errors: those of UnixSocket::Connect.
  static absl::StatusOr<Channel> Connect(const std::string& path, Deadline deadline, ChannelOptions options = {});
  // The same for a server that listens already: waits only while the server's queue of clients is full. `advice` is
  // appended to the message if nothing listens (NotFound, Unavailable); it may be empty.
  static absl::StatusOr<Channel> ConnectToListening(const std::string& path, Deadline deadline,
                                                    absl::string_view advice, ChannelOptions options = {});
  // One end of a connection. Sends the hello without waiting; if that fails, the first Send reports it.
  static Channel FromSocket(UnixSocket socket, ChannelOptions options = {});
  static Channel FromTransport(std::unique_ptr<Transport> transport, ChannelOptions options = {});

  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  // Closes, without waiting.
  ~Channel();

  // OK means that the system accepted the whole message. It does not mean that the peer received it: Send returns OK
  // even if the peer was killed a moment ago. Call and Close report what was received. Waits while the transport's
  // buffer is full. Sends the message's request and status unchanged, but not is_reply.
  // Further errors: InvalidArgument for metadata that a tensor cannot have, for more than 65536 tensors or 253 blocks
  // of shared memory; ResourceExhausted for more bytes than the peer's hello accepts, if Receive has seen the hello.
  absl::Status Send(const Message& message, Deadline deadline);
  // The next message. Its tensors share memory: those that travelled inline share one block, and so do those that were
  // copied into shared memory, where the first write copies.
  absl::StatusOr<Message> Receive(Deadline deadline);

  // Sends `message` as a request and returns the reply, whose status is the other side's answer. Replies to calls that
  // gave up before are dropped. A message that is not a reply is an error (FailedPrecondition): to receive requests
  // while you wait for replies, use Send with your own request numbers, and match the replies that Receive returns.
  absl::StatusOr<Message> Call(const Message& message, Deadline deadline);
  // Sends `message` as the answer to `request`. Requires: request.request is not 0.
  absl::Status Reply(const Message& request, const Message& message, Deadline deadline);

  // A message of one tensor and nothing else. Further error of ReceiveTensor: InvalidArgument for any other message,
  // which is dropped.
  absl::Status SendTensor(const TensorView& view, const TensorMetadata& metadata, Deadline deadline);
  absl::StatusOr<DecodedTensor> ReceiveTensor(Deadline deadline);

  // Waits until the peer has received everything that was sent, sends it a goodbye (without one the peer would report
  // that this side died), and ends both directions. Belongs to the sending thread. OK: the peer received every message.
  // A peer that received everything, said goodbye and is gone is OK, too: Close reads what it sent until then. Receive
  // returns those messages later.
  // Errors: that of an earlier Send; DeadlineExceeded or Unavailable if the peer did not receive everything;
  // Unavailable if it is gone and said no goodbye, as a process that was killed. A second call returns the same. The
  // destructor closes, too, but does not wait.
  absl::Status Close(Deadline deadline);
  // Ends both directions at once. May be called from any thread at any time.
  void Shutdown();

  const std::string& name() const;  // names the peer, for messages

 private:
  class State;

  explicit Channel(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;  // null once moved from
};

// reply.status as a program can show it: a message of more than 1000 bytes is cut, so that a peer fills no terminal.
absl::Status StatusOfReply(const Message& reply);

// A Unix socket with a path, at which clients connect.
class ChannelListener {
 public:
  // options.allowed replaces `socket.allowed`. Errors: those of UnixListener::Listen.
  static absl::StatusOr<ChannelListener> Listen(const std::string& path, ChannelOptions options = {},
                                                UnixListener::Options socket = {});

  // The next client. Does not wait for the client to send anything, so a silent client delays no other one.
  // Thread safety and errors: those of UnixListener::Accept.
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
