// Reads elements that are stored in chunks: those that a slice meets, without their filters.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_CHUNK_ELEMENTS_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_CHUNK_ELEMENTS_H_

#include <memory>

#include "absl/status/status.h"
#include "tensorcask/serialize/hdf5/internal/storage.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::hdf5 {

// What all elements of a dataset have in common.
struct ChunkedDataset {
  DType dtype = DType::kInvalid;
  bool big_endian = false;
  const TensorShape* shape = nullptr;
  const Storage* storage = nullptr;
};

// Reads `slice` into *out, which has its shape and the dtype and is in memory of the host. Elements that were never
// written are the fill value. Memory: one chunk, as it is stored and without filters, within `limits`. Requires: the
// slice lies in the shape; the form of the storage is kChunks or kNone. Errors, which do not name the dataset: DataLoss
// for a chunk that does not give its bytes; ResourceExhausted without memory or past a limit; those of the source.
absl::Status ReadChunkElements(const std::shared_ptr<const ByteSource>& source, const ChunkedDataset& dataset,
                               const TensorSlice& slice, const stored::ElementOptions& options,
                               const DecodeLimits& limits, TensorView* out);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_CHUNK_ELEMENTS_H_
