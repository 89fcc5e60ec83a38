// Unix stream sockets: bytes and descriptors between processes on one host, with a deadline on every wait.
//
//   CASK_ASSIGN_OR_RETURN(UnixListener listener, UnixListener::Listen("/run/user/1000/tensors.sock", {}));
//   CASK_ASSIGN_OR_RETURN(UnixSocket client, listener.Accept(Deadline::Never()));
//
//   CASK_ASSIGN_OR_RETURN(UnixSocket server, UnixSocket::Connect("/run/user/1000/tensors.sock", absl::Seconds(1)));
//   server.SendAll({header, body}, {memory.get()}, absl::Seconds(5));
//
// Streams (SOCK_STREAM), not packets: a packet must fit the send buffer (208 KiB as systems come), frames need not.
//
// Errors name the path or the peer:
//   DeadlineExceeded    the deadline passed; how far it came is in the message
//   Unavailable         the peer has closed, died or was never there; Shutdown was called
//   InvalidArgument     a path that cannot be; more descriptors than were asked for
//   PermissionDenied    the peer is another user's process; the path is out of bounds
//   ResourceExhausted   no descriptors left here (EMFILE, ENFILE), or too many on their way
// Signals interrupt nothing (EINTR is retried), and writing to a closed peer raises none (MSG_NOSIGNAL).

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_UNIX_SOCKET_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_UNIX_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/scoped_descriptor.h"

namespace tensorcask {

// Who was at the other end when the connection was made (SO_PEERCRED); of a pair, whoever made it. The kernel says so,
// not the peer. A process id may belong to another process by now.
struct PeerCredentials {
  uint32_t user_id = 0;
  uint32_t group_id = 0;
  int32_t process_id = 0;
};

// Who may be at the other end. It holds for both ends: a server's name in a shared folder may be anybody's.
enum class AllowedPeers : uint8_t {
  kSameUser,  // processes with our effective user id
  kAnyUser,
};

// A connected socket. One thread may send while another receives; two that send, or receive, at once need a lock.
// After an error from SendAll or ReceiveExactly part of the bytes may have passed: the stream has lost its place, and
// closing it is all that is left. Moved from, a socket can only be destroyed or assigned to.
class UnixSocket {
 public:
  static constexpr size_t kMaxDescriptors = 253;  // in one message (SCM_MAX_FD)

  // Path: 1 to 107 bytes without NUL. Names that are no paths (the "abstract" ones of Linux) are not supported: they
  // have no permissions. Waits while the server's queue is full.
  // Errors: NotFound, Unavailable (nobody listens), PermissionDenied, DeadlineExceeded, InvalidArgument.
  static absl::StatusOr<UnixSocket> Connect(const std::string& path, Deadline deadline,
                                            AllowedPeers allowed = AllowedPeers::kSameUser);

  // Two that are connected to each other, for a child process or a test.
  static absl::StatusOr<std::pair<UnixSocket, UnixSocket>> Pair();

  // Sends all pieces, one behind the other, and with the first byte the descriptors, which stay the caller's and may be
  // closed when this returns. Requires: with descriptors, at least one byte; at most kMaxDescriptors.
  absl::Status SendAll(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                       Deadline deadline);

  // Takes the bytes that are there, as many as `out` holds, or waits for some; returns how many. 0: the peer has closed
  // and all that it sent has been received: the clean end between two messages. Those descriptors that came with these
  // bytes go behind what *descriptors has, in their order, closed on exec(2): up to `max_descriptors` with the ones
  // there. More than that is an error, and those of this call are closed. After DeadlineExceeded the stream has its
  // place still. Requires: `out` is not empty.
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, size_t max_descriptors,
                                     std::vector<ScopedDescriptor>* descriptors, Deadline deadline);

  // Fills `out`. *descriptors becomes those that came with these bytes, at most `max_descriptors`; on every error all
  // are closed and it is empty. They come with the first byte of the SendAll that sent them, so ask for them where a
  // message begins. Errors, besides those above: Unavailable, "closed after 3 of 16 bytes".
  absl::Status ReceiveExactly(absl::Span<char> out, size_t max_descriptors, std::vector<ScopedDescriptor>* descriptors,
                              Deadline deadline);
  // Without descriptors; any is one too many.
  absl::Status ReceiveExactly(absl::Span<char> out, Deadline deadline) {
    return ReceiveExactly(out, 0, nullptr, deadline);
  }

  // Ends both directions, for good. The one call that may come from any thread at any time: those that wait fail with
  // Unavailable.
  void Shutdown();

  const PeerCredentials& peer() const { return peer_; }
  const std::string& name() const { return name_; }     // for messages: `"/run/x.sock", process 17`
  int descriptor() const { return descriptor_.get(); }  // for poll(2) and socket options

 private:
  friend class UnixListener;

  // Asks for the peer's credentials and judges them. `where` becomes part of the name.
  static absl::StatusOr<UnixSocket> Make(ScopedDescriptor descriptor, absl::string_view where, AllowedPeers allowed);

  absl::StatusOr<size_t> Receive(absl::Span<char> out, size_t max_descriptors,
                                 std::vector<ScopedDescriptor>* descriptors, Deadline deadline,
                                 absl::FunctionRef<std::string()> doing);

  UnixSocket(ScopedDescriptor descriptor, PeerCredentials peer, std::string name)
      : descriptor_(std::move(descriptor)), peer_(peer), name_(std::move(name)) {}

  ScopedDescriptor descriptor_;
  PeerCredentials peer_;
  std::string name_;
};

// A socket with a path, at which clients connect.
class UnixListener {
 public:
  struct Options {
    uint32_t mode = 0600;  // of the path, less the umask: who may connect needs write permission
    int backlog = 128;     // clients that may wait to be accepted
    AllowedPeers allowed = AllowedPeers::kSameUser;
  };

  // Makes the path and listens. A socket that stands there already is replaced if it is ours and nobody listens to it
  // (its server died); nothing else is ever removed, symbolic links included. The folder is locked (flock(2))
  // meanwhile, so that of several servers that find a dead one's path one wins. Errors: AlreadyExists: somebody
  // listens, or something other than a socket is there. PermissionDenied: the socket there is another user's; everybody
  // may rename what is in the folder (writable by all and not sticky). NotFound: no such folder. InvalidArgument: see
  // Connect. Unavailable: another process keeps the folder locked.
  static absl::StatusOr<UnixListener> Listen(const std::string& path, const Options& options);

  UnixListener(UnixListener&& other) = default;
  UnixListener& operator=(UnixListener&& other) noexcept;
  // Stops listening and removes the path, if what stands there is still the socket that Listen made and this is still
  // the process that made it (a child after fork(2) leaves it alone).
  ~UnixListener();

  // The next client. Safe to call from several threads. Errors, after each of which it can be called again:
  //   DeadlineExceeded, Unavailable (Shutdown was called);
  //   PermissionDenied: a client of another user, which is disconnected;
  //   ResourceExhausted: no descriptors (EMFILE, ENFILE) or memory. Clients wait in the queue meanwhile. It comes after
  //   a pause of 50 ms or up to the deadline, so that a server that just goes on does not spin.
  absl::StatusOr<UnixSocket> Accept(Deadline deadline);

  // From any thread: every Accept, waiting or to come, fails with Unavailable, once the queue is empty.
  void Shutdown();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_.get(); }  // for poll(2)

 private:
  UnixListener(ScopedDescriptor descriptor, std::string path, AllowedPeers allowed);
  void Remove();

  ScopedDescriptor descriptor_;
  std::string path_;
  AllowedPeers allowed_;
  uint64_t device_ = 0, inode_ = 0;  // of the path
  int32_t owner_process_ = 0;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_UNIX_SOCKET_H_
