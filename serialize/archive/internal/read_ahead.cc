#include "tensorcask/serialize/archive/internal/read_ahead.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::archive {
namespace {

// What a piece counts of the memory that may wait: its elements, or more for a small one. The file may hold millions of
// small tensors, and the consumer is no faster for more than thousands of them.
uint64_t WaitingBytes(const ReadPiece& piece) {
  constexpr uint64_t kLeastBytes = 4096;
  static_assert(sizeof(ReadPiece) + 256 < kLeastBytes, "it covers what describes a piece");
  return kLeastBytes + piece.bytes;
}

}  // namespace

ReadAhead::ReadAhead(size_t num_jobs, uint64_t max_bytes, Produce produce, HasPieces has_pieces)
    : max_bytes_(max_bytes), produce_(std::move(produce)), has_pieces_(std::move(has_pieces)), num_jobs_(num_jobs) {}

absl::Status ReadAhead::Run(int num_threads, Consume consume) {
  absl::Status status;
  // The thread that gets index 0 consumes. It reads a job itself if no other thread has claimed that job, so it never
  // waits for a thread that does not exist. (See AwaitClaim for a job of several pieces.)
  can_have_producers_ = num_threads > 1;
  CASK_RETURN_IF_ERROR(ParallelFor(num_threads, static_cast<size_t>(std::max(num_threads, 1)), [&](size_t index) {
    if (index > 0) return ProduceAhead();
    status = CatchExceptions([&] { return ConsumeAll(consume); });
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }));
  return status;
}

absl::Status ReadAhead::ConsumeAll(Consume consume) {
  for (size_t number = 0; number < num_jobs_; ++number) {
    bool is_claimed;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      current_ = number;
      if (can_have_producers_ && has_pieces_ && has_pieces_(number)) AwaitClaim(number, &lock);
      is_claimed = number < next_;
      next_ = std::max(next_, number + 1);
      changed_.notify_all();
    }
    if (is_claimed) {
      CASK_RETURN_IF_ERROR(ConsumeClaimed(number, consume));
    } else {
      CASK_RETURN_IF_ERROR(produce_(number, [&](ReadPiece piece) { return consume(number, std::move(piece)); }));
    }
  }
  return absl::OkStatus();
}

// Waits until another thread has claimed the job; only a moment if there is no other thread yet. With a producer the
// wait ends: all earlier jobs are consumed and no later one is claimed, so nothing waits in memory, and the next job
// that a producer claims is this one.
void ReadAhead::AwaitClaim(size_t number, std::unique_lock<std::mutex>* lock) {
  constexpr std::chrono::milliseconds kThreadStarts(50);
  changed_.notify_all();
  changed_.wait_for(*lock, kThreadStarts, [&] { return producers_ > 0 || number < next_; });
  changed_.wait(*lock, [&] { return producers_ == 0 || number < next_; });
}

absl::Status ReadAhead::ConsumeClaimed(size_t number, Consume consume) {
  while (true) {
    ReadPiece piece;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      Job& job = claimed_.front();
      changed_.wait(lock, [&] { return !job.pieces.empty() || job.done; });
      if (job.pieces.empty()) {
        absl::Status status = std::move(job.status);
        claimed_.pop_front();
        return status;
      }
      piece = std::move(job.pieces.front());
      job.pieces.pop_front();
      waiting_bytes_ -= WaitingBytes(piece);
      changed_.notify_all();
    }
    CASK_RETURN_IF_ERROR(consume(number, std::move(piece)));
  }
}

void ReadAhead::ProduceAhead() {
  const auto count = [&](int difference) {
    const std::lock_guard<std::mutex> lock(mutex_);
    producers_ += difference;
    changed_.notify_all();
  };
  count(1);
  ProduceUntilClaimed();
  count(-1);
}

void ReadAhead::ProduceUntilClaimed() {
  while (true) {
    size_t number;
    Job* claimed;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || next_ >= num_jobs_ || waiting_bytes_ < max_bytes_; });
      if (stopped_ || next_ >= num_jobs_) return;
      number = next_++;
      claimed = &claimed_.emplace_back();
    }
    Job& job = *claimed;
    const auto emit = [&](ReadPiece piece) -> absl::Status {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(
          lock, [&] { return stopped_ || waiting_bytes_ < max_bytes_ || (current_ == number && job.pieces.empty()); });
      if (stopped_) return absl::CancelledError("the conversion has ended");
      const uint64_t bytes = WaitingBytes(piece);
      job.pieces.push_back(std::move(piece));
      waiting_bytes_ += bytes;
      changed_.notify_all();
      return absl::OkStatus();
    };
    // The consumer waits for this job, so an exception must end it like an error.
    absl::Status status = CatchExceptions([&] { return produce_(number, emit); });
    const std::lock_guard<std::mutex> lock(mutex_);
    job.status = std::move(status);
    job.done = true;
    changed_.notify_all();
  }
}

}  // namespace tensorcask::archive
