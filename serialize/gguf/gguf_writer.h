// Writes GGUF files, whole or not at all: tensors of plain numbers, blocks that are given as bytes, and metadata.
//
//   CASK_ASSIGN_OR_RETURN(GgufWriter writer, GgufWriter::Create("model.gguf", {}));
//   CASK_RETURN_IF_ERROR(writer.SetText("general.architecture", "llama"));
//   CASK_RETURN_IF_ERROR(writer.Add("token_embd.weight", embedding));   // float16 [32000,4096]
//   CASK_RETURN_IF_ERROR(writer.Finish());   // now, and not before, there is a file
//
// The header of a GGUF file comes first and lists all tensors, so the writer must know them before it can write a byte.
// There are two ways, and one writer uses one of them:
//
// - Tensors in memory: Add keeps a reference to each tensor (a lazy clone) and Finish writes them all.
// - Streaming, for more data than fits in memory: Declare every tensor first, then Add or AddSlice them in the order of
//   their declarations. Elements go to the file at once.
//
// The same calls give the same bytes: keys and tensors have the order of the calls. Files are little-endian and of
// version 3; the data of each tensor begins at a multiple of the key general.alignment, a uint32, or of 32 without it.
// The library makes no blocks: they come from other GGUF files (GgufReaderOptions::blocks_as_bytes).
//
// The writer makes a temporary file beside the final one and renames it in Finish (serialize/io/publication.h). A
// writer destroyed without Finish removes it. After a failed Add, AddSlice or Finish every further call returns the
// same error; a refused argument (InvalidArgument, AlreadyExists, NotFound, FailedPrecondition) changes nothing. One
// caller at a time.

#ifndef TENSORCASK_SERIALIZE_GGUF_GGUF_WRITER_H_
#define TENSORCASK_SERIALIZE_GGUF_GGUF_WRITER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct GgufWriterOptions {
  FileSystem* file_system = FileSystem::Posix();
  bool sync = true;  // durable when Finish returns
  // Replace a file of this name, in one step: a crash at any moment leaves the old file or the new one, whole.
  bool overwrite = false;
};

class GgufWriter {
 public:
  // Errors: AlreadyExists if there is a file at `path` (unless overwriting); InvalidArgument for a bad path; from
  // errno.
  static absl::StatusOr<GgufWriter> Create(const std::string& path, const GgufWriterOptions& options = {});

  GgufWriter(GgufWriter&&) noexcept;
  GgufWriter& operator=(GgufWriter&&) noexcept;
  ~GgufWriter();

  // float16, bfloat16, float32, float64, int8, int16, int32, int64.
  static bool HoldsDType(DType dtype);
  static bool IsBlockType(absl::string_view type);  // "q4_k"
  // True for a key, and its value as text, that only describes one file: which part of a model in several files it is,
  // or the padding of an edit (FORMAT.md section 3.4). The writer refuses it.
  static bool IsOfOneFile(absl::string_view key, absl::string_view text);
  // Checks the limits of ggml, which all its programs have. Errors: InvalidArgument for a name of 64 bytes and more or
  // that is not UTF-8, for a dtype that GGUF lacks, and for more than four dimensions.
  static absl::Status CheckTensor(absl::string_view name, DType dtype, const TensorShape& shape);
  // The same for blocks of the type "q4_k" and so on, as bytes: the last size of `shape` is that of a row in bytes.
  static absl::Status CheckBlocks(absl::string_view name, absl::string_view type, const TensorShape& shape);
  // Errors: InvalidArgument for a value that GGUF has no type for. GGUF has numbers of the widths of C, bools, texts,
  // and lists of one of these. SetArray takes an array in a file (ValueKind::kFileArray).
  static absl::Status CheckValue(Value value);
  // Checks that SetValue accepts this entry. Errors: those of SetValue, without path and name.
  static absl::Status CheckEntry(absl::string_view name, Value value);

  // Sets the key `name` of the metadata, in place of the value that it had. Numbers keep the width of the value;
  // without one they get 64 bits. An empty list becomes an array of the type that it has (ValueTree::AddEmptyList),
  // else of int32. The texts of other GGUF files are written as they are, UTF-8 or not. Errors: those of CheckValue;
  // InvalidArgument for a name that is empty, too long or not UTF-8, for an array in a file, for a
  // general.alignment that is not a uint32 and a power of two of at most 2^20, and for the keys of IsOfOneFile;
  // FailedPrecondition after the first declared tensor was added.
  absl::Status SetValue(absl::string_view name, Value value);
  // The same for an array that is in another file, from GgufReader::ReadArrayBytes.
  absl::Status SetArray(absl::string_view name, Value array, absl::string_view bytes);
  // Errors: also InvalidArgument for a text that is not UTF-8.
  absl::Status SetText(absl::string_view name, absl::string_view text);
  // Sets a key from text that may begin with a type: "uint32:7", "float32:0.5", "bool:true", or plain text. Without a
  // type in front the text becomes a value of the type of `old`, if that is a number or a bool. Errors: also
  // InvalidArgument for a text that is not UTF-8 or not a value of the type, or that would replace an array.
  absl::Status SetParsed(absl::string_view name, absl::string_view text);
  absl::Status SetParsed(absl::string_view name, absl::string_view text, Value old);
  // Checks that SetParsed accepts this entry. Errors: those of SetParsed, without path and name.
  static absl::Status CheckParsed(absl::string_view name, absl::string_view text, const std::optional<Value>& old);

  // Announces a tensor that Add or AddSlice will store. Errors: those of CheckTensor; AlreadyExists for a name used
  // before; FailedPrecondition after the first Add.
  absl::Status Declare(absl::string_view name, DType dtype, const TensorShape& shape);
  // Announces a tensor of blocks, which Add takes as uint8 of this shape. Errors: those of CheckBlocks, and the same
  // others.
  absl::Status DeclareBlocks(absl::string_view name, absl::string_view type, const TensorShape& shape);

  // Stores the elements of `tensor`, which may have any strides, in row-major order. Streaming: the caller may change
  // the tensor when Add returns.
  // Errors: those of Declare; NotFound for a name that was not declared, if others were; FailedPrecondition for a
  // declared tensor that is not the next one; InvalidArgument for another dtype or shape; from errno.
  absl::Status Add(absl::string_view name, const TensorView& tensor);
  // Stores a part of the next declared tensor; each part continues in row-major order where the one before ended.
  // Errors: those of Add; OutOfRange for a slice outside the tensor.
  absl::Status AddSlice(absl::string_view name, const TensorSlice& slice, const TensorView& tensor);

  // Ends the declarations, makes the temporary file, and returns what Finish will replace. Need not be called.
  absl::StatusOr<ReplacedFiles> Start();
  // Writes what is missing and publishes the file. Errors: FailedPrecondition if called twice or, naming a tensor, if a
  // declared one is not complete; AlreadyExists if another program made a file of that name meanwhile; from errno.
  absl::Status Finish();

 private:
  class Impl;
  explicit GgufWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_GGUF_GGUF_WRITER_H_
