// Which clients a server disconnects, and when: its deadlines, and the choice when it must make room. Internal to this
// room.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLIENT_POLICY_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLIENT_POLICY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/internal/server_client.h"

namespace tensorcask::exchange {

using ServerClients = std::map<uint64_t, std::unique_ptr<ServerClient>>;  // by id; ids are greater than 0

// The number of clients that this process can have at once, at most `wanted` and at least 1. Leaves descriptors for
// files that answers are read from.
size_t MaxClients(size_t wanted);

// How soon the client is disconnected when memory or connections run short. 0: not now; 1: it is idle; 2 (first): it
// holds resources that it does not use.
int OffenceAt(const ServerClient& client, ServerClient::TimePoint now);

// True if the client may be disconnected although it has done nothing wrong, because another one waits for its place:
// it has had an answer, or its place for a second.
bool HadItsTurn(const ServerClient& client, ServerClient::TimePoint now);

class ClientPolicy {
 public:
  using TimePoint = ServerClient::TimePoint;

  // ServerOptions has the meaning of both.
  ClientPolicy(absl::Duration timeout, absl::Duration idle_timeout)
      : timeout_(absl::ToChronoNanoseconds(timeout)), idle_timeout_(absl::ToChronoNanoseconds(idle_timeout)) {}

  // True if the client has missed the deadline of its state. Of kComputing that is only for the client of a job that
  // still waits to begin.
  bool IsLate(const ServerClient& client, TimePoint now) const;

  // The id of the client to disconnect first when the server needs room, other than `except`; 0 if none is to be
  // disconnected now.
  static uint64_t WorstOf(const ServerClients& clients, TimePoint now, uint64_t except);
  // The same for one more connection. If no client has done wrong, one that had its turn.
  static uint64_t WorstForPlace(const ServerClients& clients, TimePoint now);
  // The same, for memory: of the clients that keep the memory of a large answer.
  static uint64_t WorstReader(const ServerClients& clients, TimePoint now);

 private:
  const std::chrono::nanoseconds timeout_;
  const std::chrono::nanoseconds idle_timeout_;
};

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLIENT_POLICY_H_
