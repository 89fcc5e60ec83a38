// Closes descriptors that a peer sent, without waiting for the files behind them. Internal to this room.
//
//   std::vector<ScopedDescriptor> received = ...;
//   if (!AllMemoryFiles(received)) CloseReceived(&received);
//
// close(2) can block for as long as a peer likes: a file of FUSE asks its daemon (and not even SIGKILL ends that wait),
// a TCP socket with SO_LINGER waits for its peer. Closing a memory file (memfd_create(2)) never blocks. Closing the
// last descriptor of a Unix socket closes the descriptors in its queue, too.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLOSE_RECEIVED_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLOSE_RECEIVED_H_

#include <vector>

#include "absl/types/span.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask::exchange {

// True if the descriptor is a file in memory. Asks the kernel for the file's seals: it answers at once for every kind
// of file, while fstat(2) asks the owner of the file system.
bool IsMemoryFile(int descriptor);

// Closes all and leaves *descriptors empty. Memory files are closed here. The others are closed by short-lived closers,
// processes that share this process's descriptor table, so that the numbers are free at once. This function waits for
// them for a few milliseconds only. A closer whose close blocks is left behind, and does not keep this process from
// ending.
//
// A closer has to share the table: closing a copy of a FUSE file in another table would leave the original here, and
// each close of such a file asks its daemon. But the system closes the files of a process that is killed only when no
// process shares its table any more. So a helper, the parent of the closers, stays until the last of them ends. When
// this process ends, the helper closes all else that is left in the table: listeners refuse clients, and peers see the
// end of their connections. The helper has a session of its own, so that a signal to the process group does not end it.
//
// If no process can be made (RLIMIT_NPROC, seccomp), a detached thread closes the descriptors. They stay open if no
// thread can be made, or while 256 helpers wait.
void CloseReceived(std::vector<ScopedDescriptor>* descriptors);

// The closers of this process that wait now. From kMaxClosers on, UnixSocket::Connect fails, and UnixListener::Accept
// unless the listener refuses descriptors. So their number is bounded: a connection that exists by then can add those
// of one message.
constexpr int kMaxClosers = 64;
int CountClosers();

// CloseReceived for one descriptor.
void CloseReceived(ScopedDescriptor descriptor);

// CloseReceived for numbers that no ScopedDescriptor owns yet.
void CloseReceived(absl::Span<const int> numbers);

// Closes a Unix socket and does nothing else to it: other processes that have it can go on using it. If its queue may
// hold descriptors, it is closed as CloseReceived closes. A peer that still sends can queue a descriptor after this
// function has looked; shutdown(2) before the call prevents that.
void CloseSocket(ScopedDescriptor socket);

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLOSE_RECEIVED_H_
