#include "tensorcask/serialize/rpc/internal/stream_call.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/rpc/internal/remote_address.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::rpc {

StreamCall::StreamCall(Stub* stub, const char* method, absl::Duration timeout, absl::Duration stall,
                       const char* stalled)
    : stall_(stall), stalled_(stalled) {
  if (timeout < kNeverWaits) context_.set_deadline(TimePoint(timeout));
  stream_ = stub->PrepareCall(&context_, method, &queue_);
}

StreamCall::~StreamCall() {
  void* tag = nullptr;
  bool ok = false;
  if (under_way_) {
    context_.TryCancel();
    queue_.Next(&tag, &ok);
  }
  queue_.Shutdown();
  while (queue_.Next(&tag, &ok)) continue;
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

absl::StatusOr<bool> StreamCall::Read(grpc::ByteBuffer* message) {
  stream_->Read(message, this);
  return Step();
}

absl::StatusOr<grpc::Status> StreamCall::Finish() {
  grpc::Status status;
  stream_->Finish(&status, this);
  CASK_RETURN_IF_ERROR(Step().status());
  return status;
}

absl::StatusOr<bool> StreamCall::Step() {
  under_way_ = true;
  void* tag = nullptr;
  bool ok = false;
  const grpc::CompletionQueue::NextStatus waited = queue_.AsyncNext(&tag, &ok, TimePoint(stall_));
  if (waited == grpc::CompletionQueue::TIMEOUT) {
    return absl::DeadlineExceededError(absl::StrCat(stalled_, " for ", absl::FormatDuration(stall_)));
  }
  under_way_ = false;
  return waited == grpc::CompletionQueue::GOT_EVENT && ok;
}

}  // namespace tensorcask::rpc
