#include "tensorcask/serialize/exchange/internal/socket_calls.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/exchange/internal/close_received.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::exchange {

absl::Status SocketError(int error, absl::string_view name, absl::string_view doing) {
  const std::string message = absl::StrCat(name, ": ", doing);
  switch (error) {
    case ETIMEDOUT:
      return absl::DeadlineExceededError(absl::StrCat(message, ": the deadline has passed"));
    case EPIPE:
    case ECONNRESET:
      return absl::UnavailableError(absl::StrCat(message, ": the peer has closed"));
    case ETOOMANYREFS:
      return absl::ResourceExhaustedError(absl::StrCat(message, ": too many descriptors are on their way"));
    default:
      return absl::ErrnoToStatus(error, message);
  }
}

int WaitFor(int descriptor, short events, Deadline deadline, bool* ended) {
  while (true) {
    pollfd wait = {descriptor, events, 0};
    const int timeout_ms = deadline.poll_timeout_ms();
    const int ready = poll(&wait, 1, timeout_ms);
    if (ready > 0) {
      if (ended != nullptr) *ended = (wait.revents & POLLHUP) != 0;
      return 0;
    }
    if (ready < 0 && errno != EINTR) return errno;
    if (ready == 0 && timeout_ms == 0) return ETIMEDOUT;
  }
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty()) return absl::InvalidArgumentError("a socket's path is empty");
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("a socket's path has a NUL byte: ", Quoted(path)));
  }
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("a socket's path has ", path.size(), " bytes; at most ",
                                                   sizeof(address.sun_path) - 1, " are possible: ", Quoted(path)));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<ScopedDescriptor> MakeSocket(absl::string_view name, int flags) {
  ScopedDescriptor descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!descriptor.is_open()) return SocketError(errno, name, "socket");
  return descriptor;
}

absl::Status CheckClosers(absl::string_view name) {
  const int closers = CountClosers();
  if (closers < kMaxClosers) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(name, ": this process makes no new connections while ", closers,
                                                   " descriptors from peers wait to be closed (limit ", kMaxClosers - 1,
                                                   "); the files behind them do not answer"));
}

void RefuseDescriptors(int socket) {
  const int none = 0;
  static_cast<void>(setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &none, sizeof(none)));
}

int ConnectTo(int descriptor, const sockaddr_un& address) {
  return connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

int BindTo(int descriptor, const sockaddr_un& address) {
  return bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

}  // namespace tensorcask::exchange
