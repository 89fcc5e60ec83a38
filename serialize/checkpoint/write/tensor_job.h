// Writes one tensor to a data file and encodes its index entry.
//
//   TensorJob job;
//   job.item = &items.emplace_back("w");
//   job.tensor = *view.LazyClone();
//   CASK_RETURN_IF_ERROR(WriteTensor(job, /*alignment=*/64, &payloads, sink));   // now items.back().value is its entry
//
// A tensor in blocks is several jobs for one sink, in order and without another tensor between them. They share a
// StreamedTensor. The last one sets the entry.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_TENSOR_JOB_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_TENSOR_JOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "tensorcask/serialize/checkpoint/write/shard_payloads.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::checkpoint {

// A record of the index.
struct IndexItem {
  explicit IndexItem(std::string index_key) : key(std::move(index_key)) {}

  std::string key;
  std::string value;
  bool requires_reader_v2 = false;  // extension-only or encoded
  bool is_delta = false;
};

// What the blocks of one tensor share. The thread that writes them changes it.
struct StreamedTensor {
  StreamedTensor(DType tensor_dtype, TensorShape tensor_shape) : dtype(tensor_dtype), shape(std::move(tensor_shape)) {}

  const DType dtype;  // one of a fixed size
  const TensorShape shape;
  bool started = false;  // a block was written
  uint64_t offset = 0;   // where the first block is in the file
  uint32_t crc = 0;      // that of the blocks so far
};

struct TensorJob {
  IndexItem* item = nullptr;    // gets all but the key
  TensorView tensor;            // or a block of it
  RefPtr<PendingRead> pending;  // a copy from a device to the memory of `tensor` that is under way; null: none
  bool unchanging = false;      // CheckpointAddOptions::unchanging
  int shard = 0;
  StoredLayout layout = StoredLayout::kRowMajor;
  PayloadLevel level = PayloadLevel::kStored;      // above this: encoded, if it pays
  std::unique_ptr<const TensorMetadata> metadata;  // null: none
  std::shared_ptr<StreamedTensor> streamed;        // null: the job is a whole tensor
  bool is_last_block = false;
  uint64_t file_bytes = 0;  // that WriteTensor appends. 0: not known before

  // Bytes of the tensor's memory (for strings and variants, the objects) and of the job itself.
  uint64_t held_bytes() const;
};

// Waits for job.pending. Appends the elements of job.tensor to *sink, after them zeros up to a multiple of
// `alignment`, and sets *job.item. Of a block that is not the last one only the elements are appended. Blocks are
// row-major and stored plain, whatever job.layout and job.level say. `payloads` are those of the file. Allocates memory
// for pieces of a view that is not row-major or whose memory other code may write to (external and mapped); for strings
// and variants a copy of all; and the memory of ShardPayloads::Append. Elements on a device are copied to the host:
// piece by piece, while the sink writes the last piece, if they are stored plain and the view is contiguous; otherwise
// all at once. Errors: those of the sink; those of a device; ResourceExhausted; those of AppendVariants. Requires:
// job.tensor is not of resources.
absl::Status WriteTensor(const TensorJob& job, uint64_t alignment, ShardPayloads* payloads, ByteSink* sink);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_TENSOR_JOB_H_
