// A descriptor whose last close(2) waits for its peer: what a hostile process sends to delay others.
//
//   std::optional<LingeringSocket> lingering = MakeLingeringSocket(absl::Seconds(20));
//   if (!lingering) GTEST_SKIP() << "no TCP here";
//   socket.SendAll({"x"}, {lingering->file.get()}, kLong);
//   lingering->file.Close();   // from here on the only one is in the queue of `socket`

#ifndef TENSORCASK_TESTS_SERIALIZE_EXCHANGE_LINGERING_SOCKET_H_
#define TENSORCASK_TESTS_SERIALIZE_EXCHANGE_LINGERING_SOCKET_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask::testing {

// A TCP socket with unsent bytes, and its peer, which reads nothing.
struct LingeringSocket {
  ScopedDescriptor file;
  ScopedDescriptor peer;
};

inline std::optional<LingeringSocket> MakeLingeringSocket(absl::Duration wait) {
  const ScopedDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int small = 4096;  // the buffers, so that a test can have many of these
  setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  LingeringSocket made;
  made.file = ScopedDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(made.file.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  if (bind(listener.get(), generic, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &size) != 0 || connect(made.file.get(), generic, size) != 0) {
    return std::nullopt;
  }
  made.peer = ScopedDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const linger option = {/*l_onoff=*/1, static_cast<int>(absl::ToInt64Seconds(wait))};
  if (setsockopt(made.file.get(), SOL_SOCKET, SO_LINGER, &option, sizeof(option)) != 0) return std::nullopt;
  const std::string bytes(1 << 16, 'x');
  while (send(made.file.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
  return made;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_EXCHANGE_LINGERING_SOCKET_H_
