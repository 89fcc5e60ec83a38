// The time until which a call may wait, on a clock that is never set (CLOCK_MONOTONIC).
//
//   const Deadline deadline = absl::Seconds(5);             // from now
//   socket.ReceiveExactly(absl::MakeSpan(header), deadline);
//   socket.ReceiveExactly(absl::MakeSpan(body), deadline);  // both together take at most 5 seconds
//
// A call whose deadline has passed still does what it can do without waiting.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_DEADLINE_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_DEADLINE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <algorithm>
#include <chrono>
#include <climits>

#include "absl/time/time.h"

namespace tensorcask {

class Deadline {
 public:
  // `timeout` from now. A negative timeout means zero; one past the clock's end (292 years) means Never().
  Deadline(absl::Duration timeout) {  // NOLINT(google-explicit-constructor): every wait takes either
    const Clock::time_point now = Clock::now();
    const std::chrono::nanoseconds wait = absl::ToChronoNanoseconds(std::max(timeout, absl::ZeroDuration()));
    if (wait < Clock::time_point::max() - now) at_ = now + wait;
  }
  static Deadline Never() { return {absl::InfiniteDuration()}; }

  bool is_never() const { return at_ == Clock::time_point::max(); }
  // 0 after the deadline.
  absl::Duration remaining() const {
    if (is_never()) return absl::InfiniteDuration();
    return std::max(absl::FromChrono(at_ - Clock::now()), absl::ZeroDuration());
  }
  // For poll(2): -1 for Never(), else milliseconds, rounded up so that the rest never becomes a busy wait. More than 24
  // days become 24 days, so a caller that waits in a loop must ask again.
  int poll_timeout_ms() const {
    if (is_never()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now());
    return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, INT_MAX));
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point at_ = Clock::time_point::max();
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_DEADLINE_H_
