#include "tensorcask/serialize/exchange/channel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/frame.h"
#include "tensorcask/serialize/exchange/scoped_descriptor.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {
namespace {

using exchange::EncodedMessage;
using exchange::FrameHead;
using exchange::FrameType;
using exchange::ReceivedFrame;

// A frame may claim this much and get it at once; beyond, memory doubles as bytes arrive.
constexpr uint64_t kFirstBytes = uint64_t{1} << 20;

uint64_t MaxBytes(const ChannelOptions& options) {
  return static_cast<uint64_t>(std::max<int64_t>(options.decode.limits.max_message_bytes, 0));
}

}  // namespace

// The two directions share nothing but the transport, the options and what the other side said it takes.
class Channel::State {
 public:
  State(std::unique_ptr<Transport> transport, ChannelOptions options)
      : transport_(std::move(transport)), options_(std::move(options)) {
    exchange::Hello hello;
    hello.max_message_bytes = MaxBytes(options_);
    // Into an empty buffer, so there is nothing to wait for. That a peer is gone already does not keep us from reading
    // what it sent.
    send_error_ = SendFrame(FrameType::kHello, exchange::EncodeHello(hello), {}, absl::ZeroDuration());
  }
  ~State() { Close(absl::ZeroDuration()).IgnoreError(); }

  const std::string& name() const { return transport_->name(); }
  void Shutdown() {
    is_shut_down_.store(true, std::memory_order_relaxed);
    transport_->Shutdown();
  }

  // ---- Sending ------------------------------------------------------------------------------------------------------

  absl::Status Send(FrameType type, const Message& message, Deadline deadline) {
    CASK_RETURN_IF_ERROR(CheckOpen(send_error_));
    absl::StatusOr<EncodedMessage> encoded = exchange::EncodeMessage(message, options_, transport_->max_descriptors());
    if (!encoded.ok()) return Named(encoded.status());
    const uint64_t bytes = encoded->body.size() + encoded->inline_bytes;
    const uint64_t most = peer_max_bytes_.load(std::memory_order_relaxed);
    if (bytes > most || encoded->shared_bytes > most) {
      return Named(
          absl::ResourceExhaustedError(absl::StrCat("the message has ", bytes, " bytes and ", encoded->shared_bytes,
                                                    " in shared memory; the other side takes ", most)));
    }
    const absl::Status status = SendFrame(type, encoded->body, *encoded, deadline);
    if (!status.ok()) Break(status, &send_error_);
    return status;
  }

  uint64_t NextRequest() { return ++last_request_; }

  absl::Status Close(Deadline deadline) {
    if (is_closed_) return absl::OkStatus();
    is_closed_ = true;
    absl::Status status;
    if (send_error_.ok()) {
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
      const absl::StatusOr<bool> more = transport_->WaitForBytes(deadline);
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
    std::vector<absl::string_view> pieces;
    pieces.reserve(2 + message.inline_pieces.size());
    pieces.emplace_back(bytes.data(), bytes.size());
    pieces.push_back(body);
    pieces.insert(pieces.end(), message.inline_pieces.begin(), message.inline_pieces.end());
    return transport_->SendAll(pieces, message.descriptors, deadline);
  }

  // The next frame, if there is one to come. Sets *message if that is what it holds.
  absl::Status Take(bool more, std::optional<Message>* message, Deadline deadline) {
    if (!more) {
      return Named(absl::UnavailableError(is_shut_down_.load(std::memory_order_relaxed)
                                              ? "this side has ended the channel"
                                              : "the other side died, or was cut off between two frames"));
    }
    ReceivedFrame frame;
    CASK_ASSIGN_OR_RETURN(const FrameHead head, ReceiveFrame(&frame, deadline));
    switch (head.type) {
      case FrameType::kHello:
        return TakeHello(frame.body);
      case FrameType::kGoodbye:
        saw_goodbye_ = true;
        return absl::OkStatus();
      case FrameType::kMessage:
      case FrameType::kReply:
        break;
    }
    absl::StatusOr<Message> decoded = exchange::DecodeMessage(std::move(frame), options_.decode);
    if (!decoded.ok()) return Named(decoded.status());
    *message = *std::move(decoded);
    (*message)->is_reply = head.type == FrameType::kReply;
    return absl::OkStatus();
  }

  absl::Status TakeHello(absl::string_view body) {
    const absl::StatusOr<exchange::Hello> hello = exchange::DecodeHello(body);
    if (!hello.ok()) return Named(hello.status());
    peer_max_bytes_.store(hello->max_message_bytes, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  // What can be wrong with a head where it comes.
  absl::Status CheckHead(const FrameHead& head, size_t num_descriptors) {
    if (head.sequence != next_received_) {
      return absl::DataLossError(absl::StrCat("frame ", head.sequence, " came where ", next_received_,
                                              " was due: frames were lost, or one came twice"));
    }
    if ((head.type == FrameType::kHello) != (head.sequence == 0)) {
      return absl::InvalidArgumentError(head.sequence == 0 ? "the first frame is no hello" : "a second hello came");
    }
    const uint64_t most = MaxBytes(options_);
    const bool is_message = head.type == FrameType::kMessage || head.type == FrameType::kReply;
    if (is_message && (head.body_bytes > most || head.inline_bytes > most - head.body_bytes)) {
      return absl::ResourceExhaustedError(absl::StrCat("a message has ", head.body_bytes, " + ", head.inline_bytes,
                                                       " bytes; the limit max_message_bytes is ", most));
    }
    if (num_descriptors != head.num_descriptors) {
      return absl::InvalidArgumentError(absl::StrCat("a frame came with ", num_descriptors,
                                                     " descriptors and says that it has ", head.num_descriptors));
    }
    ++next_received_;
    return absl::OkStatus();
  }

  absl::StatusOr<FrameHead> ReceiveFrame(ReceivedFrame* frame, Deadline deadline) {
    std::array<char, exchange::kFrameHeadBytes> bytes;
    CASK_RETURN_IF_ERROR(transport_->ReceiveExactly(absl::MakeSpan(bytes), transport_->max_descriptors(),
                                                    &frame->descriptors, deadline));
    const absl::StatusOr<FrameHead> head = exchange::DecodeFrameHead({bytes.data(), bytes.size()});
    if (!head.ok()) return Named(head.status());
    const absl::Status status = CheckHead(*head, frame->descriptors.size());
    if (!status.ok()) return Named(status);

    // Body and inline data in one piece of memory, in which the latter begin where elements may lie.
    const uint64_t lead_bytes =
        (exchange::kInlineAlignment - head->body_bytes % exchange::kInlineAlignment) % exchange::kInlineAlignment;
    CASK_RETURN_IF_ERROR(ReceiveBytes(lead_bytes, head->body_bytes + head->inline_bytes, &frame->memory, deadline));
    const absl::string_view all = frame->memory->bytes();
    frame->body = all.substr(lead_bytes, head->body_bytes);
    frame->inline_data = all.substr(lead_bytes + head->body_bytes);
    if (Crc32c(frame->body) != head->body_crc32c) {
      return Named(absl::DataLossError("the body of a frame has a wrong checksum"));
    }
    return *head;
  }

  // `size` bytes, `lead_bytes` behind the start of *out. Memory follows what arrives, not what was claimed.
  absl::Status ReceiveBytes(uint64_t lead_bytes, uint64_t size, RefPtr<TensorBuffer>* out, Deadline deadline) {
    const uint64_t total = lead_bytes + size;
    uint64_t filled = lead_bytes;
    uint64_t capacity = std::min(total, kFirstBytes);
    while (true) {
      CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> memory,
                            TensorBuffer::Allocate(static_cast<size_t>(capacity), options_.decode.allocator));
      char* const begin = static_cast<char*>(memory->mutable_data());
      if (*out == nullptr) {
        if (lead_bytes > 0) std::memset(begin, 0, lead_bytes);
      } else {
        std::memcpy(begin, (*out)->data(), filled);
      }
      *out = std::move(memory);
      CASK_RETURN_IF_ERROR(
          transport_->ReceiveExactly(absl::MakeSpan(begin + filled, capacity - filled), 0, nullptr, deadline));
      filled = capacity;
      if (filled == total) return absl::OkStatus();
      capacity = std::min(total, 2 * capacity);
    }
  }

  const std::unique_ptr<Transport> transport_;
  const ChannelOptions options_;
  std::atomic<uint64_t> peer_max_bytes_{UINT64_MAX};
  std::atomic<bool> is_shut_down_{false};  // by us

  // Of the sending side.
  uint64_t next_sent_ = 0;
  uint64_t last_request_ = 0;
  absl::Status send_error_;
  bool is_closed_ = false;

  // Of the receiving side.
  uint64_t next_received_ = 0;
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
