// Anonymous files in memory (memfd_create(2)): the blocks of shared memory. Internal to this room.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_MEMORY_FILE_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_MEMORY_FILE_H_

#include <cstddef>

#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask::exchange {

// A new file of `bytes` bytes without any pages yet, closed on exec(2). Not open on failure; errno says why.
ScopedDescriptor MakeMemoryFile(size_t bytes);

// Maps the first `bytes` (whole pages) of a new file for reading and writing, gives all of them memory, and seals the
// file: it cannot shrink, cannot grow, and is written through this mapping only. Null on failure; errno says why.
char* MapNewMemoryFile(const ScopedDescriptor& file, size_t bytes);

// The same file, opened once more with these flags (open(2)) and closed on exec(2). Not open on failure: ENOENT
// without /proc.
ScopedDescriptor OpenAgain(int file, int flags);

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_MEMORY_FILE_H_
