#include "tensorcask/serialize/wire/zero_copy.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/device_payload.h"
#include "tensorcask/serialize/wire/message/object_encoder.h"
#include "tensorcask/serialize/wire/message/tensor_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_encoder.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/changing_memory.h"

namespace tensorcask {
namespace {

// Owns the memory of pieces: the bytes written for the message, and the elements.
class Frame final : public RefCounted {
 public:
  Frame(RefPtr<TensorBuffer> bytes, RefPtr<RefCounted> memory) : bytes_(std::move(bytes)), memory_(std::move(memory)) {}

 private:
  const RefPtr<TensorBuffer> bytes_;
  const RefPtr<RefCounted> memory_;
};

class CordOwner final : public RefCounted {
 public:
  explicit CordOwner(absl::Cord cord) : cord_(std::move(cord)) {}
  const absl::Cord& cord() const { return cord_; }

 private:
  const absl::Cord cord_;
};

// ---- Encoding -------------------------------------------------------------------------------------------------------

// True if the data of the message are bytes of a buffer, as for a payload, or can be gathered into one.
bool IsByReference(const internal::MessagePlan& plan) {
  return plan.representation == Representation::kContent && IsFixedSize(plan.data.dtype()) && plan.data_bytes > 0;
}

void AddPiece(absl::string_view piece, MessagePieces* message) {
  if (!piece.empty()) message->pieces.push_back(piece);
}

absl::StatusOr<MessagePieces> WrittenOut(const internal::MessagePlan& plan) {
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> bytes, TensorBuffer::Allocate(plan.total_bytes));
  internal::WriteMessage(plan, {static_cast<char*>(bytes->mutable_data()), plan.total_bytes});
  MessagePieces message;
  AddPiece(bytes->bytes(), &message);
  message.owner = bytes;
  return message;
}

// ---- Decoding -------------------------------------------------------------------------------------------------------

// A message split into its fields.
struct SplitMessage {
  std::string others;                 // all fields except tensor_content, unchanged
  std::optional<absl::Cord> content;  // the last tensor_content
};

class CordSplitter {
 public:
  explicit CordSplitter(const absl::Cord& message) : next_(message.char_begin()), left_(message.size()) {}

  // Returns false for groups, and for bytes that are not a message.
  bool Split(SplitMessage* out) {
    while (left_ > 0) {
      std::string field;  // its tag and length
      uint64_t tag = 0;
      uint64_t value = 0;
      if (!ReadVarint(kMaxTagBytes, &field, &tag) || tag > UINT32_MAX) return false;
      switch (static_cast<WireType>(tag & 7)) {
        case WireType::kVarint:
          if (!ReadVarint(kMaxVarintBytes, &field, &value)) return false;
          out->others += field;
          break;
        case WireType::kFixed64:
        case WireType::kFixed32:
          value = (tag & 7) == static_cast<uint64_t>(WireType::kFixed64) ? 8 : 4;
          if (value > left_) return false;
          out->others += field;
          AppendTo(Consume(value), &out->others);
          break;
        case WireType::kBytes:
          if (!ReadVarint(kMaxLengthBytes, &field, &value) || value > left_) return false;
          if (tag >> 3 == internal::kContentNumber) {
            out->content = Consume(value);
          } else {
            out->others += field;
            AppendTo(Consume(value), &out->others);
          }
          break;
        default:
          return false;
      }
    }
    return true;
  }

 private:
  static constexpr size_t kMaxTagBytes = 5;
  static constexpr size_t kMaxLengthBytes = 5;  // 32 GiB; longer ones are left to WireReader

  bool ReadVarint(size_t max_bytes, std::string* raw, uint64_t* value) {
    const size_t start = raw->size();
    do {
      if (left_ == 0 || raw->size() - start == max_bytes) return false;
      raw->push_back(*next_);
      ++next_;
      --left_;
    } while (static_cast<uint8_t>(raw->back()) >= 0x80);
    absl::string_view varint = absl::string_view(*raw).substr(start);
    return ParseVarint(&varint, value);
  }
  absl::Cord Consume(uint64_t bytes) {
    left_ -= bytes;
    return absl::Cord::AdvanceAndRead(&next_, bytes);
  }
  static void AppendTo(const absl::Cord& cord, std::string* out) {
    for (const absl::string_view chunk : cord.Chunks()) out->append(chunk.data(), chunk.size());
  }

  absl::Cord::CharIterator next_;
  size_t left_;
};

// The content in one piece, and its owner.
struct FlatContent {
  absl::string_view bytes;
  RefPtr<RefCounted> owner;
  bool is_ours = false;  // no other object refers to the memory
};

absl::StatusOr<FlatContent> Flatten(absl::Cord content, const DecodeOptions& options) {
  const internal::DecodeTarget target(options);
  FlatContent flat;
  const RefPtr<CordOwner> owner = MakeRef<CordOwner>(std::move(content));
  if (const absl::optional<absl::string_view> bytes = owner->cord().TryFlat()) {
    flat.bytes = *bytes;
    flat.owner = owner;
    return flat;
  }
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> buffer,
                        TensorBuffer::Allocate(owner->cord().size(), target.on_host().allocator));
  CASK_RETURN_IF_ERROR(buffer->EnsureMutable());
  char* const begin = static_cast<char*>(buffer->mutable_data());
  char* next = begin;
  for (const absl::string_view chunk : owner->cord().Chunks()) {
    std::memcpy(next, chunk.data(), chunk.size());
    next += chunk.size();
  }
  flat.bytes = absl::string_view(begin, owner->cord().size());
  flat.owner = buffer;
  flat.is_ours = true;
  return flat;
}

}  // namespace

absl::StatusOr<MessagePieces> EncodeTensorToPieces(const TensorView& view, const TensorMetadata& metadata,
                                                   const EncodeOptions& options) {
  CASK_ASSIGN_OR_RETURN(const internal::MessagePlan plan, internal::PlanMessage(view, metadata, options));
  if (!IsByReference(plan)) return WrittenOut(plan);
  CASK_ASSIGN_OR_RETURN(TensorView data, plan.data.Contiguous());
  if (plan.extension.checksum) {
    CASK_ASSIGN_OR_RETURN(data, internal::InPrivateMemory(data));
  }
  const size_t header_bytes = plan.header_bytes();
  const size_t tail_bytes = plan.tail_bytes();
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> frame, TensorBuffer::Allocate(header_bytes + tail_bytes));
  char* const begin = static_cast<char*>(frame->mutable_data());
  char* const head_end = internal::WriteHeader(plan, begin);
  CASK_CHECK(head_end == begin + header_bytes, "EncodeTensorToPieces: the header has another size than measured");
  internal::WriteTail(plan, tail_bytes > 0 && plan.extension.checksum ? internal::TensorCrc32c(data) : 0, head_end);
  MessagePieces message;
  AddPiece({begin, header_bytes}, &message);
  AddPiece(data.bytes(), &message);
  AddPiece({head_end, tail_bytes}, &message);
  message.owner = MakeRef<Frame>(frame, data.buffer()->HoldMemory());
  return message;
}

absl::StatusOr<absl::Cord> EncodeTensorToCord(const TensorView& view, const TensorMetadata& metadata,
                                              const EncodeOptions& options) {
  CASK_ASSIGN_OR_RETURN(const MessagePieces message, EncodeTensorToPieces(view, metadata, options));
  absl::Cord cord;
  for (const absl::string_view piece : message.pieces) {
    cord.Append(absl::MakeCordFromExternal(piece, [owner = message.owner] {}));
  }
  return cord;
}

absl::StatusOr<DecodedTensor> DecodeTensorInPlace(absl::string_view message, const RefPtr<RefCounted>& owner,
                                                  const DecodeOptions& options) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, options.limits.max_depth));
  return internal::TensorDecoder(fields, options).DecodeInPlace(owner, /*writable=*/false);
}

absl::StatusOr<DecodedTensor> DecodeTensorFromCord(const absl::Cord& message, const DecodeOptions& options) {
  SplitMessage split;
  internal::WireTensorFields fields;
  if (!message.TryFlat() && CordSplitter(message).Split(&split) && split.content &&
      fields.Read(split.others, options.limits.max_depth).ok()) {
    CASK_ASSIGN_OR_RETURN(const FlatContent content, Flatten(*std::move(split.content), options));
    fields.content = content.bytes;
    return internal::TensorDecoder(fields, options).DecodeInPlace(content.owner, content.is_ours);
  }
  // A message in one piece, without content, or with an error, which is then reported with its position.
  CASK_ASSIGN_OR_RETURN(const FlatContent flat, Flatten(message, options));
  return DecodeTensorInPlace(flat.bytes, flat.owner, options);
}

}  // namespace tensorcask
