// Reads the elements of one leaf of an array: a box of records, their field, in this machine's byte order. Internal.
//
//   RecordBox box(&cursor, file_dims, starts, lengths, record_bytes);
//   ElementReader elements(&box, &header, &leaf);
//   CASK_RETURN_IF_ERROR(elements.Read(bytes));      // the next elements of the box, as many as fit
//
// Memory is bounded: what is read aside is at most kBlockBytes, or one record if that is larger.

#ifndef TENSORCASK_SERIALIZE_NPY_INTERNAL_ELEMENT_READER_H_
#define TENSORCASK_SERIALIZE_NPY_INTERNAL_ELEMENT_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/npy/internal/array_data.h"
#include "tensorcask/serialize/npy/internal/npy_header.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::npy {

inline constexpr size_t kBlockBytes = size_t{256} << 10;

// A part of a row-major array of records.
struct Box {
  DimVector dims;    // those of the array
  DimVector starts;  // those of the part, along each axis
  DimVector lengths;

  bool is_whole() const { return lengths == dims; }
};

// The records of a box in row-major order, read in as few calls as they lie in runs.
class RecordBox {
 public:
  // Requires: the box lies inside the array, whose bytes fit uint64_t.
  RecordBox(DataCursor* cursor, const Box& box, uint64_t record_bytes);

  // Fills `out` with the next records. Requires: out.size() is a multiple of the record, and not more than is left.
  absl::Status Read(absl::Span<char> out);

 private:
  bool NextRun();

  DataCursor* cursor_;
  DimVector lengths_;  // those of the axes outside the runs
  DimVector steps_;    // the steps of the same axes, in bytes
  DimVector index_;
  uint64_t run_bytes_ = 0;
  uint64_t run_offset_ = 0;  // the position of the current run in the data
  uint64_t run_done_ = 0;    // bytes of it that were read
};

// The elements of one leaf, out of records in memory and in this machine's byte order.
class LeafDecoder {
 public:
  // `leaf` outlives this. With `allow_odd_bools`, bools of other bytes than 0 and 1 are true.
  LeafDecoder(const NpyLeaf* leaf, bool allow_odd_bools);

  // Bytes of all elements of the leaf in one record.
  size_t bytes_per_record() const { return bytes_per_record_; }

  // The elements of the records, which begin at `records`, to `out`. Requires: room for them; bytes_per_record() > 0.
  void Take(const char* records, size_t num_records, size_t record_bytes, char* out) const;
  // Makes numbers and bools of the next elements, in place.
  // Errors: DataLoss, with the number of the element, for bools that are neither 0 nor 1 (all bytes are 0 or 1 then,
  // too).
  absl::Status Finish(absl::Span<char> elements);

 private:
  struct Axis {
    int64_t count;
    int64_t byte_stride;
  };
  void TakeAxis(const char* from, size_t axis, char** to) const;

  const NpyLeaf* leaf_;
  bool allow_odd_bools_;
  size_t bytes_per_record_ = 0;
  std::vector<Axis> axes_;  // around runs of dense elements, outermost first; none of one element
  size_t dense_bytes_ = 0;  // the size of a run
  uint64_t num_read_ = 0;   // elements
};

class ElementReader {
 public:
  // All outlive the reader. `allow_odd_bools` as in LeafDecoder.
  ElementReader(RecordBox* box, const NpyHeader* header, const NpyLeaf* leaf, bool allow_odd_bools)
      : box_(box), header_(header), decoder_(leaf, allow_odd_bools) {}

  // Read is asked for whole records.
  size_t bytes_per_record() const { return decoder_.bytes_per_record(); }

  // Fills `out` with the elements of the next records. Requires: out.size() is a multiple of bytes_per_record(), and no
  // more than is left.
  // Errors: those of the cursor; of LeafDecoder::Finish.
  absl::Status Read(absl::Span<char> out);

 private:
  absl::Status ReadFields(absl::Span<char> out);

  RecordBox* box_;
  const NpyHeader* header_;
  LeafDecoder decoder_;
  std::string block_;  // records
};

// The strings of `fixed`, elements of `leaf` (kind S or U) one after the other.
// Errors: DataLoss for a code point above U+10FFFF, with the number of the element counted from `first`.
absl::Status DecodeStrings(const NpyLeaf& leaf, absl::Span<const char> fixed, uint64_t first,
                           absl::Span<std::string> out);

}  // namespace tensorcask::npy

#endif  // TENSORCASK_SERIALIZE_NPY_INTERNAL_ELEMENT_READER_H_
