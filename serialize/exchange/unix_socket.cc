#include "tensorcask/serialize/exchange/unix_socket.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
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
#include "tensorcask/serialize/exchange/scoped_descriptor.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

// One call of sendmsg takes up to IOV_MAX (1024) pieces; so many fit on the stack comfortably.
constexpr size_t kPiecesPerCall = 64;

// How long Accept waits when there are no descriptors.
constexpr absl::Duration kPauseWithoutDescriptors = absl::Milliseconds(50);
// How long Listen waits for the lock on the folder, which others hold for some 100 us.
constexpr absl::Duration kFolderLockTimeout = absl::Seconds(1);

// A call that receives waits in the kernel for this long at most (SO_RCVTIMEO), and begins anew then: which, unlike
// poll(2), takes no call of its own. Waits with less time left use poll(2).
constexpr int kReceiveTimeoutMs = 1000;

// errno as a status. A peer that is gone is "unavailable" by whatever number it shows.
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

// Waits for `events` or an end of the connection. 0, ETIMEDOUT, or what poll(2) has; *ended: both directions have.
int WaitFor(int descriptor, short events, Deadline deadline, bool* ended = nullptr) {
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
    return absl::InvalidArgumentError(absl::StrCat("a socket's path has ", path.size(), " bytes, the system takes ",
                                                   sizeof(address.sun_path) - 1, ": ", Quoted(path)));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<ScopedDescriptor> MakeSocket(absl::string_view name, int flags = 0) {
  ScopedDescriptor descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!descriptor.is_open()) return SocketError(errno, name, "socket");
  return descriptor;
}

int ConnectTo(int descriptor, const sockaddr_un& address) {
  return connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

int BindTo(int descriptor, const sockaddr_un& address) {
  return bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

// The next pieces that are not empty, from byte `offset` of the first on.
size_t FillParts(absl::Span<const absl::string_view> pieces, size_t offset, std::array<iovec, kPiecesPerCall>* parts) {
  size_t count = 0;
  for (absl::string_view piece : pieces) {
    if (count == parts->size()) break;
    piece.remove_prefix(std::exchange(offset, 0));
    if (piece.empty()) continue;
    (*parts)[count++] = {const_cast<char*>(piece.data()), piece.size()};
  }
  return count;
}

// The descriptors that came with a message.
void TakeDescriptors(msghdr* message, std::vector<ScopedDescriptor>* descriptors) {
  for (cmsghdr* control = CMSG_FIRSTHDR(message); control != nullptr; control = CMSG_NXTHDR(message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
      descriptors->emplace_back(descriptor);
    }
  }
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Keeps other servers from making or replacing sockets in a folder, until it is closed.
absl::StatusOr<ScopedDescriptor> LockFolder(const std::string& folder) {
  ScopedDescriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open()) return absl::ErrnoToStatus(errno, Quoted(folder));
  struct stat about;
  if (fstat(descriptor.get(), &about) != 0) return absl::ErrnoToStatus(errno, Quoted(folder));
  if ((about.st_mode & S_IWOTH) != 0 && (about.st_mode & S_ISVTX) == 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        Quoted(folder),
        ": everybody may rename what is in this folder (writable by all, not sticky): no place for a socket"));
  }
  // With a deadline: whoever can read the folder can hold this lock.
  const Deadline deadline = kFolderLockTimeout;
  while (flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return absl::ErrnoToStatus(errno, absl::StrCat(Quoted(folder), ": flock"));
    if (deadline.remaining() == absl::ZeroDuration()) {
      return absl::UnavailableError(absl::StrCat(Quoted(folder), ": another process keeps this folder locked"));
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  return descriptor;
}

// Removes what stands in the way of bind(2), if it is a socket of ours that a server left behind.
absl::Status RemoveStaleSocket(const std::string& path, const sockaddr_un& address) {
  const std::string name = Quoted(path);
  struct stat about;
  if (lstat(path.c_str(), &about) != 0) return absl::ErrnoToStatus(errno, name);
  if (!S_ISSOCK(about.st_mode)) return absl::AlreadyExistsError(absl::StrCat(name, " exists and is not a socket"));
  if (about.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat(name, " is a socket of user ", about.st_uid));
  }
  CASK_ASSIGN_OR_RETURN(const ScopedDescriptor probe, MakeSocket(name, SOCK_NONBLOCK));
  switch (const int error = ConnectTo(probe.get(), address)) {
    case ECONNREFUSED:
      if (unlink(path.c_str()) != 0) return absl::ErrnoToStatus(errno, absl::StrCat(name, ": removing the old socket"));
      return absl::OkStatus();
    case 0:
    case EAGAIN:      // a full queue
    case EPROTOTYPE:  // a socket of another type, in use
      return absl::AlreadyExistsError(absl::StrCat(name, ": another server listens here"));
    default:
      return SocketError(error, name, "asking whether somebody listens");
  }
}

}  // namespace

// ---- UnixSocket -----------------------------------------------------------------------------------------------------

absl::StatusOr<UnixSocket> UnixSocket::Make(ScopedDescriptor descriptor, absl::string_view where,
                                            AllowedPeers allowed) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(descriptor.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return SocketError(errno, where, "asking who the peer is");
  }
  const timeval timeout = absl::ToTimeval(absl::Milliseconds(kReceiveTimeoutMs));
  if (setsockopt(descriptor.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0) {
    return SocketError(errno, where, "setting a timeout");
  }
  std::string name = absl::StrCat(where, ", process ", credentials.pid);
  if (allowed == AllowedPeers::kSameUser && credentials.uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(name, ": belongs to user ", credentials.uid, ", only user ", geteuid(), " is allowed"));
  }
  return UnixSocket(std::move(descriptor), {credentials.uid, credentials.gid, credentials.pid}, std::move(name));
}

absl::StatusOr<UnixSocket> UnixSocket::Connect(const std::string& path, Deadline deadline, AllowedPeers allowed) {
  CASK_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const std::string name = Quoted(path);
  CASK_ASSIGN_OR_RETURN(ScopedDescriptor descriptor, MakeSocket(name));
  while (true) {
    // While the server's queue is full connect(2) waits, and poll(2) cannot: so its own timeout is set. 0 would be
    // none.
    const absl::Duration wait = std::clamp(deadline.remaining(), absl::Microseconds(1), absl::Hours(1));
    const timeval timeout = absl::ToTimeval(wait);
    if (setsockopt(descriptor.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) != 0) {
      return SocketError(errno, name, "setting a timeout");
    }
    const int error = ConnectTo(descriptor.get(), address);
    if (error == 0) return Make(std::move(descriptor), name, allowed);
    if (error == EINTR) continue;
    if (error != EAGAIN) return SocketError(error, name, "connect");
    if (deadline.remaining() == absl::ZeroDuration()) return SocketError(ETIMEDOUT, name, "connect");
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

absl::Status UnixSocket::SendAll(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                                 Deadline deadline) {
  size_t total_bytes = 0;
  for (const absl::string_view piece : pieces) total_bytes += piece.size();
  CASK_CHECK(descriptors.size() <= kMaxDescriptors, "SendAll: more descriptors than a message can carry");
  CASK_CHECK(descriptors.empty() || total_bytes > 0, "SendAll: descriptors travel with a byte");

  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  size_t sent_bytes = 0;
  size_t offset = 0;  // of what is sent of the first of `pieces`
  while (sent_bytes < total_bytes) {
    std::array<iovec, kPiecesPerCall> parts;
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = FillParts(pieces, offset, &parts);
    if (sent_bytes == 0 && !descriptors.empty()) {
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
    const bool is_plain = message.msg_iovlen == 1 && message.msg_control == nullptr;  // has a cheaper call
    const ssize_t sent = is_plain ? send(descriptor_.get(), parts[0].iov_base, parts[0].iov_len, kFlags)
                                  : sendmsg(descriptor_.get(), &message, kFlags);
    if (sent < 0) {
      int error = errno;
      if (error == EINTR) continue;
      if (error == EAGAIN) error = WaitFor(descriptor_.get(), POLLOUT, deadline);
      if (error == 0) continue;
      return SocketError(error, name_, absl::StrCat("sent ", sent_bytes, " of ", total_bytes, " bytes"));
    }
    sent_bytes += static_cast<size_t>(sent);
    offset += static_cast<size_t>(sent);
    while (!pieces.empty() && offset >= pieces.front().size()) {
      offset -= pieces.front().size();
      pieces.remove_prefix(1);
    }
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
  CASK_CHECK(!out.empty(), "UnixSocket: receiving takes room for a byte");
  const size_t room = max_descriptors - descriptors->size();
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  iovec part = {out.data(), out.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t received = 0;
  while (true) {
    // Room for those that are wanted still: the system closes others itself.
    if (room > 0) {
      message.msg_control = control;
      message.msg_controllen = CMSG_LEN(sizeof(int) * room);
    }
    const bool may_block = deadline.is_never() || deadline.poll_timeout_ms() > kReceiveTimeoutMs;
    received = recvmsg(descriptor_.get(), &message, MSG_CMSG_CLOEXEC | (may_block ? 0 : MSG_DONTWAIT));
    if (received >= 0) break;
    int error = errno;
    if (error == EINTR || (error == EAGAIN && may_block)) continue;
    if (error == EAGAIN) error = WaitFor(descriptor_.get(), POLLIN, deadline);
    if (error != 0) return SocketError(error, name_, doing());
  }
  std::vector<ScopedDescriptor> taken;  // closed on return with an error
  TakeDescriptors(&message, &taken);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    if (taken.size() >= room) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": sent more descriptors than the ", max_descriptors, " wanted"));
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        name_, ": descriptors were sent, but this process has no room for them (RLIMIT_NOFILE), after ", taken.size()));
  }
  std::move(taken.begin(), taken.end(), std::back_inserter(*descriptors));
  return static_cast<size_t>(received);
}

absl::Status UnixSocket::ReceiveExactly(absl::Span<char> out, size_t max_descriptors,
                                        std::vector<ScopedDescriptor>* descriptors, Deadline deadline) {
  if (descriptors != nullptr) descriptors->clear();
  std::vector<ScopedDescriptor> taken;
  for (size_t done = 0; done < out.size();) {
    CASK_ASSIGN_OR_RETURN(const size_t received, Receive(out.subspan(done), max_descriptors, &taken, deadline, [&] {
                            return absl::StrCat("received ", done, " of ", out.size(), " bytes");
                          }));
    if (received == 0) {
      return absl::UnavailableError(absl::StrCat(name_, ": closed after ", done, " of ", out.size(), " bytes"));
    }
    done += received;
  }
  if (descriptors != nullptr) *descriptors = std::move(taken);
  return absl::OkStatus();
}

void UnixSocket::Shutdown() { shutdown(descriptor_.get(), SHUT_RDWR); }

// ---- UnixListener ---------------------------------------------------------------------------------------------------

UnixListener::UnixListener(ScopedDescriptor descriptor, std::string path, AllowedPeers allowed)
    : descriptor_(std::move(descriptor)), path_(std::move(path)), allowed_(allowed), owner_process_(getpid()) {
  struct stat about;
  if (lstat(path_.c_str(), &about) != 0) return;  // somebody has removed it already: inode 0 is none
  device_ = about.st_dev;
  inode_ = about.st_ino;
}

absl::StatusOr<UnixListener> UnixListener::Listen(const std::string& path, const Options& options) {
  CASK_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const std::string name = Quoted(path);
  CASK_ASSIGN_OR_RETURN(const ScopedDescriptor lock, LockFolder(FolderOf(path)));
  CASK_ASSIGN_OR_RETURN(ScopedDescriptor descriptor, MakeSocket(name, SOCK_NONBLOCK));
  // Before bind(2), which makes the path with the socket's mode: so it never stands there with a wider one.
  if (fchmod(descriptor.get(), static_cast<mode_t>(options.mode & 0777)) != 0) {
    return SocketError(errno, name, "setting the mode");
  }
  int error = BindTo(descriptor.get(), address);
  if (error == EADDRINUSE) {
    CASK_RETURN_IF_ERROR(RemoveStaleSocket(path, address));
    error = BindTo(descriptor.get(), address);
  }
  if (error != 0) return SocketError(error, name, "bind");
  UnixListener listener(std::move(descriptor), path, options.allowed);  // from here on the path is removed on failure
  if (listen(listener.descriptor(), options.backlog) != 0) return SocketError(errno, name, "listen");
  return listener;
}

UnixListener& UnixListener::operator=(UnixListener&& other) noexcept {
  if (this == &other) return *this;
  Remove();
  descriptor_ = std::move(other.descriptor_);
  path_ = std::move(other.path_);
  allowed_ = other.allowed_;
  device_ = other.device_;
  inode_ = other.inode_;
  owner_process_ = other.owner_process_;
  return *this;
}

UnixListener::~UnixListener() { Remove(); }

// While the socket is open its inode's number is not given to another, and nobody takes the path for a dead server's.
void UnixListener::Remove() {
  if (!descriptor_.is_open() || inode_ == 0 || owner_process_ != getpid()) return;
  struct stat about;
  if (lstat(path_.c_str(), &about) != 0 || about.st_dev != device_ || about.st_ino != inode_) return;
  unlink(path_.c_str());
}

absl::StatusOr<UnixSocket> UnixListener::Accept(Deadline deadline) {
  const std::string name = Quoted(path_);
  while (true) {
    ScopedDescriptor client(accept4(descriptor_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.is_open()) return UnixSocket::Make(std::move(client), name, allowed_);
    int error = errno;
    if (error == EINTR || error == ECONNABORTED) continue;
    bool ended = false;
    if (error == EAGAIN) error = WaitFor(descriptor_.get(), POLLIN, deadline, &ended);
    if (ended) return absl::UnavailableError(absl::StrCat(name, ": accept: shut down"));
    switch (error) {
      case 0:
        continue;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        absl::SleepFor(std::min(kPauseWithoutDescriptors, deadline.remaining()));
        break;
      default:
        break;
    }
    return SocketError(error, name, "accept");
  }
}

void UnixListener::Shutdown() { shutdown(descriptor_.get(), SHUT_RDWR); }

}  // namespace tensorcask
