#include "tensorcask/serialize/exchange/message_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/wire/message/element_plan.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/serialize/wire/message/tensor_encoder.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::exchange {
namespace {

constexpr std::array<char, kInlineAlignment> kInlinePadding = {};

// The messages of inline tensors are assembled in memory up to this size together.
constexpr uint64_t kSmallBytes = uint64_t{4} << 10;
// Smaller tensors cross the socket in less time than a descriptor can be made, sent and mapped.
constexpr uint64_t kMinCopiedBytes = uint64_t{128} << 10;

class Encoder {
 public:
  Encoder(const ChannelOptions& options, size_t max_descriptors, RecycledMemory* recycled, EncodedMessage* out)
      : options_(options),
        max_descriptors_(std::min<size_t>(max_descriptors, kMaxDescriptors)),
        recycled_(recycled),
        out_(*out) {}

  // Before any Add: numbers the blocks of shared memory, and acquires another one for copies.
  absl::Status Plan(const std::vector<DecodedTensor>& tensors) {
    uint64_t copied_bytes = 0;
    body_.tensors.reserve(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorView& view = tensors[i].view;
      if (IsShared(view)) {
        const absl::Status status = AddBlock(view.buffer()->file_range()->descriptor);
        if (!status.ok()) return InTensor(i, status);
      } else {
        copied_bytes += CopySize(view, copied_bytes);
      }
    }
    if (copied_bytes == 0 || out_.descriptors.size() == max_descriptors_) return absl::OkStatus();
    std::optional<RecycledMemory::Loan> loan = recycled_->Lend(static_cast<size_t>(copied_bytes));
    if (!loan) return absl::OkStatus();
    out_.copies = std::move(loan->descriptor);
    out_.descriptors.push_back(out_.copies.get());
    copies_ = loan->data;
    return absl::OkStatus();
  }

  absl::Status Add(const DecodedTensor& tensor) {
    if (IsShared(tensor.view)) return AddShared(tensor);
    const uint64_t place = copies_ == nullptr ? 0 : CopySize(tensor.view, copied_bytes_);
    return place == 0 ? AddInline(tensor) : AddCopied(tensor, place);
  }

  void Finish(const Message& message) {
    body_.topic = message.topic;
    body_.request = message.request;
    body_.status = message.status;
    out_.body = EncodeBody(body_);
  }

 private:
  bool IsShared(const TensorView& view) const {
    return max_descriptors_ > 0 && view.num_elements() > 0 && IsFixedSize(view.dtype()) && view.buffer() != nullptr &&
           view.buffer()->file_range();
  }

  // The bytes that a tensor outside shared memory needs in the block of copies, after `copied_bytes` of others; 0: it
  // goes inline. So do bools and tensors with a checksum: the receiver checks them in a copy of its own.
  uint64_t CopySize(const TensorView& view, uint64_t copied_bytes) const {
    if (!IsFixedSize(view.dtype()) || view.dtype() == DType::kBool || options_.checksum) return 0;
    const std::optional<uint64_t> bytes =
        CheckedMul(static_cast<uint64_t>(view.num_elements()), static_cast<uint64_t>(ElementSize(view.dtype())));
    if (!bytes || *bytes < kMinCopiedBytes) return 0;
    const std::optional<uint64_t> aligned = CheckedAlignUp(*bytes, kInlineAlignment);
    return aligned && *aligned <= options_.recycled_bytes - copied_bytes ? *aligned : 0;
  }

  absl::Status AddBlock(int descriptor) {
    const auto [found, is_new] = blocks_.try_emplace(descriptor, static_cast<uint32_t>(blocks_.size() + 1));
    if (!is_new) return absl::OkStatus();
    if (out_.descriptors.size() == max_descriptors_) {
      return absl::InvalidArgumentError(absl::StrCat("one message takes ", max_descriptors_,
                                                     " blocks of shared memory; this is one more: send two messages"));
    }
    out_.descriptors.push_back(descriptor);
    return absl::OkStatus();
  }

  absl::Status AddShared(const DecodedTensor& tensor) {
    const TensorView& view = tensor.view;
    CASK_RETURN_IF_ERROR(internal::CheckMetadata(view, tensor.metadata));
    // Freezes first, so that the content of the block does not change from here on.
    view.buffer()->FreezeMemory();
    const TensorBuffer::FileRange place = *view.buffer()->file_range();
    const TensorView::ByteRange bytes = view.bounds();
    internal::ExtensionContent extension;
    extension.metadata = &tensor.metadata;
    extension.checksum = options_.checksum;
    if (view.strides() != Layout::RowMajor(view.shape()).strides()) {
      extension.strides.assign(view.strides().begin(), view.strides().end());
      extension.storage_offset = view.offset() - view.layout().bounds().begin;
    }
    const uint32_t crc =
        options_.checksum ? Crc32c(view.buffer()->bytes().substr(bytes.begin, bytes.end - bytes.begin)) : 0;
    AddEntry(view, {blocks_.at(place.descriptor), place.offset_bytes + bytes.begin, bytes.end - bytes.begin}, extension,
             crc);
    return absl::OkStatus();
  }

  absl::Status AddCopied(const DecodedTensor& tensor, uint64_t place_bytes) {
    CASK_RETURN_IF_ERROR(internal::CheckMetadata(tensor.view, tensor.metadata));
    internal::ExtensionContent extension;
    TensorView data;
    CASK_RETURN_IF_ERROR(internal::PlanElements(tensor.view, options_.layout, &data, &extension));
    extension.dtype_number = 0;
    extension.metadata = &tensor.metadata;
    TensorBuffer::External memory;
    memory.data = copies_ + copied_bytes_;
    memory.size_bytes = static_cast<size_t>(data.num_elements()) * ElementSize(data.dtype());
    const Place place = {static_cast<uint32_t>(out_.descriptors.size()), copied_bytes_, memory.size_bytes};
    CASK_ASSIGN_OR_RETURN(TensorView copy, TensorView::Create(TensorBuffer::WrapExternal(std::move(memory)),
                                                              data.dtype(), Layout::RowMajor(data.shape())));
    CASK_RETURN_IF_ERROR(internal::CopyToHost(data, &copy));
    AddEntry(tensor.view, place, extension, /*crc=*/0);
    copied_bytes_ += place_bytes;
    return absl::OkStatus();
  }

  struct Place {
    uint32_t block;
    uint64_t offset_bytes;
    uint64_t size_bytes;
  };
  void AddEntry(const TensorView& view, const Place& place, const internal::ExtensionContent& extension, uint32_t crc) {
    TensorEntry entry;
    entry.block = place.block;
    entry.dtype = view.dtype();
    entry.shape = view.shape();
    entry.offset_bytes = place.offset_bytes;
    entry.size_bytes = place.size_bytes;
    entry.extension.resize(static_cast<size_t>(internal::ExtensionBytes(extension)));
    internal::WriteExtension(extension, crc, &entry.extension[0]);
    out_.shared_bytes += place.size_bytes;
    body_.tensors.push_back(std::move(entry));
  }

  absl::Status AddInline(const DecodedTensor& tensor) {
    EncodeOptions options;
    options.checksum = options_.checksum;
    options.layout = options_.layout;
    const TensorView& view = tensor.view;
    if (internal::IsOnDevice(view)) {
      DecodedTensor on_host;
      CASK_ASSIGN_OR_RETURN(on_host.view, internal::InHostMemory(view));
      on_host.metadata = tensor.metadata;
      return AddInline(on_host);
    }
    if (IsFixedSize(view.dtype()) && static_cast<uint64_t>(view.num_elements()) <= kSmallBytes) {
      CASK_ASSIGN_OR_RETURN(const internal::MessagePlan plan, internal::PlanMessage(view, tensor.metadata, options));
      if (kInlineAlignment + plan.total_bytes <= kSmallBytes - out_.small.size()) {
        AddSmall(plan);
        return absl::OkStatus();
      }
    }
    CASK_ASSIGN_OR_RETURN(MessagePieces encoded, EncodeTensorToPieces(view, tensor.metadata, options));
    // Elements that are a piece of their own, after the header of the message, are aligned so that the receiver need
    // not move them.
    const uint64_t padding_bytes = encoded.pieces.size() > 1 ? PaddingFor(encoded.pieces.front().size()) : 0;
    if (padding_bytes > 0) out_.inline_pieces.emplace_back(kInlinePadding.data(), padding_bytes);
    uint64_t message_bytes = 0;
    for (const absl::string_view piece : encoded.pieces) {
      message_bytes += piece.size();
      out_.inline_pieces.push_back(piece);
    }
    out_.owners.push_back(std::move(encoded.owner));
    AddInlineEntry(padding_bytes, message_bytes);
    return absl::OkStatus();
  }

  // Appends the message to the assembled ones, which costs less than a reference to the elements.
  void AddSmall(const internal::MessagePlan& plan) {
    const uint64_t padding_bytes = PaddingFor(plan.header_bytes());
    out_.small.reserve(kSmallBytes);  // so that pieces never move
    const size_t begin = out_.small.size();
    out_.small.resize(begin + padding_bytes + plan.total_bytes);
    const absl::Span<char> piece = absl::MakeSpan(&out_.small[begin], padding_bytes + plan.total_bytes);
    internal::WriteMessage(plan, piece.subspan(padding_bytes));
    out_.inline_pieces.emplace_back(piece.data(), piece.size());
    AddInlineEntry(padding_bytes, plan.total_bytes);
  }

  uint64_t PaddingFor(uint64_t header_bytes) const {
    return (kInlineAlignment - (out_.inline_bytes + header_bytes) % kInlineAlignment) % kInlineAlignment;
  }

  void AddInlineEntry(uint64_t padding_bytes, uint64_t message_bytes) {
    TensorEntry entry;
    entry.padding_bytes = padding_bytes;
    entry.message_bytes = message_bytes;
    out_.inline_bytes += padding_bytes + message_bytes;
    body_.tensors.push_back(std::move(entry));
  }

  const ChannelOptions& options_;
  const size_t max_descriptors_;
  RecycledMemory* const recycled_;
  // By descriptor: its number, from 1 on. A tree, because absl's hash tables are invalid after a failed allocation.
  std::map<int, uint32_t> blocks_;
  char* copies_ = nullptr;  // the last block, with copied_bytes_ in it; null before the first
  uint64_t copied_bytes_ = 0;
  MessageBody body_;
  EncodedMessage& out_;
};

}  // namespace

absl::Status EncodeMessage(const Message& message, const ChannelOptions& options, size_t max_descriptors,
                           RecycledMemory* recycled, EncodedMessage* out) {
  if (message.tensors.size() > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message has ", message.tensors.size(), " tensors; at most ", kMaxTensors));
  }
  Encoder encoder(options, max_descriptors, recycled, out);
  CASK_RETURN_IF_ERROR(encoder.Plan(message.tensors));
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    const absl::Status status = encoder.Add(message.tensors[i]);
    if (!status.ok()) return InTensor(i, status);
  }
  encoder.Finish(message);
  return absl::OkStatus();
}

std::array<char, kFrameHeaderBytes> EncodeHeader(FrameType type, uint64_t sequence, absl::string_view body,
                                                 const EncodedMessage& message) {
  FrameHeader header;
  header.type = type;
  header.sequence = sequence;
  header.body_bytes = body.size();
  header.inline_bytes = message.inline_bytes;
  header.num_descriptors = static_cast<uint32_t>(message.descriptors.size());
  header.body_crc32c = Crc32c(body);
  return EncodeFrameHeader(header);
}

}  // namespace tensorcask::exchange
