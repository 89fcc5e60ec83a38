#include "tensorcask/serialize/exchange/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/internal/answer_queue.h"
#include "tensorcask/serialize/exchange/internal/client_policy.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/received_frame.h"
#include "tensorcask/serialize/exchange/internal/server_client.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

using exchange::AnswerJob;
using exchange::FrameType;
using exchange::ServerClient;
using State = exchange::ServerClient::State;
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

// How often deadlines are checked, and how long accepting pauses while no client can be disconnected.
constexpr auto kTick = std::chrono::milliseconds(20);
constexpr int kAcceptsAtOnce = 16;
constexpr uint64_t kSentAtOnce = uint64_t{4} << 20;  // to one client before the others get their turn

}  // namespace

uint64_t Service::AnswerBytes(const Message& /*request*/) { return 0; }

// ---- The loop -------------------------------------------------------------------------------------------------------

class Server::Loop {
 public:
  Loop(UnixListener listener, Service* service, ServerOptions options, ScopedDescriptor epoll, ScopedDescriptor wake,
       ScopedDescriptor spare)
      : listener_(std::move(listener)),
        service_(service),
        options_(std::move(options)),
        epoll_(std::move(epoll)),
        wake_(std::move(wake)),
        spare_(std::move(spare)),
        max_clients_(exchange::MaxClients(options_.max_clients)),
        policy_(options_.timeout, options_.idle_timeout),
        answers_(service_, options_, [file = wake_.get()] { eventfd_write(file, 1); }) {
    Watch(EPOLL_CTL_ADD, wake_.get(), EPOLLIN, kWakeId);
  }

  ~Loop() {
    listener_.Shutdown();
    for (auto& [id, client] : clients_) SendGoodbye(*client);
  }

  bool IsOwner() const { return owner_.IsThisProcess(); }

  void Run(Deadline deadline) {
    do {
      RunOnce(deadline);
    } while (deadline.remaining() > absl::ZeroDuration());
  }

  ServerStats stats() const {
    ServerStats stats = stats_;
    stats.num_clients = clients_.size();
    return stats;
  }

 private:
  static constexpr uint64_t kListenerId = 0;
  static constexpr uint64_t kWakeId = 1;

  void RunOnce(Deadline deadline) {
    const TimePoint now = Clock::now();
    if (now >= next_sweep_) {
      Sweep(now);
      next_sweep_ = now + kTick;
    }
    WatchListener(now);
    constexpr int kEventsAtOnce = 64;
    std::array<epoll_event, kEventsAtOnce> events;
    const int tick_ms = ready_.empty() ? static_cast<int>(kTick.count()) : 0;
    const int deadline_ms = deadline.poll_timeout_ms();
    const int timeout_ms = deadline_ms < 0 ? tick_ms : std::min(tick_ms, deadline_ms);
    const int count = epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, timeout_ms);
    bool may_accept = false;
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kListenerId) {
        may_accept = true;
      } else if (id == kWakeId) {
        CollectAnswers();
      } else {
        Serve(id, events[static_cast<size_t>(i)].events);
      }
    }
    for (const uint64_t id : std::exchange(ready_, {})) Serve(id, EPOLLIN);
    // After the requests that have arrived, so that a client that has asked is not treated as one that has not.
    if (may_accept) AcceptSome();
  }

  // ---- Clients ------------------------------------------------------------------------------------------------------

  // Does what the client's state allows now. After an exception (no memory) the worst client is disconnected to make
  // room, or this one if there is no other to disconnect.
  void Serve(uint64_t id, uint32_t events) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    ServerClient& client = *found->second;
    const absl::Status served = CatchExceptions([&] {
      const bool is_alive = client.state == State::kReceiving ? Receive(id, client)
                            : client.state == State::kSending ? Send(id, client)
                                                              : (events & (EPOLLHUP | EPOLLERR)) == 0;
      if (is_alive) {
        UpdateEvents(id, client);
      } else {
        Disconnect(id);
      }
      return absl::OkStatus();
    });
    if (!served.ok() && !Evict(exchange::ClientPolicy::WorstOf(clients_, Clock::now(), id))) Disconnect(id);
  }

  // At most one frame. False: the client is to be disconnected.
  bool Receive(uint64_t id, ServerClient& client) {
    const absl::StatusOr<bool> more = client.frames.WaitForFrame(absl::ZeroDuration());
    if (absl::IsDeadlineExceeded(more.status())) return true;
    if (!more.ok() || !*more) return false;
    if (!client.has_begun) {
      client.has_begun = true;
      if (client.has_asked) client.since = Clock::now();
    }
    exchange::ReceivedFrame frame;
    const absl::Status status = client.frames.Receive(&frame, absl::ZeroDuration());
    if (absl::IsDeadlineExceeded(status)) return true;
    if (!status.ok()) return false;
    client.has_begun = false;
    switch (frame.header.type) {
      case FrameType::kHello:
        return ReceiveHello(id, client, frame);
      case FrameType::kMessage:
        return ReceiveRequest(id, client, std::move(frame));
      case FrameType::kReply:  // a reply to no request
      case FrameType::kGoodbye:
        break;
    }
    return false;
  }

  bool ReceiveHello(uint64_t id, ServerClient& client, const exchange::ReceivedFrame& frame) {
    const absl::StatusOr<exchange::Hello> hello = exchange::DecodeHello(frame.body);
    if (!hello.ok()) return false;
    client.most_bytes = hello->max_message_bytes;
    ready_.push_back(id);  // the request may have come with it
    return true;
  }

  // At most this many large answers are computed, sent or waited for at once. The other half of the places is for
  // clients with small answers: none of them waits there for the memory that large answers share. Without this limit,
  // clients that ask for large answers, and read them just fast enough, would keep all places for as long as they like.
  size_t MaxLargeAnswers() const { return std::max<size_t>(max_clients_ / 2, 1); }

  // Refuses a request for one large answer too many: the client is told at once, and can ask again.
  void LimitLargeAnswers(ServerClient& client, AnswerJob* job) {
    client.wants_much = job->expected_bytes > exchange::AnswerQueue::kSmallAnswerBytes;
    if (!client.wants_much) return;
    const auto count =
        std::count_if(clients_.begin(), clients_.end(), [](const auto& one) { return one.second->wants_much; });
    if (static_cast<size_t>(count) <= MaxLargeAnswers()) return;
    client.wants_much = false;
    job->expected_bytes = 0;
    job->refusal = absl::ResourceExhaustedError(
        absl::StrCat("the server is busy with ", MaxLargeAnswers(), " answers of more than ",
                     exchange::AnswerQueue::kSmallAnswerBytes, " bytes, its limit; ask again later"));
  }

  bool ReceiveRequest(uint64_t id, ServerClient& client, exchange::ReceivedFrame frame) {
    auto job = std::make_unique<AnswerJob>();
    const absl::Status status = exchange::DecodeMessage(std::move(frame), options_.channel, &job->request);
    if (!status.ok() || job->request.request == 0) return false;
    job->client = id;
    job->most_bytes = client.most_bytes;
    job->expected_bytes = service_->AnswerBytes(job->request);
    LimitLargeAnswers(client, job.get());
    client.has_asked = true;
    Enter(State::kComputing, client);
    answers_.Add(std::move(job));
    return true;
  }

  void CollectAnswers() {
    eventfd_t count;
    static_cast<void>(eventfd_read(wake_.get(), &count));
    for (std::unique_ptr<AnswerJob>& job : answers_.ConsumeDone()) {
      const uint64_t id = job->client;
      const auto found = clients_.find(id);
      if (found == clients_.end()) {
        answers_.Release(job->charged_bytes);
        continue;
      }
      ServerClient& client = *found->second;
      client.job = std::move(job);
      if (!client.job->has_answer) {
        Disconnect(id);
        continue;
      }
      const absl::Status begun = CatchExceptions([&] {
        Begin(FrameType::kReply, client.job->encoded.body, client.job->encoded, client);
        return absl::OkStatus();
      });
      if (begun.ok()) {
        Serve(id, EPOLLOUT);
      } else {
        Disconnect(id);
      }
    }
  }

  static void Enter(State state, ServerClient& client) {
    client.state = state;
    client.since = client.progress = Clock::now();
  }

  static void Begin(FrameType type, absl::string_view body, const exchange::EncodedMessage& message,
                    ServerClient& client) {
    client.pieces.clear();
    client.pieces.reserve(2 + message.inline_pieces.size());
    client.header = exchange::EncodeHeader(type, client.next_sent++, body, message);
    client.pieces.emplace_back(client.header.data(), client.header.size());
    if (!body.empty()) client.pieces.push_back(body);
    client.pieces.insert(client.pieces.end(), message.inline_pieces.begin(), message.inline_pieces.end());
    client.next_piece = 0;
    client.total_bytes = client.header.size() + body.size() + message.inline_bytes;
    client.sent_bytes = 0;
    Enter(State::kSending, client);
  }

  // False: the client is to be disconnected.
  bool Send(uint64_t id, ServerClient& client) {
    for (uint64_t sent_now = 0; client.sent_bytes < client.total_bytes;) {
      if (sent_now >= kSentAtOnce) return true;
      const absl::Span<const int> descriptors = client.sent_bytes == 0 && client.job != nullptr
                                                    ? absl::MakeConstSpan(client.job->encoded.descriptors)
                                                    : absl::Span<const int>();
      const absl::StatusOr<size_t> sent = client.transport.socket().SendSome(
          absl::MakeConstSpan(client.pieces).subspan(client.next_piece), descriptors, absl::ZeroDuration());
      if (absl::IsDeadlineExceeded(sent.status())) return true;
      if (!sent.ok()) return false;
      client.progress = Clock::now();
      client.sent_bytes += *sent;
      stats_.sent_bytes += *sent;
      sent_now += *sent;
      for (size_t left = *sent; left > 0;) {
        absl::string_view& piece = client.pieces[client.next_piece];
        const size_t part = std::min(left, piece.size());
        piece.remove_prefix(part);
        left -= part;
        if (piece.empty()) ++client.next_piece;
      }
    }
    if (client.job != nullptr) {
      ++stats_.num_answers;
      client.was_answered = true;
      client.wants_much = false;
      ReleaseJob(client);
    }
    client.pieces.clear();
    Enter(State::kReceiving, client);
    ready_.push_back(id);  // the next request may have been received with this one
    return true;
  }

  void ReleaseJob(ServerClient& client) {
    if (client.job == nullptr) return;
    const uint64_t charged_bytes = client.job->charged_bytes;
    client.job = nullptr;
    answers_.Release(charged_bytes);
  }

  void Disconnect(uint64_t id) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    answers_.Remove(id);
    found->second->transport.Shutdown();
    ReleaseJob(*found->second);
    clients_.erase(found);
    if (!spare_.is_open()) spare_ = OpenSpare();
  }

  // Tells a client that is not in the middle of a frame that this is the end.
  static void SendGoodbye(ServerClient& client) {
    if (client.state == State::kSending) return;
    const auto header = exchange::EncodeHeader(FrameType::kGoodbye, client.next_sent, "", {});
    const absl::string_view piece(header.data(), header.size());
    client.transport.socket().SendSome({piece}, {}, absl::ZeroDuration()).IgnoreError();
    client.transport.Shutdown();
  }

  // ---- Accepting ----------------------------------------------------------------------------------------------------

  static ScopedDescriptor OpenSpare() { return ScopedDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  void AcceptSome() {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      if (!MakeRoom(Clock::now())) return;
      bool go_on = false;
      const absl::Status accepted = CatchExceptions([&] {
        go_on = AcceptOne();
        return absl::OkStatus();
      });
      if (!accepted.ok()) Evict(exchange::ClientPolicy::WorstForPlace(clients_, Clock::now()));
      if (!go_on) return;
    }
  }

  // False: no further client waits, or none can be accepted now.
  bool AcceptOne() {
    absl::StatusOr<UnixSocket> socket = listener_.Accept(absl::ZeroDuration());
    if (absl::IsResourceExhausted(socket.status()) && spare_.is_open()) {
      spare_.Close();
      socket = listener_.Accept(absl::ZeroDuration());
    }
    if (absl::IsPermissionDenied(socket.status())) return true;  // another user's process
    if (!socket.ok()) return false;
    Add(*std::move(socket));
    return true;
  }

  void Add(UnixSocket socket) {
    const uint64_t id = next_id_++;
    auto client = std::make_unique<ServerClient>(std::move(socket), options_.max_request_bytes, options_.channel);
    exchange::Hello hello;
    hello.max_message_bytes = options_.max_request_bytes;
    client->hello = exchange::EncodeHello(hello);
    Begin(FrameType::kHello, client->hello, {}, *client);
    if (!Watch(EPOLL_CTL_ADD, client->descriptor(), 0, id)) return;
    clients_.emplace(id, std::move(client));
    Serve(id, EPOLLOUT);
  }

  // Whether one more client can be accepted.
  bool MakeRoom(TimePoint now) {
    if (!spare_.is_open()) spare_ = OpenSpare();
    if (clients_.size() < max_clients_ && spare_.is_open()) return true;
    if (!Evict(exchange::ClientPolicy::WorstForPlace(clients_, now))) {
      accept_again_ = now + kTick;
      return false;
    }
    if (!spare_.is_open()) spare_ = OpenSpare();
    return clients_.size() < max_clients_ && spare_.is_open();
  }

  // ---- Deadlines and eviction ---------------------------------------------------------------------------------------

  void Sweep(TimePoint now) {
    std::vector<uint64_t> late;
    for (const auto& [id, client] : clients_) {
      if (!policy_.IsLate(*client, now)) continue;
      if (client->state != State::kComputing || answers_.IsWaiting(id)) late.push_back(id);
    }
    for (const uint64_t id : late) Disconnect(id);
    if (answers_.IsShortOfMemory()) Evict(exchange::ClientPolicy::WorstReader(clients_, now));
  }

  // Disconnects a client to make room; false if the id is 0, because there was none to disconnect.
  bool Evict(uint64_t id) {
    if (id == 0) return false;
    ++stats_.num_evicted;
    Disconnect(id);
    return true;
  }

  // ---- Epoll --------------------------------------------------------------------------------------------------------

  bool Watch(int operation, int descriptor, uint32_t events, uint64_t id) {
    epoll_event event = {};
    event.events = events;
    event.data.u64 = id;
    return epoll_ctl(epoll_.get(), operation, descriptor, &event) == 0;
  }

  void UpdateEvents(uint64_t id, ServerClient& client) {
    uint32_t events = 0;
    if (client.state == State::kReceiving) events = EPOLLIN;
    if (client.state == State::kSending) events = EPOLLOUT;
    if (events == client.events) return;
    if (Watch(EPOLL_CTL_MOD, client.descriptor(), events, id)) client.events = events;
  }

  void WatchListener(TimePoint now) {
    const bool is_wanted = now >= accept_again_;
    if (is_wanted == is_listener_watched_) return;
    if (Watch(is_wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener_.descriptor(), EPOLLIN, kListenerId)) {
      is_listener_watched_ = is_wanted;
    }
  }

  UnixListener listener_;
  Service* const service_;
  const ServerOptions options_;
  const ScopedDescriptor epoll_;
  const ScopedDescriptor wake_;  // written by the threads that compute answers
  ScopedDescriptor spare_;       // closed to accept a client when there are no others
  const size_t max_clients_;
  const exchange::ClientPolicy policy_;
  const OwnerProcess owner_;

  uint64_t next_id_ = 2;
  exchange::ServerClients clients_;  // ids are not used again
  std::vector<uint64_t> ready_;      // clients whose next frame may be in their buffer already
  TimePoint next_sweep_ = {};
  TimePoint accept_again_ = {};
  bool is_listener_watched_ = false;
  ServerStats stats_;
  exchange::AnswerQueue answers_;  // last: its threads use what is above
};

// ---- Server ---------------------------------------------------------------------------------------------------------

Server::Server(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Server::~Server() {
  // A child after fork(2) has neither the threads nor a claim on the clients.
  if (loop_ != nullptr && !loop_->IsOwner()) static_cast<void>(loop_.release());
}

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(const std::string& path, Service* service,
                                                       ServerOptions options) {
  options.channel.decode.limits.max_message_bytes = static_cast<int64_t>(options.max_request_bytes);
  // A small request must not become a large one.
  options.channel.decode.limits.max_memory_beyond_input =
      std::min<int64_t>(options.channel.decode.limits.max_memory_beyond_input, int64_t{1} << 20);
  ScopedDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  ScopedDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ScopedDescriptor spare(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!epoll.is_open() || !wake.is_open() || !spare.is_open()) {
    return absl::ErrnoToStatus(errno, "a server needs four descriptors");
  }
  UnixListener::Options socket;
  socket.allowed = options.channel.allowed;
  socket.accepts_descriptors = false;
  CASK_ASSIGN_OR_RETURN(UnixListener listener, UnixListener::Listen(path, socket));
  std::unique_ptr<Server> server;
  const absl::Status started = CatchExceptions([&] {  // the system may give no threads
    server.reset(new Server(std::make_unique<Loop>(std::move(listener), service, std::move(options), std::move(epoll),
                                                   std::move(wake), std::move(spare))));
    return absl::OkStatus();
  });
  if (!started.ok()) return Annotate(started, "a server needs memory and threads (RLIMIT_NPROC)");
  return server;
}

void Server::Run(Deadline deadline) { loop_->Run(deadline); }
ServerStats Server::stats() const { return loop_->stats(); }

}  // namespace tensorcask
