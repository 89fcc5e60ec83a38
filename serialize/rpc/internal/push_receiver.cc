#include "tensorcask/serialize/rpc/internal/push_receiver.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/rpc/internal/beside_tensors.h"
#include "tensorcask/serialize/rpc/internal/piece.h"
#include "tensorcask/serialize/rpc/internal/strided_memory.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/message/tensor_decoder.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::rpc {
namespace {

DecodeLimits WithoutMessageLimit(DecodeLimits limits) {
  limits.max_message_bytes = INT64_MAX;
  return limits;
}

}  // namespace

PushReceiver::PushReceiver(const DecodeLimits& limits)
    : limits_(limits), quota_(DecodeQuota::ForFile(limits)), beyond_input_(WithoutMessageLimit(limits)) {}

absl::Status PushReceiver::Receive(absl::Span<const absl::string_view> parts) {
  if (receiver_ == nullptr) CASK_RETURN_IF_ERROR(Begin(parts));
  CASK_RETURN_IF_ERROR(receiver_->Receive(parts));
  return has_header_ || !receiver_->is_complete() ? absl::OkStatus() : ReadHeader();
}

// The first message: the version that it names is that of all.
absl::Status PushReceiver::Begin(absl::Span<const absl::string_view> parts) {
  uint64_t total_bytes = 0;
  std::string begin;
  for (const absl::string_view part : parts) {
    total_bytes += part.size();
    absl::StrAppend(&begin, part.substr(0, kMaxPieceHeaderBytes - begin.size()));
  }
  CASK_ASSIGN_OR_RETURN(const ParsedPiece first, ParsePieceHeader(begin, total_bytes));
  version_id_ = first.header.version_id;
  targets_.push_back({"the header", std::nullopt, nullptr, &header_});
  receiver_ = std::make_unique<PieceReceiver>("push", version_id_, limits_, absl::MakeSpan(targets_));
  return absl::OkStatus();
}

// Makes memory for the tensors.
absl::Status PushReceiver::ReadHeader() {
  v1::PushHeader header;
  if (!header.ParseFromString(header_)) return absl::InvalidArgumentError("the header is not a PushHeader");
  has_header_ = true;
  step_ = header.step();
  if (header.tensors_size() > limits_.max_entries) {
    return PastLimit(absl::StrCat("has ", header.tensors_size(), " tensors"), "max_entries", limits_.max_entries);
  }
  CASK_ASSIGN_OR_RETURN(BesideTensors beside,
                        FromMessage(header.file_metadata(), [&](uint64_t bytes) { return quota_.Charge(bytes); }));
  file_metadata_ = std::move(beside.entries);
  for (v1::PushedTensor& tensor : *header.mutable_tensors()) {
    CASK_ANNOTATE_IF_ERROR(Add(&tensor), absl::StrCat("tensor ", Quoted(tensor.name())));
  }
  targets_.clear();
  for (Arriving& tensor : tensors_) {
    targets_.push_back({tensor.name, std::nullopt, tensor.as_message ? nullptr : &tensor.view,
                        tensor.as_message ? &tensor.message : nullptr});
  }
  // Item 0 was the header.
  receiver_ = std::make_unique<PieceReceiver>("push", version_id_, limits_, targets_, /*first_item=*/1, &quota_);
  return absl::OkStatus();
}

absl::Status PushReceiver::Add(v1::PushedTensor* tensor) {
  const std::optional<DType> dtype = DTypeFromNumber(tensor->dtype());
  if (!dtype.has_value() || *dtype == DType::kInvalid) {
    return absl::InvalidArgumentError(absl::StrCat("no dtype has the number ", static_cast<int>(tensor->dtype())));
  }
  if (static_cast<int64_t>(tensor->name().size()) > limits_.max_name_bytes) {
    return PastLimit(absl::StrCat("has a name of ", tensor->name().size(), " bytes"), "max_name_bytes",
                     limits_.max_name_bytes);
  }
  if (tensor->as_message() == IsFixedSize(*dtype)) {
    return absl::InvalidArgumentError("only elements without a fixed size come as a message");
  }
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, DecodeShape(tensor->shape()));
  Arriving& pushed = tensors_.emplace_back();
  pushed.name = std::move(*tensor->mutable_name());
  pushed.as_message = tensor->as_message();
  pushed.dtype = *dtype;
  pushed.shape = shape;
  if (!pushed.as_message) return AddElements(*tensor, &pushed);
  if (tensor->strides_size() == 0 && tensor->metadata().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("a tensor that comes as a message has its metadata there");
}

absl::Status PushReceiver::AddElements(const v1::PushedTensor& tensor, Arriving* pushed) {
  const TensorShape& shape = pushed->shape;
  if (tensor.strides_size() != 0 && tensor.strides_size() != shape.rank()) {
    return absl::InvalidArgumentError(absl::StrCat(tensor.strides_size(), " strides for the shape ", shape.ToString()));
  }
  if (!tensor.metadata().empty()) {
    CASK_RETURN_IF_ERROR(quota_.Charge(tensor.metadata().size()));
    DecodeOptions decode;
    decode.limits = limits_;
    CASK_ASSIGN_OR_RETURN(pushed->metadata,
                          DecodeMetadataAlone(tensor.metadata(), pushed->dtype, shape.rank(), decode));
  }
  const std::optional<uint64_t> bytes =
      CheckedMul<uint64_t>(static_cast<uint64_t>(shape.num_elements()), ElementSize(pushed->dtype));
  CASK_RETURN_IF_ERROR(quota_.Charge(bytes.value_or(DecodeQuota::kTooMany)));
  CASK_ASSIGN_OR_RETURN(pushed->view, MakeStridedView(pushed->dtype, shape, tensor.strides()));
  return absl::OkStatus();
}

// What the message decodes to is charged before memory is taken for it.
absl::Status PushReceiver::DecodeMessage(Arriving* tensor) {
  DecodeOptions decode;
  decode.limits = limits_;
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(tensor->message, limits_.max_depth));
  MessageQuota one(limits_);
  CASK_RETURN_IF_ERROR(internal::TensorDecoder(fields, decode, limits_.max_depth, &one).Check());
  CASK_RETURN_IF_ERROR(quota_.Charge(one.bytes()));
  internal::TensorDecoder decoder(fields, decode, limits_.max_depth, &beyond_input_);
  CASK_ASSIGN_OR_RETURN(DecodedTensor decoded, decoder.DecodeWithMetadata());
  if (decoded.view.dtype() != tensor->dtype || decoded.view.shape() != tensor->shape) {
    return absl::DataLossError("is not what the header says");
  }
  tensor->view = std::move(decoded.view);
  tensor->metadata = std::move(decoded.metadata);
  quota_.Release(tensor->message.size());
  tensor->message = std::string();
  return absl::OkStatus();
}

absl::StatusOr<TensorSet> PushReceiver::Finish() {
  if (!has_header_) return absl::DataLossError("the push ended before its header");
  CASK_RETURN_IF_ERROR(receiver_->CheckComplete());
  TensorSet pushed;
  pushed.step = step_;
  pushed.file_metadata = std::move(file_metadata_);
  for (Arriving& tensor : tensors_) {
    if (tensor.as_message) {
      CASK_ANNOTATE_IF_ERROR(DecodeMessage(&tensor), absl::StrCat("tensor ", Quoted(tensor.name)));
    }
    pushed.tensors.push_back({std::move(tensor.name), std::move(tensor.view), std::move(tensor.metadata)});
  }
  return pushed;
}

}  // namespace tensorcask::rpc
