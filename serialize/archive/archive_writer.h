// Writes tensors to one file, whatever its format. The file appears whole or not at all.
//
//   CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveWriter> writer, CreateArchive(path, SafetensorsArchiveFormat(), {}));
//   const DecodedTensor tensor = {view, metadata};
//   const ArchiveEntry entry = DescribeTensor("w", tensor);   // for elements that come later: name, dtype and shape
//   CASK_RETURN_IF_ERROR(writer->Declare(entry));
//   CASK_RETURN_IF_ERROR(writer->Add(entry, tensor));
//   CASK_RETURN_IF_ERROR(writer->Finish());
//
// All tensors are declared before the first is added, and are added in the order of their declarations: formats whose
// header comes first then write in one pass. Formats that do not need declarations ignore them. A writer that is
// destroyed without Finish removes what it wrote. One caller at a time.
//
// After an error destroy the writer. Files of records and of messages refuse every further call with the first error.
// The other formats may accept further calls after they rejected an argument. Finish never publishes a part of a
// tensor.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_WRITER_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_WRITER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// A value beside the tensors, which the format stores with its type (ArchiveFormat::HoldsValue).
struct FileValue {
  std::string name;
  std::shared_ptr<const ValueTree> tree;
  ValueTree::Id id = 0;
  // ArchiveReader::ReadFileArrayBytes of a value that is an array in a file (ValueKind::kFileArray); else null.
  std::shared_ptr<const std::string> array_bytes = nullptr;

  Value value() const { return tree->value(id); }
};

class ArchiveWriter {
 public:
  virtual ~ArchiveWriter() = default;

  // Announces a tensor by its name, dtype and shape. If the format has aliases and alias_of is set, the name becomes an
  // alias, which is not added.
  // Errors: AlreadyExists for a name that was declared before; InvalidArgument for a name that the format cannot hold;
  // Unimplemented for a dtype that it cannot hold.
  virtual absl::Status Declare(const ArchiveEntry& entry);

  // Ends the declarations: checks all of them together, and returns what Finish will do to files of an older archive.
  // Need not be called. Errors: those of the format.
  virtual absl::StatusOr<ReplacedFiles> Start() { return ReplacedFiles(); }

  // Adds a tensor. Uses the name of `entry`, and its shard if the format has shards. Formats that cannot hold strides
  // write the elements row-major, those that cannot hold metadata leave it out (ArchiveFormat::traits).
  virtual absl::Status Add(const ArchiveEntry& entry, const DecodedTensor& tensor) = 0;

  // True if AddSlice writes each slice at once. Otherwise it holds the tensor in memory until it is complete. May be
  // called while another thread calls other methods.
  virtual bool writes_in_blocks(const ArchiveEntry& entry) const;
  // Adds a part of a tensor of entry.dtype and entry.shape. The slices of a tensor follow one another in row-major
  // order, as TensorBlocks gives them, and no other tensor comes between.
  virtual absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                                const TensorView& elements);

  // Makes the file appear at its path. Errors: FailedPrecondition if a tensor is incomplete; those of the format.
  absl::Status Finish();

  // The bytes of the file, or of all files if there are several; 0 before Finish.
  uint64_t file_bytes() const { return file_bytes_; }
  // The files of an older archive that Finish removed: ReplacedFiles::removed, but for files that another program
  // removed before.
  const std::vector<std::string>& removed_files() const { return removed_files_; }

 protected:
  // Implements Finish for one format: publishes the file and returns its size in bytes.
  virtual absl::StatusOr<uint64_t> Publish() = 0;
  // Runs `call` if no call before has failed. Returns the first error.
  absl::Status UnlessFailed(absl::FunctionRef<absl::Status()> call);
  // The bytes of the file at `path`; 0 if the file system does not tell.
  static uint64_t BytesOfFile(const std::string& path, FileSystem* file_system);
  void set_removed_files(std::vector<std::string> paths) { removed_files_ = std::move(paths); }

 private:
  // AddSlice for formats that take whole tensors.
  absl::Status AddPart(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                       const TensorView& elements);
  // FailedPrecondition if AddSlice holds an incomplete tensor.
  absl::Status CheckComplete() const;

  struct Partial {
    std::string name;
    Tensor tensor;
    int64_t num_elements;  // added so far
  };
  std::optional<Partial> partial_;  // the tensor that AddSlice assembles
  uint64_t file_bytes_ = 0;
  std::vector<std::string> removed_files_;
  absl::Status first_error_;  // what UnlessFailed returns
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_WRITER_H_
