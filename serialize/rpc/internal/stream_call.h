// One call of the service in the thread of the caller, over messages that are not parsed.
//
//   StreamCall call(&stub, kPullMethod, timeout, stall, "the server sent nothing", options.keep_going);
//   CASK_ASSIGN_OR_RETURN(const bool begun, call.Start());
//   while (begun) { ... call.Read(&message) ... }
//   CASK_ASSIGN_OR_RETURN(const grpc::Status status, call.Finish());
//
// Each operation waits for its end. False: the call has ended, and Finish says why. Errors: DeadlineExceeded if an
// operation does not end within `stall`, Cancelled if `keep_going` says so. An error cancels the call, and nothing is
// written to memory of the caller after it; then only the destructor may follow.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_STREAM_CALL_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_STREAM_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tensorcask::rpc {

class StreamCall {
 public:
  using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;

  // `timeout` is that of the whole call, `stall` that of each operation; `stalled` begins the error of one that does
  // not end. `keep_going` is PullOptions::keep_going. `stub` and the texts outlive this.
  StreamCall(Stub* stub, const char* method, absl::Duration timeout, absl::Duration stall, const char* stalled,
             std::function<bool()> keep_going);
  ~StreamCall();
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  absl::StatusOr<bool> Start();
  absl::StatusOr<bool> Write(const grpc::ByteBuffer& message);
  // Write, and nothing is written after it.
  absl::StatusOr<bool> WriteLast(const grpc::ByteBuffer& message);
  absl::StatusOr<bool> WritesDone();
  // One read, in two steps: the next message may come while the caller looks at the one before. After StartRead only
  // FinishRead may follow, or the destructor. `message` outlives that.
  void StartRead(grpc::ByteBuffer* message);
  absl::StatusOr<bool> FinishRead() { return Wait(); }
  absl::StatusOr<bool> Read(grpc::ByteBuffer* message);
  absl::StatusOr<grpc::Status> Finish();

 private:
  absl::StatusOr<bool> Step();
  absl::StatusOr<bool> Wait();
  // Cancels the call and waits for the operation that is under way, if there is one.
  void EndOperation();

  const absl::Duration stall_;
  const char* const stalled_;
  const std::function<bool()> keep_going_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  bool under_way_ = false;  // an operation has been started, and has not ended
};

// Waits before another attempt, less if the channel is connected before, and asks keep_going meanwhile. Errors:
// Cancelled.
absl::Status WaitToRetry(grpc::Channel* channel, absl::Duration wait, const std::function<bool()>& keep_going);
// As that of StreamCall.
absl::Status StoppedByCaller();

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_STREAM_CALL_H_
