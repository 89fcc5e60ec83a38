#include "tensorcask/serialize/payload/payload_writer.h"

#include <xxhash.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/chunk_codec.h"
#include "tensorcask/serialize/payload/ordered_for.h"
#include "tensorcask/serialize/payload/payload_index.h"
#include "tensorcask/serialize/payload/process_secret.h"
#include "tensorcask/serialize/payload/scratch.h"
#include "tensorcask/serialize/payload/stream_numbers.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

constexpr uint64_t kMaxExpansion = 1000;  // what readers take by default (DecodeLimits)

// A chunk as it is stored. Equal ones decode to equal bytes.
struct ChunkName {
  uint64_t low = 0;
  uint64_t high = 0;
  uint32_t size = 0;
  uint32_t decoded = 0;

  static ChunkName Of(absl::string_view chunk, size_t decoded) {
    static const absl::string_view secret = ProcessSecret();
    const XXH128_hash_t hash = XXH3_128bits_withSecret(chunk.data(), chunk.size(), secret.data(), secret.size());
    return {hash.low64, hash.high64, static_cast<uint32_t>(chunk.size()), static_cast<uint32_t>(decoded)};
  }
  friend bool operator==(const ChunkName& a, const ChunkName& b) {
    return a.low == b.low && a.high == b.high && a.size == b.size && a.decoded == b.decoded;
  }
  template <typename H>
  friend H AbslHashValue(H state, const ChunkName& name) {
    return H::combine(std::move(state), name.low, name.high, name.size, name.decoded);
  }
};

// One chunk at a time, from elements to what is stored.
class Worker {
 public:
  Worker(const PayloadHead& head, const ElementStreams* streams, const ElementStreams* base)
      : head_(head),
        streams_(streams),
        base_(base),
        encoders_{ChunkEncoder(StreamNumbers(head.dtype, 0), static_cast<PayloadLevel>(head.level)),
                  ChunkEncoder(StreamNumbers(head.dtype, 1), static_cast<PayloadLevel>(head.level))} {}

  absl::Status Encode(uint64_t i) {
    const PayloadHead::Chunk chunk = head_.chunk(i);
    CASK_ASSIGN_OR_RETURN(stored_, streams_->Read(chunk.stream, chunk.begin, chunk.size, &bytes_));
    const char* base = nullptr;
    if (base_ != nullptr) {
      CASK_ASSIGN_OR_RETURN(const absl::string_view bytes,
                            base_->Read(chunk.stream, chunk.begin, chunk.size, &base_bytes_));
      base = bytes.data();
    }
    CASK_ASSIGN_OR_RETURN(const absl::string_view coded, encoders_[chunk.stream].Encode(stored_, base));
    is_raw_ = coded.empty();
    if (!is_raw_) stored_ = coded;
    checksum_ = MaskCrc32c(Crc32c(stored_));
    name_ = ChunkName::Of(stored_, chunk.size);
    return absl::OkStatus();
  }

  // Of the last one.
  absl::string_view stored() const { return stored_; }
  bool is_raw() const { return is_raw_; }
  uint32_t checksum() const { return checksum_; }
  const ChunkName& name() const { return name_; }

 private:
  const PayloadHead& head_;
  const ElementStreams* streams_;
  const ElementStreams* base_;
  ChunkEncoder encoders_[2];
  Scratch bytes_;
  Scratch base_bytes_;
  absl::string_view stored_;
  bool is_raw_ = false;
  uint32_t checksum_ = 0;
  ChunkName name_;
};

// Puts chunks behind one another, and says in the index where they are.
class Writer {
 public:
  explicit Writer(ByteSink* sink) : sink_(sink), start_(sink->position()) {}

  absl::Status Append(absl::string_view bytes) { return sink_->Append(bytes); }
  uint64_t position() const { return sink_->position() - start_; }
  uint64_t shared_chunks() const { return shared_chunks_; }

  absl::Status AppendChunk(const Worker& worker) {
    const auto [found, is_new] = places_.try_emplace(worker.name(), 0);
    if (is_new) {
      if (worker.is_raw()) CASK_RETURN_IF_ERROR(AppendZerosTo(AlignUp(position())));
      found->second = position();
      CASK_RETURN_IF_ERROR(sink_->Append(worker.stored()));
    } else {
      ++shared_chunks_;
    }
    AppendChunkEntry({found->second, static_cast<uint32_t>(worker.stored().size()), worker.checksum()}, &index_);
    return absl::OkStatus();
  }

  // Index and what keeps decoded_bytes within what readers take.
  absl::Status Finish(uint64_t decoded_bytes) {
    const uint64_t least = (decoded_bytes + kMaxExpansion - 1) / kMaxExpansion;
    const uint64_t behind = index_.size() + kIndexChecksumBytes;
    if (least > behind) CASK_RETURN_IF_ERROR(AppendZerosTo(least - behind));
    char checksum[kIndexChecksumBytes];
    StoreLittleEndian(MaskCrc32c(Crc32c(index_)), checksum);
    index_.append(checksum, sizeof(checksum));
    return sink_->Append(index_);
  }

 private:
  static uint64_t AlignUp(uint64_t position) {
    return (position + kRawChunkAlignment - 1) / kRawChunkAlignment * kRawChunkAlignment;
  }

  absl::Status AppendZerosTo(uint64_t end) {
    static constexpr char kZeros[4096] = {};
    while (position() < end) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(end - position(), sizeof(kZeros)));
      CASK_RETURN_IF_ERROR(sink_->Append({kZeros, count}));
    }
    return absl::OkStatus();
  }

  ByteSink* const sink_;
  const uint64_t start_;
  std::string index_;
  absl::flat_hash_map<ChunkName, uint64_t> places_;
  uint64_t shared_chunks_ = 0;
};

}  // namespace

uint64_t MaxPayloadBytes(const PayloadHead& head) {
  const uint64_t around_chunk = kRawChunkAlignment - 1 + kChunkEntryBytes;
  return kPayloadHeadBytes + head.decoded_bytes() + head.num_chunks() * around_chunk + kIndexChecksumBytes;
}

absl::StatusOr<PayloadSummary> WritePayload(const PayloadHead& head, const ElementStreams& streams,
                                            const ElementStreams* base, int num_threads, ByteSink* sink) {
  const uint64_t chunks = head.num_chunks();
  std::vector<Worker> workers;
  for (size_t i = NumWorkers(num_threads, chunks); i > 0; --i) workers.emplace_back(head, &streams, base);
  Writer writer(sink);
  CASK_RETURN_IF_ERROR(writer.Append(head.Encode()));
  CASK_RETURN_IF_ERROR(OrderedFor(
      num_threads, chunks, [&](size_t worker, uint64_t i) { return workers[worker].Encode(i); },
      [&](size_t worker, uint64_t) { return writer.AppendChunk(workers[worker]); }));
  CASK_RETURN_IF_ERROR(writer.Finish(head.decoded_bytes()));
  return PayloadSummary{head, head.decoded_bytes(), writer.position(), chunks, writer.shared_chunks()};
}

}  // namespace tensorcask::payload
