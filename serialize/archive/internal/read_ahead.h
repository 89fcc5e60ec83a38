// Reads tensors on several threads ahead of one consumer, which gets them in order.
//
//   ReadAhead ahead(jobs.size(), /*max_bytes=*/64 << 20, produce);
//   absl::Status status = ahead.Run(/*num_threads=*/2, [&](size_t job, ReadPiece piece) { ... });

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_READ_AHEAD_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_READ_AHEAD_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::archive {

// A tensor, or a block of it.
struct ReadPiece {
  DecodedTensor tensor;
  bool is_block = false;
  TensorSlice slice;   // that of a block
  uint64_t bytes = 0;  // the size of its elements
};

class ReadAhead {
 public:
  using Emit = absl::FunctionRef<absl::Status(ReadPiece)>;
  // Reads one job, and calls `emit` for each piece in order. Ends when `emit` fails, with that error. Called on several
  // threads at once, for different jobs.
  using Produce = std::function<absl::Status(size_t job, Emit emit)>;
  using Consume = absl::FunctionRef<absl::Status(size_t job, ReadPiece piece)>;

  // True for a job of several pieces.
  using HasPieces = std::function<bool(size_t job)>;

  // `max_bytes` of pieces may wait, what describes them included; one piece may always. Jobs for which `has_pieces` is
  // true are read on another thread than that of the consumer, if there is one, so that one piece is read while the
  // last one is consumed. Empty: true for no job.
  ReadAhead(size_t num_jobs, uint64_t max_bytes, Produce produce, HasPieces has_pieces = {});

  // Calls `consume` for the pieces of job 0, then job 1, and so on. The first error ends all. Completes also where the
  // system gives no thread.
  absl::Status Run(int num_threads, Consume consume);

 private:
  struct Job {
    bool done = false;
    absl::Status status;
    std::list<ReadPiece> pieces;  // an empty list takes no memory of its own
  };

  absl::Status ConsumeAll(Consume consume);
  absl::Status ConsumeClaimed(size_t number, Consume consume);
  void ProduceAhead();
  void ProduceUntilClaimed();
  void AwaitClaim(size_t number, std::unique_lock<std::mutex>* lock);

  const uint64_t max_bytes_;
  const Produce produce_;
  const HasPieces has_pieces_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const size_t num_jobs_;
  std::deque<Job> claimed_;  // that a producer reads or has read, in order, until they are consumed
  size_t next_ = 0;          // that no thread has claimed
  size_t current_ = 0;       // that is consumed
  uint64_t waiting_bytes_ = 0;
  int producers_ = 0;  // threads that read; they end when all jobs are claimed
  bool stopped_ = false;
  bool can_have_producers_ = false;  // set before the threads start
};

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_READ_AHEAD_H_
