// The headers and bodies of a channel's frames (FORMAT.md sections 2 to 4): bytes to structs and back. Nothing here
// waits, maps memory or decodes elements.
//
//   header (44 bytes) | body | inline data          and, with the first byte, file descriptors
//
// Internal to this room; channel.h is the door.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_FRAME_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::exchange {

inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 44;
inline constexpr uint32_t kMaxDescriptors = 253;  // the most that Linux passes at once
inline constexpr size_t kMaxTensors = 65536;      // in one message
inline constexpr size_t kInlineAlignment = 64;    // for elements in the inline data, counted from its start

enum class FrameType : uint8_t {
  kHello = 1,    // the first frame of each direction, and only that
  kMessage = 2,  // a Message
  kReply = 3,    // a Message that answers one
  kGoodbye = 4,  // the last frame of a direction
};

struct FrameHeader {
  FrameType type = FrameType::kHello;
  uint64_t sequence = 0;  // the number of the frame in its direction; the hello is 0
  uint64_t body_bytes = 0;
  uint64_t inline_bytes = 0;
  uint32_t num_descriptors = 0;
  uint32_t body_crc32c = 0;
};

std::array<char, kFrameHeaderBytes> EncodeFrameHeader(const FrameHeader& header);

// Requires: bytes.size() is kFrameHeaderBytes.
// Errors: InvalidArgument for another magic, version 0 and sizes that a frame of its type cannot have; Unimplemented
// for a newer version, unknown types and unknown flags; DataLoss for a wrong checksum.
absl::StatusOr<FrameHeader> DecodeFrameHeader(absl::string_view bytes);

// The first frame of each side, about itself.
struct Hello {
  uint32_t min_version = kVersion;  // the oldest and the newest version that it reads
  uint32_t max_version = kVersion;
  uint64_t max_message_bytes = 0;  // it refuses larger messages
};

std::string EncodeHello(const Hello& hello);
// Errors: InvalidArgument; Unimplemented if the other side does not read our version.
absl::StatusOr<Hello> DecodeHello(absl::string_view body);

// Where one tensor of a message is: in the inline data, as a TensorProto, or in a memory file whose descriptor came
// with the frame.
struct TensorEntry {
  uint64_t padding_bytes = 0;  // inline: skipped in front of the message
  uint64_t message_bytes = 0;  // inline: of the TensorProto

  uint32_t block = 0;  // number of the descriptor, from 1; 0: the tensor is inline, and what follows is not used
  DType dtype = DType::kInvalid;
  TensorShape shape;
  uint64_t offset_bytes = 0;  // in the file: where the lowest of its elements begins
  uint64_t size_bytes = 0;    // to the end of the highest
  std::string extension;      // a TensorExtension (serialize/wire/FORMAT.md section 3)

  bool is_inline() const { return block == 0; }
};

// `status`, which says that it concerns this tensor of a message.
inline absl::Status InTensor(size_t index, const absl::Status& status) {
  return Annotate(status, absl::StrCat("tensor ", index));
}

struct MessageBody {
  std::string topic;
  uint64_t request = 0;
  absl::Status status;  // without payloads
  std::vector<TensorEntry> tensors;
};

std::string EncodeBody(const MessageBody& body);
// Does not compare ranges and blocks with the inline data and descriptors of the frame.
// Errors: InvalidArgument; Unimplemented for a dtype that this build does not know; ResourceExhausted for more than
// kMaxTensors.
absl::StatusOr<MessageBody> DecodeBody(absl::string_view bytes);

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_FRAME_H_
