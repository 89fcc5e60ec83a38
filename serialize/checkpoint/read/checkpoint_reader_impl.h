// The interface behind CheckpointReader, with one implementation for each file format. Internal; checkpoint_reader.h
// says what each function does.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_CHECKPOINT_READER_IMPL_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_CHECKPOINT_READER_IMPL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::checkpoint {

class BundleIndex;
class StoredTensors;

// VerifyBundle (bundle_verify.h).
using BundleVerifier = absl::StatusOr<CheckpointCounts> (*)(const BundleIndex& index, const StoredTensors& stored,
                                                            const CheckpointReaderOptions& options,
                                                            absl::FunctionRef<void(const CheckpointDamage&)> report);

// Methods are safe from several threads.
class ReaderImpl {
 public:
  virtual ~ReaderImpl() = default;

  virtual const CheckpointReaderOptions& options() const = 0;
  virtual const std::string& prefix() const = 0;
  virtual int num_shards() const = 0;
  virtual std::string DataPath(int shard) const = 0;
  virtual std::shared_ptr<const ByteSource> FileToPlan(int /*shard*/) const { return nullptr; }
  virtual std::shared_ptr<const ByteSource> FileSoon(int /*shard*/) const { return nullptr; }  // as DataFiles
  virtual void OpenTogether(absl::Span<const int> /*shards*/) const {}  // of data files; as DataFiles
  virtual ReadPlan::Step PiecesToPlan(absl::string_view /*name*/) const { return {}; }

  virtual absl::StatusOr<std::vector<CheckpointEntry>> entries() const = 0;
  virtual absl::Status ForEachEntry(absl::FunctionRef<absl::Status(CheckpointEntry)> fn) const = 0;
  virtual absl::StatusOr<CheckpointEntry> Find(absl::string_view name) const = 0;
  virtual absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const = 0;

  absl::StatusOr<Tensor> Read(absl::string_view name) const {
    DecodeQuota decoded = DecodeQuota::ForFile(options().limits);
    return Read(name, &decoded);
  }
  // Charges *decoded with the bytes that it reads.
  virtual absl::StatusOr<Tensor> Read(absl::string_view name, DecodeQuota* decoded) const = 0;
  // The same into memory of a device's allocator; strings and variants are read to the host.
  absl::StatusOr<Tensor> ReadToDevice(absl::string_view name, const RefPtr<Allocator>& allocator,
                                      DecodeQuota* decoded) const;
  // Memory for ReadInto(name), after all checks that are possible beforehand. Without a buffer if Read has to find out
  // what it takes. Errors: those of Read.
  virtual absl::StatusOr<Tensor> MemoryFor(absl::string_view /*name*/, const RefPtr<Allocator>& /*allocator*/,
                                           DecodeQuota* /*decoded*/) const {
    return Tensor();
  }
  // Whether ReadInto reads the stored bytes, each once, straight into such memory.
  virtual bool IsReadInPlace(absl::string_view /*name*/) const { return false; }
  virtual absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const = 0;
  virtual absl::Status ReadInto(absl::string_view name, TensorView* out) const = 0;
  virtual absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice,
                                           bool verify_whole) const = 0;
  virtual absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                                     bool verify_whole) const = 0;
  virtual absl::StatusOr<Tensor> Map(absl::string_view name) const = 0;
  virtual absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(absl::string_view name) const;

  // As the base of deltas.
  absl::StatusOr<BaseLookup::Info> FindBase(absl::string_view name) const;
  absl::StatusOr<std::shared_ptr<const BaseTensor>> ReadBase(absl::string_view name) const;

  // The caller brings the code for bundles, so that a program that verifies nothing does not contain it. V1 checkpoints
  // do not use it.
  virtual absl::StatusOr<CheckpointCounts> VerifyAll(BundleVerifier verify_bundle,
                                                     absl::FunctionRef<void(const CheckpointDamage&)> report) const = 0;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_CHECKPOINT_READER_IMPL_H_
