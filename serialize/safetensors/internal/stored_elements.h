// The elements of one tensor in an open file: read, read in part, mapped or only verified.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_STORED_ELEMENTS_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_STORED_ELEMENTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/safetensors/entry.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::safetensors {

// How elements are read. Errors of the functions below name neither file nor tensor.
struct ElementOptions {
  bool verify = false;  // the checksum, if the entry has one
  bool lenient = false;
  int num_threads = 1;  // for reading one large tensor
  RefPtr<Allocator> allocator;
};

// The tensor, row-major. Errors: DataLoss; ResourceExhausted; from errno.
absl::StatusOr<Tensor> ReadElements(const ByteSource& file, const SafetensorsEntry& entry,
                                    const ElementOptions& options);

// Into a view of the same dtype and shape, which may be written (CheckWritable). Errors: as above.
absl::Status ReadElementsInto(const ByteSource& file, const SafetensorsEntry& entry, const ElementOptions& options,
                              TensorView* out);

// The elements of `slice`, which is inside entry.shape; never verified. Errors: as above.
absl::StatusOr<Tensor> ReadSliceOfElements(const ByteSource& file, const SafetensorsEntry& entry,
                                           const TensorSlice& slice, const ElementOptions& options);

// The same into a view of the same dtype and of the shape of the slice, which may be written (CheckWritable). Memory is
// taken for packed elements, and if the view is not contiguous. Errors: as above.
absl::Status ReadSliceOfElementsInto(const ByteSource& file, const SafetensorsEntry& entry, const TensorSlice& slice,
                                     const ElementOptions& options, TensorView* out);

// Bytes of memory that ReadSliceOfElements takes, the result included.
uint64_t SliceBytes(const SafetensorsEntry& entry, const TensorSlice& slice, const TensorShape& part);

// Whether the elements are stored as they are in memory, at an address that suits them.
bool CanMap(const SafetensorsEntry& entry);

// In mapped memory; as ReadElements if the file cannot be mapped. Requires: CanMap.
absl::StatusOr<Tensor> MapElements(const ByteSource& file, const SafetensorsEntry& entry,
                                   const ElementOptions& options);

// Reads all bytes, compares the checksum if there is one, and checks bools. Keeps nothing.
absl::Status VerifyElements(const ByteSource& file, const SafetensorsEntry& entry, bool lenient);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_STORED_ELEMENTS_H_
