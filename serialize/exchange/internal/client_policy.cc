#include "tensorcask/serialize/exchange/internal/client_policy.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <tuple>

#include "absl/functional/function_ref.h"
#include "tensorcask/serialize/exchange/unix_socket.h"

namespace tensorcask::exchange {
namespace {

using State = ServerClient::State;
using Duration = ServerClient::Clock::duration;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Descriptors that this process has open.
size_t CountDescriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  return error ? 64 : static_cast<size_t>(std::distance(begin(open), end(open)));
}

// The id of the client with the largest offence; among equals, of the process with the most connections, and then the
// one that has been longest in its state. 0 if no offence is greater than 0.
uint64_t FindWorst(const ServerClients& clients, ServerClient::TimePoint now,
                   absl::FunctionRef<int(uint64_t, const ServerClient&)> offence_of) {
  std::map<int32_t, int> connections;
  for (const auto& [id, client] : clients) ++connections[client->process()];
  std::tuple<int, int, Duration> worst = {0, 0, Duration::zero()};
  uint64_t worst_id = 0;
  for (const auto& [id, client] : clients) {
    const int offence = offence_of(id, *client);
    const std::tuple<int, int, Duration> score = {offence, connections[client->process()], now - client->since};
    if (offence == 0 || score <= worst) continue;
    worst = score;
    worst_id = id;
  }
  return worst_id;
}

}  // namespace

size_t MaxClients(size_t wanted) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  const size_t open = CountDescriptors();
  const size_t left = limit.rlim_cur > open ? limit.rlim_cur - open : 0;
  const size_t reserve = std::min<size_t>(UnixSocket::kMaxDescriptors + 32, left / 3);
  return std::clamp<size_t>(left - reserve, 1, std::max<size_t>(wanted, 1));
}

int OffenceAt(const ServerClient& client, ServerClient::TimePoint now) {
  // The result is 0 for this long after the present step began.
  constexpr auto kGrace = std::chrono::milliseconds(100);
  // Answers must be read at this rate, measured over at least kReadGrace.
  constexpr auto kReadGrace = std::chrono::milliseconds(250);
  constexpr double kReadBytesPerSecond = 4 << 20;
  const Duration spent = now - client.since;
  switch (client.state) {
    case State::kReceiving:
      if (spent < kGrace) return 0;
      return client.has_asked && !client.has_begun ? 1 : 2;
    case State::kComputing:
      return 0;
    case State::kSending:
      if (spent < kReadGrace) return 0;
      return static_cast<double>(client.sent_bytes) < Seconds(spent) * kReadBytesPerSecond ? 2 : 0;
  }
  return 0;
}

bool HadItsTurn(const ServerClient& client, ServerClient::TimePoint now) {
  return client.was_answered || now - client.accepted > std::chrono::seconds(1);
}

bool ClientPolicy::IsLate(const ServerClient& client, TimePoint now) const {
  constexpr double kMinBytesPerSecond = 1 << 20;  // at all times
  switch (client.state) {
    case State::kReceiving:
      return now - client.since > (client.has_asked && !client.has_begun ? idle_timeout_ : timeout_);
    case State::kComputing:
      return now - client.since > timeout_;
    case State::kSending: {
      const double read_seconds = static_cast<double>(client.total_bytes) / kMinBytesPerSecond;
      return now - client.progress > timeout_ || Seconds(now - client.since) > Seconds(timeout_) + read_seconds;
    }
  }
  return false;
}

uint64_t ClientPolicy::WorstOf(const ServerClients& clients, TimePoint now, uint64_t except) {
  return FindWorst(clients, now,
                   [&](uint64_t id, const ServerClient& client) { return id == except ? 0 : OffenceAt(client, now); });
}

uint64_t ClientPolicy::WorstForPlace(const ServerClients& clients, TimePoint now) {
  const uint64_t worst = WorstOf(clients, now, 0);
  if (worst != 0) return worst;
  return FindWorst(clients, now, [&](uint64_t, const ServerClient& client) { return HadItsTurn(client, now) ? 1 : 0; });
}

uint64_t ClientPolicy::WorstReader(const ServerClients& clients, TimePoint now) {
  return FindWorst(clients, now, [&](uint64_t, const ServerClient& client) {
    return client.job == nullptr || client.job->charged_bytes == 0 ? 0 : OffenceAt(client, now);
  });
}

}  // namespace tensorcask::exchange
