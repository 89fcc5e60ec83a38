// The connections of a server. Internal to this room.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_SERVER_CLIENT_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_SERVER_CLIENT_H_

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/internal/answer_queue.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/frame_receiver.h"
#include "tensorcask/serialize/exchange/internal/socket_calls.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/transport.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask::exchange {

// A client's socket, from which a request may bring bytes only.
class RequestTransport final : public Transport {
 public:
  explicit RequestTransport(UnixSocket socket) : socket_(std::move(socket)) { RefuseDescriptors(socket_.descriptor()); }

  ~RequestTransport() override { socket_.Shutdown(); }  // no descriptor can arrive while it is closed

  UnixSocket& socket() { return socket_; }
  size_t max_descriptors() const override { return UnixSocket::kMaxDescriptors; }
  const std::string& name() const override { return socket_.name(); }
  absl::Status SendAll(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                       Deadline deadline) override {
    return socket_.SendAll(pieces, descriptors, deadline);
  }
  // Receives only bytes without descriptors: it peeks at the queue first. So no descriptor of a client gets into this
  // process, where it would use a number and would have to be closed. CloseSocket closes those in the queue. Does not
  // wait.
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, size_t /*max_descriptors*/,
                                     std::vector<ScopedDescriptor>* descriptors, Deadline deadline) override {
    iovec part = {out.data(), out.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t seen = recvmsg(socket_.descriptor(), &message, MSG_PEEK | MSG_DONTWAIT);
    if (seen < 0) return SocketError(errno == EAGAIN ? ETIMEDOUT : errno, name(), "receiving");
    if (seen == 0) return 0;
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(name(), ": a request has descriptors"));
    }
    return socket_.ReceiveSome(out.first(static_cast<size_t>(seen)), 0, descriptors, deadline);
  }
  void Shutdown() override { socket_.Shutdown(); }

 private:
  UnixSocket socket_;
};

// One connection of a server, and its state.
struct ServerClient {
  enum class State {
    kReceiving,  // a request, or the client is idle
    kComputing,  // its answer is being computed
    kSending,    // it reads its answer
  };
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  ServerClient(UnixSocket socket, uint64_t max_request_bytes, const ChannelOptions& options)
      : transport(std::move(socket)), frames(&transport, max_request_bytes, options.decode.allocator) {}

  int descriptor() { return transport.socket().descriptor(); }
  int32_t process() { return transport.socket().peer().process_id; }

  RequestTransport transport;
  FrameReceiver frames;
  State state = State::kReceiving;
  TimePoint since = Clock::now();     // when this state began; of kReceiving: when the frame began, or the silence
  TimePoint progress = Clock::now();  // for kSending: when the client last received bytes
  const TimePoint accepted = Clock::now();
  bool has_asked = false;
  bool was_answered = false;
  bool wants_much = false;  // its answer has more than AnswerQueue::kSmallAnswerBytes
  bool has_begun = false;   // part of a frame has come
  uint64_t most_bytes = UINT64_MAX;
  uint64_t next_sent = 0;

  // What is sent now: the pieces from `next_piece` on.
  std::unique_ptr<AnswerJob> job;  // owns the bytes of an answer; null while the hello is sent
  std::string hello;
  std::array<char, kFrameHeaderBytes> header;
  std::vector<absl::string_view> pieces;
  size_t next_piece = 0;
  uint64_t total_bytes = 0;
  uint64_t sent_bytes = 0;
  uint32_t events = 0;  // that epoll watches
};

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_SERVER_CLIENT_H_
