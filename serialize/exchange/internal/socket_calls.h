// Functions that sockets and listeners share: addresses, errors and waits.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_SOCKET_CALLS_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_SOCKET_CALLS_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

// Linux 6.16: whether a socket accepts descriptors.
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace tensorcask::exchange {

// errno as a status: "NAME: DOING: ...". Each errno that means "the peer has closed" becomes Unavailable; ETIMEDOUT
// becomes DeadlineExceeded.
absl::Status SocketError(int error, absl::string_view name, absl::string_view doing);

// Waits for `events` (poll(2)) or the end of the connection. Returns 0, ETIMEDOUT or the errno of poll(2). Sets *ended
// to whether both directions have ended.
int WaitFor(int descriptor, short events, Deadline deadline, bool* ended = nullptr);

// Errors: InvalidArgument for a path that is empty, has a NUL byte or is too long for an address.
absl::StatusOr<sockaddr_un> AddressOf(const std::string& path);

// A stream socket that is closed on exec; `flags` are further ones of socket(2).
absl::StatusOr<ScopedDescriptor> MakeSocket(absl::string_view name, int flags = 0);

// ResourceExhausted if too many descriptors of peers wait to be closed (kMaxClosers in close_received.h).
absl::Status CheckClosers(absl::string_view name);

// Linux 6.16 and later: sending a descriptor to this socket, or to a socket that it accepts, fails with EPERM.
void RefuseDescriptors(int socket);

// Each returns 0 or errno.
int ConnectTo(int descriptor, const sockaddr_un& address);
int BindTo(int descriptor, const sockaddr_un& address);

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_SOCKET_CALLS_H_
