#include "tensorcask/serialize/exchange/message_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/frame.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/wire/extension_writer.h"
#include "tensorcask/serialize/wire/metadata_decoder.h"
#include "tensorcask/serialize/wire/object_decoder.h"
#include "tensorcask/serialize/wire/pieces.h"
#include "tensorcask/serialize/wire/stored_elements.h"
#include "tensorcask/serialize/wire/tensor_decoder.h"
#include "tensorcask/serialize/wire/tensor_encoder.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/serialize/wire/wire_fields.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/copy.h"
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

// Messages of inline tensors are written out up to so many bytes together.
constexpr uint64_t kSmallBytes = uint64_t{4} << 10;
// Smaller tensors go through the socket faster than a descriptor is made, sent and mapped.
constexpr uint64_t kMinCopiedBytes = uint64_t{128} << 10;

class Encoder {
 public:
  Encoder(const ChannelOptions& options, size_t max_descriptors, RecycledMemory* recycled, EncodedMessage* out)
      : options_(options),
        max_descriptors_(std::min<size_t>(max_descriptors, kMaxDescriptors)),
        recycled_(recycled),
        out_(*out) {}

  // Before any Add: numbers the blocks of shared memory, and takes another one for copies.
  absl::Status Plan(const std::vector<DecodedTensor>& tensors) {
    uint64_t copied_bytes = 0;
    body_.tensors.reserve(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorView& view = tensors[i].view;
      if (IsShared(view)) {
        const absl::Status status = AddBlock(view.buffer()->file_range()->descriptor);
        if (!status.ok()) return InTensor(i, status);
      } else {
        copied_bytes += PlaceForCopy(view, copied_bytes);
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
    const uint64_t place = copies_ == nullptr ? 0 : PlaceForCopy(tensor.view, copied_bytes_);
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

  // How many bytes a tensor that is not shared takes among the copies, behind `copied_bytes` of others; 0: it goes
  // inline. So do bools and what has a checksum: the receiver checks them in a copy of its own.
  uint64_t PlaceForCopy(const TensorView& view, uint64_t copied_bytes) const {
    if (!IsFixedSize(view.dtype()) || view.dtype() == DType::kBool || options_.checksum) return 0;
    const std::optional<uint64_t> bytes =
        CheckedMul(static_cast<uint64_t>(view.num_elements()), static_cast<uint64_t>(ElementSize(view.dtype())));
    if (!bytes || *bytes < kMinCopiedBytes) return 0;
    const std::optional<uint64_t> place = CheckedAlignUp(*bytes, kInlineAlignment);
    return place && *place <= options_.recycled_bytes - copied_bytes ? *place : 0;
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
    // First of all: from here on what is in the block stays what it is.
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
    CASK_RETURN_IF_ERROR(Copy(data, &copy));
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
    if (IsFixedSize(view.dtype()) && static_cast<uint64_t>(view.num_elements()) <= kSmallBytes) {
      CASK_ASSIGN_OR_RETURN(const internal::MessagePlan plan, internal::PlanMessage(view, tensor.metadata, options));
      if (kInlineAlignment + plan.total_bytes <= kSmallBytes - out_.small.size()) {
        AddSmall(plan);
        return absl::OkStatus();
      }
    }
    CASK_ASSIGN_OR_RETURN(MessagePieces encoded, EncodeTensorToPieces(view, tensor.metadata, options));
    // Elements that are a piece of their own, behind the head of the message, are placed so that the receiver need not
    // move them.
    const uint64_t padding_bytes = encoded.pieces.size() > 1 ? PaddingFor(encoded.pieces.front().size()) : 0;
    if (padding_bytes > 0) out_.inline_pieces.emplace_back(kPadding.data(), padding_bytes);
    uint64_t message_bytes = 0;
    for (const absl::string_view piece : encoded.pieces) {
      message_bytes += piece.size();
      out_.inline_pieces.push_back(piece);
    }
    out_.owners.push_back(std::move(encoded.owner));
    AddInlineEntry(padding_bytes, message_bytes);
    return absl::OkStatus();
  }

  // Writes the message out, behind others: that costs less than to refer to the elements.
  void AddSmall(const internal::MessagePlan& plan) {
    const uint64_t padding_bytes = PaddingFor(plan.head_bytes());
    out_.small.reserve(kSmallBytes);  // where pieces are, they stay
    const size_t begin = out_.small.size();
    out_.small.resize(begin + padding_bytes + plan.total_bytes);
    const absl::Span<char> piece = absl::MakeSpan(&out_.small[begin], padding_bytes + plan.total_bytes);
    internal::WriteMessage(plan, piece.subspan(padding_bytes));
    out_.inline_pieces.emplace_back(piece.data(), piece.size());
    AddInlineEntry(padding_bytes, plan.total_bytes);
  }

  uint64_t PaddingFor(uint64_t head_bytes) const {
    return (kInlineAlignment - (out_.inline_bytes + head_bytes) % kInlineAlignment) % kInlineAlignment;
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
  absl::flat_hash_map<int, uint32_t> blocks_;  // by descriptor: its number, from 1 on
  char* copies_ = nullptr;                     // the last block, with copied_bytes_ in it; null: there is none
  uint64_t copied_bytes_ = 0;
  MessageBody body_;
  EncodedMessage& out_;
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

  absl::Status Decode(Message* out) {
    CASK_ASSIGN_OR_RETURN(MessageBody body, DecodeBody(frame_.body));
    CASK_RETURN_IF_ERROR(PlaceAll(body.tensors));
    CASK_RETURN_IF_ERROR(MapBlocks());
    out->topic = std::move(body.topic);
    out->request = body.request;
    out->status = std::move(body.status);
    out->tensors.reserve(body.tensors.size());
    for (size_t i = 0; i < body.tensors.size(); ++i) {
      const TensorEntry& entry = body.tensors[i];
      absl::StatusOr<DecodedTensor> tensor = entry.is_inline() ? DecodeInline(entry) : DecodeShared(entry);
      if (!tensor.ok()) return InTensor(i, tensor.status());
      out->tensors.push_back(*std::move(tensor));
    }
    return absl::OkStatus();
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

absl::Status DecodeMessage(ReceivedFrame frame, const DecodeOptions& options, Message* out) {
  return Decoder(std::move(frame), options).Decode(out);
}

}  // namespace tensorcask::exchange
