// Where the elements of a dataset are: in one piece, in chunks, or nowhere yet.
//
// A dataset of chunks has a grid: chunk 5 of a dataset [100,100] in chunks [30,30] is that from [30,30] on, because a
// row of the grid has 4. Chunks at the end reach past the shape. Chunks that were never written are not in the file.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_STORAGE_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_STORAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/hdf5/internal/file.h"
#include "tensorcask/serialize/hdf5/internal/object_header.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::hdf5 {

enum class Filter { kDeflate = 1, kShuffle = 2 };

struct AppliedFilter {
  Filter filter = Filter::kDeflate;
  uint64_t element_bytes = 0;  // for kShuffle
};

struct Chunk {
  uint64_t number = 0;           // in the grid, row-major
  uint64_t position = 0;         // in the source
  uint64_t stored_bytes = 0;     // not 0
  uint32_t skipped_filters = 0;  // a bit for each of the filters
};

struct Storage {
  enum class Form {
    kPlain,   // row-major, `stored_bytes` at `position`
    kChunks,  // `chunks`
    kNone,    // no element was written
  };
  Form form = Form::kNone;
  uint64_t position = 0;
  uint64_t stored_bytes = 0;  // for chunks: the size of all of them
  std::vector<int64_t> chunk_dims;
  std::vector<int64_t> grid;           // chunks along each axis
  std::vector<AppliedFilter> filters;  // in the order in which they were applied
  std::vector<Chunk> chunks;           // sorted by number
  std::string fill;                    // what an element that was not written is; "": zero
  uint64_t missing_bytes = 0;          // the size of elements that were not written
};

// The storage of a dataset of `shape` and elements of `element_bytes`. Requires: the shape has fewer than 2^63 bytes.
// Errors: DataLoss if a rule is broken; Unimplemented for external files, virtual datasets, other filters and indexes
// of chunks; ResourceExhausted past `listing`.
absl::StatusOr<Storage> ReadStorage(const std::vector<Message>& header, const TensorShape& shape,
                                    uint64_t element_bytes, ListingBudget* listing, File* file);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_STORAGE_H_
