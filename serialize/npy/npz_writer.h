// Writes .npz files, whole or not at all: arrays by name, which np.load reads.
//
//   CASK_ASSIGN_OR_RETURN(NpzWriter writer, NpzWriter::Create("/data/model.npz"));
//   CASK_RETURN_IF_ERROR(writer.Add("dense/kernel", kernel));
//   CASK_RETURN_IF_ERROR(writer.Finish());   // now, and not before, there is a file
//
// Add writes the elements in one pass and memory stays bounded: the writer keeps only names and offsets (and strings of
// one tensor at a time). Stored elements begin at a multiple of NpyFormat::alignment bytes of the file, so that they
// can be mapped (NpzReader::Map). The same tensors in the same order with the same options give the same bytes: all
// dates are 1980-01-01. Archives of 4 GiB or 65535 members and more use zip64. Names do not change: "dense/kernel"
// becomes the member "dense/kernel.npy". Of the metadata only kNpyDescrAttribute is kept.
//
// The file is written under a temporary name and renamed (serialize/io/publication.h). A writer destroyed without
// Finish removes it. After a failed Add or Finish every further call returns the same error. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_NPY_NPZ_WRITER_H_
#define TENSORCASK_SERIALIZE_NPY_NPZ_WRITER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct NpzWriterOptions {
  FileSystem* file_system = FileSystem::Posix();
  bool sync = true;        // durable when Finish returns
  bool overwrite = false;  // replace a file of this name; a crash leaves the old one or the new one
  NpyFormat format;
  int deflate_level = 0;  // 0: stored. 1 (fast) to 9 (small): deflated; such members cannot be mapped
};

struct NpzAddOptions {
  TensorMetadata metadata;           // only kNpyDescrAttribute is stored
  std::optional<int> deflate_level;  // instead of that of the writer
  std::optional<NpyOrder> order;     // instead of that of the writer
};

class NpzWriter {
 public:
  // Errors: AlreadyExists if the file exists (unless overwriting); InvalidArgument for a bad path or option; from
  // errno, naming the file.
  static absl::StatusOr<NpzWriter> Create(const std::string& path, const NpzWriterOptions& options = {});

  // Errors: InvalidArgument for a name that has a NUL byte, is not UTF-8 or is longer than 65531 bytes.
  static absl::Status CheckName(absl::string_view name);
  // `is_taken`: whether a tensor of this name is in the file. NumPy reads "a.npy" as the name of the member of tensor
  // "a", so that only one of these two can be in a file. Errors: InvalidArgument.
  static absl::Status CheckApart(absl::string_view name, absl::FunctionRef<bool(const std::string&)> is_taken);

  NpzWriter(NpzWriter&&) noexcept;
  NpzWriter& operator=(NpzWriter&&) noexcept;
  ~NpzWriter();

  // Writes an array under this name. Errors: those of CheckName and CheckApart; InvalidArgument for an option out of
  // range, for strings that the format cannot hold, and for more than kMaxNpyRank axes; AlreadyExists for a name added
  // before; Unimplemented for dtypes that npy files cannot have (NpyFormat::store_opaquely; resources, variants);
  // FailedPrecondition for a buffer without data; from errno, naming the file.
  absl::Status Add(absl::string_view name, const TensorView& tensor, const NpzAddOptions& options = {});

  // Writes one piece of an array of shape `full_shape`; the first call for a name fixes shape and dtype. Pieces come in
  // row-major order: each begins where the piece before ended, and is a run of elements in that order (whole rows, for
  // example; a piece may also lie inside one row). No other tensor may be added until the last piece was added.
  // Errors: those of Add; InvalidArgument for a piece that does not continue the one before, for column-major order,
  // and for strings unless the piece is the whole array.
  absl::Status AddSlice(absl::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                        const TensorView& tensor, const NpzAddOptions& options = {});

  // Writes the directory and publishes the file.
  // Errors: FailedPrecondition with a part of a tensor, or if called twice; from errno, naming the file.
  absl::Status Finish();

 private:
  class Impl;
  explicit NpzWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_NPY_NPZ_WRITER_H_
