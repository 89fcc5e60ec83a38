#include "tensorcask/serialize/onnx/internal/reader_impl.h"

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
      sparse_(std::move(found.sparse)),
      metadata_(std::move(found.metadata)),
      notes_(std::move(found.notes)) {
  how_.accept_odd_bools = options_.lenient;
  how_.odd_bools_hint = " (lenient accepts this)";
  how_.strategy = options_.read.strategy;
  how_.num_threads = options_.read.num_threads;
  how_.allocator = options_.allocator;
  entries_.reserve(found.tensors.size());
  places_.reserve(found.tensors.size());
  for (FoundTensor& tensor : found.tensors) AddEntry(std::move(tensor));
  numbers_.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) numbers_.emplace(entries_[i].name, i);
}

void ReaderImpl::AddEntry(FoundTensor&& found) {
  TensorMessage& message = found.message;
  OnnxEntry entry;
  entry.name = std::move(found.name);
  entry.part_of = std::move(found.part_of);
  entry.shape = message.shape;
  entry.data_type = message.data_type;
  Place place;
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
      place.side_file = side_files_.Add((*message.external)->location);
      entry.side_file = side_files_.paths()[place.side_file];
      entry.side_file_number = static_cast<int>(place.side_file) + 1;
    } else if (message.data == TensorMessage::Data::kExternal) {
      const absl::Status& status = message.external->status();
      entry.read_status = absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
    }
  }
  place.message = std::move(message);
  entries_.push_back(std::move(entry));
  places_.push_back(std::move(place));
}

const size_t* ReaderImpl::Find(absl::string_view name) const {
  const auto it = numbers_.find(name);
  return it != numbers_.end() ? &it->second : nullptr;
}

absl::StatusOr<size_t> ReaderImpl::LocateReadable(absl::string_view name) const {
  const size_t* const number = Find(name);
  if (number == nullptr) return absl::NotFoundError(absl::StrCat(path(), ": no tensor ", Quoted(name)));
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
    absl::StatusOr<std::shared_ptr<const ByteSource>> opened = side_files_.Open(places_[number].side_file);
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
  if (entry.form == Form::kPacked) elements.stored.packed_bits = places_[number].message.type->bits;
  elements.stored.storage_id = number + 1;
  return elements;
}

std::shared_ptr<const ByteSource> ReaderImpl::SourceOf(size_t number) const {
  if (entries_[number].side_file.empty()) return file_;
  return side_files_.Open(places_[number].side_file).value_or(nullptr);
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
  const TensorMessage& message = places_[number].message;
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
