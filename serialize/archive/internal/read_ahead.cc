#include "tensorcask/serialize/archive/internal/read_ahead.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::archive {
namespace {

// The memory of a piece: its elements and what describes them.
uint64_t WaitingBytes(const ReadPiece& piece) { return piece.bytes + sizeof(ReadPiece) + 256; }

}  // namespace

ReadAhead::ReadAhead(size_t num_jobs, uint64_t max_bytes, Produce produce, HasPieces has_pieces)
    : max_bytes_(max_bytes), produce_(std::move(produce)), has_pieces_(std::move(has_pieces)), jobs_(num_jobs) {}

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
  for (size_t number = 0; number < jobs_.size(); ++number) {
    bool is_claimed;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      current_ = number;
      if (can_have_producers_ && has_pieces_ && has_pieces_(number)) AwaitClaim(number, &lock);
      is_claimed = jobs_[number].claimed;
      jobs_[number].claimed = true;
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
  changed_.wait_for(*lock, kThreadStarts, [&] { return producers_ > 0 || jobs_[number].claimed; });
  changed_.wait(*lock, [&] { return producers_ == 0 || jobs_[number].claimed; });
}

absl::Status ReadAhead::ConsumeClaimed(size_t number, Consume consume) {
  Job& job = jobs_[number];
  while (true) {
    ReadPiece piece;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return !job.pieces.empty() || job.done; });
      if (job.pieces.empty()) return job.status;
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
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || next_ >= jobs_.size() || waiting_bytes_ < max_bytes_; });
      if (stopped_ || next_ >= jobs_.size()) return;
      number = next_++;
      jobs_[number].claimed = true;
    }
    Job& job = jobs_[number];
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
