#include "tensorcask/serialize/onnx/internal/reader_impl.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/onnx/internal/onnx_tensor_message.h"
#include "tensorcask/serialize/protowire/wire_cursor.h"
#include "tensorcask/serialize/stored/packed_elements.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::onnx {

using Form = OnnxEntry::Form;

ReaderImpl::ReaderImpl(std::shared_ptr<const ByteSource> file, FoundTensors found, SideFiles::OpenFolder open_folder,
                       const OnnxReaderOptions& options)
    : file_(std::move(file)),
      kind_(found.kind),
      options_(options),
      side_files_(FolderOf(file_->name()), std::move(open_folder)),
      tensors_(std::move(found.tensors)),
      by_name_(std::move(found.by_name)),
      sparse_(std::move(found.sparse)),
      metadata_(std::move(found.metadata)),
      notes_(std::move(found.notes)) {
  how_.accept_odd_bools = options_.lenient;
  how_.odd_bools_hint = " (lenient accepts this)";
  how_.strategy = options_.read.strategy;
  how_.num_threads = options_.read.num_threads;
  how_.allocator = options_.allocator;
  entries_.reserve(tensors_.size());
  for (const FoundTensor& tensor : tensors_) AddEntry(tensor);
}

void ReaderImpl::AddEntry(const FoundTensor& found) {
  const TensorMessage& message = found.message;
  OnnxEntry& entry = entries_.emplace_back();
  entry.name = found.name();
  entry.part_of = found.part_of;
  entry.shape = message.shape;
  entry.data_type = message.data_type;
  if (message.type == nullptr) {
    entry.read_status =
        absl::UnimplementedError(absl::StrCat("its data type is ", message.data_type, "; this version knows 1 to 28"));
  } else {
    entry.dtype = message.type->dtype;
    entry.offset = message.offset;
    entry.stored_bytes = message.stored_bytes;
    entry.form = message.type->bits < 8 ? Form::kPacked : Form::kPlain;
    if (message.data == TensorMessage::Data::kValues) {
      entry.form = Form::kValues;
      entry.offset = message.begin;
    } else if (message.data == TensorMessage::Data::kExternal && message.external->ok()) {
      const size_t side_file = side_files_.Add((*message.external)->location);
      entry.side_file = side_files_.paths()[side_file];
      entry.side_file_number = static_cast<int>(side_file) + 1;
    } else if (message.data == TensorMessage::Data::kExternal) {
      const absl::Status& status = message.external->status();
      entry.read_status = absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
    }
  }
}

std::optional<size_t> ReaderImpl::Find(absl::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](uint32_t number, absl::string_view key) { return entries_[number].name < key; });
  if (found == by_name_.end() || entries_[*found].name != name) return std::nullopt;
  return *found;
}

absl::StatusOr<size_t> ReaderImpl::LocateReadable(absl::string_view name) const {
  const std::optional<size_t> number = Find(name);
  if (!number.has_value()) return absl::NotFoundError(absl::StrCat(path(), ": no tensor ", Quoted(name)));
  CASK_RETURN_IF_ERROR(At(*number, entries_[*number].read_status));
  return *number;
}

absl::Status ReaderImpl::At(size_t number, const absl::Status& status) const {
  if (status.ok()) return status;
  const OnnxEntry& entry = entries_[number];
  return MarkDamagedPart(
      Annotate(status, absl::StrCat(path(), ": tensor ", Quoted(entry.name),
                                    entry.side_file.empty() ? "" : absl::StrCat(" in the side file ", entry.side_file),
                                    entry.read_status.ok() ? absl::StrCat(" at offset ", entry.offset) : "")));
}

absl::StatusOr<ReaderImpl::Elements> ReaderImpl::ElementsOf(size_t number) const {
  const OnnxEntry& entry = entries_[number];
  Elements elements;
  elements.source = file_;
  if (!entry.side_file.empty()) {
    absl::StatusOr<std::shared_ptr<const ByteSource>> opened = side_files_.Open(side_file(number));
    if (!opened.ok()) return opened.status();
    elements.source = *std::move(opened);
    if (!RangeFits(entry.offset, entry.stored_bytes, elements.source->size_bytes())) {
      return absl::DataLossError(absl::StrCat("it has ", entry.stored_bytes, " bytes from offset ", entry.offset,
                                              " on, past the end of the side file (", elements.source->size_bytes(),
                                              " bytes)"));
    }
  }
  elements.stored.dtype = entry.dtype;
  elements.stored.shape = entry.shape;
  elements.stored.offset = entry.offset;
  elements.stored.stored_bytes = entry.stored_bytes;
  if (entry.form == Form::kPacked) elements.stored.packed_bits = tensors_[number].message.type->bits;
  elements.stored.storage_id = number + 1;
  return elements;
}

std::shared_ptr<const ByteSource> ReaderImpl::SourceOf(size_t number) const {
  if (entries_[number].side_file.empty()) return file_;
  return side_files_.Open(side_file(number)).value_or(nullptr);
}

uint64_t ReaderImpl::MemoryBytes(size_t number) const {
  const OnnxEntry& entry = entries_[number];
  const auto count = static_cast<uint64_t>(entry.shape.num_elements());
  if (entry.dtype == DType::kString) return count * sizeof(std::string) + entry.stored_bytes;
  return count * ElementSize(entry.dtype);
}

absl::StatusOr<Tensor> ReaderImpl::Read(size_t number) const {
  CASK_RETURN_IF_ERROR(DecodeQuota::ForFile(options_.limits).Charge(MemoryBytes(number)));
  if (entries_[number].form == Form::kValues) return ReadTyped(number);
  CASK_ASSIGN_OR_RETURN(const Elements elements, ElementsOf(number));
  return stored::ReadElements(*elements.source, elements.stored, how_);
}

absl::StatusOr<Tensor> ReaderImpl::ReadTyped(size_t number) const {
  const TensorMessage& message = tensors_[number].message;
  const OnnxEntry& entry = entries_[number];
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(entry.dtype, entry.shape, options_.allocator));
  CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
  WireCursor cursor(file_.get());
  if (entry.dtype == DType::kString) {
    const auto count = static_cast<size_t>(entry.shape.num_elements());
    CASK_RETURN_IF_ERROR(ReadStrings(&cursor, message, absl::MakeSpan(tensor.mutable_data<std::string>(), count)));
    return tensor;
  }
  const absl::Span<char> out = tensor.mutable_bytes();
  if (!ValuesArePacked(*message.type)) {
    CASK_RETURN_IF_ERROR(ReadValues(&cursor, message, out));
    return tensor;
  }
  std::string packed(static_cast<size_t>(ValueBytes(message)), '\0');
  CASK_RETURN_IF_ERROR(ReadValues(&cursor, message, absl::MakeSpan(&packed[0], packed.size())));
  stored::UnpackElements(message.type->bits, packed, 0, out);
  return tensor;
}

}  // namespace tensorcask::onnx
