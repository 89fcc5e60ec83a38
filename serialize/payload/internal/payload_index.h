// The index of a payload: offset, size and checksum of each chunk, checked as FORMAT.md section 5 requires.
//
//   CASK_ASSIGN_OR_RETURN(const PayloadIndex index, PayloadIndex::Read(bytes, limits));
//   const ChunkEntry entry = index.entry(3);      // bytes.Get(entry.offset, entry.size, &scratch)

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_PAYLOAD_INDEX_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_PAYLOAD_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/codec/scratch.h"
#include "tensorcask/serialize/payload/payload_header.h"

namespace tensorcask::payload {

// The entry of one chunk (FORMAT.md section 1).
struct ChunkEntry {
  uint64_t offset = 0;
  uint32_t size = 0;
  uint32_t checksum = 0;  // that of the chunk as it is stored, masked
};

constexpr size_t kChunkEntryBytes = 16;
constexpr size_t kIndexChecksumBytes = 4;
constexpr size_t kRawChunkAlignment = 64;

void AppendChunkEntry(const ChunkEntry& entry, std::string* index);

// A payload in memory, which must outlive this object, or in a range of a source.
class PayloadBytes {
 public:
  explicit PayloadBytes(absl::string_view bytes) : bytes_(bytes), size_(bytes.size()) {}
  PayloadBytes(std::shared_ptr<const ByteSource> source, uint64_t offset, uint64_t size)
      : source_(std::move(source)), offset_(offset), size_(size) {}

  bool in_memory() const { return source_ == nullptr; }
  uint64_t size() const { return size_; }

  // Bytes [offset, offset + size), in place or in *scratch. Requires: they are in the payload.
  // Errors: those of the source; ResourceExhausted.
  absl::StatusOr<absl::string_view> Get(uint64_t offset, size_t size, Scratch* scratch) const;
  // The same into `out`.
  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const;

 private:
  absl::string_view bytes_;
  std::shared_ptr<const ByteSource> source_;
  uint64_t offset_ = 0;
  uint64_t size_;
};

class PayloadIndex {
 public:
  // Memory: for a payload in a source its index, and the same again while the index is checked.
  // Errors: InvalidArgument, saying what is wrong; Unimplemented for what is newer; DataLoss for a wrong checksum;
  // ResourceExhausted past max_memory_beyond_input + max_expansion x the size; those of the source.
  static absl::StatusOr<PayloadIndex> Read(const PayloadBytes& bytes, const DecodeLimits& limits);

  const PayloadHeader& header() const { return header_; }
  ChunkEntry entry(uint64_t chunk) const;  // Requires: chunk < header().num_chunks()

 private:
  absl::Status CheckEntries(uint64_t end) const;
  absl::Status CheckOverlaps() const;

  PayloadHeader header_;
  Scratch memory_;
  absl::string_view entries_;  // in place or in memory_
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_PAYLOAD_INDEX_H_
