// Reads the elements of a stored tensor, for every format: whole, in part, into a caller's memory, to a device, mapped,
// or only to verify them.
//
//   ElementOptions options;
//   options.verify = true;
//   CASK_ASSIGN_OR_RETURN(Tensor w, stored::ReadElements(*file, tensor, options));
//
// Bytes are checked block by block while they are in the cache: the checksum, and that bools are 0 or 1 (any other
// value is undefined behaviour in C++). Elements that are packed, big-endian or in another order become those of
// memory.
//
// Errors of all functions, which name neither file nor tensor: DataLoss for a wrong checksum or bool, or a source that
// is too short; ResourceExhausted if memory cannot be allocated; from errno.

#ifndef TENSORCASK_SERIALIZE_STORED_ELEMENTS_H_
#define TENSORCASK_SERIALIZE_STORED_ELEMENTS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/serialize/stored/verified_once.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::stored {

struct ElementOptions {
  bool verify = false;               // the checksum, if there is one, where a function reads all bytes
  VerifiedOnce* verified = nullptr;  // what needs no verification any more; null: nothing
  // Bools of other bytes than 0 and 1 become true. False: they are DataLoss.
  bool accept_odd_bools = false;
  const char* odd_bools_hint = "";  // the end of that error: what accepts them, " (lenient accepts this)" for example
  // How the source was opened: with kParallel, one large tensor is read and checked on `num_threads` threads; with
  // kMap, elements are copied and checked in one pass.
  ReadStrategy strategy = ReadStrategy::kRead;
  int num_threads = 1;
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // must give memory of the host
};

// Whether a tensor of this dtype and shape can be read into `out`.
// Errors: InvalidArgument, with both dtypes and shapes, if it has others; FailedPrecondition as CheckWritable.
absl::Status CheckTarget(DType dtype, const TensorShape& shape, const TensorView& out);

// The tensor, row-major.
absl::StatusOr<Tensor> ReadElements(const ByteSource& source, const StoredTensor& tensor,
                                    const ElementOptions& options);
// The same in the order of the source, without a copy: a view with the strides of tensor.layout.
absl::StatusOr<TensorView> ReadElementsAsStored(const ByteSource& source, const StoredTensor& tensor,
                                                const ElementOptions& options);
// Reads into a view with the dtype and shape of the tensor and any strides, on the host or a device (whose errors it
// then returns, too). Requires: CheckTarget accepts *out.
absl::Status ReadElementsInto(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options,
                              TensorView* out);

// Whether ReadElementsInto reads the stored bytes, each once, straight into a contiguous view on the host.
bool AreReadInPlace(const StoredTensor& tensor);

// True if options.verify is set, the tensor has a checksum, and its bytes were not verified before.
bool MustVerify(const StoredTensor& tensor, const ElementOptions& options);

// Compares the checksum that was computed of the stored bytes with that of the tensor. Requires: the tensor has a
// checksum. Errors: DataLoss with both values, as they are stored, marked as MarkWrongChecksum does
// (serialize/io/damage_mark.h).
absl::Status CompareChecksum(const StoredTensor& tensor, uint32_t computed);

// The elements in `slice`, which lies in the shape; reads the bytes that hold them, and never verifies the checksum,
// which covers the whole tensor. ReadSliceOfElementsInto requires that CheckTarget accepts *out.
absl::StatusOr<Tensor> ReadSliceOfElements(const ByteSource& source, const StoredTensor& tensor,
                                           const TensorSlice& slice, const ElementOptions& options);
absl::Status ReadSliceOfElementsInto(const ByteSource& source, const StoredTensor& tensor, const TensorSlice& slice,
                                     const ElementOptions& options, TensorView* out);
// Bytes of memory that ReadSliceOfElements allocates, the result included.
uint64_t SliceMemory(const StoredTensor& tensor, const TensorSlice& slice, const TensorShape& part);

// Whether the elements can be mapped: there are some, stored as in a row-major tensor, at an offset that suits them.
bool CanMap(const StoredTensor& tensor);
// The tensor in read-only memory that is mapped from the source. Requires: CanMap. Errors: also Unimplemented if the
// source cannot be mapped, or has bools of other bytes than 0 and 1; then ReadElements gives the tensor or the error.
absl::StatusOr<Tensor> MapElements(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options);

// The elements from front to back, verified each time if options.verify is set, because the caller may keep blocks of a
// file that changes. Bools of other bytes than 0 and 1 are an error of Finish. `about` puts the names of file and
// tensor in front of an error. Requires: `source` outlives the stream. Errors: Unimplemented, with these names, for
// elements that are packed or not row-major.
absl::StatusOr<std::unique_ptr<ElementStream>> OpenElements(const ByteSource& source, StoredTensor tensor,
                                                            const ElementOptions& options,
                                                            std::function<absl::Status(const absl::Status&)> about);

// Reads all bytes, compares the checksum if there is one (whatever options.verify says), and checks bools. Keeps
// nothing.
absl::Status VerifyElements(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options);
// The same if MustVerify returns true.
absl::Status VerifyOnce(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options);

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_ELEMENTS_H_
