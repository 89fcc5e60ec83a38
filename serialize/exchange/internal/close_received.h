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
#include "tensorcask/serialize/exchange/scoped_descriptor.h"

namespace tensorcask::exchange {

// True if the descriptor is a file in memory. Asks the kernel for the file's seals: it answers at once for every kind
// of file, while fstat(2) asks the owner of the file system.
bool IsMemoryFile(int descriptor);

// Closes all and leaves *descriptors empty. Memory files are closed here. The others are closed by short-lived helper
// processes that share this process's descriptor table, so that the numbers are free at once. This function waits for
// the helpers for a few milliseconds only; a helper whose close blocks is left behind, and does not keep this process
// from ending. Until that helper ends, it also keeps the descriptor table: files that were open when this process ended
// without closing them stay open that long.
//
// If no process can be made (RLIMIT_NPROC, seccomp), a detached thread closes the descriptors; if no thread can be
// made, they stay open.
void CloseReceived(std::vector<ScopedDescriptor>* descriptors);

// The same for one descriptor.
void CloseReceived(ScopedDescriptor descriptor);

// The same for numbers that no ScopedDescriptor owns yet.
void CloseReceived(absl::Span<const int> numbers);

// Closes a Unix socket and does nothing else to it: other processes that have it can go on using it. If its queue may
// hold descriptors, it is closed as CloseReceived closes. A peer that still sends can queue a descriptor after this
// function has looked; shutdown(2) before the call prevents that.
void CloseSocket(ScopedDescriptor socket);

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLOSE_RECEIVED_H_
