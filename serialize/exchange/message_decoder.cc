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
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/wire/message/device_payload.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/serialize/wire/message/metadata_decoder.h"
#include "tensorcask/serialize/wire/message/object_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::exchange {
namespace {

// Bytes [begin, end) of a received memory file: the range that holds all tensors of a message in that file.
struct Block {
  uint64_t begin = UINT64_MAX;
  uint64_t end = 0;
  RefPtr<TensorBuffer> bytes;
  bool is_constant = false;  // the sender cannot write to `bytes` any more
};

// A decoded entry of a shared tensor, whose fields agree with each other.
struct SharedTensor {
  Layout layout;
  uint32_t stored_crc32c = 0;  // 0: not given
  TensorMetadata metadata;
};

class Decoder {
 public:
  Decoder(ReceivedFrame frame, const ChannelOptions& options)
      : frame_(std::move(frame)),
        target_(options.decode),
        options_(target_.on_host()),
        copy_unsealed_(options.copy_unsealed),
        blocks_(frame_.descriptors.size()) {}

  absl::Status Decode(Message* out) {
    CASK_ASSIGN_OR_RETURN(MessageBody body, DecodeBody(frame_.body));
    CASK_RETURN_IF_ERROR(CheckRanges(body.tensors));
    CASK_RETURN_IF_ERROR(MapBlocks());
    out->topic = std::move(body.topic);
    out->request = body.request;
    out->status = std::move(body.status);
    out->tensors.reserve(body.tensors.size());
    for (size_t i = 0; i < body.tensors.size(); ++i) {
      const TensorEntry& entry = body.tensors[i];
      absl::StatusOr<DecodedTensor> tensor = entry.is_inline() ? DecodeInline(entry) : DecodeShared(entry);
      if (!tensor.ok()) return InTensor(i, tensor.status());
      const absl::Status moved = target_.Move(&tensor->view);
      if (!moved.ok()) return InTensor(i, moved);
      out->tensors.push_back(*std::move(tensor));
    }
    return absl::OkStatus();
  }

 private:
  // Compares the entries with what came beside the body, and finds the range of each block.
  absl::Status CheckRanges(const std::vector<TensorEntry>& entries) {
    uint64_t inline_left = frame_.inline_data.size();
    for (size_t i = 0; i < entries.size(); ++i) {
      const TensorEntry& entry = entries[i];
      if (!entry.is_inline()) {
        CASK_RETURN_IF_ERROR(CheckSharedRange(i, entry));
        continue;
      }
      ++num_inline_;
      if (entry.padding_bytes > inline_left || entry.message_bytes > inline_left - entry.padding_bytes) {
        return InTensor(i, absl::InvalidArgumentError(absl::StrCat(
                               "its ", entry.message_bytes, " bytes after ", entry.padding_bytes,
                               " bytes of padding exceed the inline data, of which ", inline_left, " bytes are left")));
      }
      inline_left -= entry.padding_bytes + entry.message_bytes;
    }
    if (inline_left > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the last ", inline_left, " bytes of the inline data belong to no tensor"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSharedRange(size_t index, const TensorEntry& entry) {
    if (entry.block > blocks_.size()) {
      return InTensor(index, absl::InvalidArgumentError(
                                 absl::StrCat("it lies in block ", entry.block, "; ", blocks_.size(), " came")));
    }
    const std::optional<uint64_t> end = CheckedAdd(entry.offset_bytes, entry.size_bytes);
    if (!end || entry.size_bytes == 0) {
      return InTensor(index, absl::InvalidArgumentError(absl::StrCat("its range is ", entry.size_bytes,
                                                                     " bytes at offset ", entry.offset_bytes)));
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
        return absl::InvalidArgumentError(absl::StrCat("block ", i + 1, " belongs to no tensor"));
      }
      const uint64_t bytes = block.end - block.begin;
      CASK_ASSIGN_OR_ANNOTATE(RefPtr<TensorBuffer> mapped,
                              MapSharedMemory(std::move(frame_.descriptors[i]), block.begin, bytes, limits),
                              absl::StrCat("block ", i + 1));
      limits.max_message_bytes -= static_cast<int64_t>(bytes);  // MapSharedMemory has compared the two
      block.bytes = std::move(mapped);
      block.is_constant = IsSealedAgainstWriting(*block.bytes);
      if (!block.is_constant && copy_unsealed_) {
        CASK_ASSIGN_OR_RETURN(block.bytes, Copy(*block.bytes, block.begin % kInlineAlignment));
        block.is_constant = true;
      }
    }
    return absl::OkStatus();
  }

  // Begins `lead_bytes` after a multiple of kInlineAlignment, so that elements stay aligned.
  absl::StatusOr<RefPtr<TensorBuffer>> Copy(const TensorBuffer& bytes, size_t lead_bytes) const {
    CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> copy,
                          TensorBuffer::Allocate(lead_bytes + bytes.size_bytes(), options_.allocator));
    CASK_RETURN_IF_ERROR(copy->EnsureMutable());
    char* const begin = static_cast<char*>(copy->mutable_data());
    std::memset(begin, 0, lead_bytes);
    std::memcpy(begin + lead_bytes, bytes.data(), bytes.size_bytes());
    if (lead_bytes == 0) return copy;
    return TensorBuffer::MakeSubBuffer(copy, lead_bytes, bytes.size_bytes());
  }

  absl::StatusOr<DecodedTensor> DecodeInline(const TensorEntry& entry) {
    inline_at_ += entry.padding_bytes;
    const absl::string_view message =
        frame_.inline_data.substr(static_cast<size_t>(inline_at_), static_cast<size_t>(entry.message_bytes));
    inline_at_ += entry.message_bytes;
    internal::WireTensorFields fields;
    CASK_RETURN_IF_ERROR(fields.Read(message, options_.limits.max_depth));
    internal::TensorDecoder decoder(fields, options_, options_.limits.max_depth, &quota_);
    // The memory is this process's own; a tensor that does not share it may write to it.
    return decoder.DecodeInPlace(frame_.memory, /*writable=*/num_inline_ == 1);
  }

  absl::StatusOr<SharedTensor> DecodeEntry(const TensorEntry& entry) {
    internal::WireExtensionFields fields;
    CASK_RETURN_IF_ERROR(fields.Read(entry.extension, options_.limits.max_depth));
    const internal::ExtensionFields& extension = fields.extension;
    if (extension.dtype != 0 || extension.has_payload) {
      return absl::InvalidArgumentError("extension: must not have a dtype or a payload, because the tensor is shared");
    }
    SharedTensor shared;
    CASK_ASSIGN_OR_RETURN(shared.layout, DecodeStrides(extension, entry));
    shared.stored_crc32c = extension.crc32c;
    CASK_ASSIGN_OR_RETURN(shared.metadata, internal::DecodeMetadata(fields, entry.dtype, entry.shape.rank(), options_));
    return shared;
  }

  // Unlike in a TensorProto, elements may overlap and have gaps between them: the tensor is a view of the memory.
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
    // Several indices may name one element: a copy then needs more bytes than the sender had.
    const std::optional<int64_t> unbacked =
        elements_bytes
            ? std::optional<int64_t>(std::max<int64_t>(*elements_bytes - static_cast<int64_t>(entry.size_bytes), 0))
            : std::nullopt;
    CASK_ANNOTATE_IF_ERROR(quota_.Charge(elements_bytes, unbacked),
                           absl::StrCat(DTypeName(entry.dtype), " ", entry.shape.ToString()));
    const Block& block = blocks_[entry.block - 1];
    RefPtr<TensorBuffer> bytes = block.bytes;
    if (entry.size_bytes != bytes->size_bytes()) {
      bytes = TensorBuffer::MakeSubBuffer(bytes, static_cast<size_t>(entry.offset_bytes - block.begin),
                                          static_cast<size_t>(entry.size_bytes));
    }
    const bool is_checked = entry.dtype == DType::kBool || shared.stored_crc32c != 0;
    // The bytes that are checked must be the bytes that are used.
    if (is_checked && !block.is_constant) {
      CASK_ASSIGN_OR_RETURN(bytes, Copy(*bytes, 0));
    }
    DecodedTensor tensor;
    CASK_ASSIGN_OR_RETURN(tensor.view, TensorView::Create(std::move(bytes), entry.dtype, shared.layout));
    if (is_checked) CASK_RETURN_IF_ERROR(CheckElements(tensor.view, shared.stored_crc32c));
    tensor.metadata = std::move(shared.metadata);
    return tensor;
  }

  // Requires: the sender cannot write to the elements any more.
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
    if (!view.layout().IsNonOverlappingAndDense()) {  // the bytes in the gaps may be anything
      CASK_ASSIGN_OR_RETURN(gathered, view.Contiguous());
      bools = gathered.bytes();
    }
    return CheckBools(bools);
  }

  ReceivedFrame frame_;
  const internal::DecodeTarget target_;
  const DecodeOptions& options_;  // those for the host
  const bool copy_unsealed_;
  std::vector<Block> blocks_;
  size_t num_inline_ = 0;
  uint64_t inline_at_ = 0;
  MessageQuota quota_{options_.limits};  // charged for all tensors together
};

}  // namespace

absl::Status DecodeMessage(ReceivedFrame frame, const ChannelOptions& options, Message* out) {
  return Decoder(std::move(frame), options).Decode(out);
}

}  // namespace tensorcask::exchange
