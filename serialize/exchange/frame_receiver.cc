#include "tensorcask/serialize/exchange/frame_receiver.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::exchange {

absl::StatusOr<bool> FrameReceiver::WaitForFrame(Deadline deadline) {
  if (begin_ < end_) return true;
  begin_ = end_ = 0;
  CASK_ASSIGN_OR_RETURN(
      end_, transport_->ReceiveSome(absl::MakeSpan(buffer_), transport_->max_descriptors(), &descriptors_, deadline));
  return end_ > 0;
}

absl::Status FrameReceiver::Receive(ReceivedFrame* frame, Deadline deadline) {
  absl::Status status = ReceiveInto(frame, deadline);
  if (!status.ok()) {
    descriptors_.clear();
    *frame = {};
  }
  return status;
}

absl::Status FrameReceiver::ReceiveInto(ReceivedFrame* frame, Deadline deadline) {
  CASK_RETURN_IF_ERROR(FillBuffer(kFrameHeadBytes, deadline));
  CASK_RETURN_IF_ERROR(Named(TakeHead(frame)));
  const uint64_t bytes = frame->head.body_bytes + frame->head.inline_bytes;
  CASK_RETURN_IF_ERROR(bytes <= kBufferBytes ? ReceiveSmall(frame, static_cast<size_t>(bytes), deadline)
                                             : ReceiveLarge(frame, bytes, deadline));
  if (Crc32c(frame->body) != frame->head.body_crc32c) {
    return Named(absl::DataLossError("the body of a frame has a wrong checksum"));
  }
  return absl::OkStatus();
}

absl::Status FrameReceiver::Named(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(transport_->name(), ": ", status.message()));
}

absl::Status FrameReceiver::TakeHead(ReceivedFrame* frame) {
  CASK_ASSIGN_OR_RETURN(frame->head, DecodeFrameHead(buffered().substr(0, kFrameHeadBytes)));
  CASK_RETURN_IF_ERROR(CheckHead(frame->head));
  begin_ += kFrameHeadBytes;
  ++next_sequence_;
  const auto end = descriptors_.begin() + std::min<ptrdiff_t>(frame->head.num_descriptors, descriptors_.size());
  frame->descriptors.assign(std::move_iterator(descriptors_.begin()), std::move_iterator(end));
  descriptors_.erase(descriptors_.begin(), end);
  return CheckDescriptors(*frame, frame->head.body_bytes + frame->head.inline_bytes);
}

absl::Status FrameReceiver::CheckHead(const FrameHead& head) const {
  if (head.sequence != next_sequence_) {
    return absl::DataLossError(absl::StrCat("frame ", head.sequence, " came where ", next_sequence_,
                                            " was due: frames were lost, or one came twice"));
  }
  if ((head.type == FrameType::kHello) != (head.sequence == 0)) {
    return absl::InvalidArgumentError(head.sequence == 0 ? "the first frame is no hello" : "a second hello came");
  }
  const bool is_message = head.type == FrameType::kMessage || head.type == FrameType::kReply;
  if (is_message &&
      (head.body_bytes > max_message_bytes_ || head.inline_bytes > max_message_bytes_ - head.body_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("a message has ", head.body_bytes, " + ", head.inline_bytes,
                                                     " bytes; the limit max_message_bytes is ", max_message_bytes_));
  }
  return absl::OkStatus();
}

absl::Status FrameReceiver::CheckDescriptors(const ReceivedFrame& frame, uint64_t bytes_to_come) const {
  const bool another_has_begun = buffered().size() > bytes_to_come;
  const size_t left = another_has_begun ? 0 : descriptors_.size();
  if (frame.descriptors.size() == frame.head.num_descriptors && left == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a frame came with ", frame.descriptors.size() + left,
                                                 " descriptors and says that it has ", frame.head.num_descriptors));
}

absl::Status FrameReceiver::ReceiveSmall(ReceivedFrame* frame, size_t bytes, Deadline deadline) {
  if (buffered().size() < bytes) {
    CASK_RETURN_IF_ERROR(FillBuffer(bytes, deadline));
    CASK_RETURN_IF_ERROR(Named(CheckDescriptors(*frame, bytes)));
  }
  frame->body = buffered().substr(0, static_cast<size_t>(frame->head.body_bytes));
  const absl::string_view inline_data = buffered().substr(frame->body.size(), bytes - frame->body.size());
  begin_ += bytes;
  if (inline_data.empty()) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(frame->memory, Allocate(inline_data.size()));
  std::memcpy(frame->memory->mutable_data(), inline_data.data(), inline_data.size());
  frame->inline_data = frame->memory->bytes();
  return absl::OkStatus();
}

// Body and inline data in one piece of memory, in which the latter begin where elements may lie.
absl::Status FrameReceiver::ReceiveLarge(ReceivedFrame* frame, uint64_t bytes, Deadline deadline) {
  const uint64_t body_bytes = frame->head.body_bytes;
  const uint64_t lead_bytes = (kInlineAlignment - body_bytes % kInlineAlignment) % kInlineAlignment;
  const uint64_t total = lead_bytes + bytes;
  uint64_t filled = 0;
  for (uint64_t capacity = std::min(total, kFirstBytes);; capacity = std::min(total, kGrowth * capacity)) {
    CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> memory, Allocate(capacity));
    char* const begin = static_cast<char*>(memory->mutable_data());
    if (filled == 0) {
      std::memset(begin, 0, lead_bytes);
      std::memcpy(begin + lead_bytes, buffered().data(), buffered().size());
      filled = lead_bytes + buffered().size();
      begin_ = end_;
    } else {
      std::memcpy(begin, frame->memory->data(), filled);
    }
    frame->memory = std::move(memory);
    while (filled < capacity) {
      CASK_ASSIGN_OR_RETURN(const size_t received,
                            ReceiveSome({begin + filled, static_cast<size_t>(capacity - filled)}, filled - lead_bytes,
                                        bytes, /*max_descriptors=*/0, deadline));
      filled += received;
    }
    if (filled == total) break;
  }
  const absl::string_view all = frame->memory->bytes();
  frame->body = all.substr(lead_bytes, body_bytes);
  frame->inline_data = all.substr(lead_bytes + body_bytes);
  return absl::OkStatus();
}

absl::StatusOr<RefPtr<TensorBuffer>> FrameReceiver::Allocate(uint64_t bytes) const {
  absl::StatusOr<RefPtr<TensorBuffer>> memory = TensorBuffer::Allocate(static_cast<size_t>(bytes), allocator_);
  if (!memory.ok()) return Named(memory.status());
  return memory;
}

absl::Status FrameReceiver::FillBuffer(size_t bytes, Deadline deadline) {
  if (begin_ + bytes > kBufferBytes) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  while (end_ - begin_ < bytes) {
    CASK_ASSIGN_OR_RETURN(const size_t received, ReceiveSome(absl::MakeSpan(buffer_).subspan(end_), end_ - begin_,
                                                             bytes, transport_->max_descriptors(), deadline));
    end_ += received;
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> FrameReceiver::ReceiveSome(absl::Span<char> out, uint64_t done, uint64_t total,
                                                  size_t max_descriptors, Deadline deadline) {
  absl::StatusOr<size_t> received = transport_->ReceiveSome(out, max_descriptors, &descriptors_, deadline);
  if (received.ok() && *received > 0) return received;
  const std::string progress = absl::StrCat(" after ", done, " of ", total, " bytes");
  if (received.ok()) return Named(absl::UnavailableError(absl::StrCat("closed", progress)));
  return absl::Status(received.status().code(), absl::StrCat(received.status().message(), progress));
}

}  // namespace tensorcask::exchange
