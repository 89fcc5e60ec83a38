// Writes safetensors files, whole or not at all, in one file or in several with an index.
//
//   CASK_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create("/models/model.safetensors", {}));
//   CASK_RETURN_IF_ERROR(writer.Add("dense/kernel", kernel));
//   CASK_RETURN_IF_ERROR(writer.Finish());   // now, and not before, there is a file
//
// The header of a safetensors file comes first and lists all tensors, so the writer must know them before it can write
// a byte. There are two ways, and one writer uses one of them:
//
// - Tensors in memory: Add keeps a reference to each tensor (a lazy clone; no copy unless the caller writes to it, but
//   mapped and external memory is copied at once) and Finish writes them all.
// - Streaming, for more data than fits in memory: Declare every tensor first, then Add or AddSlice them in any order.
//   Elements go to the file at once, and memory stays bounded: about 150 bytes a tensor and the headers.
//
//   CASK_RETURN_IF_ERROR(writer.Declare("embedding", DType::kFloat16, TensorShape({1000000, 1024})));
//   CASK_RETURN_IF_ERROR(writer.AddSlice("embedding", *TensorSlice::Parse("0,1000:-"), rows));
//
// Both give the same bytes for the same tensors, whatever the order of calls (SafetensorsOrder::kByAlignment). With
// alignment = 8 and checksums = false they are the bytes of the reference writer (safetensors 0.8).
//
// The writer creates files under temporary names beside the final ones and renames them in Finish, the index last
// (serialize/io/publication.h). A writer destroyed without Finish removes its files. After a failed Add,
// AddSlice or Finish every further call returns the same error; a refused argument (InvalidArgument, AlreadyExists,
// NotFound, OutOfRange) changes nothing. One caller at a time. With `overwrite`, only one writer at a time may write
// files of these names.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_WRITER_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_WRITER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// The order of tensors in a file.
enum class SafetensorsOrder {
  // As the reference writer orders them: by the rank of the dtype (FORMAT.md section 3; largest elements first, so that
  // each is aligned to its own size), then by name, as unsigned bytes.
  kByAlignment,
  kAsAdded,  // in the order of the calls of Declare, or of Add if there are none
};

struct SafetensorsWriterOptions {
  FileSystem* file_system = FileSystem::Posix();
  // The data begins at a multiple of this many bytes: a power of two, 1 to 2^20. The writer pads the header with
  // spaces. The reference writer uses 8. Only the first tensor is aligned so, as the format allows no gaps; the others
  // are aligned to their element size.
  uint64_t alignment = 64;
  SafetensorsOrder order = SafetensorsOrder::kByAlignment;
  // Stores the CRC-32C of each tensor in the metadata under "tensorcask.crc32c" (FORMAT.md section 4). Other readers
  // ignore it.
  bool checksums = true;
  // The writer stores this as "format" in the metadata if it stores checksums and the metadata has no "format": Hugging
  // Face transformers refuses files that have metadata without "format", and treats files without metadata as "pt".
  // Empty: the writer stores no "format".
  std::string default_format = "pt";
  std::map<std::string, std::string> metadata;  // any UTF-8
  // More than 0: tensors are spread over files of at most this many bytes of data (a larger tensor has a file of its
  // own), in the order of their names (with kAsAdded: in the order of the calls). If there is more than one, they are
  // called NAME-00001-of-00003.safetensors, and NAME.safetensors.index.json says where each tensor is.
  uint64_t max_shard_bytes = 0;
  // With max_shard_bytes: a model that fits one file also has an index, and the file is called
  // NAME-00001-of-00001.safetensors.
  bool always_index = false;
  bool sync = true;  // durable when Finish returns
  // Replace a model of this name. A model in several files gets names that are free (NAME-00001-of-00003.safetensors,
  // or NAME-00001-of-00003-r1.safetensors, ...), its index last; then the old files are removed. A crash at any moment
  // leaves the old model or the new one, whole. Beside NAME.safetensors and its index, only files that the old index
  // lists are removed (ReplacedFiles::removed). With always_index, NAME.safetensors stays.
  bool overwrite = false;
};

class SafetensorsWriter {
 public:
  // `path` names the file; with max_shard_bytes it must end in ".safetensors". Create checks the options and the path,
  // and makes no file yet.
  // Errors: AlreadyExists if the file, or an index of that name, exists (unless overwriting); InvalidArgument for a bad
  // path or option, and for metadata that is not UTF-8 or has the key "tensorcask.crc32c"; from errno, naming the file.
  static absl::StatusOr<SafetensorsWriter> Create(const std::string& path, SafetensorsWriterOptions options = {});

  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // Checks that a file can hold such a tensor. Errors: InvalidArgument for a name that is not UTF-8, is longer than 64
  // KiB or is "__metadata__", for a dtype that safetensors lacks (SafetensorsDTypeName), for elements below 8 bits that
  // do not fill whole bytes, and for sizes past 2^63.
  static absl::Status CheckTensor(absl::string_view name, DType dtype, const TensorShape& shape);

  // Announces a tensor that Add or AddSlice will store. Errors: those of CheckTensor; AlreadyExists for a name used
  // before; FailedPrecondition after the first Add.
  absl::Status Declare(absl::string_view name, DType dtype, const TensorShape& shape);

  // Checks that the metadata can have this entry. Errors: InvalidArgument, without the key, if it is not UTF-8, or if
  // the writer makes this entry itself.
  static absl::Status CheckMetadata(absl::string_view key, absl::string_view value);

  // Notes in the metadata that `name` is another name of the tensor `target`, as programs that save tied tensors do.
  // `target` may be added later.
  // Errors: InvalidArgument for a bad name; AlreadyExists for a name used before, for a tensor or in the metadata;
  // FailedPrecondition after the first Add of a streaming writer. Finish, or that first Add, gives NotFound if there is
  // no tensor `target`.
  absl::Status AddAlias(absl::string_view name, absl::string_view target);

  // Stores the elements of `tensor`, which may have any strides, in row-major order. Streaming: `name` was declared
  // with this dtype and shape, and the caller may change the tensor when Add returns. Otherwise the tensor is kept
  // until Finish, and must not be written through pointers from before Add (tensor/buffer.h says why).
  // Errors: those of Declare; NotFound for a name that was not declared, if others were; AlreadyExists for a name added
  // before; FailedPrecondition for a buffer without data; from errno, naming the file; ResourceExhausted.
  absl::Status Add(absl::string_view name, const TensorView& tensor);

  // Stores one piece of a declared tensor; further calls store the rest. Elements below 8 bits are stored only as a
  // whole.
  // Errors: those of Add; NotFound for a name that was not declared; InvalidArgument if dtype or shape disagree with
  // `slice`, and for a piece that overlaps another; OutOfRange for a slice outside the tensor; Unimplemented for a part
  // of a tensor with elements below 8 bits.
  absl::Status AddSlice(absl::string_view name, const TensorSlice& slice, const TensorView& tensor);

  // Ends the declarations of a streaming writer, makes its temporary files, and returns what Finish will replace and
  // remove. Need not be called. Errors: those of Finish.
  absl::StatusOr<ReplacedFiles> Start();

  // Writes what is missing and publishes.
  // Errors: FailedPrecondition if called twice, or, naming a tensor, if not all elements of all declared tensors were
  // added; NotFound for an alias of a tensor that was not added; AlreadyExists if another program made a file of that
  // name meanwhile; from errno, naming the file.
  absl::Status Finish();

  // The paths of the files that Finish wrote, the index last; empty before.
  const std::vector<std::string>& files() const;
  // The paths of the files of the old model that Finish removed.
  const std::vector<std::string>& removed_files() const;

 private:
  class Impl;
  explicit SafetensorsWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_WRITER_H_
