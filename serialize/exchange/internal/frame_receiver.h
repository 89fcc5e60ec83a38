// Receives the frames of one direction from a transport: a small frame together with what follows it in one system
// call, a large frame straight into memory of its own. Internal to this room.
//
//   FrameReceiver frames(transport, max_message_bytes, allocator);
//   CASK_ASSIGN_OR_RETURN(const bool more, frames.WaitForFrame(deadline));   // false: the direction has ended
//   ReceivedFrame frame;
//   CASK_RETURN_IF_ERROR(frames.Receive(&frame, deadline));
//
// The checks are those of FORMAT.md section 2. Memory grows with the bytes that arrive, not with what a header claims.
//
// recvmsg does not report which of the bytes it returned the descriptors arrived with. So descriptors wait in a queue:
// a frame consumes as many as its header says from the front, and they must be there when the header is. At the end of
// a frame none may be left, unless another frame began in the same bytes and can claim them.
//
// After an exception (no memory) every call can be repeated.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_FRAME_RECEIVER_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_FRAME_RECEIVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/received_frame.h"
#include "tensorcask/serialize/exchange/transport.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::exchange {

class FrameReceiver {
 public:
  // `transport` must outlive this.
  // Frames are in memory of the host, even if `allocator` gives memory of a device.
  FrameReceiver(Transport* transport, uint64_t max_message_bytes, RefPtr<Allocator> allocator)
      : transport_(transport),
        max_message_bytes_(max_message_bytes),
        allocator_(allocator->device_memory() == nullptr ? std::move(allocator) : CpuAllocator::Default()) {}

  // True when a frame has begun; false when the other side has ended and all that it sent was received. After
  // DeadlineExceeded it can be called again. Other errors: the transport's.
  absl::StatusOr<bool> WaitForFrame(Deadline deadline);

  // The frame that has begun. After DeadlineExceeded it can be called again and continues where it stopped. Other
  // errors name the peer and close the descriptors, and no call may follow: those of the transport and of
  // DecodeFrameHeader; Unavailable for a frame that was cut off; DataLoss for a wrong sequence number or a wrong
  // checksum of the body; InvalidArgument for more or fewer descriptors than the header says; ResourceExhausted past
  // the limit and without memory.
  absl::Status Receive(ReceivedFrame* frame, Deadline deadline);

  // Descriptors that have been received and belong to no frame that Receive has returned.
  size_t num_descriptors() const { return descriptors_.size() + pending_.descriptors.size(); }

 private:
  // A frame of at most this size is assembled in the buffer.
  static constexpr size_t kBufferBytes = size_t{16} << 10;
  // A larger frame gets at most this much memory for its claim alone; the memory grows fourfold whenever it is full.
  static constexpr uint64_t kFirstBytes = uint64_t{1} << 20;
  static constexpr uint64_t kGrowth = 4;

  absl::string_view buffered() const { return {buffer_.data() + begin_, end_ - begin_}; }

  // Fills pending_.
  absl::Status ReceivePending(Deadline deadline);
  absl::Status ConsumeHeader();
  absl::Status CheckHeader(const FrameHeader& header) const;
  absl::Status CheckDescriptors(uint64_t bytes_to_come) const;
  // The `bytes` of body and inline data.
  absl::Status ReceiveSmall(size_t bytes, Deadline deadline);
  absl::Status ReceiveLarge(uint64_t bytes, Deadline deadline);
  absl::StatusOr<RefPtr<TensorBuffer>> Allocate(uint64_t bytes) const;

  // Receives until the buffer holds `bytes`. Requires: bytes <= kBufferBytes.
  absl::Status FillBuffer(size_t bytes, Deadline deadline);
  // Receives some bytes of a frame of which `done` of `total` bytes have been received.
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, uint64_t done, uint64_t total, size_t max_descriptors,
                                     Deadline deadline);

  Transport* const transport_;
  const uint64_t max_message_bytes_;
  const RefPtr<Allocator> allocator_;
  uint64_t next_sequence_ = 0;
  std::array<char, kBufferBytes> buffer_;  // bytes [begin_, end_) have been received and not consumed
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<ScopedDescriptor> descriptors_;  // have been received and not consumed

  // The frame that is being received.
  ReceivedFrame pending_;
  bool has_header_ = false;
  uint64_t filled_bytes_ = 0;  // how much of pending_.memory is filled, if the frame is large
};

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_FRAME_RECEIVER_H_
