#include "tensorcask/serialize/exchange/internal/frame_receiver.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::exchange {

absl::StatusOr<bool> FrameReceiver::WaitForFrame(Deadline deadline) {
  if (begin_ < end_) return true;
  begin_ = end_ = 0;
  CASK_ASSIGN_OR_RETURN(
      end_, transport_->ReceiveSome(absl::MakeSpan(buffer_), transport_->max_descriptors(), &descriptors_, deadline));
  return end_ > 0;
}

absl::Status FrameReceiver::Receive(ReceivedFrame* frame, Deadline deadline) {
  *frame = {};
  absl::Status status = ReceivePending(deadline);
  if (absl::IsDeadlineExceeded(status)) return status;
  has_header_ = false;
  filled_bytes_ = 0;
  if (status.ok()) {
    *frame = std::move(pending_);
  } else {
    descriptors_.clear();
  }
  pending_ = {};
  return status;
}

absl::Status FrameReceiver::ReceivePending(Deadline deadline) {
  if (!has_header_) {
    CASK_RETURN_IF_ERROR(FillBuffer(kFrameHeaderBytes, deadline));
    CASK_ANNOTATE_IF_ERROR(ConsumeHeader(), transport_->name());
  }
  const uint64_t bytes = pending_.header.body_bytes + pending_.header.inline_bytes;
  CASK_RETURN_IF_ERROR(bytes <= kBufferBytes ? ReceiveSmall(static_cast<size_t>(bytes), deadline)
                                             : ReceiveLarge(bytes, deadline));
  if (Crc32c(pending_.body) != pending_.header.body_crc32c) {
    return absl::DataLossError(absl::StrCat(transport_->name(), ": the body of a frame has a wrong checksum"));
  }
  return absl::OkStatus();
}

absl::Status FrameReceiver::ConsumeHeader() {
  CASK_ASSIGN_OR_RETURN(const FrameHeader header, DecodeFrameHeader(buffered().substr(0, kFrameHeaderBytes)));
  CASK_RETURN_IF_ERROR(CheckHeader(header));
  const size_t count = std::min<size_t>(header.num_descriptors, descriptors_.size());
  pending_.descriptors.reserve(count);
  // From here until the header is consumed nothing can fail.
  const auto end = descriptors_.begin() + static_cast<ptrdiff_t>(count);
  pending_.descriptors.assign(std::move_iterator(descriptors_.begin()), std::move_iterator(end));
  descriptors_.erase(descriptors_.begin(), end);
  pending_.header = header;
  has_header_ = true;
  begin_ += kFrameHeaderBytes;
  ++next_sequence_;
  return CheckDescriptors(header.body_bytes + header.inline_bytes);
}

absl::Status FrameReceiver::CheckHeader(const FrameHeader& header) const {
  if (header.sequence != next_sequence_) {
    return absl::DataLossError(absl::StrCat("frame ", header.sequence, " came instead of ", next_sequence_,
                                            ": frames were lost, or one came twice"));
  }
  if ((header.type == FrameType::kHello) != (header.sequence == 0)) {
    return absl::InvalidArgumentError(header.sequence == 0 ? "the first frame is not a hello" : "a second hello came");
  }
  const bool is_message = header.type == FrameType::kMessage || header.type == FrameType::kReply;
  if (is_message &&
      (header.body_bytes > max_message_bytes_ || header.inline_bytes > max_message_bytes_ - header.body_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("a message has ", header.body_bytes, " + ", header.inline_bytes,
                                                     " bytes; the limit max_message_bytes is ", max_message_bytes_));
  }
  return absl::OkStatus();
}

absl::Status FrameReceiver::CheckDescriptors(uint64_t bytes_to_come) const {
  const bool another_has_begun = buffered().size() > bytes_to_come;
  const size_t left = another_has_begun ? 0 : descriptors_.size();
  const uint32_t wanted = pending_.header.num_descriptors;
  if (pending_.descriptors.size() == wanted && left == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a frame came with ", pending_.descriptors.size() + left, " descriptors; its header says ", wanted));
}

absl::Status FrameReceiver::ReceiveSmall(size_t bytes, Deadline deadline) {
  if (buffered().size() < bytes) {
    CASK_RETURN_IF_ERROR(FillBuffer(bytes, deadline));
    CASK_ANNOTATE_IF_ERROR(CheckDescriptors(bytes), transport_->name());
  }
  pending_.body = buffered().substr(0, static_cast<size_t>(pending_.header.body_bytes));
  const absl::string_view inline_data = buffered().substr(pending_.body.size(), bytes - pending_.body.size());
  if (!inline_data.empty()) {
    CASK_ASSIGN_OR_RETURN(pending_.memory, Allocate(inline_data.size()));
    std::memcpy(pending_.memory->mutable_data(), inline_data.data(), inline_data.size());
    pending_.inline_data = pending_.memory->bytes();
  }
  begin_ += bytes;
  return absl::OkStatus();
}

// Body and inline data in one allocation, in which the inline data begins where elements may lie.
absl::Status FrameReceiver::ReceiveLarge(uint64_t bytes, Deadline deadline) {
  const uint64_t body_bytes = pending_.header.body_bytes;
  const uint64_t lead_bytes = (kInlineAlignment - body_bytes % kInlineAlignment) % kInlineAlignment;
  const uint64_t total = lead_bytes + bytes;
  while (filled_bytes_ < total) {
    const uint64_t capacity = pending_.memory == nullptr ? 0 : pending_.memory->size_bytes();
    if (filled_bytes_ == capacity) {
      CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> memory,
                            Allocate(std::min(total, std::max(kFirstBytes, kGrowth * capacity))));
      char* const begin = static_cast<char*>(memory->mutable_data());
      if (capacity == 0) {
        std::memset(begin, 0, lead_bytes);
        std::memcpy(begin + lead_bytes, buffered().data(), buffered().size());
        filled_bytes_ = lead_bytes + buffered().size();
        begin_ = end_;
      } else {
        std::memcpy(begin, pending_.memory->data(), filled_bytes_);
      }
      pending_.memory = std::move(memory);
      continue;
    }
    char* const end = static_cast<char*>(pending_.memory->mutable_data()) + filled_bytes_;
    CASK_ASSIGN_OR_RETURN(const size_t received,
                          ReceiveSome({end, static_cast<size_t>(capacity - filled_bytes_)}, filled_bytes_ - lead_bytes,
                                      bytes, /*max_descriptors=*/0, deadline));
    filled_bytes_ += received;
  }
  const absl::string_view all = pending_.memory->bytes();
  pending_.body = all.substr(lead_bytes, body_bytes);
  pending_.inline_data = all.substr(lead_bytes + body_bytes);
  return absl::OkStatus();
}

absl::StatusOr<RefPtr<TensorBuffer>> FrameReceiver::Allocate(uint64_t bytes) const {
  CASK_ASSIGN_OR_ANNOTATE(RefPtr<TensorBuffer> memory, TensorBuffer::Allocate(static_cast<size_t>(bytes), allocator_),
                          transport_->name());
  if (const absl::Status writable = memory->EnsureMutable(); !writable.ok())
    return Annotate(writable, transport_->name());
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
  if (received.ok()) return absl::UnavailableError(absl::StrCat(transport_->name(), ": closed", progress));
  return AppendToMessage(received.status(), progress);
}

}  // namespace tensorcask::exchange
