#include "tensorcask/serialize/payload/payload_encoder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/chunk_codec.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/payload/element_streams.h"
#include "tensorcask/serialize/payload/payload_writer.h"
#include "tensorcask/serialize/payload/scratch.h"
#include "tensorcask/serialize/payload/stream_numbers.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {
namespace {

using payload::ChunkEncoder;
using payload::ChunkOutlook;
using payload::ElementStreams;

constexpr uint64_t kMaxWholeBytes = uint64_t{16} << 20;  // above, samples decide
constexpr int kSamples = 8;
constexpr uint64_t kSampleBytes = uint64_t{64} << 10;
constexpr uint64_t kSampleAlignment = 16;                   // of the largest element
constexpr uint64_t kMinLookedAtBytes = uint64_t{64} << 10;  // below, all of it is soon encoded
constexpr uint64_t kLooks = 8;                              // at chunks, before there is an opinion
constexpr size_t kStartBytes = 64;                          // chunks that begin alike may be equal

enum class Form { kNone, kPlain, kDelta };

// Bytes of the same elements in each form.
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

absl::StatusOr<int> Log2ChunkBytes(size_t chunk_bytes) {
  for (int log2 = kMinLog2ChunkBytes; log2 <= kMaxLog2ChunkBytes; ++log2) {
    if (chunk_bytes == size_t{1} << log2) return log2;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("chunks of ", chunk_bytes, " bytes; a power of two from 64 KiB to 4 MiB is wanted"));
}

absl::Status CheckBase(const TensorView& view, const TensorView& base) {
  if (base.dtype() == view.dtype() && base.num_elements() == view.num_elements()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the base is ", base.ToString(), "; ", view.ToString(), " wants one of its dtype and elements"));
}

// A payload that may yet be dropped.
class MemorySink final : public ByteSink {
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
  Encoding(const PayloadOptions& options, const PayloadHead& head, const ElementStreams* streams,
           const ElementStreams* base)
      : options_(options), head_(head), streams_(streams), base_(base) {}

  // All of it in memory, in one form or two, and the smaller to *sink; unless a look tells beforehand.
  absl::StatusOr<std::optional<PayloadSummary>> EncodeWhole(ByteSink* sink) {
    // What has to be gathered is not gathered for a look alone.
    const bool in_place = IsFixedSize(head_.dtype) && streams_->view().IsContiguous();
    if (base_ == nullptr && in_place && head_.decoded_bytes() >= kMinLookedAtBytes) {
      CASK_ASSIGN_OR_RETURN(const ChunkOutlook outlook, Look());
      if (outlook == ChunkOutlook::kNoise) return std::nullopt;
      if (outlook == ChunkOutlook::kSmaller) return Encode(Form::kPlain, sink);
    }
    MemorySink plain;
    MemorySink delta;
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
    PayloadHead head = head_;
    if (form == Form::kDelta) {
      head.is_delta = true;
      CASK_ASSIGN_OR_RETURN(head.base, HashElements(base_->view()));
    }
    return payload::WritePayload(head, *streams_, head.is_delta ? base_ : nullptr, options_.num_threads, sink);
  }

 private:
  // At some chunks; at all, if those are noise.
  absl::StatusOr<ChunkOutlook> Look() const {
    ChunkEncoder encoders[] = {NewEncoder(0), NewEncoder(1)};
    payload::Scratch memory;
    absl::flat_hash_set<std::string> starts;  // of chunks
    const auto look = [&](uint64_t i) -> absl::StatusOr<ChunkOutlook> {
      const PayloadHead::Chunk chunk = head_.chunk(i);
      CASK_ASSIGN_OR_RETURN(const absl::string_view bytes,
                            streams_->Read(chunk.stream, chunk.begin, chunk.size, &memory));
      const bool is_new = starts.insert(std::string(bytes.substr(0, kStartBytes))).second;
      const ChunkOutlook outlook = encoders[chunk.stream].LookAt(bytes);
      return outlook == ChunkOutlook::kNoise && !is_new ? ChunkOutlook::kOpen : outlook;
    };
    const uint64_t chunks = head_.num_chunks();
    const uint64_t looks = std::min(chunks, kLooks);
    uint64_t smaller = 0;
    uint64_t noise = 0;
    for (uint64_t i = 0; i < looks; ++i) {
      CASK_ASSIGN_OR_RETURN(const ChunkOutlook outlook, look(i * chunks / looks));
      smaller += outlook == ChunkOutlook::kSmaller ? 1 : 0;
      noise += outlook == ChunkOutlook::kNoise ? 1 : 0;
    }
    if (smaller * 2 > looks) return ChunkOutlook::kSmaller;
    if (noise < looks) return ChunkOutlook::kOpen;
    if (looks == chunks) return ChunkOutlook::kNoise;
    starts.clear();
    for (uint64_t i = 0; i < chunks; ++i) {
      CASK_ASSIGN_OR_RETURN(const ChunkOutlook outlook, look(i));
      if (outlook != ChunkOutlook::kNoise) return ChunkOutlook::kOpen;
    }
    return ChunkOutlook::kNoise;
  }

  ChunkEncoder NewEncoder(int stream) const {
    return ChunkEncoder(payload::StreamNumbers(head_.dtype, stream), options_.level);
  }

  absl::StatusOr<PayloadSummary> EncodeTo(Form form, MemorySink* sink) {
    CASK_RETURN_IF_ERROR(sink->Reserve(payload::MaxPayloadBytes(head_)));
    return Encode(form, sink);
  }

  // Sizes of pieces from all of the tensor.
  absl::StatusOr<Sizes> Sample() const {
    ChunkEncoder encoders[] = {NewEncoder(0), NewEncoder(1)};
    payload::Scratch bytes_memory;
    payload::Scratch base_memory;
    Sizes sizes;
    const uint64_t step = (head_.decoded_bytes() - kSampleBytes) / (kSamples - 1);
    for (uint64_t i = 0; i < kSamples; ++i) {
      const uint64_t place = i * step;
      const int stream = place < head_.first_stream_bytes() ? 0 : 1;
      const uint64_t begin =
          (stream == 0 ? place : place - head_.first_stream_bytes()) / kSampleAlignment * kSampleAlignment;
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

  const PayloadOptions& options_;
  const PayloadHead& head_;
  const ElementStreams* const streams_;
  const ElementStreams* const base_;
};

}  // namespace

absl::StatusOr<std::optional<PayloadSummary>> EncodePayload(const TensorView& view, const PayloadOptions& options,
                                                            ByteSink* sink) {
  PayloadHead head;
  CASK_ASSIGN_OR_RETURN(head.log2_chunk_bytes, Log2ChunkBytes(options.chunk_bytes));
  if (options.level > PayloadLevel::kHigh) {
    return absl::InvalidArgumentError(absl::StrCat("there is no level ", static_cast<int>(options.level)));
  }
  CASK_ASSIGN_OR_RETURN(const ElementStreams streams, ElementStreams::Of(view));
  head.dtype = view.dtype();
  head.level = static_cast<uint8_t>(options.level);
  head.num_elements = static_cast<uint64_t>(view.num_elements());
  head.characters = streams.size_bytes(1);

  std::optional<ElementStreams> base;
  if (options.base != nullptr && head.dtype != DType::kString && head.dtype != DType::kBool) {
    CASK_RETURN_IF_ERROR(CheckBase(view, *options.base));
    if (options.level != PayloadLevel::kStored && head.num_elements > 0) {
      CASK_ASSIGN_OR_RETURN(base, ElementStreams::Of(*options.base));
    }
  }
  Encoding encoding(options, head, &streams, base ? &*base : nullptr);
  if (options.level == PayloadLevel::kStored || (options.always && !base)) {
    CASK_ASSIGN_OR_RETURN(const PayloadSummary summary, encoding.Encode(Form::kPlain, sink));
    return std::optional<PayloadSummary>(summary);
  }
  return head.decoded_bytes() <= kMaxWholeBytes ? encoding.EncodeWhole(sink) : encoding.EncodeBySamples(sink);
}

}  // namespace tensorcask
