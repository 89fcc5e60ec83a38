// Answers the requests of many clients, some of them hostile, at a Unix socket.
//
//   class Doubler final : public Service {
//     Message Answer(const Message& request) override { ... }
//   };
//   Doubler doubler;
//   CASK_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Listen("/run/user/1000/x.sock", &doubler));
//   while (!interrupted) server->Run(absl::Milliseconds(100));
//
//   // A client:
//   CASK_ASSIGN_OR_RETURN(Channel channel, Channel::Connect("/run/user/1000/x.sock", absl::Seconds(1)));
//   CASK_ASSIGN_OR_RETURN(Message reply, channel.Call(request, absl::Seconds(5)));
//
// One thread (the caller of Run) talks to all clients and never waits for one of them; a few threads of the server's
// own compute the answers. Other clients can delay an honest client by about a second at most, besides the time that
// earlier answers take to compute:
//
//   too many connections     when one more client connects, the worst client is disconnected: first those that keep the
//                            server waiting (they have asked nothing, sent half a frame, or do not read their
//                            answer), then those that are idle, then busy ones that have had an answer, or been
//                            connected for a second; among equals, one of the process with the most connections
//   silence                  each state has a deadline (ServerOptions)
//   large requests           a request has at most 64 KiB and no shared memory: a client that sends a descriptor is
//                            disconnected
//   large answers            those of more than 1 MiB share one memory limit; a client that reads too slowly is
//                            disconnected when another answer needs the memory. At most max_clients / 2 of them are
//                            waited for, computed or sent at once; one more request gets the status
//                            ResourceExhausted
//   no descriptors left      one is kept in reserve, so that a client can be accepted and the worst one disconnected
//
// Memory is bounded by max_clients times some 100 KiB, and max_answer_bytes. Frames: FORMAT.md. An error in what a
// client sends ends its connection and affects no other client.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_SERVER_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_SERVER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/message_codec.h"

namespace tensorcask {

// What a server answers. Its functions may be called from several threads at once.
class Service {
 public:
  virtual ~Service() = default;

  // The reply to a request; `topic`, `tensors` and `status` of the result are sent. An exception becomes
  // ResourceExhausted, without its text.
  virtual Message Answer(const Message& request) = 0;
  // About how many bytes the reply will keep in memory. Must be quick: all clients wait for it.
  // Must not throw.
  virtual uint64_t AnswerBytes(const Message& request);
};

struct ServerOptions {
  // The largest number of connections at once. The server allows fewer if the process may not open that many
  // descriptors (RLIMIT_NOFILE).
  size_t max_clients = 64;
  // Threads that compute answers. All but one compute answers of more than 1 MiB.
  int num_threads = 3;
  uint64_t max_request_bytes = uint64_t{64} << 10;
  // The limit on all answers of more than 1 MiB together, from the start of their computation until they are sent. A
  // single answer may be larger; it is then the only one.
  uint64_t max_answer_bytes = uint64_t{256} << 20;
  // A client is disconnected if it takes longer than this to ask its first request, to send the rest of a frame that
  // has begun, or to read any part of its answer, and if its answer has not begun by then. Besides, an answer must be
  // read at 1 MiB/s on average.
  absl::Duration timeout = absl::Minutes(1);
  // A client that has asked a request may then be silent for this long.
  absl::Duration idle_timeout = absl::Minutes(10);
  // Sending: checksum and layout. Receiving: limits; max_message_bytes becomes max_request_bytes.
  ChannelOptions channel;
};

struct ServerStats {
  size_t num_clients = 0;    // now
  uint64_t num_answers = 0;  // sent since Listen
  uint64_t sent_bytes = 0;
  uint64_t num_evicted = 0;  // clients that were disconnected to make room
};

class Server {
 public:
  // `service` must outlive the server.
  // Errors: those of UnixListener::Listen; ResourceExhausted without threads or descriptors.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& path, Service* service,
                                                        ServerOptions options = {});
  // Ends all connections and waits for the answers that are being computed. After fork(2) a child's copy does nothing.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves until the deadline. Not thread safe.
  void Run(Deadline deadline);

  ServerStats stats() const;

 private:
  class Loop;

  explicit Server(std::unique_ptr<Loop> loop);

  std::unique_ptr<Loop> loop_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_SERVER_H_
