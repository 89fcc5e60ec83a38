#include "tensorcask/serialize/exchange/channel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/frame.h"
#include "tensorcask/serialize/exchange/frame_receiver.h"
#include "tensorcask/serialize/exchange/received_frame.h"
#include "tensorcask/serialize/exchange/recycled_memory.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

using exchange::EncodedMessage;
using exchange::FrameHead;
using exchange::FrameType;
using exchange::ReceivedFrame;

// The system takes a small frame faster in one piece than in several.
constexpr size_t kSmallFrameBytes = 4096;
using Pieces = absl::InlinedVector<absl::string_view, 8>;

uint64_t MaxBytes(const ChannelOptions& options) {
  return static_cast<uint64_t>(std::max<int64_t>(options.decode.limits.max_message_bytes, 0));
}

}  // namespace

// The two directions share nothing but the transport, the options and what the other side said it takes.
class Channel::State {
 public:
  State(std::unique_ptr<Transport> transport, ChannelOptions options)
      : transport_(std::move(transport)),
        options_(std::move(options)),
        recycled_memory_(options_.recycled_bytes),
        frames_(transport_.get(), MaxBytes(options_), options_.decode.allocator) {
    exchange::Hello hello;
    hello.max_message_bytes = MaxBytes(options_);
    // Into an empty buffer, so there is nothing to wait for. That a peer is gone already does not keep us from reading
    // what it sent.
    hello_error_ = SendFrame(FrameType::kHello, exchange::EncodeHello(hello), {}, absl::ZeroDuration());
  }
  ~State() { Close(absl::ZeroDuration()).IgnoreError(); }

  const std::string& name() const { return transport_->name(); }
  void Shutdown() {
    is_shut_down_.store(true, std::memory_order_relaxed);
    transport_->Shutdown();
  }

  // ---- Sending ------------------------------------------------------------------------------------------------------

  absl::Status Send(FrameType type, const Message& message, Deadline deadline) {
    if (!hello_error_.ok()) {  // nobody has been told yet
      Break(std::exchange(hello_error_, absl::OkStatus()), &send_error_);
      return send_error_;
    }
    CASK_RETURN_IF_ERROR(CheckOpen(send_error_));
    EncodedMessage encoded;
    const absl::Status encoding =
        exchange::EncodeMessage(message, options_, transport_->max_descriptors(), &recycled_memory_, &encoded);
    if (!encoding.ok()) return Named(encoding);
    const uint64_t bytes = encoded.body.size() + encoded.inline_bytes;
    const uint64_t most = peer_max_bytes_.load(std::memory_order_relaxed);
    if (bytes > most || encoded.shared_bytes > most) {
      return Named(
          absl::ResourceExhaustedError(absl::StrCat("the message has ", bytes, " bytes and ", encoded.shared_bytes,
                                                    " in shared memory; the other side takes ", most)));
    }
    absl::Status status = SendFrame(type, encoded.body, encoded, deadline);
    if (!status.ok()) Break(status, &send_error_);
    return status;
  }

  uint64_t NextRequest() { return ++last_request_; }

  absl::Status Close(Deadline deadline) {
    if (is_closed_) return absl::OkStatus();
    is_closed_ = true;
    absl::Status status;
    if (hello_error_.ok() && send_error_.ok()) {
      status = SendFrame(FrameType::kGoodbye, "", {}, deadline);
      send_error_ = absl::UnavailableError("Close was called");
    }
    Shutdown();
    return status;
  }

  // ---- Receiving ----------------------------------------------------------------------------------------------------

  absl::StatusOr<Message> Receive(Deadline deadline) {
    if (saw_goodbye_) return End();
    CASK_RETURN_IF_ERROR(CheckOpen(receive_error_));
    std::optional<Message> message;
    while (!message) {
      const absl::StatusOr<bool> more = frames_.WaitForFrame(deadline);
      // Nothing has been taken, so it can be asked again.
      if (more.status().code() == absl::StatusCode::kDeadlineExceeded) return more.status();
      absl::Status status = more.ok() ? Take(*more, &message, deadline) : more.status();
      if (saw_goodbye_) return End();
      if (!status.ok()) return BreakReceiving(std::move(status));
    }
    return *std::move(message);
  }

  // After an error that only the caller can see.
  absl::Status BreakReceiving(absl::Status status) {
    Break(status, &receive_error_);
    return status;
  }

 private:
  absl::Status Named(const absl::Status& status) const {
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(name(), ": ", status.message()));
  }
  absl::Status End() const { return Named(absl::OutOfRangeError("the other side has ended the channel")); }

  absl::Status CheckOpen(const absl::Status& error) const {
    if (error.ok()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(name(), ": the channel is closed, after: ", error.message()));
  }

  void Break(const absl::Status& error, absl::Status* direction) {
    *direction = error;
    Shutdown();
  }

  absl::Status SendFrame(FrameType type, absl::string_view body, const EncodedMessage& message, Deadline deadline) {
    FrameHead head;
    head.type = type;
    head.sequence = next_sent_++;
    head.body_bytes = body.size();
    head.inline_bytes = message.inline_bytes;
    head.num_descriptors = static_cast<uint32_t>(message.descriptors.size());
    head.body_crc32c = Crc32c(body);
    const std::array<char, exchange::kFrameHeadBytes> bytes = exchange::EncodeFrameHead(head);
    Pieces pieces;
    pieces.emplace_back(bytes.data(), bytes.size());
    pieces.push_back(body);
    pieces.insert(pieces.end(), message.inline_pieces.begin(), message.inline_pieces.end());
    if (bytes.size() + body.size() + message.inline_bytes > kSmallFrameBytes) {
      return transport_->SendAll(pieces, message.descriptors, deadline);
    }
    std::array<char, kSmallFrameBytes> joined;
    char* end = joined.data();
    for (const absl::string_view piece : pieces) end = std::copy(piece.begin(), piece.end(), end);
    const absl::string_view frame(joined.data(), static_cast<size_t>(end - joined.data()));
    return transport_->SendAll({frame}, message.descriptors, deadline);
  }

  // The next frame, if there is one to come. Sets *message if that is what it holds.
  absl::Status Take(bool more, std::optional<Message>* message, Deadline deadline) {
    if (!more) {
      return Named(absl::UnavailableError(is_shut_down_.load(std::memory_order_relaxed)
                                              ? "this side has ended the channel"
                                              : "the other side died, or was cut off between two frames"));
    }
    ReceivedFrame frame;
    CASK_RETURN_IF_ERROR(frames_.Receive(&frame, deadline));
    const FrameType type = frame.head.type;
    switch (type) {
      case FrameType::kHello:
        return TakeHello(frame.body);
      case FrameType::kGoodbye:
        saw_goodbye_ = true;
        return absl::OkStatus();
      case FrameType::kMessage:
      case FrameType::kReply:
        break;
    }
    message->emplace();
    (*message)->is_reply = type == FrameType::kReply;
    return Named(exchange::DecodeMessage(std::move(frame), options_.decode, &**message));
  }

  absl::Status TakeHello(absl::string_view body) {
    const absl::StatusOr<exchange::Hello> hello = exchange::DecodeHello(body);
    if (!hello.ok()) return Named(hello.status());
    peer_max_bytes_.store(hello->max_message_bytes, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  const std::unique_ptr<Transport> transport_;
  const ChannelOptions options_;
  std::atomic<uint64_t> peer_max_bytes_{UINT64_MAX};
  std::atomic<bool> is_shut_down_{false};  // by us

  // Of the sending side.
  exchange::RecycledMemory recycled_memory_;
  uint64_t next_sent_ = 0;
  uint64_t last_request_ = 0;
  absl::Status hello_error_;
  absl::Status send_error_;
  bool is_closed_ = false;

  // Of the receiving side.
  exchange::FrameReceiver frames_;
  absl::Status receive_error_;
  bool saw_goodbye_ = false;
};

// ---- Channel --------------------------------------------------------------------------------------------------------

Channel::Channel(std::unique_ptr<State> state) : state_(std::move(state)) {}
Channel::Channel(Channel&& other) noexcept = default;
Channel& Channel::operator=(Channel&& other) noexcept = default;
Channel::~Channel() = default;

absl::StatusOr<Channel> Channel::Connect(const std::string& path, Deadline deadline, ChannelOptions options) {
  CASK_ASSIGN_OR_RETURN(UnixSocket socket, UnixSocket::Connect(path, deadline, options.allowed));
  return FromSocket(std::move(socket), std::move(options));
}

Channel Channel::FromSocket(UnixSocket socket, ChannelOptions options) {
  return FromTransport(MakeTransport(std::move(socket)), std::move(options));
}

Channel Channel::FromTransport(std::unique_ptr<Transport> transport, ChannelOptions options) {
  return Channel(std::make_unique<State>(std::move(transport), std::move(options)));
}

absl::Status Channel::Send(const Message& message, Deadline deadline) {
  return state_->Send(FrameType::kMessage, message, deadline);
}

absl::StatusOr<Message> Channel::Receive(Deadline deadline) { return state_->Receive(deadline); }

absl::StatusOr<Message> Channel::Call(const Message& message, Deadline deadline) {
  Message request = message;
  request.request = state_->NextRequest();
  CASK_RETURN_IF_ERROR(state_->Send(FrameType::kMessage, request, deadline));
  while (true) {
    CASK_ASSIGN_OR_RETURN(Message reply, state_->Receive(deadline));
    if (reply.is_reply && reply.request == request.request) return reply;
    if (reply.is_reply && reply.request < request.request) continue;  // to a call that did not wait for it
    return state_->BreakReceiving(absl::FailedPreconditionError(
        absl::StrCat(name(), ": ", reply.is_reply ? "a reply to" : "a message with", " request ", reply.request,
                     " came while the reply to ", request.request, " was awaited")));
  }
}

absl::Status Channel::Reply(const Message& request, const Message& message, Deadline deadline) {
  CASK_CHECK(request.request != 0, "Channel::Reply: nobody awaits a reply to this message");
  Message reply = message;
  reply.request = request.request;
  return state_->Send(FrameType::kReply, reply, deadline);
}

absl::Status Channel::SendTensor(const TensorView& view, const TensorMetadata& metadata, Deadline deadline) {
  Message message;
  message.tensors.push_back({view, metadata});
  return Send(message, deadline);
}

absl::StatusOr<DecodedTensor> Channel::ReceiveTensor(Deadline deadline) {
  CASK_ASSIGN_OR_RETURN(Message message, Receive(deadline));
  if (message.tensors.size() != 1 || message.is_reply || message.request != 0 || !message.status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": a message with ", message.tensors.size(), " tensors came, not just one tensor"));
  }
  return std::move(message.tensors.front());
}

absl::Status Channel::Close(Deadline deadline) { return state_->Close(deadline); }
void Channel::Shutdown() { state_->Shutdown(); }
const std::string& Channel::name() const { return state_->name(); }

// ---- ChannelListener ------------------------------------------------------------------------------------------------

absl::StatusOr<ChannelListener> ChannelListener::Listen(const std::string& path, ChannelOptions options,
                                                        UnixListener::Options socket) {
  socket.allowed = options.allowed;
  CASK_ASSIGN_OR_RETURN(UnixListener listener, UnixListener::Listen(path, socket));
  return ChannelListener(std::move(listener), std::move(options));
}

absl::StatusOr<Channel> ChannelListener::Accept(Deadline deadline) {
  CASK_ASSIGN_OR_RETURN(UnixSocket socket, listener_.Accept(deadline));
  return Channel::FromSocket(std::move(socket), options_);
}

}  // namespace tensorcask
