// Writes files that torch.load reads (with weights_only, mapped or not), and torch::pickle_load of C++: whole or not at
// all.
//
//   CASK_ASSIGN_OR_RETURN(TorchWriter writer, TorchWriter::Create("/models/model.pt"));
//   CASK_RETURN_IF_ERROR(writer.Add("encoder.weight", weight));
//   CASK_RETURN_IF_ERROR(writer.AddView("decoder.weight", "encoder.weight", weight.layout()));   // tied
//   CASK_RETURN_IF_ERROR(writer.Finish());   // now, and not before, there is a file
//
// In Python this is {"encoder.weight": tensor, "decoder.weight": tensor}: a dict by name. SetValues gives the file
// another form: nested dicts and lists, and numbers and text beside the tensors.
//
// Elements go to the file at once, and memory stays bounded: about 200 bytes a tensor, and the values. Tensors keep the
// order of their axes in memory (channels last, for example) and are otherwise stored densely. A quantized tensor needs
// its scale: the attributes that TorchReader::Metadata has of it. Sparse tensors are not written, because
// torch::pickle_load reads none. The same calls give the same bytes. FORMAT.md section 6 has the layout.
//
// The file is written under a temporary name and renamed (serialize/io/publication.h). A writer destroyed without
// Finish removes it. After a failed write every further call returns the same error; a refused argument
// (InvalidArgument, AlreadyExists, NotFound, Unimplemented) changes nothing. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_TORCH_TORCH_WRITER_H_
#define TENSORCASK_SERIALIZE_TORCH_TORCH_WRITER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct TorchWriterOptions {
  FileSystem* file_system = FileSystem::Posix();
  bool sync = true;        // durable when Finish returns
  bool overwrite = false;  // replace a file of this name; a crash leaves the old one or the new one
  // The elements of each tensor begin at a multiple of this many bytes of the file: a power of two, at most 16384.
  uint32_t alignment = 64;
  // Text beside the object of the file, in a record of its own: TorchReader returns it, and PyTorch ignores it. UTF-8.
  std::map<std::string, std::string> metadata;
};

class TorchWriter {
 public:
  // Errors: AlreadyExists if the file exists (unless overwriting); InvalidArgument for a bad path or option; from
  // errno, naming the file.
  static absl::StatusOr<TorchWriter> Create(const std::string& path, const TorchWriterOptions& options = {});

  // Checks that a file can hold such a tensor. Errors: InvalidArgument for a name that is not UTF-8; Unimplemented for
  // a dtype that PyTorch lacks (strings, for example).
  static absl::Status CheckTensor(absl::string_view name, DType dtype);
  // Whether Add stores all of the metadata. False if it has anything but requires_grad and the attributes below.
  static bool HoldsMetadata(const TensorMetadata& metadata);
  // Checks that SetValues accepts this value and all that it contains. Errors: InvalidArgument for objects of classes,
  // arrays that are left in another file, lists, sets and maps as keys, and text that is not UTF-8.
  static absl::Status CheckValue(Value value);

  TorchWriter(TorchWriter&&) noexcept;
  TorchWriter& operator=(TorchWriter&&) noexcept;
  ~TorchWriter();

  // Stores the elements of `tensor`, which may have any strides. Errors: those of CheckTensor; AlreadyExists for a name
  // used before; InvalidArgument for requires_grad of integers; FailedPrecondition for a buffer without data, and while
  // another tensor is incomplete; from errno, naming the file.
  absl::Status Add(absl::string_view name, const TensorView& tensor, bool requires_grad = false);
  // The same with requires_grad, and with the attributes torch.qscheme, torch.scale, torch.zero_point and torch.axis of
  // a quantized tensor: "torch.per_tensor_affine", "0.5", "3". All else of the metadata is left out. Errors: also
  // InvalidArgument for a quantized dtype without them, or with others than TorchReader gives.
  absl::Status Add(absl::string_view name, const TensorView& tensor, const TensorMetadata& metadata);

  // The same for elements that come in pieces: Begin, and Append with the next elements in row-major order, until the
  // tensor is complete. Errors: those of Add; FailedPrecondition for Append if no tensor is incomplete; InvalidArgument
  // for a piece of another dtype, or with more elements than are missing.
  absl::Status Begin(absl::string_view name, DType dtype, const TensorShape& shape, bool requires_grad = false);
  absl::Status Begin(absl::string_view name, DType dtype, const TensorShape& shape, const TensorMetadata& metadata);
  absl::Status Append(const TensorView& piece);

  // Another tensor over the elements of `target`, which was added: of its dtype, with any shape and strides. Position 0
  // of `layout` is where the elements of `target` begin; it may have been added with strides, and AddAlias gives the
  // same tensor a second name. Errors: those of Add; NotFound for `target`; InvalidArgument for negative strides, if
  // the layout leaves the elements, and for another number of channels than those of a quantized `target`.
  absl::Status AddView(absl::string_view name, absl::string_view target, const Layout& layout,
                       bool requires_grad = false);
  absl::Status AddAlias(absl::string_view name, absl::string_view target);

  // The object of the file is the root of `values`, in which tensor number i is the one that is named names[i]. Tensors
  // that are not in it become entries of the root under their names, after the others. May be called at any time before
  // Finish. Errors: InvalidArgument for a value that CheckValue refuses, or a tensor without a name.
  absl::Status SetValues(ValueTree values, std::vector<std::string> names);

  // Writes what is missing and publishes. Errors: FailedPrecondition with an incomplete tensor, or if called twice;
  // NotFound for a tensor of SetValues that was not added; AlreadyExists for a tensor whose name is a key of the root,
  // InvalidArgument if the root is not a map and a tensor is not in the tree; from errno, naming the file.
  absl::Status Finish();

 private:
  class Impl;
  explicit TorchWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Gives `file`, a zip archive of torch.save, this metadata instead of its own. All other records stay as they are, but
// for `.format_version` (FORMAT.md section 6). The file is replaced, or options.output is written. Errors: those of
// reading a zip archive and of Publication; InvalidArgument for text that is not UTF-8; Cancelled by options.progress.
absl::StatusOr<FileEditResult> EditTorchMetadata(const std::shared_ptr<const ByteSource>& file,
                                                 const std::map<std::string, std::string>& metadata,
                                                 const FileEditOptions& options);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_TORCH_TORCH_WRITER_H_
