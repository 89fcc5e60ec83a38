#include "tensorcask/serialize/checkpoint/shard_payloads.h"

#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/bundle_index.h"
#include "tensorcask/serialize/checkpoint/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/checkpoint/string_codec.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/payload_field.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/maybe_owned.h"

namespace tensorcask::checkpoint {
namespace {

// No payload is smaller: head, one chunk in the index, and its checksum.
constexpr uint64_t kLeastBytes = kPayloadHeadBytes + 20;

// Passes bytes on, and sums them up while they are in the cache.
class ChecksumSink final : public ByteSink {
 public:
  explicit ChecksumSink(ByteSink* sink) : sink_(sink) {}

  absl::Status Append(absl::string_view bytes) override {
    crc_ = ExtendCrc32c(crc_, bytes);
    return sink_->Append(bytes);
  }
  uint64_t position() const override { return sink_->position(); }
  uint32_t crc() const { return crc_; }

 private:
  ByteSink* const sink_;
  uint32_t crc_ = 0;
};

}  // namespace

absl::StatusOr<std::optional<StoredPayload>> ShardPayloads::Append(absl::string_view key, const TensorView& tensor,
                                                                   PayloadLevel level, ByteSink* sink) {
  const DType dtype = tensor.dtype();
  if (!PayloadHead::Supports(dtype) || tensor.num_elements() == 0) return std::nullopt;
  if (IsFixedSize(dtype) && static_cast<uint64_t>(tensor.num_elements()) <= kLeastBytes / ElementSize(dtype)) {
    return std::nullopt;
  }
  CASK_ASSIGN_OR_RETURN(const ContentHash hash, HashElementsInProcess(tensor));
  const Content content = {dtype, tensor.num_elements(), level, std::string(hash.bytes.begin(), hash.bytes.end())};
  if (const auto found = places_.find(content); found != places_.end()) {
    Place& place = found->second;
    const uint64_t most = MaxDecodedBytes(place.stored.stored_bytes, DecodeLimits());
    if (place.stored.head.decoded_bytes() <= most / (place.shares + 1)) {
      ++place.shares;
      return std::optional<StoredPayload>(place.stored);
    }
  }
  CASK_ASSIGN_OR_RETURN(const std::optional<StoredPayload> stored, Encode(key, tensor, level, sink));
  // A delta is to the base of its own name.
  if (stored.has_value() && !stored->head.is_delta) places_[content] = {*stored, 1};
  return stored;
}

// What cannot be read is no reason not to save.
std::optional<Tensor> ShardPayloads::ReadBase(absl::string_view key, const TensorView& tensor) const {
  const DType dtype = tensor.dtype();
  if (options_.base == nullptr || IsPieceKey(key) || dtype == DType::kBool) return std::nullopt;
  const absl::StatusOr<CheckpointEntry> entry = options_.base->Find(key);
  if (!entry.ok() || entry->dtype != dtype || entry->shape.num_elements() != tensor.num_elements() ||
      (entry->payload != nullptr && entry->payload->is_delta)) {
    return std::nullopt;
  }
  absl::StatusOr<Tensor> base = options_.base->Read(key);
  if (!base.ok()) return std::nullopt;
  return *std::move(base);
}

absl::StatusOr<std::optional<StoredPayload>> ShardPayloads::Encode(absl::string_view key, const TensorView& tensor,
                                                                   PayloadLevel level, ByteSink* sink) const {
  if (tensor.dtype() == DType::kString) return EncodeStrings(tensor, level, sink);
  const std::optional<Tensor> base = ReadBase(key, tensor);
  const TensorView base_view = base.has_value() ? TensorView(*base) : TensorView(Tensor());
  PayloadOptions options;
  options.level = level;
  options.chunk_bytes = options_.chunk_bytes;
  options.num_threads = options_.num_threads;
  options.base = base.has_value() ? &base_view : nullptr;
  const uint64_t offset = sink->position();
  ChecksumSink checksum(sink);
  CASK_ASSIGN_OR_RETURN(const std::optional<PayloadSummary> summary, EncodePayload(tensor, options, &checksum));
  if (!summary.has_value()) return std::nullopt;
  return std::optional<StoredPayload>(
      StoredPayload{summary->head, offset, summary->stored_bytes, MaskCrc32c(checksum.crc())});
}

// Whether it pays depends on what the plain form takes, where a length is a byte or two.
absl::StatusOr<std::optional<StoredPayload>> ShardPayloads::EncodeStrings(const TensorView& tensor, PayloadLevel level,
                                                                          ByteSink* sink) const {
  CASK_ASSIGN_OR_RETURN(const MaybeOwned<TensorView> row_major, tensor.ExpectContiguous());
  DiscardSink plain;
  uint32_t plain_crc = 0;
  CASK_RETURN_IF_ERROR(
      AppendStrings(absl::MakeConstSpan(row_major->data<std::string>(), static_cast<size_t>(tensor.num_elements())),
                    &plain, &plain_crc));
  if (plain.position() <= kLeastBytes) return std::nullopt;
  EncodeOptions options;
  options.level = level;
  options.chunk_bytes = options_.chunk_bytes;
  options.num_threads = options_.num_threads;
  CASK_ASSIGN_OR_RETURN(const std::optional<TensorView> payload,
                        internal::EncodePayloadField(*row_major, options, plain.position()));
  if (!payload.has_value()) return std::nullopt;
  const absl::string_view bytes = payload->bytes();
  StoredPayload stored;
  CASK_ASSIGN_OR_RETURN(stored.head, PayloadHead::Parse(bytes.substr(0, kPayloadHeadBytes)));
  stored.offset = sink->position();
  stored.stored_bytes = bytes.size();
  stored.masked_crc32c = MaskCrc32c(Crc32c(bytes));
  CASK_RETURN_IF_ERROR(sink->Append(bytes));
  return std::optional<StoredPayload>(stored);
}

}  // namespace tensorcask::checkpoint
