// Unix stream sockets: bytes and descriptors between processes on one host, with a deadline on every wait.
//
//   CASK_ASSIGN_OR_RETURN(UnixListener listener, UnixListener::Listen("/run/user/1000/tensors.sock", {}));
//   CASK_ASSIGN_OR_RETURN(UnixSocket client, listener.Accept(Deadline::Never()));
//
//   CASK_ASSIGN_OR_RETURN(UnixSocket server, UnixSocket::Connect("/run/user/1000/tensors.sock", absl::Seconds(1)));
//   server.SendAll({header, body}, {memory.get()}, absl::Seconds(5));
//
// The sockets are streams (SOCK_STREAM). A packet socket would limit a message to the send buffer (208 KiB by default).
//
// Errors name the path or the peer:
//   DeadlineExceeded    the deadline passed; the message says how much was transferred before
//   Unavailable         the peer closed its socket or died; no server listens; Shutdown was called
//   NotFound            no such path
//   InvalidArgument     a path that no socket can have; more descriptors than the caller accepts
//   PermissionDenied    the peer is another user's process; the path is not accessible
//   ResourceExhausted   this process has no descriptors left (EMFILE, ENFILE), or too many are in flight, or 64 that
//                       peers sent wait to be closed, because the files behind them do not answer
// A signal interrupts no call (EINTR is retried). Writing to a closed peer raises no signal (MSG_NOSIGNAL).
//
// Descriptors from a peer are as hostile as its bytes. Even close(2) can block: a file of FUSE asks its daemon. This
// room closes descriptors that it refuses without waiting; a caller that accepts them and wants memory files should use
// MapSharedMemory (shared_memory.h), which does the same.
//
// After fork(2) both processes have the connection. A process that destroys its copy of a socket closes its descriptor
// and nothing else. So a parent can destroy its copy of a socket that only its child uses. A listener belongs to the
// process that called Listen: it ends listening and removes the path.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_UNIX_SOCKET_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_UNIX_SOCKET_H_

#include "tensorcask/tensor/base/cxx17.h"

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
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask {

// The process at the other end when the connection was made (SO_PEERCRED), as the kernel recorded it; for a pair, the
// process that made the pair. That process may have ended and its id may belong to another one since.
struct PeerCredentials {
  uint32_t user_id = 0;
  uint32_t group_id = 0;
  int32_t process_id = 0;
};

// Which processes may be at the other end. Clients need this check as much as servers do: in a folder that users share,
// any user may have made the socket.
enum class AllowedPeers : uint8_t {
  kSameUser,  // processes with our effective user id
  kAnyUser,
};

// A connected socket. One thread may send while another receives; two threads that both send, or both receive, need a
// lock. After an error from SendAll or ReceiveExactly an unknown part of the bytes may have been transferred, so the
// only thing left to do is to close the socket. A moved-from socket can only be destroyed or assigned to.
class UnixSocket {
 public:
  static constexpr size_t kMaxDescriptors = 253;  // in one message (SCM_MAX_FD)

  // Path: 1 to 107 bytes without NUL. The abstract names of Linux are not supported: they have no permissions.
  // Waits until a server listens at the path, and while its queue is full. A deadline of zero tries once.
  // Errors: after the deadline, NotFound (no such path), Unavailable (no server listens there), DeadlineExceeded (the
  // server's queue is full); at once, PermissionDenied and InvalidArgument.
  static absl::StatusOr<UnixSocket> Connect(const std::string& path, Deadline deadline,
                                            AllowedPeers allowed = AllowedPeers::kSameUser);

  UnixSocket(UnixSocket&& other) noexcept = default;
  UnixSocket& operator=(UnixSocket&& other) noexcept;
  // Only closes the descriptor: a copy that another process has since fork(2) still works, with all unread bytes. If
  // this is the last copy, descriptors that the peer sent and this process did not receive are closed without waiting.
  // (If the peer may send a descriptor at the moment of closing, call Shutdown first.)
  ~UnixSocket();

  // Two sockets that are connected to each other, for a child process or a test.
  static absl::StatusOr<std::pair<UnixSocket, UnixSocket>> Pair();

  // Sends all pieces in order, and the descriptors with the first byte. The descriptors stay the caller's, who may
  // close them when this returns. OK means that the system took the bytes: the peer may die before it receives them
  // (see WaitUntilReceived). Requires: with descriptors, at least one byte; at most kMaxDescriptors.
  absl::Status SendAll(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                       Deadline deadline);

  // Sends as many bytes as the system accepts at once, with the descriptors, and returns their number. Waits only if
  // the system accepts no byte. After DeadlineExceeded nothing was sent. Requires: as SendAll; at least one byte.
  absl::StatusOr<size_t> SendSome(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                                  Deadline deadline);

  // Waits until the peer has received everything that was sent.
  // Errors: DeadlineExceeded; Unavailable if the peer closed or died before. OK where the system cannot tell.
  absl::Status WaitUntilReceived(Deadline deadline);

  // Receives the bytes that are there, as many as fit into `out`, or waits for some; returns how many. 0 means that the
  // peer has closed and that all its bytes were received. Descriptors that came with these bytes are appended to
  // *descriptors, in order, closed on exec(2), until it has `max_descriptors`. If more arrive, that is an error, and
  // the descriptors of this call are closed. After DeadlineExceeded nothing was received and the call can be repeated.
  // Requires: `out` is not empty.
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, size_t max_descriptors,
                                     std::vector<ScopedDescriptor>* descriptors, Deadline deadline);

  // Fills `out`. *descriptors becomes the descriptors that came with these bytes, at most `max_descriptors`; on every
  // error all are closed and it is empty. They come with the first byte of the SendAll that sent them, so accept them
  // where a message begins.
  // Further error: Unavailable, "closed after 3 of 16 bytes".
  absl::Status ReceiveExactly(absl::Span<char> out, size_t max_descriptors, std::vector<ScopedDescriptor>* descriptors,
                              Deadline deadline);
  // Accepts no descriptors.
  absl::Status ReceiveExactly(absl::Span<char> out, Deadline deadline) {
    return ReceiveExactly(out, 0, nullptr, deadline);
  }

  // Ends both directions for good. May be called from any thread at any time: calls that wait fail with Unavailable.
  void Shutdown();

  const PeerCredentials& peer() const { return peer_; }
  const std::string& name() const { return name_; }     // for messages: `"/run/x.sock", process 17`
  int descriptor() const { return descriptor_.get(); }  // for poll(2) and socket options

 private:
  friend class UnixListener;

  // Checks the peer's credentials. `where` becomes part of the name.
  static absl::StatusOr<UnixSocket> Make(ScopedDescriptor descriptor, absl::string_view where, AllowedPeers allowed);

  // Returns an errno, or 0 and sets *sent_bytes.
  int TrySend(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors, Deadline deadline,
              size_t* sent_bytes);
  absl::StatusOr<size_t> Receive(absl::Span<char> out, size_t max_descriptors,
                                 std::vector<ScopedDescriptor>* descriptors, Deadline deadline,
                                 absl::FunctionRef<std::string()> doing);

  explicit UnixSocket(ScopedDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
  // Sets peer_ and name_.
  absl::Status Identify(absl::string_view where, AllowedPeers allowed);

  ScopedDescriptor descriptor_;
  PeerCredentials peer_;
  std::string name_;
};

// A socket with a path, at which clients connect.
class UnixListener {
 public:
  struct Options {
    uint32_t mode = 0600;  // permissions of the path, less the umask; clients need write permission
    int backlog = 128;     // clients that may wait to be accepted
    AllowedPeers allowed = AllowedPeers::kSameUser;
    // If false, Linux 6.16 and later refuse the descriptors of clients, from before they are accepted (EPERM).
    bool accepts_descriptors = true;
  };

  // Makes the path and listens. A socket at the path is replaced if it belongs to this user and no server listens to it
  // (its server died); nothing else is ever removed, symbolic links included. The folder is locked meanwhile
  // (flock(2)), so that only one of several servers can replace a dead server's socket. Errors:
  //   AlreadyExists: a server listens there, or the path is not a socket.
  //   PermissionDenied: the socket there is another user's; the folder is writable by all and not sticky, so that every
  //   user may rename what is in it.
  //   NotFound: no such folder. InvalidArgument: see Connect. Unavailable: another process keeps the folder locked.
  static absl::StatusOr<UnixListener> Listen(const std::string& path, const Options& options);

  UnixListener(UnixListener&& other) = default;
  UnixListener& operator=(UnixListener&& other) noexcept;
  // In the process that called Listen: stops listening, in every process that has this socket since fork(2), and
  // disconnects the clients that wait to be accepted. Removes the path if the socket there is still the one that Listen
  // made. The destructor compares and removes under the lock of the folder, so that it never removes the socket of the
  // next server. If another process holds the lock for more than a second, the path stays, and the next server replaces
  // it.
  ~UnixListener();

  // The next client. Safe to call from several threads. Errors, after each of which it can be called again:
  // DeadlineExceeded; Unavailable (Shutdown was called); PermissionDenied: a client of another user, which is
  // disconnected; ResourceExhausted: no descriptors (EMFILE, ENFILE) or no memory, or 64 descriptors that clients sent
  // wait to be closed. Clients wait in the queue meanwhile. Before this error Accept pauses for 50 ms or until the
  // deadline, so that a server that calls it in a loop does not spin.
  absl::StatusOr<UnixSocket> Accept(Deadline deadline);

  // From any thread: every Accept, waiting or later, fails with Unavailable once the queue is empty.
  void Shutdown();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_.get(); }  // for poll(2)

 private:
  UnixListener(ScopedDescriptor descriptor, std::string path, const Options& options);
  void Close();
  void Remove();

  ScopedDescriptor descriptor_;
  std::string path_;
  AllowedPeers allowed_;
  bool accepts_descriptors_;
  uint64_t device_ = 0, inode_ = 0;  // those of the path
  OwnerProcess owner_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_UNIX_SOCKET_H_
