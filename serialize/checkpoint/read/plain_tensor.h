// The elements of one entry of a tensor bundle: read, read in part, mapped or only checked (FORMAT.md section 5). An
// entry that was verified once is not verified again, but chunks of encoded entries are verified whenever they are
// read. Pieces of sliced tensors are entries like any other here; sliced_tensor.h puts them together.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_PLAIN_TENSOR_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_PLAIN_TENSOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/read/bundle_index.h"
#include "tensorcask/serialize/checkpoint/read/data_files.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/serialize/stored/verified_once.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::checkpoint {

// Methods are safe from several threads. Errors name the data file, the tensor, its offset and its size.
class StoredTensors {
 public:
  // Requires: `index` and `options` outlive this.
  StoredTensors(const std::string& prefix, const BundleIndex* index, std::shared_ptr<const ByteSource> index_file,
                const CheckpointReaderOptions* options);

  const DataFiles& files() const { return files_; }

  using File = std::shared_ptr<const ByteSource>;

  // Checks that the elements can be read and that all bytes of the entry exist: in this file.
  // Errors: Unimplemented for a form or dtype that is only listed; ResourceExhausted for an encoded one past
  // max_expansion; DataLoss.
  absl::StatusOr<File> OpenReadable(const LocatedEntry& located) const;
  // Charges *decoded with the memory of the elements of `shape`; strings and variants count whole, because they are
  // read whole. The contents of variants are not known yet: the functions below charge them when they read them.
  // Errors: those of *decoded.
  absl::Status CheckLimit(const LocatedEntry& located, const TensorShape& shape, DecodeQuota* decoded) const;

  // Read, ReadAsStored and Map begin with OpenReadable, and with CheckLimit unless they map.
  absl::StatusOr<Tensor> Read(const LocatedEntry& located, DecodeQuota* decoded) const;
  // With the strides that it was stored with.
  absl::StatusOr<TensorView> ReadAsStored(const LocatedEntry& located, DecodeQuota* decoded) const;
  absl::StatusOr<Tensor> Map(const LocatedEntry& located, DecodeQuota* decoded) const;
  // True for elements that are stored as they are in memory: ReadSliceInto reads them to a device, too.
  bool AreBytes(const LocatedEntry& located) const;
  // Whether ReadSliceInto of all elements reads the stored bytes straight into a contiguous view on the host.
  bool AreReadInPlace(const LocatedEntry& located) const;
  // The elements that are in `slice`. Requires: OpenReadable and CheckLimit have passed; *out has their dtype and shape
  // and may be written (CheckWritable). With `verify_whole` the checksum is verified even if the slice is small.
  absl::Status ReadSliceInto(const LocatedEntry& located, const TensorSlice& slice, bool verify_whole,
                             DecodeQuota* decoded, TensorView* out) const;

  // The elements from front to back. Errors: also those of OpenReadable; Unimplemented unless AreBytes, and for
  // elements that are not row-major.
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(LocatedEntry located) const;
  // Reads and checks every byte, even if that was done before, and calls report for each damaged chunk of an encoded
  // entry; needs no base. Requires: OpenReadable has passed.
  // Errors: other damage; errors that prevent the check.
  absl::Status Verify(const LocatedEntry& located, absl::FunctionRef<void(const absl::Status& damage)> report) const;

  // Reads the base of a delta and compares its hash. True if it matches, and for entries that are not deltas; false if
  // no base was given. Requires: OpenReadable has passed.
  // Errors: FailedPrecondition for another base; those of reading it.
  absl::StatusOr<bool> CheckBase(const LocatedEntry& located) const;

  // "PATH: tensor "w" at offset 128, 16 bytes", for messages.
  std::string Place(const LocatedEntry& located) const;

 private:
  bool MustVerify(const LocatedEntry& located) const;
  void SetVerified(const LocatedEntry& located) const;

  absl::StatusOr<File> FileOf(const LocatedEntry& located) const;
  // Where the bytes of an entry are; those of an encoded one are the payload's.
  stored::StoredTensor PlaceOf(const LocatedEntry& located) const;
  stored::ElementOptions ForElements() const;
  // `result`, with the place of the entry before an error.
  absl::Status Annotated(const absl::Status& result, const LocatedEntry& located) const;
  template <typename T>
  absl::StatusOr<T> Annotated(absl::StatusOr<T> result, const LocatedEntry& located) const {
    if (!result.ok()) return Annotated(result.status(), located);
    return result;
  }
  absl::Status ReadObjects(const LocatedEntry& located, bool verify, DecodeQuota* decoded,
                           absl::FunctionRef<absl::StatusOr<Tensor*>()> target) const;
  absl::Status ReadObjectsInto(const LocatedEntry& located, const TensorSlice* slice, DecodeQuota* decoded,
                               TensorView* out) const;
  absl::Status VerifyBytes(const LocatedEntry& located) const;
  absl::Status ReadEncoded(const LocatedEntry& located, const TensorSlice* slice, bool verify_whole,
                           TensorView* out) const;
  absl::Status VerifyChunks(const LocatedEntry& located,
                            absl::FunctionRef<void(const absl::Status& damage)> report) const;

  const BundleIndex* const index_;
  const CheckpointReaderOptions* const options_;
  const DataFiles files_;

  mutable stored::VerifiedOnce verified_;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_PLAIN_TENSOR_H_
