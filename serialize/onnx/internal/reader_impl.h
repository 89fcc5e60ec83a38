// What an open OnnxReader holds: the list of tensors, and how the elements of each are read.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_READER_IMPL_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_READER_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/onnx/entry.h"
#include "tensorcask/serialize/onnx/internal/model_walk.h"
#include "tensorcask/serialize/onnx/internal/side_files.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::onnx {

class ReaderImpl {
 public:
  // The elements of a tensor, and what has their bytes.
  struct Elements {
    std::shared_ptr<const ByteSource> source;
    stored::StoredTensor stored;
  };

  // Requires: `found` is of `file`.
  ReaderImpl(std::shared_ptr<const ByteSource> file, FoundTensors found, SideFiles::OpenFolder open_folder,
             const OnnxReaderOptions& options);

  const std::string& path() const { return file_->name(); }
  MessageKind kind() const { return kind_; }
  const OnnxReaderOptions& options() const { return options_; }
  const std::vector<OnnxEntry>& entries() const { return entries_; }
  const SideFiles& side_files() const { return side_files_; }
  const std::vector<SparseTensor>& sparse() const { return sparse_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const stored::ElementOptions& how() const { return how_; }

  // The number of the entry; nullopt if no tensor has this name.
  std::optional<size_t> Find(absl::string_view name) const;
  // The same of a tensor that can be read. Errors: NotFound; OnnxEntry::read_status.
  absl::StatusOr<size_t> LocateReadable(absl::string_view name) const;
  // `status`, if it is an error, with the place of the tensor.
  absl::Status At(size_t number, const absl::Status& status) const;

  // Requires: the tensor can be read, and is not Form::kValues. Errors: those of opening the side file.
  absl::StatusOr<Elements> ElementsOf(size_t number) const;
  // Errors, without the place of the tensor: those of OnnxReader::Read. Requires: the tensor can be read.
  absl::StatusOr<Tensor> Read(size_t number) const;

  // What has the bytes of the tensor; null if it is a side file that cannot be opened.
  std::shared_ptr<const ByteSource> SourceOf(size_t number) const;

  // The side file with the elements, and the SHA-1 that the tensor says it has. Requires: entry.side_file is not empty.
  size_t side_file(size_t number) const { return static_cast<size_t>(entries_[number].side_file_number) - 1; }
  const std::string& sha1(size_t number) const { return (*tensors_[number].message.external)->sha1; }

 private:
  void AddEntry(const FoundTensor& found);
  uint64_t MemoryBytes(size_t number) const;  // that the elements take, text of strings included
  absl::StatusOr<Tensor> ReadTyped(size_t number) const;

  const std::shared_ptr<const ByteSource> file_;
  const MessageKind kind_;
  const OnnxReaderOptions options_;
  SideFiles side_files_;
  stored::ElementOptions how_;
  std::vector<OnnxEntry> entries_;
  const std::deque<FoundTensor> tensors_;  // the tensors of the entries
  const std::vector<uint32_t> by_name_;
  const std::vector<SparseTensor> sparse_;
  const std::map<std::string, std::string> metadata_;
  const std::vector<std::string> notes_;
};

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_READER_IMPL_H_
