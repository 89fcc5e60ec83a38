// The streams of a server: how many there are, which of them wait for a slow client, and their end when it drains.
//
//   auto stream = std::make_unique<PullStream>(...);                  // an OpenStream
//   const absl::Status accepted = streams.Accept(stream.get());       // ResourceExhausted past max_streams
//   if (!accepted.ok()) return new RefusedStream<...>(accepted);
//   ...
//   streams.Remove(this);                                             // in OnDone, before it deletes itself

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_OPEN_STREAMS_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_OPEN_STREAMS_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask::rpc {

// A stream of any kind that a server has. OpenStreams calls all functions while it is locked.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // Whether the stream has waited for its client for longer than `limit`.
  virtual bool IsSlow(std::chrono::steady_clock::time_point now, absl::Duration limit) const = 0;
  virtual void End() = 0;                                  // it is slow
  virtual void Offer(const TensorVersion& /*version*/) {}  // there is a new version
  virtual void EndForDrain() {}                            // a stream that does not end by itself ends now
};

// Since when a stream waits for its client.
class WaitClock {
 public:
  void Begin() { began_ns_ = std::max<int64_t>(1, std::chrono::steady_clock::now().time_since_epoch().count()); }
  void Stop() { began_ns_ = 0; }
  bool IsPast(std::chrono::steady_clock::time_point now, absl::Duration limit) const {
    const int64_t began = began_ns_;
    return began != 0 && now.time_since_epoch().count() - began > absl::ToInt64Nanoseconds(limit);
  }

 private:
  std::atomic<int64_t> began_ns_{0};  // 0: it does not wait
};

// For a stream that is refused. Base is its reactor.
template <typename Base>
class RefusedStream final : public Base {
 public:
  explicit RefusedStream(const absl::Status& status) { this->Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

// Thread-safe.
class OpenStreams {
 public:
  // Ends streams that are slower than `slow_client`, in a thread of its own.
  OpenStreams(int max_streams, absl::Duration slow_client);
  // Requires: all streams have been removed.
  ~OpenStreams();

  // After OK, the stream is one of those that are open until Remove.
  // Errors: those of CheckAccepting; ResourceExhausted past max_streams.
  absl::Status Accept(OpenStream* stream);
  void Remove(OpenStream* stream);
  void OfferToAll(const TensorVersion& version);

  // Errors: Unavailable after Drain.
  absl::Status CheckAccepting() const;
  // Ends what does not end by itself, and waits until all streams have ended, or the deadline.
  void Drain(Deadline deadline);

  struct Counts {
    int open = 0;
    uint64_t accepted = 0;
    uint64_t refused = 0;
    uint64_t slow = 0;  // that were ended for it
  };
  Counts counts() const;

 private:
  void EndSlowStreams();
  // Each stream that is open when its turn comes. Requires: mutex_ is locked.
  void ForEach(const std::function<void(OpenStream*)>& act);

  const int max_streams_;
  const absl::Duration slow_client_;
  std::atomic<bool> draining_{false};
  // Recursive: ending a stream may run its OnDone at once, in the same thread.
  mutable std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  std::set<OpenStream*> streams_;
  Counts counts_;  // but for `open`
  bool ends_ = false;
  std::thread watch_;
};

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_OPEN_STREAMS_H_
