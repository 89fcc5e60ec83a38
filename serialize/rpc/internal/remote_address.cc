#include "tensorcask/serialize/rpc/internal/remote_address.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::rpc {
namespace {

constexpr int kMaxReceivedBytes = 8 << 20;  // a page of the list; a piece has at most kMaxPieceBytes
// Frames as large as a piece. 64 KiB, what gRPC takes by itself, costs a third of the speed.
constexpr int kMaxFrameBytes = 2 << 20;

// gRPC takes the last 16 bits of a larger number.
bool IsPort(absl::string_view text) {
  constexpr size_t kMaxDigits = 5;
  uint32_t port = 0;
  return text.size() <= kMaxDigits && text.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(text, &port) && port >= 1 && port <= UINT16_MAX;
}

}  // namespace

bool IsLoopback(absl::string_view host) {
  if (host == "localhost" || host == "[::1]" || host == "::1") return true;
  // Only addresses of numbers: 127.example.org is a name of another host.
  return absl::StartsWith(host, "127.") && host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  Address address;
  absl::string_view rest = text;
  address.tls = absl::ConsumePrefix(&rest, RemoteArchiveFormat::kTlsScheme);
  const bool has_scheme = address.tls || absl::ConsumePrefix(&rest, RemoteArchiveFormat::kScheme);
  const size_t slash = rest.find('/');
  const absl::string_view host = rest.substr(0, slash);
  const size_t colon = host.rfind(':');
  if (!has_scheme || colon == absl::string_view::npos || colon == 0 || !IsPort(host.substr(colon + 1))) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(text), " is not the address of a server; wanted grpc://HOST:PORT or grpc://HOST:PORT/NAME"));
  }
  address.target = std::string(host);
  if (slash != absl::string_view::npos) address.prefix = std::string(rest.substr(slash + 1));
  if (!address.prefix.empty() && !absl::EndsWith(address.prefix, "/")) address.prefix += "/";
  return address;
}

std::shared_ptr<grpc::Channel> MakeChannel(const Address& address,
                                           std::shared_ptr<grpc::ChannelCredentials> credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  arguments.SetInt("grpc.http2.max_frame_size", kMaxFrameBytes);
  // With probes, a client takes in advance what may be under way: on this host what the sockets hold, which may be tens
  // of MiB. Without them it is a piece, which is as fast here, but for TLS.
  const bool is_near = IsLoopback(address.target.substr(0, address.target.rfind(':')));
  if (is_near && !address.tls) arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  if (credentials == nullptr) {
    credentials =
        address.tls ? grpc::SslCredentials(grpc::SslCredentialsOptions()) : grpc::InsecureChannelCredentials();
  }
  return grpc::CreateCustomChannel(address.target, credentials, arguments);
}

// gRPC tells a stream that the server reset with
// INTERNAL or CANCELLED; this client cancels no call whose status it reads.
bool IsInterruption(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
      return true;
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return absl::StrContains(status.error_message(), "RST_STREAM") ||
             absl::StrContains(status.error_message(), "Stream removed");
    default:
      return false;
  }
}

std::chrono::system_clock::time_point TimePoint(absl::Duration from_now) {
  const absl::Duration wait = std::min(from_now, kNeverWaits);
  return std::chrono::system_clock::now() + absl::ToChronoMicroseconds(wait);
}

}  // namespace tensorcask::rpc
