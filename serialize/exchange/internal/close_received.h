// Closes descriptors that a peer sent, without waiting for the files behind them. Internal to this room.
//
//   std::vector<ScopedDescriptor> received = ...;
//   if (!AllMemoryFiles(received)) CloseReceived(&received);
//
// close(2) can block for as long as a peer likes: a file of FUSE asks its daemon (and not even SIGKILL ends that wait),
// a TCP socket with SO_LINGER waits for its peer. Closing a memory file (memfd_create(2)) never blocks.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLOSE_RECEIVED_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLOSE_RECEIVED_H_

#include <vector>

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
// Without processes to be had (RLIMIT_NPROC, seccomp) a detached thread closes the descriptors; without threads they
// stay open.
void CloseReceived(std::vector<ScopedDescriptor>* descriptors);

// The same for one descriptor.
void CloseReceived(ScopedDescriptor descriptor);

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_CLOSE_RECEIVED_H_
