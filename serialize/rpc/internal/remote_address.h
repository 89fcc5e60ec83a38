// Addresses of servers, and the connections to them.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_REMOTE_ADDRESS_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_REMOTE_ADDRESS_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tensorcask::rpc {

struct Address {
  std::string target;  // HOST:PORT
  std::string prefix;  // "NAME/" or ""
  bool tls = false;
};

// Whether a host, as it is written before ":PORT", is a name or an address of the loopback interface. Says nothing
// about what the name resolves to: ConnectionListener::is_loopback does.
bool IsLoopback(absl::string_view host);

// "grpc://HOST:PORT[/NAME]" or "grpcs://...". Errors: InvalidArgument.
absl::StatusOr<Address> ParseAddress(const std::string& text);

// A connection of its own, which is made when it is first used. Null credentials: those of the scheme.
std::shared_ptr<grpc::Channel> MakeChannel(const Address& address,
                                           std::shared_ptr<grpc::ChannelCredentials> credentials);

// The connection was lost, which says nothing about the tensors.
bool IsInterruption(const grpc::Status& status);

// A longer time than any call takes.
inline constexpr absl::Duration kNeverWaits = absl::Hours(24 * 365);
std::chrono::system_clock::time_point TimePoint(absl::Duration from_now);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_REMOTE_ADDRESS_H_
