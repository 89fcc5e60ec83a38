// Writes ONNX files, whole or not at all: a tensor in a file of its own, or a model that is another one with new
// elements.
//
//   CASK_ASSIGN_OR_RETURN(OnnxWriter writer, OnnxWriter::CreateModel("tuned.onnx", "base.onnx"));
//   CASK_RETURN_IF_ERROR(writer.Declare("fc.weight", DType::kFloat32, TensorShape({10, 512})));
//   CASK_RETURN_IF_ERROR(writer.Add("fc.weight", weight));
//   CASK_RETURN_IF_ERROR(writer.Finish());   // now, and not before, there is a file
//
// A model is more than its tensors, so a new one is made of an old one, its base. The initializers that are declared
// get new elements, as raw_data or in a side file; all other bytes are those of the base, but for the lengths of the
// messages around them. Initializers in side files of the base that are not declared are copied.
//
// All tensors are declared first, then added, in any order; elements go to the file at once. Files appear under
// temporary names and are renamed in Finish, the model last (serialize/io/publication.h). A writer destroyed without
// Finish removes them. After an error of Start, Add, AddSlice or Finish every further call returns the same error; an
// error of Declare changes nothing. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_ONNX_ONNX_WRITER_H_
#define TENSORCASK_SERIALIZE_ONNX_ONNX_WRITER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct OnnxWriterOptions {
  FileSystem* file_system = FileSystem::Posix();
  bool sync = true;  // durable when Finish returns
  // Replace a file of this name in one step. A side file gets a name that is free, so a crash at any moment leaves the
  // old model with its side file or the new one; the old side file stays.
  bool overwrite = false;
  // For a model: elements of at least `least_side_bytes` go to a side file in the folder of the model, each tensor at a
  // multiple of 4096.
  bool use_side_file = false;
  std::string side_file;  // its name; "": the name of the model with ".data" appended
  uint64_t least_side_bytes = 1024;
  // For a model: tensors of Constant nodes may get new elements, too, by the names that OnnxReaderOptions::constants
  // gives them.
  bool constants = false;
  DecodeLimits limits;  // for reading the base
};

class OnnxWriter {
 public:
  // Writes a TensorProto in a file of its own; the caller declares one tensor. Errors: AlreadyExists if there is a file
  // (unless overwriting); InvalidArgument for a bad path; from errno.
  static absl::StatusOr<OnnxWriter> CreateTensor(const std::string& path, const OnnxWriterOptions& options = {});
  // Writes a model that is the model `base` with new elements. `base` may be the file at `path`. Errors: those of
  // CreateTensor and of OnnxReader::Open of `base`; InvalidArgument if `base` is not a model, and for a side file whose
  // name readers refuse as a location.
  static absl::StatusOr<OnnxWriter> CreateModel(const std::string& path, const std::string& base,
                                                const OnnxWriterOptions& options = {});

  OnnxWriter(OnnxWriter&&) noexcept;
  OnnxWriter& operator=(OnnxWriter&&) noexcept;
  ~OnnxWriter();

  // True for the 28 data types of ONNX. Strings are not written: those of a model stay as they are.
  static bool HoldsDType(DType dtype);
  static bool WritesSlices(DType dtype);  // AddSlice accepts parts of tensors of this dtype

  // Announces a tensor that Add or AddSlice will store. Errors: InvalidArgument for a dtype that ONNX lacks;
  // AlreadyExists; FailedPrecondition after Start.
  absl::Status Declare(absl::string_view name, DType dtype, const TensorShape& shape);
  // Adds an entry to the metadata_props of a model; one that the base has stays. Errors: InvalidArgument for a key that
  // the base has with another value, for keys of fields that it lacks (OnnxReader::IsFieldKey), for what is not UTF-8,
  // and for a tensor in a file of its own.
  absl::Status AddMetadata(absl::string_view key, absl::string_view value);
  // Ends the declarations and makes the temporary files. Need not be called. The notes of the result name tensors that
  // were not declared and stay as the base has them.
  // Errors: InvalidArgument, naming all tensors that the base does not have with this dtype and shape, and for a model
  // of 2 GiB, which protobuf's classes cannot read; AlreadyExists for a side file; FailedPrecondition if the base has
  // elements in side files that the list of its tensors does not give and the folder is another one, or if a side file
  // of the base would be replaced; from errno.
  absl::StatusOr<ReplacedFiles> Start();
  // Stores a tensor of any strides. Strings must be those of the base. Errors: NotFound for a name that was not
  // declared; AlreadyExists for one that was added; InvalidArgument for another dtype or shape; from errno.
  absl::Status Add(absl::string_view name, const TensorView& tensor);
  // Stores a part; each part of a tensor continues in row-major order where the one before ended. Elements below 8 bits
  // are stored only as a whole (Unimplemented).
  absl::Status AddSlice(absl::string_view name, const TensorSlice& slice, const TensorView& part);
  // Writes what is missing and publishes the files. Errors: FailedPrecondition if called twice or, naming the tensor,
  // if one is not complete; from errno.
  absl::Status Finish();

  const std::vector<std::string>& files() const;  // those that Finish wrote, the model last; empty before

 private:
  class Impl;
  explicit OnnxWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ONNX_ONNX_WRITER_H_
