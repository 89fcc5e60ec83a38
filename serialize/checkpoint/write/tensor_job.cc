#include "tensorcask/serialize/checkpoint/write/tensor_job.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/format/stored_variants.h"
#include "tensorcask/serialize/checkpoint/format/string_codec.h"
#include "tensorcask/serialize/wire/message/element_plan.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/changing_memory.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/maybe_owned.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::checkpoint {
namespace {

// So much is written at a time, and then checksummed while it is still in a near cache. In the opposite order the
// checksum waits for memory. Large pieces give the page cache large pages, which cost less to write and to map, but
// they leave the second level. AMD's third level feeds the sum as fast. Measured on ext4, by pieces of 256 KiB, 512
// KiB, 1 MiB, in x write(): a Xeon 1.06, 1.12, 1.66; a Zen 4 1.32, 1.21, 1.17, and mapping what was written so 0.91,
// 0.84, 0.81 x read(). On a Zen 5, in ms, alternating the three sizes: one thread 43, 41, 41, two 24, 23, 24; while
// another program writes by 512 KiB, pieces of 1 MiB take 14 % longer. Larger pages are the first that a virtual
// machine runs out of (io/internal/write_size.h).
size_t ChunkBytes() {
  switch (GetCpuTuning().family) {
    case CpuFamily::kZen4:
      return size_t{1} << 20;
    case CpuFamily::kZen2:
    case CpuFamily::kZen5:
      return size_t{512} << 10;
    default:
      return size_t{256} << 10;
  }
}

// Appends elements of a fixed size in row-major order and extends *crc by their checksum.
absl::Status AppendFixedSize(const TensorView& tensor, ByteSink* sink, uint32_t* crc) {
  return internal::ForEachStablePiece(tensor, ChunkBytes(), [&](absl::string_view chunk) {
    CASK_RETURN_IF_ERROR(sink->Append(chunk));
    *crc = ExtendCrc32c(*crc, chunk);
    return absl::OkStatus();
  });
}

// Appends the elements in row-major order and sets *crc to their checksum.
absl::Status AppendElements(const TensorView& tensor, ByteSink* sink, uint32_t* crc) {
  if (!IsFixedSize(tensor.dtype())) {
    // Variants are encoded several times: first to measure them.
    CASK_ASSIGN_OR_RETURN(const TensorView elements, internal::InPrivateMemory(tensor));
    CASK_ASSIGN_OR_RETURN(const MaybeOwned<TensorView> row_major, elements.ExpectContiguous());
    const auto count = static_cast<size_t>(tensor.num_elements());
    if (tensor.dtype() == DType::kString) {
      return AppendStrings(absl::MakeConstSpan(row_major->data<std::string>(), count), sink, crc);
    }
    return AppendVariants(absl::MakeConstSpan(row_major->data<Variant>(), count), sink, crc);
  }
  *crc = 0;
  return AppendFixedSize(tensor, sink, crc);
}

// Appends zeros up to the next multiple of the alignment, after each tensor including the last, as TensorFlow does.
absl::Status Align(uint64_t alignment, ByteSink* sink) {
  static constexpr char kZeros[4096] = {};
  const uint64_t past = sink->position() % alignment;
  uint64_t missing = past == 0 ? 0 : alignment - past;
  while (missing > 0) {
    const size_t bytes = static_cast<size_t>(std::min<uint64_t>(missing, sizeof(kZeros)));
    CASK_RETURN_IF_ERROR(sink->Append(absl::string_view(kZeros, bytes)));
    missing -= bytes;
  }
  return absl::OkStatus();
}

const TensorMetadata& MetadataOf(const TensorJob& job) {
  static const auto* const no_metadata = new TensorMetadata();
  return job.metadata != nullptr ? *job.metadata : *no_metadata;
}

absl::Status WriteBlock(const TensorJob& job, uint64_t alignment, ByteSink* sink) {
  StreamedTensor& tensor = *job.streamed;
  if (!tensor.started) {
    tensor.started = true;
    tensor.offset = sink->position();
  }
  CASK_RETURN_IF_ERROR(AppendFixedSize(job.tensor, sink, &tensor.crc));
  if (!job.is_last_block) return absl::OkStatus();
  CheckpointEntry entry;
  entry.dtype = tensor.dtype;
  entry.shape = tensor.shape;
  entry.shard = job.shard;
  entry.offset = tensor.offset;
  entry.stored_bytes = sink->position() - tensor.offset;
  entry.masked_crc32c = MaskCrc32c(tensor.crc);
  internal::ExtensionContent extension;
  extension.metadata = &MetadataOf(job);
  if (DTypeNumber(entry.dtype) >= kFirstOwnDTypeNumber) extension.dtype_number = DTypeNumber(entry.dtype);
  job.item->value = EncodeEntry(entry, extension);
  job.item->requires_reader_v2 = extension.dtype_number != 0;
  return Align(alignment, sink);
}

}  // namespace

uint64_t TensorJob::held_bytes() const {
  const TensorView::ByteRange range = tensor.bounds();
  return sizeof(*this) + (range.end - range.begin);
}

absl::Status WriteTensor(const TensorJob& job, uint64_t alignment, ShardPayloads* payloads, ByteSink* sink) {
  if (job.pending) CASK_RETURN_IF_ERROR(job.pending->Wait());
  if (job.streamed != nullptr) return WriteBlock(job, alignment, sink);
  internal::ExtensionContent extension;
  extension.metadata = &MetadataOf(job);
  TensorView elements = job.tensor;
  if (IsFixedSize(elements.dtype())) {
    CASK_RETURN_IF_ERROR(internal::PlanElements(job.tensor, job.layout, &elements, &extension));
  }
  CheckpointEntry entry;
  entry.dtype = job.tensor.dtype();
  entry.shape = job.tensor.shape();
  entry.shard = job.shard;
  std::optional<StoredPayload> payload;
  if (job.level != PayloadLevel::kStored && extension.strides.empty()) {
    CASK_ASSIGN_OR_RETURN(elements, internal::InHostMemory(elements));
    CASK_ASSIGN_OR_RETURN(payload, payloads->Append(job.item->key, elements, job.level, sink));
  }
  std::string payload_header;
  if (payload.has_value()) {
    entry.offset = payload->offset;
    entry.stored_bytes = payload->stored_bytes;
    entry.masked_crc32c = payload->masked_crc32c;
    payload_header = payload->header.Encode();
    extension.dtype_number = DTypeNumber(entry.dtype);
    extension.payload_bytes = payload_header.size();
    job.item->is_delta = payload->header.is_delta;
  } else {
    entry.offset = sink->position();
    uint32_t crc = 0;
    CASK_RETURN_IF_ERROR(AppendElements(elements, sink, &crc));
    entry.stored_bytes = sink->position() - entry.offset;
    entry.masked_crc32c = MaskCrc32c(crc);
  }
  job.item->value = EncodeEntry(entry, extension, payload_header);
  job.item->requires_reader_v2 = extension.dtype_number != 0;
  return Align(alignment, sink);
}

}  // namespace tensorcask::checkpoint
