#include "tensorcask/serialize/onnx/onnx_reader.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/contained_folder.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/onnx/internal/model_walk.h"
#include "tensorcask/serialize/onnx/internal/reader_impl.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask {
namespace onnx {
namespace {

// An error of the file `path`, with the path in front unless a source put it there.
absl::Status InFile(const absl::Status& status, const std::string& path) {
  return absl::StartsWith(status.message(), path) ? status : AsDataLoss(status, path);
}

absl::StatusOr<std::unique_ptr<const ReaderImpl>> OpenFile(std::shared_ptr<const ByteSource> file,
                                                           SideFiles::OpenFolder open_folder,
                                                           const OnnxReaderOptions& options) {
  WalkOptions walk;
  walk.limits = options.limits;
  walk.constants = options.constants;
  MessageKind kind = LookAtMessage(*file);
  // What has not the fields of any message may be a damaged model: its error says where.
  if (kind == MessageKind::kUnknown) kind = MessageKind::kModel;
  absl::StatusOr<FoundTensors> found = FindTensors(*file, kind, walk);
  if (!found.ok()) return ExplainContent(InFile(found.status(), file->name()), *file, "onnx");
  return std::make_unique<const ReaderImpl>(std::move(file), *std::move(found), std::move(open_folder), options);
}

}  // namespace
}  // namespace onnx

using onnx::ReaderImpl;

absl::StatusOr<OnnxReader> OnnxReader::Open(const std::string& path, const OnnxReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
  const auto links = options.follow_links ? ContainedFolder::Links::kContained : ContainedFolder::Links::kRefused;
  const auto open_folder = [path, links, read = options.read] { return ContainedFolder::Of(path, links, read); };
  CASK_ASSIGN_OR_RETURN(auto impl, onnx::OpenFile(std::move(file), open_folder, options));
  return OnnxReader(std::move(impl));
}

absl::StatusOr<OnnxReader> OnnxReader::OpenSource(std::shared_ptr<const ByteSource> source,
                                                  const OnnxReaderOptions& options) {
  const auto open_folder = []() -> absl::StatusOr<ContainedFolder> {
    return absl::FailedPreconditionError("it was opened without the folder of its side files");
  };
  CASK_ASSIGN_OR_RETURN(auto impl, onnx::OpenFile(std::move(source), open_folder, options));
  return OnnxReader(std::move(impl));
}

bool OnnxReader::LooksLikeOnnx(const ByteSource& file, bool also_tensors) {
  const onnx::MessageKind kind = onnx::LookAtMessage(file);
  return kind == onnx::MessageKind::kModel || (also_tensors && kind != onnx::MessageKind::kUnknown);
}

bool OnnxReader::IsFieldKey(absl::string_view key) { return onnx::IsFieldKey(key); }

OnnxReader::OnnxReader(std::unique_ptr<const ReaderImpl> impl) : impl_(std::move(impl)) {}
OnnxReader::OnnxReader(OnnxReader&&) noexcept = default;
OnnxReader& OnnxReader::operator=(OnnxReader&&) noexcept = default;
OnnxReader::~OnnxReader() = default;

const std::string& OnnxReader::path() const { return impl_->path(); }
OnnxReader::Kind OnnxReader::kind() const {
  const onnx::MessageKind kind = impl_->kind();
  return kind == onnx::MessageKind::kModel      ? Kind::kModel
         : kind == onnx::MessageKind::kSequence ? Kind::kSequence
                                                : Kind::kTensor;
}
const std::vector<OnnxEntry>& OnnxReader::entries() const { return impl_->entries(); }
std::shared_ptr<const ByteSource> OnnxReader::SourceOf(const OnnxEntry& entry) const {
  return impl_->SourceOf(static_cast<size_t>(&entry - impl_->entries().data()));
}
const std::vector<std::string>& OnnxReader::side_files() const { return impl_->side_files().paths(); }
const std::map<std::string, std::string>& OnnxReader::metadata() const { return impl_->metadata(); }

const OnnxEntry* OnnxReader::FindEntry(absl::string_view name) const {
  const std::optional<size_t> number = impl_->Find(name);
  return number.has_value() ? &impl_->entries()[*number] : nullptr;
}

std::vector<std::string> OnnxReader::notes() const {
  std::vector<std::string> notes = impl_->notes();
  for (std::string& note : impl_->side_files().notes()) notes.push_back(std::move(note));
  return notes;
}

absl::StatusOr<Tensor> OnnxReader::Read(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  absl::StatusOr<Tensor> tensor = impl_->Read(number);
  if (!tensor.ok()) return impl_->At(number, tensor.status());
  return tensor;
}

absl::Status OnnxReader::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  const OnnxEntry& entry = impl_->entries()[number];
  CASK_RETURN_IF_ERROR(impl_->At(number, stored::CheckTarget(entry.dtype, entry.shape, *out)));
  if (entry.form == OnnxEntry::Form::kValues) {
    CASK_ASSIGN_OR_RETURN(const Tensor whole, Read(name));
    return impl_->At(number, internal::CopyFromHost(whole, out));
  }
  const absl::StatusOr<ReaderImpl::Elements> elements = impl_->ElementsOf(number);
  if (!elements.ok()) return impl_->At(number, elements.status());
  return impl_->At(number, stored::ReadElementsInto(*elements->source, elements->stored, impl_->how(), out));
}

absl::StatusOr<Tensor> OnnxReader::ReadSlice(absl::string_view name, const TensorSlice& slice) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  const OnnxEntry& entry = impl_->entries()[number];
  const absl::StatusOr<TensorShape> part = slice.Apply(entry.shape);
  if (!part.ok()) return impl_->At(number, part.status());
  if (entry.form == OnnxEntry::Form::kValues || part->num_elements() == entry.shape.num_elements()) {
    CASK_ASSIGN_OR_RETURN(const Tensor whole, Read(name));
    CASK_ASSIGN_OR_RETURN(const TensorView view, TensorView(whole).Slice(slice));
    return view.ToTensor();
  }
  const absl::StatusOr<ReaderImpl::Elements> elements = impl_->ElementsOf(number);
  if (!elements.ok()) return impl_->At(number, elements.status());
  const absl::Status charged =
      DecodeQuota::ForFile(impl_->options().limits).Charge(stored::SliceMemory(elements->stored, slice, *part));
  if (!charged.ok()) return impl_->At(number, charged);
  absl::StatusOr<Tensor> tensor = stored::ReadSliceOfElements(*elements->source, elements->stored, slice, impl_->how());
  if (!tensor.ok()) return impl_->At(number, tensor.status());
  return tensor;
}

absl::Status OnnxReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  const OnnxEntry& entry = impl_->entries()[number];
  const absl::StatusOr<TensorShape> part = slice.Apply(entry.shape);
  CASK_RETURN_IF_ERROR(impl_->At(number, part.ok() ? stored::CheckTarget(entry.dtype, *part, *out) : part.status()));
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, ReadSlice(name, slice));
  return impl_->At(number, internal::CopyFromHost(tensor, out));
}

absl::StatusOr<Tensor> OnnxReader::Map(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  if (impl_->entries()[number].form != OnnxEntry::Form::kPlain) return Read(name);
  const absl::StatusOr<ReaderImpl::Elements> elements = impl_->ElementsOf(number);
  if (!elements.ok()) return impl_->At(number, elements.status());
  if (!stored::CanMap(elements->stored)) return Read(name);
  absl::StatusOr<Tensor> tensor = stored::MapElements(*elements->source, elements->stored, impl_->how());
  if (absl::IsUnimplemented(tensor.status())) return Read(name);
  if (!tensor.ok()) return impl_->At(number, tensor.status());
  return tensor;
}

absl::StatusOr<std::unique_ptr<ElementStream>> OnnxReader::OpenStream(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  if (impl_->entries()[number].form != OnnxEntry::Form::kPlain) {
    return impl_->At(number, absl::UnimplementedError("only plain elements are read as a stream"));
  }
  absl::StatusOr<ReaderImpl::Elements> elements = impl_->ElementsOf(number);
  if (!elements.ok()) return impl_->At(number, elements.status());
  return stored::OpenElements(
      *elements->source, elements->stored, impl_->how(),
      [impl = impl_.get(), number](const absl::Status& status) { return impl->At(number, status); });
}

}  // namespace tensorcask
