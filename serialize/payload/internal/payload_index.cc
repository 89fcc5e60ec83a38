#include "tensorcask/serialize/payload/internal/payload_index.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

constexpr size_t kSizeAt = 8;
constexpr size_t kChecksumAt = 12;

// The limit of decoded bytes for a payload of `size` bytes.
uint64_t Limit(const DecodeLimits& limits, uint64_t size) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const auto unbacked = static_cast<uint64_t>(std::max<int64_t>(limits.max_memory_beyond_input, 0));
  const auto expansion = static_cast<uint64_t>(std::max<int64_t>(limits.max_expansion, 0));
  return CheckedAdd(unbacked, CheckedMul(expansion, size).value_or(kMost)).value_or(kMost);
}

}  // namespace

void AppendChunkEntry(const ChunkEntry& entry, std::string* index) {
  char bytes[kChunkEntryBytes];
  StoreLittleEndian(entry.offset, bytes);
  StoreLittleEndian(entry.size, bytes + kSizeAt);
  StoreLittleEndian(entry.checksum, bytes + kChecksumAt);
  index->append(bytes, sizeof(bytes));
}

absl::StatusOr<absl::string_view> PayloadBytes::Get(uint64_t offset, size_t size, Scratch* scratch) const {
  if (in_memory()) return bytes_.substr(offset, size);
  CASK_RETURN_IF_ERROR(scratch->Reserve(size));
  CASK_RETURN_IF_ERROR(ReadAt(offset, absl::MakeSpan(scratch->data(), size)));
  return absl::string_view(scratch->data(), size);
}

absl::Status PayloadBytes::ReadAt(uint64_t offset, absl::Span<char> out) const {
  if (!in_memory()) return source_->ReadAt(offset_ + offset, out);
  bytes_.copy(out.data(), out.size(), offset);
  return absl::OkStatus();
}

absl::StatusOr<PayloadIndex> PayloadIndex::Read(const PayloadBytes& bytes, const DecodeLimits& limits) {
  constexpr uint64_t kLeastBytes = kPayloadHeaderBytes + kIndexChecksumBytes;
  if (bytes.size() < kLeastBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a payload of ", bytes.size(), " bytes; header and index alone take ", kLeastBytes));
  }
  PayloadIndex index;
  CASK_ASSIGN_OR_RETURN(const absl::string_view header, bytes.Get(0, kPayloadHeaderBytes, &index.memory_));
  CASK_ASSIGN_OR_RETURN(index.header_, PayloadHeader::Parse(header));
  const uint64_t chunks = index.header_.num_chunks();  // below 2^48
  if (chunks > (bytes.size() - kLeastBytes) / kChunkEntryBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a payload of ", bytes.size(), " bytes; the index of its ", chunks,
                                                   " chunks takes ", chunks * kChunkEntryBytes));
  }
  if (const uint64_t limit = Limit(limits, bytes.size()); index.header_.decoded_bytes() > limit) {
    return absl::ResourceExhaustedError(absl::StrCat("a payload of ", bytes.size(), " bytes decodes to ",
                                                     index.header_.decoded_bytes(), ", past max_memory_beyond_input + ",
                                                     "max_expansion x its size, which is ", limit));
  }
  const size_t entries_bytes = chunks * kChunkEntryBytes;
  const uint64_t start = bytes.size() - kIndexChecksumBytes - entries_bytes;
  CASK_ASSIGN_OR_RETURN(const absl::string_view stored,
                        bytes.Get(start, entries_bytes + kIndexChecksumBytes, &index.memory_));
  index.entries_ = stored.substr(0, entries_bytes);
  if (LoadLittleEndian<uint32_t>(stored.data() + entries_bytes) != MaskCrc32c(Crc32c(index.entries_))) {
    return absl::DataLossError("the checksum of the payload's index is wrong");
  }
  CASK_RETURN_IF_ERROR(index.CheckEntries(start));
  CASK_RETURN_IF_ERROR(index.CheckOverlaps());
  return index;
}

ChunkEntry PayloadIndex::entry(uint64_t chunk) const {
  const char* const in = entries_.data() + chunk * kChunkEntryBytes;
  return {LoadLittleEndian<uint64_t>(in), LoadLittleEndian<uint32_t>(in + kSizeAt),
          LoadLittleEndian<uint32_t>(in + kChecksumAt)};
}

absl::Status PayloadIndex::CheckEntries(uint64_t end) const {
  for (uint64_t i = 0; i < header_.num_chunks(); ++i) {
    const ChunkEntry found = entry(i);
    const size_t decoded = header_.chunk(i).size;
    if (found.size == 0 || found.size > decoded) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk ", i, " has ", found.size, " bytes; it decodes to ", decoded));
    }
    if (found.offset < kPayloadHeaderBytes || !RangeFits(found.offset, found.size, end)) {
      return absl::InvalidArgumentError(absl::StrCat("chunk ", i, ": ", found.size, " bytes at ", found.offset,
                                                     " leave the space between header and index, ", kPayloadHeaderBytes,
                                                     " to ", end));
    }
    if (found.size == decoded && found.offset % kRawChunkAlignment != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk ", i, " is raw and at ", found.offset, ", not a multiple of ", kRawChunkAlignment));
    }
  }
  return absl::OkStatus();
}

absl::Status PayloadIndex::CheckOverlaps() const {
  struct Range {
    uint64_t offset;
    uint32_t size;
    uint32_t decoded;
    bool operator<(const Range& other) const {
      return offset != other.offset ? offset < other.offset : size < other.size;
    }
  };
  const uint64_t chunks = header_.num_chunks();
  Scratch memory;
  CASK_RETURN_IF_ERROR(memory.Reserve(chunks * sizeof(Range)));
  auto* const ranges = reinterpret_cast<Range*>(memory.data());
  for (uint64_t i = 0; i < chunks; ++i) {
    const ChunkEntry found = entry(i);
    ranges[i] = {found.offset, found.size, static_cast<uint32_t>(header_.chunk(i).size)};
  }
  std::sort(ranges, ranges + chunks);
  for (uint64_t i = 1; i < chunks; ++i) {
    const Range& before = ranges[i - 1];
    const Range& range = ranges[i];
    if (range.offset - before.offset >= before.size) continue;
    if (range.offset == before.offset && range.size == before.size && range.decoded == before.decoded) continue;
    return absl::InvalidArgumentError(absl::StrCat("chunks overlap: ", before.size, " bytes at ", before.offset,
                                                   " and ", range.size, " at ", range.offset));
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::payload
