// The bytes of one array: header and elements. Internal.
//
//   CASK_ASSIGN_OR_RETURN(NpyEncoder encoder, NpyEncoder::Create(tensor, format, time_descr));
//   encoder.header()       // "\x93NUMPY..." up to the data
//   encoder.data_bytes()   // after it
//   CASK_RETURN_IF_ERROR(encoder.Encode(tensor, sink));   // the data
//
// The header is that of NumPy, byte for byte: keys in order, a trailing comma, spaces for a shape that grows, padded to
// a multiple of 64 bytes.

#ifndef TENSORCASK_SERIALIZE_NPY_INTERNAL_NPY_ENCODER_H_
#define TENSORCASK_SERIALIZE_NPY_INTERNAL_NPY_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::npy {

// Errors: InvalidArgument for an alignment that is out of range.
absl::Status CheckFormat(const NpyFormat& format);

// Errors: InvalidArgument for a shape with more than kMaxNpyRank axes, and for one without elements whose other sizes
// NumPy cannot multiply.
absl::Status CheckShape(const TensorShape& shape);

class NpyEncoder {
 public:
  using Sink = absl::FunctionRef<absl::Status(absl::string_view bytes)>;

  // For `tensor` as the whole array. Errors: those of EncodeNpy, but for those of the sink.
  static absl::StatusOr<NpyEncoder> Create(const TensorView& tensor, const NpyFormat& format,
                                           const TensorMetadata& metadata);
  // For pieces of an array, in row-major order. Errors: the same; InvalidArgument for strings and column-major order.
  static absl::StatusOr<NpyEncoder> CreateForPieces(DType dtype, const TensorShape& shape, const NpyFormat& format,
                                                    const TensorMetadata& metadata);

  const std::string& header() const { return header_; }
  uint64_t data_bytes() const { return data_bytes_; }

  // Calls sink for the bytes of the elements of `tensor`, in order: the array, or a piece of it.
  absl::Status Encode(const TensorView& tensor, Sink sink) const;

 private:
  absl::Status SetHeader(absl::string_view descr, const TensorShape& shape, uint64_t item_bytes, uint32_t alignment);
  absl::Status EncodeStrings(const TensorView& in_order, Sink sink) const;

  NpyFormat format_;
  bool column_major_ = false;
  uint64_t item_bytes_ = 0;
  size_t swapped_bytes_ = 1;  // the size of the components whose bytes are reversed; 1: none
  std::string header_;
  uint64_t data_bytes_ = 0;
};

// The rule for pieces of an array: each continues where the one before ended.
class PieceOrder {
 public:
  explicit PieceOrder(TensorShape shape) : shape_(std::move(shape)) {}

  const TensorShape& shape() const { return shape_; }
  bool is_complete() const { return done_ == shape_.num_elements(); }
  // Errors: InvalidArgument if the elements of `slice` are not the next ones in row-major order; OutOfRange for a slice
  // outside the array.
  absl::Status Next(const TensorSlice& slice);

 private:
  TensorShape shape_;
  int64_t done_ = 0;  // elements
};

}  // namespace tensorcask::npy

#endif  // TENSORCASK_SERIALIZE_NPY_INTERNAL_NPY_ENCODER_H_
