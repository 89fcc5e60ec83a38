#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/internal/close_received.h"
#include "tensorcask/serialize/exchange/internal/socket_calls.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

using exchange::AddressOf;
using exchange::BindTo;
using exchange::ConnectTo;
using exchange::MakeSocket;
using exchange::SocketError;
using exchange::WaitFor;

// How long Accept pauses when there are no descriptors.
constexpr absl::Duration kPauseWithoutDescriptors = absl::Milliseconds(50);
// How long to wait for the lock on a folder. A server holds it for some 100 us.
constexpr absl::Duration kFolderLockTimeout = absl::Seconds(1);

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The lock on a folder, held until the descriptor is closed. Servers make, replace and remove sockets only under it.
absl::StatusOr<ScopedDescriptor> LockFolder(const std::string& folder) {
  ScopedDescriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open()) return absl::ErrnoToStatus(errno, Quoted(folder));
  struct stat about;
  if (fstat(descriptor.get(), &about) != 0) return absl::ErrnoToStatus(errno, Quoted(folder));
  if ((about.st_mode & S_IWOTH) != 0 && (about.st_mode & S_ISVTX) == 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        Quoted(folder),
        ": every user may rename what is in this folder (writable by all, not sticky): no place for a socket"));
  }
  // With a deadline, because every process that can read the folder can hold this lock.
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

// Disconnects the clients that wait to be accepted, without waiting for what they have sent. False if some may be left,
// because there are no descriptors. Requires: the listener is shut down.
bool DisconnectQueue(int listener) {
  while (true) {
    ScopedDescriptor client(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN || errno == EINVAL;  // the queue is empty
    }
    shutdown(client.get(), SHUT_RDWR);  // the client can send no descriptor after this
    exchange::CloseSocket(std::move(client));
  }
}

// Removes the socket at `path` if a dead server of this user left it behind.
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
      return SocketError(error, name, "asking whether a server listens");
  }
}

}  // namespace

UnixListener::UnixListener(ScopedDescriptor descriptor, std::string path, const Options& options)
    : descriptor_(std::move(descriptor)),
      path_(std::move(path)),
      allowed_(options.allowed),
      accepts_descriptors_(options.accepts_descriptors) {
  struct stat about;
  if (lstat(path_.c_str(), &about) != 0) return;  // removed already; inode 0 means that there is nothing to remove
  device_ = about.st_dev;
  inode_ = about.st_ino;
}

absl::StatusOr<UnixListener> UnixListener::Listen(const std::string& path, const Options& options) {
  CASK_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const std::string name = Quoted(path);
  CASK_ASSIGN_OR_RETURN(const ScopedDescriptor lock, LockFolder(FolderOf(path)));
  CASK_ASSIGN_OR_RETURN(ScopedDescriptor descriptor, MakeSocket(name, SOCK_NONBLOCK));
  // Before bind(2), which makes the path with the socket's mode: so the path never has a wider one.
  if (fchmod(descriptor.get(), static_cast<mode_t>(options.mode & 0777)) != 0) {
    return SocketError(errno, name, "setting the mode");
  }
  int error = BindTo(descriptor.get(), address);
  if (error == EADDRINUSE) {
    CASK_RETURN_IF_ERROR(RemoveStaleSocket(path, address));
    error = BindTo(descriptor.get(), address);
  }
  if (error != 0) return SocketError(error, name, "bind");
  if (!options.accepts_descriptors) exchange::RefuseDescriptors(descriptor.get());
  UnixListener listener(std::move(descriptor), path, options);  // from here on the path is removed on failure
  if (listen(listener.descriptor(), options.backlog) != 0) return SocketError(errno, name, "listen");
  return listener;
}

UnixListener& UnixListener::operator=(UnixListener&& other) noexcept {
  if (this == &other) return *this;
  Close();
  descriptor_ = std::move(other.descriptor_);
  path_ = std::move(other.path_);
  allowed_ = other.allowed_;
  accepts_descriptors_ = other.accepts_descriptors_;
  device_ = other.device_;
  inode_ = other.inode_;
  owner_ = other.owner_;
  return *this;
}

UnixListener::~UnixListener() { Close(); }

void UnixListener::Close() {
  if (descriptor_.is_open() && owner_.IsThisProcess()) {
    Shutdown();  // no client can connect any more
    Remove();
    if (DisconnectQueue(descriptor_.get())) return descriptor_.Close();
  }
  exchange::CloseSocket(std::move(descriptor_));
}

// After Shutdown the next server treats this socket as a dead server's and replaces it, under the folder's lock. So the
// comparison and the removal need the lock, too. While the socket is open its inode number is not used again.
void UnixListener::Remove() {
  if (inode_ == 0) return;
  const absl::StatusOr<ScopedDescriptor> lock = LockFolder(FolderOf(path_));
  if (!lock.ok()) return;
  struct stat about;
  if (lstat(path_.c_str(), &about) != 0 || about.st_dev != device_ || about.st_ino != inode_) return;
  unlink(path_.c_str());
}

absl::StatusOr<UnixSocket> UnixListener::Accept(Deadline deadline) {
  const std::string name = Quoted(path_);
  if (accepts_descriptors_) {
    const absl::Status closers = exchange::CheckClosers(name);
    if (!closers.ok()) {
      absl::SleepFor(std::min(kPauseWithoutDescriptors, deadline.remaining()));
      return closers;
    }
  }
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
