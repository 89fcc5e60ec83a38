#include "tensorcask/serialize/rpc/internal/watch_stream.h"

#include <chrono>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/internal/list_page.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::rpc {
namespace {

// Writes the newest version that it knows whenever the client has taken the one before.
class WatchStream final : public grpc::ServerWriteReactor<v1::Version>, public OpenStream {
 public:
  WatchStream(OpenStreams* streams, const TensorVersion& known) : streams_(streams), written_(known), newest_(known) {}

  void Offer(const TensorVersion& version) override {
    Step([&] { newest_ = version; });
  }
  void Refuse(const absl::Status& status) {
    Step([&] { SetEnd(status); });
  }
  void EndForDrain() override {
    Step([&] { SetEnd(absl::UnavailableError("the server is draining")); });
  }
  bool IsSlow(std::chrono::steady_clock::time_point now, absl::Duration limit) const override {
    return clock_.IsPast(now, limit);
  }
  void End() override {
    Step([&] { SetEnd(absl::DeadlineExceededError("the client takes nothing")); });
  }

  void OnWriteDone(bool ok) override {
    clock_.Stop();
    Step([&] {
      writing_ = false;
      if (!ok) SetEnd(absl::CancelledError("the client has gone"));
    });
  }
  void OnCancel() override {
    Step([&] { SetEnd(absl::CancelledError("the client has gone")); });
  }
  void OnDone() override {
    streams_->Remove(this);
    delete this;
  }

 private:
  void SetEnd(const absl::Status& status) {
    if (!ends_) status_ = status;
    ends_ = true;
  }

  // Changes the state, and does what follows from it: writes or finishes, once and outside the lock.
  template <typename Change>
  void Step(const Change& change) {
    bool writes = false;
    bool finishes = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      change();
      if (!writing_ && ends_ && !finished_) finishes = finished_ = true;
      if (!writing_ && !ends_ && newest_ != written_) writes = writing_ = true;
      if (writes) {
        written_ = newest_;
        SetVersion(written_, &message_);
      }
    }
    if (finishes) {
      Finish(ToGrpc(status_));
    } else if (writes) {
      clock_.Begin();
      StartWrite(&message_);
    }
  }

  OpenStreams* const streams_;
  std::mutex mutex_;
  TensorVersion written_;
  TensorVersion newest_;
  bool writing_ = false;
  bool ends_ = false;
  bool finished_ = false;
  absl::Status status_;
  v1::Version message_;
  WaitClock clock_;
};

}  // namespace

grpc::ServerWriteReactor<v1::Version>* ServeWatch(TensorSource* source, OpenStreams* streams,
                                                  const v1::WatchRequest& request) {
  const TensorVersion known = {request.version().step(), request.version().id()};
  auto stream = std::make_unique<WatchStream>(streams, known);
  const absl::Status accepted = streams->Accept(stream.get());
  if (!accepted.ok()) return new RefusedStream<grpc::ServerWriteReactor<v1::Version>>(accepted);
  // A version that comes between Accept and here has been offered already, and Current returns it or a newer one.
  TensorVersion version;
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(const TensorSnapshot current, source->Current());
    version = current.version;
    return absl::OkStatus();
  });
  if (status.ok()) {
    stream->Offer(version);
  } else if (absl::IsFailedPrecondition(status)) {
    stream->Refuse(status);
  }
  return stream.release();  // OnDone deletes it
}

}  // namespace tensorcask::rpc
