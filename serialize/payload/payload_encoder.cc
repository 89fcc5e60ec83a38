#include "tensorcask/serialize/payload/payload_encoder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/codec/chunk_codec.h"
#include "tensorcask/serialize/payload/codec/scratch.h"
#include "tensorcask/serialize/payload/internal/element_streams.h"
#include "tensorcask/serialize/payload/internal/payload_writer.h"
#include "tensorcask/serialize/payload/internal/stream_numbers.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {
namespace {

using payload::ChunkEncoder;
using payload::Compressibility;
using payload::ElementStreams;

constexpr uint64_t kMaxWholeBytes = uint64_t{16} << 20;  // above, samples decide
constexpr int kSamples = 8;
constexpr uint64_t kSampleBytes = uint64_t{64} << 10;
constexpr uint64_t kSampleAlignment = 16;                    // the size of the largest element
constexpr uint64_t kMinEstimatedBytes = uint64_t{64} << 10;  // below, encoding is as fast as an estimate
constexpr uint64_t kEstimatedChunks = 8;
constexpr size_t kStartBytes = 64;  // chunks with the same first bytes may be equal

enum class Form { kNone, kPlain, kDelta };

// The size of the same elements in each form, in bytes.
struct Sizes {
  uint64_t decoded = 0;
  uint64_t plain = 0;
  uint64_t delta = 0;  // not used without a base
};

// At least 2 % smaller.
bool IsWorth(uint64_t size, uint64_t than) { return size <= than - (than + 49) / 50; }

Form Choose(const Sizes& sizes, bool has_base, bool always) {
  const bool plain = always || IsWorth(sizes.plain, sizes.decoded);
  if (has_base && IsWorth(sizes.delta, plain ? sizes.plain : sizes.decoded)) return Form::kDelta;
  return plain ? Form::kPlain : Form::kNone;
}

// A payload in memory that is reserved before, and that is then either appended to the output or dropped.
class ReservedSink final : public ByteSink {
 public:
  absl::Status Reserve(uint64_t bytes) { return memory_.Reserve(bytes); }
  absl::string_view bytes() { return {memory_.data(), size_}; }

  // Requires: room was reserved.
  absl::Status Append(absl::string_view bytes) override {
    bytes.copy(memory_.data() + size_, bytes.size());
    size_ += bytes.size();
    return absl::OkStatus();
  }
  uint64_t position() const override { return size_; }

 private:
  payload::Scratch memory_;
  size_t size_ = 0;
};

class Encoding {
 public:
  Encoding(const PayloadWriteOptions& options, const PayloadHeader& header, const ElementStreams* streams,
           const BaseTensor* base, const ElementStreams* base_streams)
      : options_(options), header_(header), streams_(streams), base_tensor_(base), base_(base_streams) {}

  // Encodes in memory, in one form or two, and appends the smaller one. An estimate may decide before.
  absl::StatusOr<std::optional<PayloadSummary>> EncodeWhole(ByteSink* sink) {
    // Gathering strided elements or strings only for an estimate would cost too much.
    const bool in_place = IsFixedSize(header_.dtype) && streams_->view().IsContiguous();
    if (base_ == nullptr && in_place && header_.decoded_bytes() >= kMinEstimatedBytes) {
      CASK_ASSIGN_OR_RETURN(const Compressibility estimate, EstimateTensor());
      if (estimate == Compressibility::kNoise) return std::nullopt;
      if (estimate == Compressibility::kSmaller) return Encode(Form::kPlain, sink);
    }
    ReservedSink plain;
    ReservedSink delta;
    CASK_ASSIGN_OR_RETURN(PayloadSummary summary, EncodeTo(Form::kPlain, &plain));
    Sizes sizes = {summary.decoded_bytes, summary.stored_bytes};
    PayloadSummary delta_summary;
    if (base_ != nullptr) {
      CASK_ASSIGN_OR_RETURN(delta_summary, EncodeTo(Form::kDelta, &delta));
      sizes.delta = delta_summary.stored_bytes;
    }
    const Form form = Choose(sizes, base_ != nullptr, options_.always);
    if (form == Form::kNone) return std::nullopt;
    CASK_RETURN_IF_ERROR(sink->Append(form == Form::kDelta ? delta.bytes() : plain.bytes()));
    return std::optional<PayloadSummary>(form == Form::kDelta ? delta_summary : summary);
  }

  absl::StatusOr<std::optional<PayloadSummary>> EncodeBySamples(ByteSink* sink) {
    CASK_ASSIGN_OR_RETURN(const Sizes sizes, Sample());
    const Form form = Choose(sizes, base_ != nullptr, options_.always);
    if (form == Form::kNone) return std::nullopt;
    return Encode(form, sink);
  }

  absl::StatusOr<PayloadSummary> Encode(Form form, ByteSink* sink) {
    PayloadHeader header = header_;
    if (form == Form::kDelta) {
      header.is_delta = true;
      CASK_ASSIGN_OR_RETURN(header.base, base_tensor_->Hash());
    }
    return payload::WritePayload(header, *streams_, header.is_delta ? base_ : nullptr, options_.num_threads, sink);
  }

 private:
  // Estimates some chunks; all of them if those are noise.
  absl::StatusOr<Compressibility> EstimateTensor() const {
    ChunkEncoder encoders[] = {NewEncoder(0), NewEncoder(1)};
    payload::Scratch memory;
    std::unordered_set<std::string, absl::Hash<std::string>> starts;  // the first bytes of chunks
    const auto estimate_chunk = [&](uint64_t i) -> absl::StatusOr<Compressibility> {
      const PayloadHeader::Chunk chunk = header_.chunk(i);
      CASK_ASSIGN_OR_RETURN(const absl::string_view bytes,
                            streams_->Read(chunk.stream, chunk.begin, chunk.size, &memory));
      const bool is_new = starts.insert(std::string(bytes.substr(0, kStartBytes))).second;
      const Compressibility estimate = encoders[chunk.stream].EstimateCompressibility(bytes);
      return estimate == Compressibility::kNoise && !is_new ? Compressibility::kUnknown : estimate;
    };
    const uint64_t chunks = header_.num_chunks();
    const uint64_t estimates = std::min(chunks, kEstimatedChunks);
    uint64_t smaller = 0;
    uint64_t noise = 0;
    for (uint64_t i = 0; i < estimates; ++i) {
      CASK_ASSIGN_OR_RETURN(const Compressibility estimate, estimate_chunk(i * chunks / estimates));
      smaller += estimate == Compressibility::kSmaller ? 1 : 0;
      noise += estimate == Compressibility::kNoise ? 1 : 0;
    }
    if (smaller * 2 > estimates) return Compressibility::kSmaller;
    if (noise < estimates) return Compressibility::kUnknown;
    if (estimates == chunks) return Compressibility::kNoise;
    starts.clear();
    for (uint64_t i = 0; i < chunks; ++i) {
      CASK_ASSIGN_OR_RETURN(const Compressibility estimate, estimate_chunk(i));
      if (estimate != Compressibility::kNoise) return Compressibility::kUnknown;
    }
    return Compressibility::kNoise;
  }

  ChunkEncoder NewEncoder(int stream) const {
    return ChunkEncoder(payload::StreamNumbers(header_.dtype, stream), options_.payload.level);
  }

  absl::StatusOr<PayloadSummary> EncodeTo(Form form, ReservedSink* sink) {
    CASK_RETURN_IF_ERROR(sink->Reserve(payload::MaxPayloadBytes(header_)));
    return Encode(form, sink);
  }

  // Sizes of pieces from all of the tensor.
  absl::StatusOr<Sizes> Sample() const {
    ChunkEncoder encoders[] = {NewEncoder(0), NewEncoder(1)};
    payload::Scratch bytes_memory;
    payload::Scratch base_memory;
    Sizes sizes;
    const uint64_t step = (header_.decoded_bytes() - kSampleBytes) / (kSamples - 1);
    for (uint64_t i = 0; i < kSamples; ++i) {
      const uint64_t place = i * step;
      const int stream = place < header_.first_stream_bytes() ? 0 : 1;
      const uint64_t begin =
          (stream == 0 ? place : place - header_.first_stream_bytes()) / kSampleAlignment * kSampleAlignment;
      const auto size = static_cast<size_t>(std::min(streams_->size_bytes(stream) - begin, kSampleBytes));
      CASK_ASSIGN_OR_RETURN(const absl::string_view bytes, streams_->Read(stream, begin, size, &bytes_memory));
      CASK_ASSIGN_OR_RETURN(const absl::string_view plain, encoders[stream].Encode(bytes, nullptr));
      sizes.decoded += size;
      sizes.plain += plain.empty() ? size : plain.size();
      if (base_ == nullptr) continue;
      CASK_ASSIGN_OR_RETURN(const absl::string_view base, base_->Read(stream, begin, size, &base_memory));
      CASK_ASSIGN_OR_RETURN(const absl::string_view delta, encoders[stream].Encode(bytes, base.data()));
      sizes.delta += delta.empty() ? size : delta.size();
    }
    return sizes;
  }

  const PayloadWriteOptions& options_;
  const PayloadHeader& header_;
  const ElementStreams* const streams_;
  const BaseTensor* const base_tensor_;  // null: no base
  const ElementStreams* const base_;     // the streams of base_tensor_
};

}  // namespace

absl::StatusOr<std::optional<PayloadSummary>> EncodePayload(const TensorView& view, const PayloadWriteOptions& options,
                                                            ByteSink* sink) {
  CASK_RETURN_IF_ERROR(options.payload.Validate());
  CASK_ASSIGN_OR_RETURN(const ElementStreams streams, ElementStreams::Of(view));
  const PayloadLevel level = options.payload.level;
  PayloadHeader header;
  while (header.chunk_bytes() != options.payload.chunk_bytes) {
    header.log2_chunk_bytes += header.chunk_bytes() < options.payload.chunk_bytes ? 1 : -1;
  }
  header.dtype = view.dtype();
  header.level = static_cast<uint8_t>(level);
  header.num_elements = static_cast<uint64_t>(view.num_elements());
  header.characters = streams.size_bytes(1);

  std::shared_ptr<const BaseTensor> base;
  std::optional<ElementStreams> base_streams;
  const bool can_be_delta = level != PayloadLevel::kStored && header.num_elements > 0 &&
                            header.dtype != DType::kString && header.dtype != DType::kBool;
  if (options.payload.base != nullptr && can_be_delta) {
    CASK_ASSIGN_OR_RETURN(base, FindUsableBase(*options.payload.base, options.name, view));
    if (base != nullptr) {
      CASK_ASSIGN_OR_RETURN(base_streams, ElementStreams::Of(base->elements()));
    }
  }
  Encoding encoding(options, header, &streams, base.get(), base_streams ? &*base_streams : nullptr);
  if (level == PayloadLevel::kStored || (options.always && base == nullptr)) {
    CASK_ASSIGN_OR_RETURN(const PayloadSummary summary, encoding.Encode(Form::kPlain, sink));
    return std::optional<PayloadSummary>(summary);
  }
  return header.decoded_bytes() <= kMaxWholeBytes ? encoding.EncodeWhole(sink) : encoding.EncodeBySamples(sink);
}

}  // namespace tensorcask
