// Writes .npy files, whole or not at all.
//
//   CASK_RETURN_IF_ERROR(WriteNpy("/data/weights.npy", weights));
//
//   CASK_ASSIGN_OR_RETURN(NpyWriter writer, NpyWriter::Create("/data/large.npy"));   // in pieces
//   for (...) CASK_RETURN_IF_ERROR(writer.AddSlice(TensorShape({1000, 64}), slice, rows));
//   CASK_RETURN_IF_ERROR(writer.Finish());
//
// With the default options the bytes are those that np.save writes (tested with NumPy 1.24). The file is written under
// a temporary name and renamed (serialize/io/publication.h), so that a reader, or a program that has the old file
// mapped, never sees half of it. npy files hold one array: no name, and of the metadata only kNpyDescrAttribute.

#ifndef TENSORCASK_SERIALIZE_NPY_NPY_WRITER_H_
#define TENSORCASK_SERIALIZE_NPY_NPY_WRITER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct NpyWriterOptions {
  FileSystem* file_system = FileSystem::Posix();
  bool sync = true;        // durable when Finish returns
  bool overwrite = false;  // replace a file of this name; a crash leaves the old one or the new one
  NpyFormat format;
};

// Writes the bytes of an npy file with `tensor` to `sink`. Memory stays bounded, except for strings.
// Errors: those of the sink; InvalidArgument for options out of range, for strings that the format cannot hold, and for
// more than kMaxNpyRank axes; Unimplemented for dtypes that npy files cannot have (NpyFormat::store_opaquely;
// resources, variants); FailedPrecondition for a buffer without data.
absl::Status EncodeNpy(const TensorView& tensor, const NpyFormat& format, const TensorMetadata& metadata,
                       ByteSink* sink);

// The checks of the writers of npy and npz files. Errors: InvalidArgument for more than kMaxNpyRank axes, for a shape
// without elements whose other sizes are too large for NumPy, and if a string ends in a NUL byte or is too long.
absl::Status CheckNpyShape(const TensorShape& shape);
absl::Status CheckNpyStrings(const TensorView& strings);

class NpyWriter {
 public:
  // Errors: AlreadyExists if the file exists (unless overwriting); InvalidArgument for a bad path or option; from
  // errno, naming the file.
  static absl::StatusOr<NpyWriter> Create(const std::string& path, const NpyWriterOptions& options = {});

  NpyWriter(NpyWriter&&) noexcept;
  NpyWriter& operator=(NpyWriter&&) noexcept;
  ~NpyWriter();  // removes the temporary file, unless Finish succeeded

  // bool, integers of 8 to 64 bits, float16, float32, float64, complex64, complex128, and bfloat16, whose elements are
  // opaque in the file. False for strings: about those CheckNpyStrings decides.
  static bool HoldsDType(DType dtype);

  // Writes the array; a file has only one. Errors: those of EncodeNpy; FailedPrecondition if there is an array already.
  absl::Status Add(const TensorView& tensor, const TensorMetadata& metadata = {});

  // Writes one piece of an array of shape `full_shape`; the first call fixes shape and dtype. Pieces come in row-major
  // order: each begins where the piece before ended, and is a run of elements in that order (whole rows, for example; a
  // piece may also lie inside one row).
  // Errors: those of Add; InvalidArgument for a piece that does not continue the one before, for column-major order,
  // and for strings unless the piece is the whole array.
  absl::Status AddSlice(const TensorShape& full_shape, const TensorSlice& slice, const TensorView& tensor,
                        const TensorMetadata& metadata = {});

  // Publishes the file.
  // Errors: FailedPrecondition without an array, with a part of one, or if called twice; from errno, naming the file.
  absl::Status Finish();

 private:
  class Impl;
  explicit NpyWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Create, Add and Finish in one.
absl::Status WriteNpy(const std::string& path, const TensorView& tensor, const NpyWriterOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_NPY_NPY_WRITER_H_
