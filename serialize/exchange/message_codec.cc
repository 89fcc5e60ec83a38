#include "tensorcask/serialize/exchange/message_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/exchange/frame.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/wire/extension_writer.h"
#include "tensorcask/serialize/wire/metadata_decoder.h"
#include "tensorcask/serialize/wire/object_decoder.h"
#include "tensorcask/serialize/wire/pieces.h"
#include "tensorcask/serialize/wire/stored_elements.h"
#include "tensorcask/serialize/wire/tensor_decoder.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/serialize/wire/wire_fields.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::exchange {
namespace {

absl::Status InTensor(size_t index, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("tensor ", index, ": ", status.message()));
}

// ---- Encoding -------------------------------------------------------------------------------------------------------

constexpr std::array<char, kInlineAlignment> kPadding = {};

class Encoder {
 public:
  Encoder(const ChannelOptions& options, size_t max_descriptors)
      : options_(options), max_descriptors_(std::min<size_t>(max_descriptors, kMaxDescriptors)) {}

  absl::Status Add(const DecodedTensor& tensor) {
    const TensorView& view = tensor.view;
    const bool may_be_shared =
        max_descriptors_ > 0 && view.num_elements() > 0 && IsFixedSize(view.dtype()) && view.buffer() != nullptr;
    if (may_be_shared && view.buffer()->file_range()) return AddShared(tensor);
    return AddInline(tensor);
  }

  EncodedMessage Finish(const Message& message) {
    body_.topic = message.topic;
    body_.request = message.request;
    body_.status = message.status;
    out_.body = EncodeBody(body_);
    return std::move(out_);
  }

 private:
  absl::Status AddShared(const DecodedTensor& tensor) {
    const TensorView& view = tensor.view;
    CASK_RETURN_IF_ERROR(internal::CheckMetadata(view, tensor.metadata));
    // First of all: from here on what is in the block stays what it is.
    view.buffer()->FreezeMemory();
    const TensorBuffer::FileRange place = *view.buffer()->file_range();
    const TensorView::ByteRange bytes = view.bounds();
    TensorEntry entry;
    CASK_ASSIGN_OR_RETURN(entry.block, BlockOf(place.descriptor));
    entry.dtype = view.dtype();
    entry.shape = view.shape();
    entry.offset_bytes = place.offset_bytes + bytes.begin;
    entry.size_bytes = bytes.end - bytes.begin;
    internal::ExtensionContent extension;
    extension.metadata = &tensor.metadata;
    extension.checksum = options_.checksum;
    if (view.strides() != Layout::RowMajor(entry.shape).strides()) {
      extension.strides.assign(view.strides().begin(), view.strides().end());
      extension.storage_offset = view.offset() - view.layout().bounds().begin;
    }
    entry.extension.resize(static_cast<size_t>(internal::ExtensionBytes(extension)));
    const uint32_t crc =
        options_.checksum ? Crc32c(view.buffer()->bytes().substr(bytes.begin, bytes.end - bytes.begin)) : 0;
    internal::WriteExtension(extension, crc, &entry.extension[0]);
    out_.shared_bytes += entry.size_bytes;
    body_.tensors.push_back(std::move(entry));
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> BlockOf(int descriptor) {
    const auto [found, is_new] = blocks_.try_emplace(descriptor, static_cast<uint32_t>(blocks_.size() + 1));
    if (!is_new) return found->second;
    if (out_.descriptors.size() == max_descriptors_) {
      return absl::InvalidArgumentError(absl::StrCat("one message takes ", max_descriptors_,
                                                     " blocks of shared memory; this is one more: send two messages"));
    }
    out_.descriptors.push_back(descriptor);
    return found->second;
  }

  absl::Status AddInline(const DecodedTensor& tensor) {
    EncodeOptions options;
    options.checksum = options_.checksum;
    options.layout = options_.layout;
    CASK_ASSIGN_OR_RETURN(MessagePieces encoded, EncodeTensorToPieces(tensor.view, tensor.metadata, options));
    TensorEntry entry;
    for (const absl::string_view piece : encoded.pieces) entry.message_bytes += piece.size();
    // Elements that are a piece of their own, behind the head of the message, are placed so that the receiver need not
    // move them.
    if (encoded.pieces.size() > 1) {
      const uint64_t elements_at = out_.inline_bytes + encoded.pieces.front().size();
      entry.padding_bytes = (kInlineAlignment - elements_at % kInlineAlignment) % kInlineAlignment;
      if (entry.padding_bytes > 0) out_.inline_pieces.emplace_back(kPadding.data(), entry.padding_bytes);
    }
    for (const absl::string_view piece : encoded.pieces) out_.inline_pieces.push_back(piece);
    out_.inline_bytes += entry.padding_bytes + entry.message_bytes;
    out_.owners.push_back(std::move(encoded.owner));
    body_.tensors.push_back(std::move(entry));
    return absl::OkStatus();
  }

  const ChannelOptions& options_;
  const size_t max_descriptors_;
  absl::flat_hash_map<int, uint32_t> blocks_;  // by descriptor: its number, from 1 on
  MessageBody body_;
  EncodedMessage out_;
};

// ---- Decoding -------------------------------------------------------------------------------------------------------

// Bytes [begin, end) of a received memory file, which all tensors of a message in it lie in.
struct Block {
  uint64_t begin = UINT64_MAX;
  uint64_t end = 0;
  RefPtr<TensorBuffer> mapped;
  bool is_sealed = false;  // against writing
};

// What an entry says of a shared tensor, checked against itself.
struct SharedTensor {
  Layout layout;
  uint32_t stored_crc32c = 0;  // 0: not given
  TensorMetadata metadata;
};

class Decoder {
 public:
  Decoder(ReceivedFrame frame, const DecodeOptions& options)
      : frame_(std::move(frame)), options_(options), blocks_(frame_.descriptors.size()) {}

  absl::StatusOr<Message> Decode() {
    CASK_ASSIGN_OR_RETURN(MessageBody body, DecodeBody(frame_.body));
    CASK_RETURN_IF_ERROR(PlaceAll(body.tensors));
    CASK_RETURN_IF_ERROR(MapBlocks());
    Message message;
    message.topic = std::move(body.topic);
    message.request = body.request;
    message.status = std::move(body.status);
    for (size_t i = 0; i < body.tensors.size(); ++i) {
      const TensorEntry& entry = body.tensors[i];
      absl::StatusOr<DecodedTensor> tensor = entry.is_inline() ? DecodeInline(entry) : DecodeShared(entry);
      if (!tensor.ok()) return InTensor(i, tensor.status());
      message.tensors.push_back(*std::move(tensor));
    }
    return message;
  }

 private:
  // Compares where the tensors say they are with what came, and finds the range of each block.
  absl::Status PlaceAll(const std::vector<TensorEntry>& entries) {
    uint64_t inline_left = frame_.inline_data.size();
    for (size_t i = 0; i < entries.size(); ++i) {
      const TensorEntry& entry = entries[i];
      if (!entry.is_inline()) {
        CASK_RETURN_IF_ERROR(PlaceShared(i, entry));
        continue;
      }
      ++num_inline_;
      if (entry.padding_bytes > inline_left || entry.message_bytes > inline_left - entry.padding_bytes) {
        return InTensor(i, absl::InvalidArgumentError(absl::StrCat(
                               "its ", entry.message_bytes, " bytes behind a padding of ", entry.padding_bytes,
                               " leave the inline data, of which ", inline_left, " bytes are left")));
      }
      inline_left -= entry.padding_bytes + entry.message_bytes;
    }
    if (inline_left > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the last ", inline_left, " bytes of the inline data are no tensor's"));
    }
    return absl::OkStatus();
  }

  absl::Status PlaceShared(size_t index, const TensorEntry& entry) {
    if (entry.block > blocks_.size()) {
      return InTensor(index, absl::InvalidArgumentError(absl::StrCat("it lies in block ", entry.block, " of the ",
                                                                     blocks_.size(), " that came")));
    }
    const std::optional<uint64_t> end = CheckedAdd(entry.offset_bytes, entry.size_bytes);
    if (!end || entry.size_bytes == 0) {
      return InTensor(index, absl::InvalidArgumentError(
                                 absl::StrCat("its place is ", entry.size_bytes, " bytes at ", entry.offset_bytes)));
    }
    Block& block = blocks_[entry.block - 1];
    block.begin = std::min(block.begin, entry.offset_bytes);
    block.end = std::max(block.end, *end);
    return absl::OkStatus();
  }

  // Each block once, all of them within max_message_bytes.
  absl::Status MapBlocks() {
    DecodeLimits limits = options_.limits;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      Block& block = blocks_[i];
      if (block.end == 0) {
        return absl::InvalidArgumentError(absl::StrCat("block ", i + 1, " is no tensor's"));
      }
      const uint64_t bytes = block.end - block.begin;
      absl::StatusOr<RefPtr<TensorBuffer>> mapped =
          MapSharedMemory(std::move(frame_.descriptors[i]), block.begin, bytes, limits);
      if (!mapped.ok()) {
        return absl::Status(mapped.status().code(), absl::StrCat("block ", i + 1, ": ", mapped.status().message()));
      }
      limits.max_message_bytes -= static_cast<int64_t>(bytes);  // MapSharedMemory found that it is enough
      block.mapped = *std::move(mapped);
      block.is_sealed = IsSealedAgainstWriting(*block.mapped);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<DecodedTensor> DecodeInline(const TensorEntry& entry) {
    inline_at_ += entry.padding_bytes;
    const absl::string_view message =
        frame_.inline_data.substr(static_cast<size_t>(inline_at_), static_cast<size_t>(entry.message_bytes));
    inline_at_ += entry.message_bytes;
    internal::WireTensorFields fields;
    CASK_RETURN_IF_ERROR(fields.Read(message, options_.limits.max_depth));
    internal::TensorDecoder decoder(fields, options_, options_.limits.max_depth, &budget_);
    // The memory is ours; a tensor that has it alone may write there.
    return decoder.DecodeInPlace(frame_.memory, /*writable=*/num_inline_ == 1);
  }

  absl::StatusOr<SharedTensor> DecodeEntry(const TensorEntry& entry) {
    internal::WireExtensionFields fields;
    CASK_RETURN_IF_ERROR(fields.Read(entry.extension, options_.limits.max_depth));
    const internal::ExtensionFields& extension = fields.extension;
    if (extension.dtype != 0 || extension.has_payload) {
      return absl::InvalidArgumentError("extension: a shared tensor has no dtype and no payload there");
    }
    SharedTensor shared;
    CASK_ASSIGN_OR_RETURN(shared.layout, DecodeStrides(extension, entry));
    shared.stored_crc32c = extension.crc32c;
    CASK_ASSIGN_OR_RETURN(shared.metadata, internal::DecodeMetadata(fields, entry.dtype, entry.shape.rank(), options_));
    return shared;
  }

  // Unlike in a message of its own, elements may overlap and have gaps between them: it is a view of the memory.
  static absl::StatusOr<Layout> DecodeStrides(const internal::ExtensionFields& extension, const TensorEntry& entry) {
    if (entry.shape.num_elements() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("its shape ", entry.shape.ToString(), " has no elements to share"));
    }
    if (extension.num_strides == 0 && extension.storage_offset != 0) {
      return absl::InvalidArgumentError("extension: storage_offset without strides");
    }
    if (extension.num_strides != 0 && extension.num_strides != static_cast<size_t>(entry.shape.rank())) {
      return absl::InvalidArgumentError(absl::StrCat("extension: strides has ", extension.num_strides,
                                                     " numbers; the shape is ", entry.shape.ToString()));
    }
    Layout layout = Layout::RowMajor(entry.shape);
    if (extension.num_strides != 0) {
      CASK_ASSIGN_OR_RETURN(layout, Layout::Create(entry.shape.dims(), extension.strides, extension.storage_offset));
    }
    const Layout::Range bounds = layout.bounds();
    const std::optional<uint64_t> bytes =
        CheckedMul(static_cast<uint64_t>(bounds.end), static_cast<uint64_t>(ElementSize(entry.dtype)));
    if (bounds.begin != 0 || bytes != entry.size_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(DTypeName(entry.dtype), " ", layout.ToString(), " does not fill ",
                                                     entry.size_bytes, " bytes from the first to the last"));
    }
    return layout;
  }

  absl::StatusOr<DecodedTensor> DecodeShared(const TensorEntry& entry) {
    CASK_ASSIGN_OR_RETURN(SharedTensor shared, DecodeEntry(entry));
    const std::optional<int64_t> elements_bytes =
        CheckedMul(shared.layout.num_elements(), static_cast<int64_t>(ElementSize(entry.dtype)));
    // Elements that several indices name: nothing that the other side has stands for the copies which a use may make.
    const std::optional<int64_t> unbacked =
        elements_bytes
            ? std::optional<int64_t>(std::max<int64_t>(*elements_bytes - static_cast<int64_t>(entry.size_bytes), 0))
            : std::nullopt;
    CASK_RETURN_IF_ERROR(budget_.Charge(elements_bytes, unbacked, options_.limits, [&] {
      return absl::StrCat(DTypeName(entry.dtype), " ", entry.shape.ToString());
    }));
    const Block& block = blocks_[entry.block - 1];
    RefPtr<TensorBuffer> bytes = block.mapped;
    if (entry.size_bytes != bytes->size_bytes()) {
      bytes = TensorBuffer::MakeSubBuffer(bytes, static_cast<size_t>(entry.offset_bytes - block.begin),
                                          static_cast<size_t>(entry.size_bytes));
    }
    const bool is_checked = entry.dtype == DType::kBool || shared.stored_crc32c != 0;
    if (is_checked && !block.is_sealed) {
      // The other side can still write there: what is checked must be what is used.
      CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> copy,
                            TensorBuffer::Allocate(bytes->size_bytes(), options_.allocator));
      std::memcpy(copy->mutable_data(), bytes->data(), bytes->size_bytes());
      bytes = copy;
    }
    DecodedTensor tensor;
    CASK_ASSIGN_OR_RETURN(tensor.view, TensorView::Create(std::move(bytes), entry.dtype, shared.layout));
    if (is_checked) CASK_RETURN_IF_ERROR(CheckElements(tensor.view, shared.stored_crc32c));
    tensor.metadata = std::move(shared.metadata);
    return tensor;
  }

  // Requires: nobody can write the elements any more.
  static absl::Status CheckElements(const TensorView& view, uint32_t wanted) {
    if (wanted != 0) {
      const uint32_t found = internal::StoredCrc32c(Crc32c(view.buffer()->bytes()));
      if (found != wanted) {
        return absl::DataLossError(absl::StrCat("its bytes have the masked crc32c 0x",
                                                absl::Hex(found, absl::kZeroPad8), "; the message says 0x",
                                                absl::Hex(wanted, absl::kZeroPad8)));
      }
    }
    if (view.dtype() != DType::kBool) return absl::OkStatus();
    absl::string_view bools = view.buffer()->bytes();
    TensorView gathered;
    if (!view.layout().IsNonOverlappingAndDense()) {  // what lies in between may be anything
      CASK_ASSIGN_OR_RETURN(gathered, view.Contiguous());
      bools = gathered.bytes();
    }
    uint8_t seen = 0;
    for (const char byte : bools) seen |= static_cast<uint8_t>(byte);
    if (seen <= 1) return absl::OkStatus();
    const auto bad = std::find_if(bools.begin(), bools.end(), [](char c) { return c != 0 && c != 1; });
    return absl::InvalidArgumentError(absl::StrCat("byte ", bad - bools.begin(), " is ",
                                                   static_cast<int>(static_cast<uint8_t>(*bad)), "; a bool is 0 or 1"));
  }

  ReceivedFrame frame_;
  const DecodeOptions& options_;
  std::vector<Block> blocks_;
  size_t num_inline_ = 0;
  uint64_t inline_at_ = 0;
  internal::DecodeBudget budget_;  // of all tensors together
};

}  // namespace

absl::StatusOr<EncodedMessage> EncodeMessage(const Message& message, const ChannelOptions& options,
                                             size_t max_descriptors) {
  if (message.tensors.size() > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message has ", message.tensors.size(), " tensors; at most ", kMaxTensors));
  }
  Encoder encoder(options, max_descriptors);
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    const absl::Status status = encoder.Add(message.tensors[i]);
    if (!status.ok()) return InTensor(i, status);
  }
  return encoder.Finish(message);
}

absl::StatusOr<Message> DecodeMessage(ReceivedFrame frame, const DecodeOptions& options) {
  return Decoder(std::move(frame), options).Decode();
}

}  // namespace tensorcask::exchange
