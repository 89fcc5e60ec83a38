#include "tensorcask/serialize/exchange/unix_socket.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/internal/close_received.h"
#include "tensorcask/serialize/exchange/internal/socket_calls.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

using exchange::AddressOf;
using exchange::ConnectTo;
using exchange::MakeSocket;
using exchange::SocketError;
using exchange::WaitFor;

// sendmsg(2) takes up to IOV_MAX (1024) pieces; this many fit on the stack comfortably.
constexpr size_t kPiecesPerCall = 64;

// How long Connect sleeps between two tries while there is no server yet.
constexpr absl::Duration kFirstConnectPause = absl::Milliseconds(1);
constexpr absl::Duration kLastConnectPause = absl::Milliseconds(20);
// How long WaitUntilReceived sleeps between two looks.
constexpr absl::Duration kFirstReceivedPause = absl::Microseconds(20);
constexpr absl::Duration kLastReceivedPause = absl::Milliseconds(2);

// A receive waits in the kernel for at most this long (SO_RCVTIMEO) and is then repeated: unlike poll(2) this needs no
// system call of its own. Waits with less time left use poll(2).
constexpr int kReceiveTimeoutMs = 1000;

// The next pieces that are not empty.
size_t FillParts(absl::Span<const absl::string_view> pieces, std::array<iovec, kPiecesPerCall>* parts) {
  size_t count = 0;
  for (const absl::string_view piece : pieces) {
    if (count == parts->size()) break;
    if (piece.empty()) continue;
    (*parts)[count++] = {const_cast<char*>(piece.data()), piece.size()};
  }
  return count;
}

// The descriptors that came with a message; returns how many.
size_t ConsumeDescriptors(msghdr* message, std::array<int, UnixSocket::kMaxDescriptors>* descriptors) {
  size_t count = 0;
  for (cmsghdr* control = CMSG_FIRSTHDR(message); control != nullptr; control = CMSG_NXTHDR(message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const size_t bytes = control->cmsg_len - CMSG_LEN(0);
    std::memcpy(descriptors->data() + count, CMSG_DATA(control), bytes);
    count += bytes / sizeof(int);
  }
  return count;
}

}  // namespace

// ---- UnixSocket -----------------------------------------------------------------------------------------------------

absl::StatusOr<UnixSocket> UnixSocket::Make(ScopedDescriptor descriptor, absl::string_view where,
                                            AllowedPeers allowed) {
  UnixSocket socket(std::move(descriptor));
  absl::Status status = socket.Identify(where, allowed);
  if (status.ok()) return socket;
  socket.Shutdown();  // so that the peer sends no descriptor from here on
  return status;
}

absl::Status UnixSocket::Identify(absl::string_view where, AllowedPeers allowed) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(descriptor(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return SocketError(errno, where, "reading the peer's credentials");
  }
  const timeval timeout = absl::ToTimeval(absl::Milliseconds(kReceiveTimeoutMs));
  if (setsockopt(descriptor(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0) {
    return SocketError(errno, where, "setting a timeout");
  }
  peer_ = {credentials.uid, credentials.gid, credentials.pid};
  name_ = absl::StrCat(where, ", process ", credentials.pid);
  if (allowed == AllowedPeers::kSameUser && credentials.uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(name_, ": belongs to user ", credentials.uid, ", only user ", geteuid(), " is allowed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<UnixSocket> UnixSocket::Connect(const std::string& path, Deadline deadline, AllowedPeers allowed) {
  CASK_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const std::string name = Quoted(path);
  CASK_RETURN_IF_ERROR(exchange::CheckClosers(name));
  CASK_ASSIGN_OR_RETURN(ScopedDescriptor descriptor, MakeSocket(name));
  for (absl::Duration pause = kFirstConnectPause;; pause = std::min(2 * pause, kLastConnectPause)) {
    // While the server's queue is full, connect(2) waits and poll(2) cannot, so the socket gets a timeout. A timeout of
    // 0 would mean none.
    const absl::Duration wait = std::clamp(deadline.remaining(), absl::Microseconds(1), absl::Hours(1));
    const timeval timeout = absl::ToTimeval(wait);
    if (setsockopt(descriptor.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) != 0) {
      return SocketError(errno, name, "setting a timeout");
    }
    const int error = ConnectTo(descriptor.get(), address);
    if (error == 0) return Make(std::move(descriptor), name, allowed);
    if (error == EINTR) continue;
    const bool may_come = error == EAGAIN || error == ENOENT || error == ECONNREFUSED;
    if (!may_come || deadline.remaining() == absl::ZeroDuration()) {
      return SocketError(error == EAGAIN ? ETIMEDOUT : error, name, "connect");
    }
    // After EAGAIN the kernel has waited already. The other two errors mean that the server has not made its socket
    // yet.
    if (error != EAGAIN) absl::SleepFor(std::min(pause, deadline.remaining()));
  }
}

absl::StatusOr<std::pair<UnixSocket, UnixSocket>> UnixSocket::Pair() {
  constexpr absl::string_view kName = "socket pair";
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return SocketError(errno, kName, "socketpair");
  ScopedDescriptor one(ends[0]);
  ScopedDescriptor other(ends[1]);
  CASK_ASSIGN_OR_RETURN(UnixSocket first, Make(std::move(one), kName, AllowedPeers::kAnyUser));
  CASK_ASSIGN_OR_RETURN(UnixSocket second, Make(std::move(other), kName, AllowedPeers::kAnyUser));
  return std::make_pair(std::move(first), std::move(second));
}

UnixSocket& UnixSocket::operator=(UnixSocket&& other) noexcept {
  if (this == &other) return *this;
  exchange::CloseSocket(std::move(descriptor_));
  descriptor_ = std::move(other.descriptor_);
  peer_ = other.peer_;
  name_ = std::move(other.name_);
  return *this;
}

UnixSocket::~UnixSocket() { exchange::CloseSocket(std::move(descriptor_)); }

int UnixSocket::TrySend(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                        Deadline deadline, size_t* sent_bytes) {
  CASK_CHECK(descriptors.size() <= kMaxDescriptors, "UnixSocket: more descriptors than a message can carry");
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  std::array<iovec, kPiecesPerCall> parts;
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = FillParts(pieces, &parts);
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    std::memset(control, 0, message.msg_controllen);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
  }
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  const bool is_plain = message.msg_iovlen == 1 && message.msg_control == nullptr;  // there is a cheaper call
  while (true) {
    const ssize_t sent = is_plain ? send(descriptor_.get(), parts[0].iov_base, parts[0].iov_len, kFlags)
                                  : sendmsg(descriptor_.get(), &message, kFlags);
    if (sent >= 0) {
      *sent_bytes = static_cast<size_t>(sent);
      return 0;
    }
    int error = errno;
    if (error == EINTR) continue;
    if (error == EAGAIN) error = WaitFor(descriptor_.get(), POLLOUT, deadline);
    if (error != 0) return error;
  }
}

absl::StatusOr<size_t> UnixSocket::SendSome(absl::Span<const absl::string_view> pieces,
                                            absl::Span<const int> descriptors, Deadline deadline) {
  size_t sent_bytes = 0;
  const int error = TrySend(pieces, descriptors, deadline, &sent_bytes);
  if (error != 0) return SocketError(error, name_, "sending");
  return sent_bytes;
}

absl::Status UnixSocket::SendAll(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                                 Deadline deadline) {
  size_t total_bytes = 0;
  for (const absl::string_view piece : pieces) total_bytes += piece.size();
  CASK_CHECK(descriptors.empty() || total_bytes > 0, "SendAll: descriptors travel with a byte");
  while (!pieces.empty() && pieces.front().empty()) pieces.remove_prefix(1);
  size_t sent_bytes = 0;
  std::array<absl::string_view, kPiecesPerCall> window;
  size_t offset = 0;  // bytes that were sent of the first of `pieces`
  while (sent_bytes < total_bytes) {
    const size_t count = std::min(pieces.size(), window.size());
    std::copy_n(pieces.begin(), count, window.begin());
    window[0].remove_prefix(offset);
    size_t sent = 0;
    const int error = TrySend({window.data(), count}, descriptors, deadline, &sent);
    if (error != 0) {
      return SocketError(error, name_, absl::StrCat("sent ", sent_bytes, " of ", total_bytes, " bytes"));
    }
    descriptors = {};
    sent_bytes += sent;
    offset += sent;
    while (!pieces.empty() && offset >= pieces.front().size()) {
      offset -= pieces.front().size();
      pieces.remove_prefix(1);
    }
  }
  return absl::OkStatus();
}

absl::Status UnixSocket::WaitUntilReceived(Deadline deadline) {
  absl::Duration pause = kFirstReceivedPause;
  while (true) {
    int unread_bytes = 0;
    if (ioctl(descriptor_.get(), SIOCOUTQ, &unread_bytes) != 0) return absl::OkStatus();
    if (unread_bytes == 0) break;
    if (deadline.remaining() == absl::ZeroDuration()) {
      return SocketError(ETIMEDOUT, name_, "waiting until the peer has received everything");
    }
    absl::SleepFor(std::min(pause, deadline.remaining()));
    pause = std::min(2 * pause, kLastReceivedPause);
  }
  // If a peer closes with unread bytes, the socket first gets an error, and the peer's queue is emptied after that.
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(descriptor_.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0) {
    return SocketError(error, name_, "not everything was received");
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> UnixSocket::ReceiveSome(absl::Span<char> out, size_t max_descriptors,
                                               std::vector<ScopedDescriptor>* descriptors, Deadline deadline) {
  return Receive(out, max_descriptors, descriptors, deadline, [] { return std::string("receiving"); });
}

absl::StatusOr<size_t> UnixSocket::Receive(absl::Span<char> out, size_t max_descriptors,
                                           std::vector<ScopedDescriptor>* descriptors, Deadline deadline,
                                           absl::FunctionRef<std::string()> doing) {
  CASK_CHECK(max_descriptors <= kMaxDescriptors, "UnixSocket: more descriptors than a message can carry");
  CASK_CHECK(!out.empty(), "UnixSocket: receiving needs room for a byte");
  const size_t room = max_descriptors - descriptors->size();
  descriptors->reserve(max_descriptors);  // before the call: once bytes have been received, nothing may fail
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  iovec part = {out.data(), out.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t received = 0;
  while (true) {
    // Room for as many descriptors as can arrive, even if the caller accepts none: the system would close the rest in
    // this thread, and that can block.
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const bool may_block = deadline.is_never() || deadline.poll_timeout_ms() > kReceiveTimeoutMs;
    received = recvmsg(descriptor_.get(), &message, MSG_CMSG_CLOEXEC | (may_block ? 0 : MSG_DONTWAIT));
    if (received >= 0) break;
    int error = errno;
    if (error == EINTR || (error == EAGAIN && may_block)) continue;
    if (error == EAGAIN) error = WaitFor(descriptor_.get(), POLLIN, deadline);
    if (error != 0) return SocketError(error, name_, doing());
  }
  const bool lacks_some = (message.msg_flags & MSG_CTRUNC) != 0;
  if (message.msg_controllen == 0 && !lacks_some) return static_cast<size_t>(received);
  std::array<int, kMaxDescriptors> numbers;
  const size_t count = ConsumeDescriptors(&message, &numbers);
  if (count <= room && !lacks_some) {
    for (size_t i = 0; i < count; ++i) descriptors->emplace_back(numbers[i]);
    return static_cast<size_t>(received);
  }
  exchange::CloseReceived(absl::MakeConstSpan(numbers.data(), count));
  if (count > room) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": sent more descriptors than the ", max_descriptors, " wanted"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(name_, ": sent descriptors, but this process has room for ", count,
                                                   " of them only (RLIMIT_NOFILE)"));
}

absl::Status UnixSocket::ReceiveExactly(absl::Span<char> out, size_t max_descriptors,
                                        std::vector<ScopedDescriptor>* descriptors, Deadline deadline) {
  if (descriptors != nullptr) descriptors->clear();
  std::vector<ScopedDescriptor> received_here;
  for (size_t done = 0; done < out.size();) {
    absl::StatusOr<size_t> received = Receive(out.subspan(done), max_descriptors, &received_here, deadline, [&] {
      return absl::StrCat("received ", done, " of ", out.size(), " bytes");
    });
    if (received.ok() && *received == 0) {
      received = absl::UnavailableError(absl::StrCat(name_, ": closed after ", done, " of ", out.size(), " bytes"));
    }
    if (!received.ok()) {
      exchange::CloseReceived(&received_here);
      return received.status();
    }
    done += *received;
  }
  if (descriptors != nullptr) *descriptors = std::move(received_here);
  return absl::OkStatus();
}

void UnixSocket::Shutdown() { shutdown(descriptor_.get(), SHUT_RDWR); }

}  // namespace tensorcask
