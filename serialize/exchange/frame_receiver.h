// Takes the frames of one direction from a transport: a small one with what comes behind it in one call of the system,
// a large one straight into memory of its own. Internal to this room.
//
//   FrameReceiver frames(transport, max_message_bytes, allocator);
//   CASK_ASSIGN_OR_RETURN(const bool more, frames.WaitForFrame(deadline));   // false: the direction has ended
//   ReceivedFrame frame;
//   CASK_RETURN_IF_ERROR(frames.Receive(&frame, deadline));
//
// What comes is checked as FORMAT.md section 2 says; memory follows the bytes that arrive, not what a head claims.
//
// Of bytes that were taken together nobody knows which of them brought the descriptors. So these wait in a row: a frame
// takes as many as its head says from the front, and must find them there when its head is; none may be left that no
// other frame, begun in the same bytes, can claim.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_FRAME_RECEIVER_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_FRAME_RECEIVER_H_

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
#include "tensorcask/serialize/exchange/frame.h"
#include "tensorcask/serialize/exchange/received_frame.h"
#include "tensorcask/serialize/exchange/scoped_descriptor.h"
#include "tensorcask/serialize/exchange/transport.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::exchange {

class FrameReceiver {
 public:
  // `transport` must outlive this.
  FrameReceiver(Transport* transport, uint64_t max_message_bytes, RefPtr<Allocator> allocator)
      : transport_(transport), max_message_bytes_(max_message_bytes), allocator_(std::move(allocator)) {}

  // True when a frame has begun; false when the other side has ended and all that it sent was received. After
  // DeadlineExceeded it can be called again. Other errors: the transport's.
  absl::StatusOr<bool> WaitForFrame(Deadline deadline);

  // The frame that has begun. On an error, which names the peer, its descriptors are closed, and the stream has lost
  // its place: the transport's; those of DecodeFrameHead; Unavailable for a frame that was cut off; DataLoss for
  // another sequence than the next and a wrong checksum of the body; InvalidArgument for other descriptors than the
  // head says; ResourceExhausted past the limit and without memory.
  absl::Status Receive(ReceivedFrame* frame, Deadline deadline);

 private:
  // A frame of up to so many bytes is put together in the buffer.
  static constexpr size_t kBufferBytes = size_t{16} << 10;
  // A larger one may claim this much memory and get it at once; beyond, it grows fourfold whenever it is full.
  static constexpr uint64_t kFirstBytes = uint64_t{1} << 20;
  static constexpr uint64_t kGrowth = 4;

  absl::string_view buffered() const { return {buffer_.data() + begin_, end_ - begin_}; }

  absl::Status Named(const absl::Status& status) const;
  absl::Status ReceiveInto(ReceivedFrame* frame, Deadline deadline);
  absl::Status TakeHead(ReceivedFrame* frame);
  absl::Status CheckHead(const FrameHead& head) const;
  absl::Status CheckDescriptors(const ReceivedFrame& frame, uint64_t bytes_to_come) const;
  // The `bytes` of body and inline data.
  absl::Status ReceiveSmall(ReceivedFrame* frame, size_t bytes, Deadline deadline);
  absl::Status ReceiveLarge(ReceivedFrame* frame, uint64_t bytes, Deadline deadline);
  absl::StatusOr<RefPtr<TensorBuffer>> Allocate(uint64_t bytes) const;

  // Has `bytes`, at most kBufferBytes, in the buffer.
  absl::Status FillBuffer(size_t bytes, Deadline deadline);
  // Some bytes of a frame, of which `done` of `total` are here.
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, uint64_t done, uint64_t total, size_t max_descriptors,
                                     Deadline deadline);

  Transport* const transport_;
  const uint64_t max_message_bytes_;
  const RefPtr<Allocator> allocator_;
  uint64_t next_sequence_ = 0;
  std::array<char, kBufferBytes> buffer_;  // bytes [begin_, end_) have come and are still to be used
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<ScopedDescriptor> descriptors_;  // as well
};

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_FRAME_RECEIVER_H_
