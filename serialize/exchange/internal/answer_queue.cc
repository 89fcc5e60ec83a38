#include "tensorcask/serialize/exchange/internal/answer_queue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/recycled_memory.h"
#include "tensorcask/tensor/base/catch_exceptions.h"

namespace tensorcask::exchange {

AnswerQueue::AnswerQueue(Service* service, const ServerOptions& options, std::function<void()> wake)
    : service_(service), options_(options), wake_(std::move(wake)) {
  // Ends the threads that exist if the system gives no more.
  struct Guard {
    AnswerQueue* queue;
    ~Guard() {
      if (queue != nullptr) queue->Stop();
    }
  } guard = {this};
  for (int i = 0; i < std::max(options_.num_threads, 1); ++i) threads_.emplace_back([this] { Work(); });
  guard.queue = nullptr;
}

AnswerQueue::~AnswerQueue() { Stop(); }

void AnswerQueue::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void AnswerQueue::Add(std::unique_ptr<AnswerJob> job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_.reserve(done_.size() + waiting_.size() + threads_.size() + 1);  // so that a thread can always hand over
    waiting_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void AnswerQueue::Remove(uint64_t client) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                [client](const std::unique_ptr<AnswerJob>& job) { return job->client == client; }),
                 waiting_.end());
}

bool AnswerQueue::IsWaiting(uint64_t client) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [client](const std::unique_ptr<AnswerJob>& job) { return job->client == client; });
}

std::vector<std::unique_ptr<AnswerJob>> AnswerQueue::ConsumeDone() {
  std::vector<std::unique_ptr<AnswerJob>> done;
  const std::lock_guard<std::mutex> lock(mutex_);
  done.reserve(done_.capacity());
  done.swap(done_);
  return done;
}

void AnswerQueue::Release(uint64_t charged_bytes) {
  if (charged_bytes == 0) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    charged_bytes_ -= charged_bytes;
  }
  changed_.notify_all();
}

bool AnswerQueue::IsShortOfMemory() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(waiting_.begin(), waiting_.end(), [this](const std::unique_ptr<AnswerJob>& job) {
    return job->expected_bytes > kSmallAnswerBytes && charged_bytes_ > 0 &&
           job->expected_bytes > options_.max_answer_bytes - std::min(charged_bytes_, options_.max_answer_bytes);
  });
}

bool AnswerQueue::MayBegin(const AnswerJob& job) const {
  if (job.expected_bytes <= kSmallAnswerBytes) return true;
  if (num_large_ > 0 && num_large_ + 1 >= static_cast<int>(threads_.size())) return false;
  return charged_bytes_ == 0 || (charged_bytes_ <= options_.max_answer_bytes &&
                                 job.expected_bytes <= options_.max_answer_bytes - charged_bytes_);
}

std::unique_ptr<AnswerJob> AnswerQueue::ConsumeNext() {
  const auto next = std::find_if(waiting_.begin(), waiting_.end(),
                                 [this](const std::unique_ptr<AnswerJob>& job) { return MayBegin(*job); });
  if (next == waiting_.end()) return nullptr;
  std::unique_ptr<AnswerJob> job = std::move(*next);
  waiting_.erase(next);
  if (job->expected_bytes > kSmallAnswerBytes) {
    ++num_large_;
    job->charged_bytes = job->expected_bytes;
    charged_bytes_ += job->charged_bytes;
  }
  return job;
}

void AnswerQueue::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_stopping_) {
    std::unique_ptr<AnswerJob> job = ConsumeNext();
    if (job == nullptr) {
      changed_.wait(lock);
      continue;
    }
    const bool is_large = job->charged_bytes > 0;
    lock.unlock();
    Compute(job.get());
    lock.lock();
    // An answer that is larger than expected is charged with its real size.
    if (job->encoded.inline_bytes > std::max(job->charged_bytes, kSmallAnswerBytes)) {
      charged_bytes_ += job->encoded.inline_bytes - job->charged_bytes;
      job->charged_bytes = job->encoded.inline_bytes;
    }
    if (is_large) --num_large_;
    done_.push_back(std::move(job));
    wake_();
    changed_.notify_all();
  }
}

void AnswerQueue::Compute(AnswerJob* job) const {
  // Encodes twice at most: the second time a reply that says why the answer cannot be sent.
  absl::Status problem = job->refusal;
  for (int attempt = problem.ok() ? 0 : 1; attempt < 2 && !job->has_answer; ++attempt) {
    const absl::Status encoded = CatchExceptions([&] {
      if (attempt == 0) {
        job->reply = service_->Answer(job->request);
      } else {
        job->reply = {};
        job->reply.topic = job->request.topic;
        job->reply.status = problem;
      }
      job->reply.request = job->request.request;
      job->encoded = {};
      RecycledMemory none(0);
      problem = EncodeMessage(job->reply, options_.channel, kMaxDescriptors, &none, &job->encoded);
      const uint64_t bytes = job->encoded.body.size() + job->encoded.inline_bytes;
      if (problem.ok() && (bytes > job->most_bytes || job->encoded.shared_bytes > job->most_bytes)) {
        problem = absl::ResourceExhaustedError(
            absl::StrCat("the answer has ", bytes, " bytes; the client accepts ", job->most_bytes));
      }
      job->has_answer = problem.ok();
      return absl::OkStatus();
    });
    if (!encoded.ok()) problem = failed_;
  }
}

}  // namespace tensorcask::exchange
