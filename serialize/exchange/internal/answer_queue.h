// Threads that compute the answers of a server, and the limit on the memory of large answers. Internal to this room.
//
//   AnswerQueue answers(service, options, [&] { WakeTheLoop(); });
//   answers.Add(std::move(job));
//   for (auto& job : answers.ConsumeDone()) ...     // when woken
//   answers.Release(job->charged_bytes);            // when it has been sent, or its client is gone

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_ANSWER_QUEUE_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_ANSWER_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/server.h"

namespace tensorcask::exchange {

// One request and its answer.
struct AnswerJob {
  uint64_t client = 0;
  uint64_t most_bytes = 0;      // the most that the client accepts in one message
  uint64_t expected_bytes = 0;  // the expected size of the answer
  uint64_t charged_bytes = 0;   // against the limit
  absl::Status refusal;         // if not OK, the answer, and the service is not asked
  Message request;
  Message reply;
  EncodedMessage encoded;  // points into `reply`
  bool has_answer = false;
};

class AnswerQueue {
 public:
  // Answers of at most this size do not wait for the memory of others.
  static constexpr uint64_t kSmallAnswerBytes = uint64_t{1} << 20;

  // Calls `wake` from any of its threads when a job is done. Throws std::system_error if the system gives no thread.
  AnswerQueue(Service* service, const ServerOptions& options, std::function<void()> wake);
  ~AnswerQueue();  // waits for jobs that are being computed

  void Add(std::unique_ptr<AnswerJob> job);
  // Removes the job of a client, if it has not begun.
  void Remove(uint64_t client);
  // Whether there is such a job.
  bool IsWaiting(uint64_t client) const;
  std::vector<std::unique_ptr<AnswerJob>> ConsumeDone();
  void Release(uint64_t charged_bytes);
  // True if a job waits for memory that other answers keep.
  bool IsShortOfMemory() const;

 private:
  void Work();
  // The next job that may begin; null if none may. Requires: mutex_ is held.
  std::unique_ptr<AnswerJob> ConsumeNext();
  bool MayBegin(const AnswerJob& job) const;
  void Compute(AnswerJob* job) const;
  void Stop();

  // After an exception. What it says is for the server alone. Made in advance, since memory may have run out.
  const absl::Status failed_ = absl::ResourceExhaustedError("the server failed to compute the answer");
  Service* const service_;
  const ServerOptions options_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::deque<std::unique_ptr<AnswerJob>> waiting_;
  std::vector<std::unique_ptr<AnswerJob>> done_;
  uint64_t charged_bytes_ = 0;  // the size of large answers
  int num_large_ = 0;           // that are being computed
  std::vector<std::thread> threads_;
};

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_ANSWER_QUEUE_H_
