// Runs work on several threads and uses the results one after the other, in order.
//
//   std::vector<Encoder> encoders(threads);
//   OrderedFor(threads, chunks, [&](size_t worker, uint64_t i) { return encoders[worker].Encode(i); },
//              [&](size_t worker, uint64_t i) { return Append(encoders[worker].result()); });
//
// A worker that has finished a chunk waits until all earlier chunks are used, while the other workers go on. So results
// need no memory besides that of the workers.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_ORDERED_FOR_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_ORDERED_FOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace tensorcask::payload {

using OrderedStep = absl::FunctionRef<absl::Status(size_t worker, uint64_t i)>;

// For each i < count calls work(worker, i) and then, on the same thread, use(worker, i): never two `use` at once, and
// in ascending order of i. A worker, 0 to NumWorkers - 1, makes one call at a time. The result is the first error in
// the order of i; after it no result is used and no work begun. An exception is an error, too: as CatchExceptions
// (tensor/base/catch_exceptions.h).
absl::Status OrderedFor(int num_threads, uint64_t count, OrderedStep work, OrderedStep use);

// How many workers OrderedFor has at most.
size_t NumWorkers(int num_threads, uint64_t count);

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_ORDERED_FOR_H_
