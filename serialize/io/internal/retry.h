// Calling a FileSystem operation again when a signal interrupted it.
//
//   const IoResult handle = internal::RetryInterrupted([&] { return files->OpenToRead(path); });

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_RETRY_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_RETRY_H_

#include <cerrno>

#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::internal {

// After this many interruptions of one call in a row the caller gets -EINTR, so that nothing hangs.
inline constexpr int kMaxInterruptions = 1000;

// Repeats call() while it returns -EINTR.
template <typename Call>
IoResult RetryInterrupted(Call&& call) {
  IoResult result = call();
  for (int i = 0; result == -EINTR && i < kMaxInterruptions; ++i) result = call();
  return result;
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_RETRY_H_
