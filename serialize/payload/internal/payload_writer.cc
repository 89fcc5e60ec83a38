#include "tensorcask/serialize/payload/internal/payload_writer.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/codec/chunk_codec.h"
#include "tensorcask/serialize/payload/codec/scratch.h"
#include "tensorcask/serialize/payload/internal/ordered_for.h"
#include "tensorcask/serialize/payload/internal/payload_index.h"
#include "tensorcask/serialize/payload/internal/stream_numbers.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

constexpr size_t kComparedBytes = size_t{64} << 10;  // at a time; whole numbers
constexpr uint64_t kMaxExpansion = 1000;             // what readers take by default (DecodeLimits)

// The key by which stored chunks are found again. Equal chunks have equal keys.
struct ChunkName {
  uint32_t checksum = 0;
  uint32_t size = 0;
  uint32_t decoded = 0;
  std::array<char, 64> first = {};  // bytes, as far as there are any

  bool is_all() const { return size <= first.size(); }  // then equal keys mean equal chunks

  friend bool operator==(const ChunkName& a, const ChunkName& b) {
    return a.checksum == b.checksum && a.size == b.size && a.decoded == b.decoded && a.first == b.first;
  }
  template <typename H>
  friend H AbslHashValue(H state, const ChunkName& name) {
    return H::combine(std::move(state), name.checksum, name.size, name.decoded);
  }
};

// Encodes one chunk at a time, from elements to stored bytes.
class Worker {
 public:
  Worker(const PayloadHeader& header, const ElementStreams* streams, const ElementStreams* base)
      : header_(header),
        streams_(streams),
        base_(base),
        encoders_{ChunkEncoder(StreamNumbers(header.dtype, 0), static_cast<PayloadLevel>(header.level)),
                  ChunkEncoder(StreamNumbers(header.dtype, 1), static_cast<PayloadLevel>(header.level))} {}

  absl::Status Encode(uint64_t i) {
    const PayloadHeader::Chunk chunk = header_.chunk(i);
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
    name_ = ChunkName();
    name_.checksum = MaskCrc32c(Crc32c(stored_));
    name_.size = static_cast<uint32_t>(stored_.size());
    name_.decoded = static_cast<uint32_t>(chunk.size);
    stored_.copy(name_.first.data(), name_.first.size());
    return absl::OkStatus();
  }

  // The next three: for the last chunk.
  absl::string_view stored() const { return stored_; }
  bool is_raw() const { return is_raw_; }
  const ChunkName& name() const { return name_; }

  // True if chunks i and j, whose hashes are equal, are stored as the same bytes. False if they differ or if it is
  // unknown.
  absl::StatusOr<bool> AreEqual(uint64_t i, uint64_t j) {
    if (name_.is_all()) return true;
    const PayloadHeader::Chunk a = header_.chunk(i);
    const PayloadHeader::Chunk b = header_.chunk(j);
    if (a.stream != b.stream) return false;
    CASK_ASSIGN_OR_RETURN(bool equal, AreEqual(*streams_, a, b));
    if (equal && base_ != nullptr) {
      CASK_ASSIGN_OR_RETURN(equal, AreEqual(*base_, a, b));
    }
    return equal;
  }

 private:
  // True if the elements of the two chunks are equal. Requires: equal sizes.
  absl::StatusOr<bool> AreEqual(const ElementStreams& streams, const PayloadHeader::Chunk& a,
                                const PayloadHeader::Chunk& b) {
    for (size_t at = 0; at < a.size; at += kComparedBytes) {
      const size_t size = std::min(a.size - at, kComparedBytes);
      CASK_ASSIGN_OR_RETURN(const absl::string_view one, streams.Read(a.stream, a.begin + at, size, &one_));
      CASK_ASSIGN_OR_RETURN(const absl::string_view other, streams.Read(b.stream, b.begin + at, size, &other_));
      if (one != other) return false;
    }
    return true;
  }

  const PayloadHeader& header_;
  const ElementStreams* streams_;
  const ElementStreams* base_;
  ChunkEncoder encoders_[2];
  Scratch bytes_;
  Scratch base_bytes_;
  absl::string_view stored_;
  bool is_raw_ = false;
  ChunkName name_;
  Scratch one_, other_;  // pieces that are compared
};

// Appends chunks, and records their ranges in the index.
class Writer {
 public:
  explicit Writer(ByteSink* sink) : sink_(sink), start_(sink->position()) {}

  absl::Status Append(absl::string_view bytes) { return sink_->Append(bytes); }
  uint64_t position() const { return sink_->position() - start_; }
  uint64_t shared_chunks() const { return shared_chunks_; }

  // The chunk that `worker` has encoded last.
  absl::Status AppendChunk(Worker* worker, uint64_t i) {
    const auto [found, is_new] = stored_.try_emplace(worker->name(), Place{i, 0});
    bool is_shared = false;
    if (!is_new) {
      CASK_ASSIGN_OR_RETURN(is_shared, worker->AreEqual(i, found->second.chunk));
    }
    uint64_t offset = found->second.offset;
    if (is_shared) {
      ++shared_chunks_;
    } else {
      if (worker->is_raw()) CASK_RETURN_IF_ERROR(AppendZerosTo(AlignUp(position())));
      offset = position();
      found->second = {i, offset};
      CASK_RETURN_IF_ERROR(sink_->Append(worker->stored()));
    }
    AppendChunkEntry({offset, worker->name().size, worker->name().checksum}, &index_);
    return absl::OkStatus();
  }

  // The index, and padding that keeps decoded_bytes within the default limit of readers.
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
  struct Place {
    uint64_t chunk;
    uint64_t offset;
  };
  // Not a table of Abseil, which does not survive a failed allocation.
  std::unordered_map<ChunkName, Place, absl::Hash<ChunkName>> stored_;
  uint64_t shared_chunks_ = 0;
};

}  // namespace

uint64_t MaxPayloadBytes(const PayloadHeader& header) {
  const uint64_t around_chunk = kRawChunkAlignment - 1 + kChunkEntryBytes;
  return kPayloadHeaderBytes + header.decoded_bytes() + header.num_chunks() * around_chunk + kIndexChecksumBytes;
}

absl::StatusOr<PayloadSummary> WritePayload(const PayloadHeader& header, const ElementStreams& streams,
                                            const ElementStreams* base, int num_threads, ByteSink* sink) {
  const uint64_t chunks = header.num_chunks();
  std::vector<Worker> workers;
  for (size_t i = NumWorkers(num_threads, chunks); i > 0; --i) workers.emplace_back(header, &streams, base);
  Writer writer(sink);
  CASK_RETURN_IF_ERROR(writer.Append(header.Encode()));
  CASK_RETURN_IF_ERROR(OrderedFor(
      num_threads, chunks, [&](size_t worker, uint64_t i) { return workers[worker].Encode(i); },
      [&](size_t worker, uint64_t i) { return writer.AppendChunk(&workers[worker], i); }));
  CASK_RETURN_IF_ERROR(writer.Finish(header.decoded_bytes()));
  return PayloadSummary{header, header.decoded_bytes(), writer.position(), chunks, writer.shared_chunks()};
}

}  // namespace tensorcask::payload
