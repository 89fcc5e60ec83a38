// Runs independent pieces of work on several threads, for callers that asked for threads.
//
//   CASK_RETURN_IF_ERROR(
//       ParallelFor(options.num_threads, shards.size(), [&](size_t i) { results[i] = WriteShard(i); }));

#ifndef TENSORCASK_TENSOR_BASE_PARALLEL_FOR_H_
#define TENSORCASK_TENSOR_BASE_PARALLEL_FOR_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace tensorcask {

// Calls fn(0) ... fn(count - 1), each once, on at most `num_threads` (and 1024) threads, the calling one included, and
// returns when all are done. Threads take the next index as they become free. With num_threads <= 1, or where the
// system gives no thread, the calling thread does the work: it always completes, unless `fn` throws.
// Errors: after an exception of `fn`, whichever thread it was thrown in, as CatchExceptions (catch_exceptions.h); no
// index is handed out after that. A function that never throws never causes an error.
absl::Status ParallelFor(int num_threads, size_t count, absl::FunctionRef<void(size_t)> fn);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_PARALLEL_FOR_H_
