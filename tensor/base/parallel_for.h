// Running independent pieces of work on several threads, when the caller asked for that.
//
//   ParallelFor(options.num_threads, shards.size(), [&](size_t i) { results[i] = WriteShard(i); });

#ifndef TENSORCASK_TENSOR_BASE_PARALLEL_FOR_H_
#define TENSORCASK_TENSOR_BASE_PARALLEL_FOR_H_

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace tensorcask {

// Calls fn(0) ... fn(count - 1), each once, on at most `num_threads` (and 1024) threads, the calling one included, and
// returns when all are done. Threads take the next index as they become free. With num_threads <= 1, or where the
// system gives no thread, the calling thread does the work: it always completes. `fn` must not throw.
void ParallelFor(int num_threads, size_t count, absl::FunctionRef<void(size_t)> fn);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_PARALLEL_FOR_H_
