#include "tensorcask/serialize/exchange/channel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/frame_receiver.h"
#include "tensorcask/serialize/exchange/internal/received_frame.h"
#include "tensorcask/serialize/exchange/internal/recycled_memory.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

using exchange::EncodedMessage;
using exchange::FrameType;
using exchange::ReceivedFrame;

// The system sends a small frame faster in one piece than in several.
constexpr size_t kSmallFrameBytes = 4096;
using Pieces = absl::InlinedVector<absl::string_view, 8>;

uint64_t MaxBytes(const ChannelOptions& options) {
  return static_cast<uint64_t>(std::max<int64_t>(options.decode.limits.max_message_bytes, 0));
}

}  // namespace

// The two directions share only the transport, the options, the limit that the peer announced, and two flags.
class Channel::State {
 public:
  State(std::unique_ptr<Transport> transport, ChannelOptions options)
      : transport_(std::move(transport)),
        options_(std::move(options)),
        recycled_memory_(options_.recycled_bytes),
        frames_(transport_.get(), MaxBytes(options_), options_.decode.allocator) {
    exchange::Hello hello;
    hello.max_message_bytes = MaxBytes(options_);
    // The buffer is empty, so this does not wait. If the peer is gone already, the bytes that it sent can still be
    // received.
    hello_error_ = SendFrame(FrameType::kHello, exchange::EncodeHello(hello), {}, absl::ZeroDuration());
  }
  ~State() {
    // A child after fork(2) has copies of the descriptors; the channel stays the parent's.
    if (!owner_.IsThisProcess()) return;
    // After an exception the peer gets no goodbye.
    CatchExceptions([this] { return Close(absl::ZeroDuration()); }).IgnoreError();
  }

  const std::string& name() const { return transport_->name(); }
  void Shutdown() {
    is_shut_down_.store(true, std::memory_order_relaxed);
    transport_->Shutdown();
  }

  // ---- Sending ------------------------------------------------------------------------------------------------------

  absl::Status Send(FrameType type, const Message& message, Deadline deadline) {
    if (!hello_error_.ok()) {  // not reported yet
      Break(std::exchange(hello_error_, absl::OkStatus()), &send_error_);
      return send_error_;
    }
    CASK_RETURN_IF_ERROR(CheckOpen(send_error_));
    EncodedMessage encoded;
    CASK_ANNOTATE_IF_ERROR(
        exchange::EncodeMessage(message, options_, transport_->max_descriptors(), &recycled_memory_, &encoded), name());
    const uint64_t bytes = encoded.body.size() + encoded.inline_bytes;
    const uint64_t most = peer_max_bytes_.load(std::memory_order_relaxed);
    if (bytes > most || encoded.shared_bytes > most) {
      return absl::ResourceExhaustedError(absl::StrCat(name(), ": the message has ", bytes, " bytes and ",
                                                       encoded.shared_bytes,
                                                       " in shared memory; the other side accepts ", most));
    }
    BreakOnException guard(this, &send_error_);
    absl::Status status = SendFrame(type, encoded.body, encoded, deadline);
    if (!status.ok()) Break(status, &send_error_);
    guard.Done();
    has_sent_messages_ = true;
    return status;
  }

  uint64_t NextRequest() { return ++last_request_; }

  absl::Status Close(Deadline deadline) {
    if (!is_closed_) {
      BreakOnException guard(this, &send_error_);
      close_status_ = exception_error_;  // if Finish throws
      is_closed_ = true;
      close_status_ = Finish(deadline);
      send_error_ = absl::UnavailableError("Close was called");
      Shutdown();
      guard.Done();
    }
    return close_status_;
  }

  // ---- Receiving ----------------------------------------------------------------------------------------------------

  absl::StatusOr<Message> Receive(Deadline deadline) {
    const std::lock_guard<std::timed_mutex> lock(receiving_);
    if (kept_.empty()) return ReceiveNext(deadline);
    Message message = std::move(kept_.front());
    kept_.pop_front();
    return message;
  }

  // For an error that only the caller finds.
  absl::Status BreakReceiving(absl::Status status) {
    Break(status, &receive_error_);
    return status;
  }

 private:
  absl::StatusOr<Message> ReceiveNext(Deadline deadline) {
    if (saw_goodbye_) return End();
    CASK_RETURN_IF_ERROR(CheckOpen(receive_error_));
    BreakOnException guard(this, &receive_error_);
    std::optional<Message> message;
    while (!message) {
      const absl::StatusOr<bool> more = frames_.WaitForFrame(deadline);
      if (absl::IsDeadlineExceeded(more.status())) {  // nothing was received, so the call can be repeated
        guard.Done();
        return more.status();
      }
      // The peer closed its socket while messages of ours were unread (ECONNRESET).
      if (absl::IsUnavailable(more.status())) peer_lost_messages_.store(true, std::memory_order_relaxed);
      absl::Status status = more.ok() ? ReceiveFrame(*more, &message, deadline) : more.status();
      if (!saw_goodbye_ && !status.ok()) Break(status, &receive_error_);
      if (saw_goodbye_ || !status.ok()) {
        guard.Done();
        return saw_goodbye_ ? End() : status;
      }
    }
    guard.Done();
    return *std::move(message);
  }

  // Breaks a direction if an exception passes, because how much was transferred is then unknown.
  class BreakOnException {
   public:
    BreakOnException(State* state, absl::Status* direction) : state_(state), direction_(direction) {}
    BreakOnException(const BreakOnException&) = delete;
    BreakOnException& operator=(const BreakOnException&) = delete;
    ~BreakOnException() {
      if (state_ != nullptr) state_->Break(state_->exception_error_, direction_);
    }
    void Done() { state_ = nullptr; }

   private:
    State* state_;
    absl::Status* const direction_;
  };

  absl::Status End() const {
    return absl::OutOfRangeError(absl::StrCat(name(), ": the other side has ended the channel"));
  }

  absl::Status CheckOpen(const absl::Status& error) const {
    if (error.ok()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(name(), ": the channel is closed, after: ", error.message()));
  }

  // What Close reports: that messages were not sent, or not received by the peer.
  absl::Status Finish(Deadline deadline) {
    if (!hello_error_.ok()) return absl::OkStatus();  // nothing was sent
    if (!send_error_.ok()) return Annotate(send_error_, "not everything was sent");
    if (has_sent_messages_) {
      CASK_RETURN_IF_ERROR(transport_->WaitUntilReceived(deadline));
      if (peer_lost_messages_.load(std::memory_order_relaxed)) {
        return absl::UnavailableError(absl::StrCat(name(), ": the peer has closed before it received everything"));
      }
    }
    const absl::Status said = SendFrame(FrameType::kGoodbye, "", {}, deadline);
    // A peer that has said goodbye may be gone, and does not wait for ours.
    return absl::IsUnavailable(said) && PeerSaidGoodbye(deadline) ? absl::OkStatus() : said;
  }

  // After a send that failed: whether the peer said goodbye before it went. Reads what the peer sent until then, and
  // keeps its messages for Receive. The buffer of a socket holds all of that, so a peer that sends more has not gone.
  bool PeerSaidGoodbye(Deadline deadline) {
    constexpr uint64_t kMaxKeptBytes = uint64_t{4} << 20;
    const absl::Duration wait = std::min(deadline.remaining(), absl::Hours(1));
    const std::unique_lock<std::timed_mutex> lock(receiving_, absl::ToChronoNanoseconds(wait));
    if (!lock.owns_lock()) return saw_goodbye_;
    const uint64_t before = received_bytes_;
    while (!saw_goodbye_ && received_bytes_ - before <= kMaxKeptBytes) {
      absl::StatusOr<Message> message = ReceiveNext(deadline);
      if (!message.ok()) break;
      kept_.push_back(*std::move(message));
    }
    return saw_goodbye_;
  }

  void Break(const absl::Status& error, absl::Status* direction) {
    *direction = error;
    Shutdown();
  }

  absl::Status SendFrame(FrameType type, absl::string_view body, const EncodedMessage& message, Deadline deadline) {
    const std::array<char, exchange::kFrameHeaderBytes> bytes = exchange::EncodeHeader(type, next_sent_, body, message);
    Pieces pieces;
    pieces.emplace_back(bytes.data(), bytes.size());
    pieces.push_back(body);
    for (const absl::string_view piece : message.inline_pieces) pieces.push_back(piece);
    ++next_sent_;  // after the last allocation
    if (bytes.size() + body.size() + message.inline_bytes > kSmallFrameBytes) {
      return transport_->SendAll(pieces, message.descriptors, deadline);
    }
    std::array<char, kSmallFrameBytes> joined;
    char* end = joined.data();
    for (const absl::string_view piece : pieces) end = std::copy(piece.begin(), piece.end(), end);
    const absl::string_view frame(joined.data(), static_cast<size_t>(end - joined.data()));
    return transport_->SendAll({frame}, message.descriptors, deadline);
  }

  // The next frame, if `more` says that there is one. Sets *message if the frame is a message.
  absl::Status ReceiveFrame(bool more, std::optional<Message>* message, Deadline deadline) {
    if (!more) {
      const bool by_us = is_shut_down_.load(std::memory_order_relaxed);
      return absl::UnavailableError(
          absl::StrCat(name(), by_us ? ": this side has ended the channel"
                                     : ": the other side died, or was cut off between two frames"));
    }
    ReceivedFrame frame;
    CASK_RETURN_IF_ERROR(frames_.Receive(&frame, deadline));
    received_bytes_ += exchange::kFrameHeaderBytes + frame.header.body_bytes + frame.header.inline_bytes;
    const FrameType type = frame.header.type;
    switch (type) {
      case FrameType::kHello:
        return ReadHello(frame.body);
      case FrameType::kGoodbye:
        saw_goodbye_ = true;
        return absl::OkStatus();
      case FrameType::kMessage:
      case FrameType::kReply:
        break;
    }
    message->emplace();
    (*message)->is_reply = type == FrameType::kReply;
    return Annotate(exchange::DecodeMessage(std::move(frame), options_, &**message), name());
  }

  absl::Status ReadHello(absl::string_view body) {
    CASK_ASSIGN_OR_ANNOTATE(const exchange::Hello hello, exchange::DecodeHello(body), name());
    peer_max_bytes_.store(hello.max_message_bytes, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  const std::unique_ptr<Transport> transport_;
  const ChannelOptions options_;
  std::atomic<uint64_t> peer_max_bytes_{UINT64_MAX};
  std::atomic<bool> is_shut_down_{false};  // by this side
  std::atomic<bool> peer_lost_messages_{false};
  const OwnerProcess owner_;
  const absl::Status exception_error_ =
      absl::ResourceExhaustedError("a C++ exception interrupted Send or Receive, for example because memory ran out");

  // Used by the sending thread only.
  exchange::RecycledMemory recycled_memory_;
  uint64_t next_sent_ = 0;
  uint64_t last_request_ = 0;
  absl::Status hello_error_;
  absl::Status send_error_;
  bool has_sent_messages_ = false;
  bool is_closed_ = false;
  absl::Status close_status_;

  // Used by the receiving thread, and by Close after the peer has gone.
  std::timed_mutex receiving_;
  exchange::FrameReceiver frames_;
  absl::Status receive_error_;
  uint64_t received_bytes_ = 0;           // the size of all frames
  std::deque<Message> kept_;              // have been received and not returned
  std::atomic<bool> saw_goodbye_{false};  // read by the sending thread, too
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

absl::StatusOr<Channel> Channel::ConnectToListening(const std::string& path, Deadline deadline,
                                                    absl::string_view advice, ChannelOptions options) {
  absl::StatusOr<Channel> channel = Connect(path, absl::ZeroDuration(), options);
  if (absl::IsDeadlineExceeded(channel.status())) return Connect(path, deadline, std::move(options));
  const absl::Status& status = channel.status();
  if (advice.empty() || (!absl::IsNotFound(status) && !absl::IsUnavailable(status))) return channel;
  return AppendToMessage(status, absl::StrCat("; ", advice));
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
    if (reply.is_reply && reply.request < request.request) continue;  // to a call that gave up
    return state_->BreakReceiving(absl::FailedPreconditionError(
        absl::StrCat(name(), ": ", reply.is_reply ? "a reply to" : "a message with", " request ", reply.request,
                     " came while the reply to ", request.request, " was awaited")));
  }
}

absl::Status Channel::Reply(const Message& request, const Message& message, Deadline deadline) {
  CASK_CHECK(request.request != 0, "Channel::Reply: this message is not a request");
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

absl::Status StatusOfReply(const Message& reply) {
  constexpr size_t kMaxMessageBytes = 1000;
  const absl::string_view message = reply.status.message();
  if (message.size() <= kMaxMessageBytes) return reply.status;
  return absl::Status(reply.status.code(), absl::StrCat(internal::Utf8Prefix(message, kMaxMessageBytes), "... (",
                                                        message.size(), " bytes)"));
}

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
