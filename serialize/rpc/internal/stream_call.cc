#include "tensorcask/serialize/rpc/internal/stream_call.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/rpc/internal/remote_address.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::rpc {
namespace {

constexpr absl::Duration kAskEvery = absl::Milliseconds(50);

}  // namespace

StreamCall::StreamCall(Stub* stub, const char* method, absl::Duration timeout, absl::Duration stall,
                       const char* stalled, std::function<bool()> keep_going)
    : stall_(stall), stalled_(stalled), keep_going_(std::move(keep_going)) {
  if (timeout < kNeverWaits) context_.set_deadline(TimePoint(timeout));
  stream_ = stub->PrepareCall(&context_, method, &queue_);
}

StreamCall::~StreamCall() {
  EndOperation();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) continue;
}

void StreamCall::EndOperation() {
  if (!under_way_) return;
  context_.TryCancel();
  void* tag = nullptr;
  bool ok = false;
  queue_.Next(&tag, &ok);
  under_way_ = false;
}

absl::StatusOr<bool> StreamCall::Start() {
  stream_->StartCall(this);
  return Step();
}

absl::StatusOr<bool> StreamCall::Write(const grpc::ByteBuffer& message) {
  stream_->Write(message, this);
  return Step();
}

absl::StatusOr<bool> StreamCall::WriteLast(const grpc::ByteBuffer& message) {
  stream_->WriteLast(message, grpc::WriteOptions(), this);
  return Step();
}

absl::StatusOr<bool> StreamCall::WritesDone() {
  stream_->WritesDone(this);
  return Step();
}

void StreamCall::StartRead(grpc::ByteBuffer* message) {
  under_way_ = true;
  stream_->Read(message, this);
}

absl::StatusOr<bool> StreamCall::Read(grpc::ByteBuffer* message) {
  StartRead(message);
  return Wait();
}

absl::StatusOr<grpc::Status> StreamCall::Finish() {
  grpc::Status status;
  stream_->Finish(&status, this);
  CASK_RETURN_IF_ERROR(Step().status());
  return status;
}

absl::StatusOr<bool> StreamCall::Step() {
  under_way_ = true;
  return Wait();
}

absl::StatusOr<bool> StreamCall::Wait() {
  // gRPC writes to memory of the caller until the operation has ended, also after an error and an exception here.
  struct Guard {
    StreamCall* const call;
    ~Guard() { call->EndOperation(); }
  } guard = {this};
  void* tag = nullptr;
  bool ok = false;
  const Deadline deadline(stall_);
  while (true) {
    if (keep_going_ != nullptr && !keep_going_()) return StoppedByCaller();
    const absl::Duration left = deadline.remaining();
    const absl::Duration wait = keep_going_ != nullptr ? std::min(left, kAskEvery) : left;
    const grpc::CompletionQueue::NextStatus waited = queue_.AsyncNext(&tag, &ok, TimePoint(wait));
    if (waited != grpc::CompletionQueue::TIMEOUT) {
      under_way_ = false;
      return waited == grpc::CompletionQueue::GOT_EVENT && ok;
    }
    if (wait == left) return absl::DeadlineExceededError(absl::StrCat(stalled_, " for ", absl::FormatDuration(stall_)));
  }
}

absl::Status WaitToRetry(grpc::Channel* channel, absl::Duration wait, const std::function<bool()>& keep_going) {
  const Deadline deadline(wait);
  // gRPC makes a connection only while a thread waits for it.
  const bool was_connected = channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
  while (deadline.remaining() > absl::ZeroDuration()) {
    const absl::Duration left = deadline.remaining();
    const absl::Duration step = keep_going != nullptr ? std::min(left, kAskEvery) : left;
    if (was_connected) {
      std::this_thread::sleep_for(absl::ToChronoMicroseconds(step));
    } else if (channel->WaitForConnected(TimePoint(step))) {
      return absl::OkStatus();
    }
    if (keep_going != nullptr && !keep_going()) return StoppedByCaller();
  }
  return absl::OkStatus();
}

absl::Status StoppedByCaller() { return absl::CancelledError("the caller stopped the call"); }

}  // namespace tensorcask::rpc
