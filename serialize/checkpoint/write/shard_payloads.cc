#include "tensorcask/serialize/checkpoint/write/shard_payloads.h"

#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/format/decoded_bytes.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/format/string_codec.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/message/payload_field.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/changing_memory.h"
#include "tensorcask/tensor/strided/maybe_owned.h"

namespace tensorcask::checkpoint {
namespace {

// No payload is smaller: header, one chunk in the index, and its checksum.
constexpr uint64_t kLeastBytes = kPayloadHeaderBytes + 20;

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
  if (!PayloadHeader::Supports(dtype) || tensor.num_elements() == 0) return std::nullopt;
  if (IsFixedSize(dtype) && static_cast<uint64_t>(tensor.num_elements()) <= kLeastBytes / ElementSize(dtype)) {
    return std::nullopt;
  }
  CASK_ASSIGN_OR_RETURN(const ContentHash hash, HashElementsInProcess(tensor));
  const Content content = {dtype, tensor.num_elements(), level, std::string(hash.bytes.begin(), hash.bytes.end())};
  if (const auto found = places_.find(content); found != places_.end()) {
    Place& place = found->second;
    const uint64_t most = MaxDecodedBytes(place.stored.stored_bytes, DecodeLimits());
    if (place.stored.header.decoded_bytes() <= most / (place.shares + 1)) {
      ++place.shares;
      return std::optional<StoredPayload>(place.stored);
    }
  }
  CASK_ASSIGN_OR_RETURN(const std::optional<StoredPayload> stored, Encode(key, tensor, level, sink));
  // Not for deltas, each of which has the base of its own name. Not for memory that other code may write to, which may
  // have changed since it was hashed.
  if (stored.has_value() && !stored->header.is_delta && !internal::MayChange(tensor)) places_[content] = {*stored, 1};
  return stored;
}

absl::StatusOr<std::optional<StoredPayload>> ShardPayloads::Encode(absl::string_view key, const TensorView& tensor,
                                                                   PayloadLevel level, ByteSink* sink) const {
  if (tensor.dtype() == DType::kString) return EncodeStrings(tensor, level, sink);
  PayloadWriteOptions options;
  options.payload = options_;
  options.payload.level = level;
  if (IsPieceKey(key)) options.payload.base = nullptr;
  options.name = std::string(key);
  options.num_threads = num_threads_;
  const uint64_t offset = sink->position();
  ChecksumSink checksum(sink);
  CASK_ASSIGN_OR_RETURN(const std::optional<PayloadSummary> summary, EncodePayload(tensor, options, &checksum));
  if (!summary.has_value()) return std::nullopt;
  return std::optional<StoredPayload>(
      StoredPayload{summary->header, offset, summary->stored_bytes, MaskCrc32c(checksum.crc())});
}

// Compares the payload with the plain form, in which a length takes a byte or two.
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
  options.payload.level = level;
  options.payload.chunk_bytes = options_.chunk_bytes;
  options.num_threads = num_threads_;
  CASK_ASSIGN_OR_RETURN(const std::optional<TensorView> payload,
                        internal::EncodePayloadField(*row_major, /*name=*/"", options, plain.position()));
  if (!payload.has_value()) return std::nullopt;
  const absl::string_view bytes = payload->bytes();
  StoredPayload stored;
  CASK_ASSIGN_OR_RETURN(stored.header, PayloadHeader::Parse(bytes.substr(0, kPayloadHeaderBytes)));
  stored.offset = sink->position();
  stored.stored_bytes = bytes.size();
  stored.masked_crc32c = MaskCrc32c(Crc32c(bytes));
  CASK_RETURN_IF_ERROR(sink->Append(bytes));
  return std::optional<StoredPayload>(stored);
}

}  // namespace tensorcask::checkpoint
