#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask::checkpoint {
namespace {

void AppendTag(uint32_t number, WireType type, std::string* out) {
  AppendVarint(uint64_t{number} << 3 | static_cast<uint64_t>(type), out);
}

// Appends nothing for 0, as in proto3.
void AppendNumber(uint32_t number, uint64_t value, std::string* out) {
  if (value == 0) return;
  AppendTag(number, WireType::kVarint, out);
  AppendVarint(value, out);
}

void AppendBytes(uint32_t number, absl::string_view bytes, std::string* out) {
  AppendTag(number, WireType::kBytes, out);
  AppendVarint(bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

void AppendShape(const TensorShape& shape, std::string* out) {
  std::string dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::string dim;
    AppendNumber(1, static_cast<uint64_t>(shape.dim(axis)), &dim);
    AppendBytes(2, dim, &dims);
  }
  AppendBytes(EntryField::kShape, dims, out);
}

void AppendSlice(const TensorSlice& slice, std::string* out) {
  std::string extents;
  for (int axis = 0; axis < slice.rank(); ++axis) {
    const TensorSlice::Extent& part = slice.extent(axis);
    std::string extent;
    AppendNumber(1, static_cast<uint64_t>(part.start), &extent);
    if (!part.full()) AppendNumber(2, static_cast<uint64_t>(part.length), &extent);
    AppendBytes(1, extent, &extents);
  }
  AppendBytes(EntryField::kSlices, extents, out);
}

}  // namespace

std::string EncodeHeader(int num_shards, bool requires_reader_v2, absl::string_view base) {
  std::string version;
  AppendNumber(1, 1, &version);
  if (requires_reader_v2) AppendNumber(2, kConsumerVersion, &version);
  std::string out;
  AppendNumber(1, static_cast<uint64_t>(num_shards), &out);
  AppendBytes(3, version, &out);
  if (requires_reader_v2) {
    std::string extension;
    AppendNumber(1, kConsumerVersion, &extension);
    if (!base.empty()) AppendBytes(2, base, &extension);
    AppendBytes(internal::kExtensionNumber, extension, &out);
  }
  return out;
}

std::string EncodeEntry(const CheckpointEntry& entry, const internal::ExtensionContent& extension,
                        absl::string_view payload_header) {
  CASK_CHECK(!extension.checksum, "EncodeEntry: the checksum of an entry is field 6");
  CASK_CHECK(extension.payload_bytes == payload_header.size(), "EncodeEntry: the payload is not its header");
  std::string out;
  if (extension.dtype_number == 0)
    AppendNumber(EntryField::kDType, static_cast<uint64_t>(DTypeNumber(entry.dtype)), &out);
  AppendShape(entry.shape, &out);
  if (entry.slices.empty()) {
    AppendNumber(EntryField::kShardId, static_cast<uint64_t>(entry.shard), &out);
    AppendNumber(EntryField::kOffset, entry.offset, &out);
    AppendNumber(EntryField::kSize, entry.stored_bytes, &out);
    if (entry.masked_crc32c != 0) {
      AppendTag(EntryField::kCrc32c, WireType::kFixed32, &out);
      char bytes[sizeof(uint32_t)];
      StoreLittleEndian(entry.masked_crc32c, bytes);
      out.append(bytes, sizeof(bytes));
    }
  }
  for (const TensorSlice& slice : entry.slices) AppendSlice(slice, &out);
  const uint64_t extension_bytes = internal::ExtensionBytes(extension);
  if (extension_bytes > 0) {
    AppendTag(internal::kExtensionNumber, WireType::kBytes, &out);
    AppendVarint(extension_bytes, &out);
    const size_t start = out.size();
    out.resize(start + static_cast<size_t>(extension_bytes));
    char* const end = internal::WriteExtension(extension, /*crc=*/0, &out[start]);
    payload_header.copy(end, payload_header.size());
  }
  return out;
}

std::string EncodeEntry(const CheckpointEntry& entry) {
  static const auto* const none = new TensorMetadata();
  internal::ExtensionContent extension;
  extension.metadata = none;
  return EncodeEntry(entry, extension);
}

}  // namespace tensorcask::checkpoint
