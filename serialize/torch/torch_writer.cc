#include "tensorcask/serialize/torch/torch_writer.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/stored/writer_state.h"
#include "tensorcask/serialize/torch/internal/pickle_writer.h"
#include "tensorcask/serialize/torch/internal/quantizer.h"
#include "tensorcask/serialize/torch/internal/torch_records.h"
#include "tensorcask/serialize/zip/zip_directory.h"
#include "tensorcask/serialize/zip/zip_writer.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"
#include "tensorcask/tensor/strided/changing_memory.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask {
namespace {

// Storages up to this size are gathered in memory: their checksum then stands in front of them, for readers that look
// there and not into the directory. The bytes do not depend on the pieces that they came in.
constexpr uint64_t kGatheredBytes = uint64_t{1} << 20;
constexpr uint64_t kReservedBytes = uint64_t{4} << 20;    // for a storage of this size the sink reserves space ahead
constexpr uint64_t kDirectoryBytes = uint64_t{64} << 10;  // reserved for what follows it
constexpr size_t kWrittenPieceBytes = size_t{256} << 10;

// The view with its axes in the order of memory, if `layout` is dense.
absl::StatusOr<TensorView> InOrderOf(const Layout& layout, const TensorView& view) {
  DimVector axes;
  for (int axis = 0; axis < view.rank(); ++axis) axes.push_back(axis);
  std::stable_sort(axes.begin(), axes.end(), [&](int64_t a, int64_t b) {
    return layout.stride(static_cast<int>(a)) > layout.stride(static_cast<int>(b));
  });
  return view.Permute(axes);
}

TensorMetadata OnlyGrad(bool requires_grad) {
  TensorMetadata metadata;
  metadata.requires_grad = requires_grad;
  return metadata;
}

}  // namespace

class TorchWriter::Impl {
 public:
  Impl(std::string path, const TorchWriterOptions& options)
      : path_(std::move(path)),
        options_(options),
        publish_({options.file_system, options.sync, options.overwrite}),
        state_(path_) {}

  absl::Status Open() {
    CASK_ASSIGN_OR_ANNOTATE(metadata_, torch::WriteTexts(options_.metadata), path_);
    if (options_.alignment == 0 || options_.alignment > kMaxAlignment ||
        (options_.alignment & (options_.alignment - 1)) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": the alignment is ", options_.alignment,
                                                     "; it must be a power of two up to ", kMaxAlignment));
    }
    CASK_ASSIGN_OR_RETURN(sink_, publish_.Add(path_));
    zip_.emplace(sink_);
    return absl::OkStatus();
  }

  absl::Status Add(absl::string_view name, const TensorView& tensor, const TensorMetadata& metadata) {
    CASK_RETURN_IF_ERROR(CheckNew(name, tensor.dtype(), metadata.requires_grad));
    CASK_ASSIGN_OR_RETURN(const Layout layout, tensor.layout().Dense(MemoryFormat::kPreserve));
    CASK_ASSIGN_OR_RETURN(const TensorView in_order, InOrderOf(layout, tensor));
    CASK_RETURN_IF_ERROR(BeginStorage(name, tensor.dtype(), layout, metadata));
    return AppendElements(in_order);
  }

  absl::Status Begin(absl::string_view name, DType dtype, const TensorShape& shape, const TensorMetadata& metadata) {
    CASK_RETURN_IF_ERROR(CheckNew(name, dtype, metadata.requires_grad));
    CASK_RETURN_IF_ERROR(BeginStorage(name, dtype, Layout::RowMajor(shape), metadata));
    return missing_ > 0 ? absl::OkStatus() : EndStorage();
  }

  absl::Status Append(const TensorView& piece) {
    CASK_RETURN_IF_ERROR(state_.status());
    if (missing_ == 0) {
      if (piece.num_elements() == 0) return absl::OkStatus();
      return absl::FailedPreconditionError(absl::StrCat(path_, ": no tensor wants elements"));
    }
    if (piece.dtype() != tensors_.back().dtype || piece.num_elements() > missing_) {
      return state_.About(names_.back(),
                          absl::InvalidArgumentError(absl::StrCat("the piece ", piece.ToString(), " is not of ",
                                                                  DTypeName(tensors_.back().dtype), " with at most ",
                                                                  missing_, " elements, which are missing")));
    }
    return AppendElements(piece);
  }

  absl::Status AddView(absl::string_view name, absl::string_view target, const Layout* layout, bool requires_grad) {
    CASK_RETURN_IF_ERROR(state_.status());
    const auto found = numbers_.find(target);
    if (found == numbers_.end()) {
      return state_.About(name, absl::NotFoundError(absl::StrCat("there is no tensor ", Quoted(target))));
    }
    torch::SavedTensor tensor = tensors_[found->second];
    CASK_RETURN_IF_ERROR(CheckNew(name, tensor.dtype, requires_grad));
    if (layout != nullptr) {
      const bool is_backward =
          std::any_of(layout->strides().begin(), layout->strides().end(), [](int64_t stride) { return stride < 0; });
      const uint64_t elements = tensor.storage_bytes / ElementSize(tensor.dtype);
      if (is_backward || layout->bounds().begin < 0 || static_cast<uint64_t>(layout->bounds().end) > elements) {
        return state_.About(name, absl::InvalidArgumentError(absl::StrCat(layout->ToString(), " is not in the ",
                                                                          elements, " elements of ", Quoted(target))));
      }
      const torch::SavedQuantizer* const quantizer = tensor.quantizer.get();
      if (quantizer != nullptr && quantizer->per_channel &&
          (layout->rank() <= quantizer->axis ||
           layout->dim(static_cast<int>(quantizer->axis)) != quantizer->channels)) {
        return state_.About(name, absl::InvalidArgumentError(
                                      absl::StrCat(layout->ToString(), " has not the ", quantizer->channels,
                                                   " channels of ", Quoted(target), " on axis ", quantizer->axis)));
      }
      tensor.layout = *layout;
      tensor.requires_grad = requires_grad;
    }
    Keep(name, std::move(tensor));
    return absl::OkStatus();
  }

  absl::Status SetValues(ValueTree values, std::vector<std::string> names) {
    CASK_RETURN_IF_ERROR(state_.status());
    if (values.empty()) return absl::InvalidArgumentError(absl::StrCat(path_, ": there are no values"));
    for (ValueTree::Id id = 0; id <= values.root().id(); ++id) {
      const Value value = values.value(id);
      CASK_RETURN_IF_ERROR(Annotate(CheckValue(value), path_));
      if (value.kind() == ValueKind::kTensor && value.tensor() >= names.size()) {
        return absl::InvalidArgumentError(absl::StrCat(path_, ": the tensor ", value.tensor(), " has no name"));
      }
    }
    values_ = std::move(values);
    value_names_ = std::move(names);
    return absl::OkStatus();
  }

  absl::Status Finish() {
    CASK_RETURN_IF_ERROR(state_.status());
    CASK_RETURN_IF_ERROR(CheckComplete());
    CASK_ASSIGN_OR_RETURN(const std::vector<torch::SavedTensor> tensors, PlaceTensors());
    CASK_ASSIGN_OR_ANNOTATE(const std::string pickle, torch::WritePickle(values_, tensors), path_);
    const auto write = [&]() -> absl::Status {
      CASK_RETURN_IF_ERROR(WriteRecord(torch::kPickleRecord, pickle));
      if (!options_.metadata.empty()) CASK_RETURN_IF_ERROR(WriteRecord(torch::kMetadataRecord, metadata_));
      CASK_RETURN_IF_ERROR(WriteRecord(torch::kByteOrderRecord, torch::kLittleEndian));
      CASK_RETURN_IF_ERROR(WriteRecord(torch::kVersionRecord, torch::kWrittenVersion));
      CASK_RETURN_IF_ERROR(zip_->Finish());
      return publish_.Commit();
    };
    return state_.Finish(write());
  }

 private:
  static constexpr uint32_t kMaxAlignment = 16384;

  absl::Status CheckComplete() const {
    if (missing_ == 0) return absl::OkStatus();
    return state_.About(names_.back(), absl::FailedPreconditionError(absl::StrCat(missing_, " elements are missing")));
  }

  absl::Status CheckNew(absl::string_view name, DType dtype, bool requires_grad) const {
    CASK_RETURN_IF_ERROR(state_.status());
    CASK_RETURN_IF_ERROR(CheckComplete());
    CASK_RETURN_IF_ERROR(state_.About(name, CheckTensor(name, dtype)));
    if (numbers_.contains(name)) {
      return absl::AlreadyExistsError(absl::StrCat(path_, ": two tensors are called ", Quoted(name)));
    }
    TensorMetadata metadata;
    metadata.requires_grad = requires_grad;
    return state_.About(name, metadata.Validate(dtype));
  }

  void Keep(absl::string_view name, torch::SavedTensor tensor) {
    numbers_.emplace(name, tensors_.size());
    names_.emplace_back(name);
    tensors_.push_back(std::move(tensor));
  }

  // ---- Storages -----------------------------------------------------------------------------------------------------

  // Requires: CheckNew.
  absl::Status BeginStorage(absl::string_view name, DType dtype, const Layout& layout, const TensorMetadata& metadata) {
    torch::SavedTensor tensor;
    quantizer_ = torch::Quantizer();
    if (IsQuantized(dtype)) {
      absl::StatusOr<torch::Quantizer> quantizer = torch::ParseQuantizer(metadata, layout.shape());
      if (!quantizer.ok()) return state_.About(name, quantizer.status());
      quantizer_ = *std::move(quantizer);
      tensor.quantizer = std::make_shared<torch::SavedQuantizer>();
    }
    tensor.dtype = dtype;
    tensor.layout = layout;
    tensor.storage = num_storages_;
    tensor.storage_bytes = static_cast<uint64_t>(layout.num_elements()) * ElementSize(dtype);
    tensor.requires_grad = metadata.requires_grad;
    if (tensor.storage_bytes > kGatheredBytes) {
      CASK_RETURN_IF_ERROR(state_.Keep(BeginRecord(StorageRecord(), tensor.storage_bytes, std::nullopt)));
      if (tensor.storage_bytes >= kReservedBytes) {
        sink_->ReserveHint(sink_->position() + tensor.storage_bytes + kDirectoryBytes);
      }
    }
    missing_ = layout.num_elements();
    Keep(name, std::move(tensor));
    return absl::OkStatus();
  }

  std::string StorageRecord() const { return absl::StrCat(torch::kStorageFolder, num_storages_); }

  absl::Status AppendElements(const TensorView& elements) {
    const bool is_gathered = tensors_.back().storage_bytes <= kGatheredBytes;
    const absl::Status appended =
        internal::ForEachStablePiece(elements, kWrittenPieceBytes, [&](absl::string_view bytes) {
          if (!is_gathered) return zip_->Append(bytes);
          gathered_.append(bytes.data(), bytes.size());
          return absl::OkStatus();
        });
    CASK_RETURN_IF_ERROR(state_.About(names_.back(), state_.Keep(appended)));
    missing_ -= elements.num_elements();
    return missing_ > 0 ? absl::OkStatus() : EndStorage();
  }

  absl::Status EndStorage() {
    const bool is_gathered = tensors_.back().storage_bytes <= kGatheredBytes;
    CASK_RETURN_IF_ERROR(state_.Keep(is_gathered ? WriteRecord(StorageRecord(), gathered_) : zip_->EndMember()));
    gathered_.clear();
    ++num_storages_;
    torch::SavedQuantizer* const quantizer = tensors_.back().quantizer.get();
    return quantizer == nullptr ? absl::OkStatus() : state_.Keep(EndQuantizer(quantizer));
  }

  // Writes the storages of the channels of quantizer_, if it has some.
  absl::Status EndQuantizer(torch::SavedQuantizer* saved) {
    saved->scheme = quantizer_.scheme;
    saved->per_channel = quantizer_.per_channel;
    if (!quantizer_.per_channel) {
      saved->scale = quantizer_.scales[0];
      saved->zero_point = quantizer_.zero_points[0];
      return absl::OkStatus();
    }
    saved->floats = quantizer_.zero_points.empty() && !quantizer_.scales.empty();
    saved->channels = static_cast<int64_t>(quantizer_.scales.size());
    saved->axis = quantizer_.axis;
    const std::string scales = saved->floats ? BytesOf<float>(quantizer_.scales) : BytesOf<double>(quantizer_.scales);
    const std::string zero_points =
        saved->floats ? BytesOf<float>(quantizer_.float_zero_points) : BytesOf<int64_t>(quantizer_.zero_points);
    saved->scales_storage = num_storages_;
    CASK_RETURN_IF_ERROR(WriteRecord(StorageRecord(), scales));
    saved->zero_points_storage = ++num_storages_;
    CASK_RETURN_IF_ERROR(WriteRecord(StorageRecord(), zero_points));
    ++num_storages_;
    return absl::OkStatus();
  }

  template <typename Stored, typename T>
  static std::string BytesOf(const std::vector<T>& numbers) {
    std::string bytes(numbers.size() * sizeof(Stored), '\0');
    for (size_t i = 0; i < numbers.size(); ++i) {
      StoreLittleEndian(static_cast<Stored>(numbers[i]), &bytes[i * sizeof(Stored)]);
    }
    return bytes;
  }

  // ---- Records ------------------------------------------------------------------------------------------------------

  absl::Status BeginRecord(absl::string_view name, uint64_t size_bytes, std::optional<uint32_t> crc) {
    ZipMemberOptions member;
    member.size_bytes = size_bytes;
    member.crc32 = crc;
    member.alignment = options_.alignment;
    return zip_->BeginMember(absl::StrCat(torch::kWrittenFolder, name), member);
  }

  absl::Status WriteRecord(absl::string_view name, absl::string_view bytes) {
    CASK_RETURN_IF_ERROR(BeginRecord(name, bytes.size(), Crc32(bytes)));
    CASK_RETURN_IF_ERROR(zip_->Append(bytes));
    return zip_->EndMember();
  }

  // ---- The object ---------------------------------------------------------------------------------------------------

  // The tensors by their numbers in the tree; those that it lacks become entries of its root.
  absl::StatusOr<std::vector<torch::SavedTensor>> PlaceTensors() {
    std::vector<torch::SavedTensor> placed;
    std::vector<bool> is_placed(tensors_.size());
    for (const std::string& name : value_names_) {
      const auto found = numbers_.find(name);
      if (found == numbers_.end())
        return state_.About(name, absl::NotFoundError("it is in the values, and was not added"));
      is_placed[found->second] = true;
      placed.push_back(tensors_[found->second]);
    }
    if (!values_.empty() && std::find(is_placed.begin(), is_placed.end(), false) == is_placed.end()) return placed;
    std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
    if (!values_.empty()) {
      const Value root = values_.root();
      if (root.kind() != ValueKind::kMap) {
        return absl::InvalidArgumentError(absl::StrCat(path_,
                                                       ": the root of the values is not a map, so a tensor that is "
                                                       "not in them has no place"));
      }
      for (size_t i = 0; i < root.size(); ++i) {
        entries.emplace_back(root.key(i).id(), root.entry(i).id());
        if (root.key(i).kind() != ValueKind::kText) continue;
        const auto number = numbers_.find(root.key(i).text());
        if (number == numbers_.end() || is_placed[number->second]) continue;
        return state_.About(root.key(i).text(), absl::AlreadyExistsError("a key of the values has this name"));
      }
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (is_placed[i]) continue;
      const ValueTree::Id key = values_.AddText(names_[i]);
      entries.emplace_back(key, values_.AddTensor(placed.size()));
      placed.push_back(tensors_[i]);
    }
    values_.AddMap(entries);
    return placed;
  }

  const std::string path_;
  const TorchWriterOptions options_;
  Publication publish_;
  FileSink* sink_ = nullptr;  // the file of publish_
  std::string metadata_;      // the pickle of options_.metadata
  std::optional<ZipWriter> zip_;
  stored::WriterState state_;
  std::vector<torch::SavedTensor> tensors_;
  std::vector<std::string> names_;  // those of tensors_
  absl::flat_hash_map<std::string, size_t> numbers_;
  uint64_t num_storages_ = 0;
  int64_t missing_ = 0;  // elements of the last tensor
  std::string gathered_;
  torch::Quantizer quantizer_;  // that of the last tensor, if it is quantized
  ValueTree values_;
  std::vector<std::string> value_names_;
};

TorchWriter::TorchWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TorchWriter::TorchWriter(TorchWriter&&) noexcept = default;
TorchWriter& TorchWriter::operator=(TorchWriter&&) noexcept = default;
TorchWriter::~TorchWriter() = default;

absl::StatusOr<TorchWriter> TorchWriter::Create(const std::string& path, const TorchWriterOptions& options) {
  auto impl = std::make_unique<Impl>(path, options);
  CASK_RETURN_IF_ERROR(impl->Open());
  return TorchWriter(std::move(impl));
}

absl::Status TorchWriter::CheckTensor(absl::string_view name, DType dtype) {
  CASK_RETURN_IF_ERROR(torch::CheckSavedDType(dtype));
  if (internal::IsUtf8(name)) return absl::OkStatus();
  return absl::InvalidArgumentError("the name is not UTF-8");
}
absl::Status TorchWriter::CheckValue(Value value) { return torch::CheckPickled(value); }

bool TorchWriter::HoldsMetadata(const TensorMetadata& metadata) {
  TensorMetadata rest = metadata;
  rest.requires_grad = false;
  for (auto attribute = rest.attributes.begin(); attribute != rest.attributes.end();) {
    attribute = torch::IsOfQuantizer(attribute->first) ? rest.attributes.erase(attribute) : std::next(attribute);
  }
  return rest.IsDefault();
}

absl::Status TorchWriter::Add(absl::string_view name, const TensorView& tensor, bool requires_grad) {
  return impl_->Add(name, tensor, OnlyGrad(requires_grad));
}
absl::Status TorchWriter::Add(absl::string_view name, const TensorView& tensor, const TensorMetadata& metadata) {
  return impl_->Add(name, tensor, metadata);
}
absl::Status TorchWriter::Begin(absl::string_view name, DType dtype, const TensorShape& shape, bool requires_grad) {
  return impl_->Begin(name, dtype, shape, OnlyGrad(requires_grad));
}
absl::Status TorchWriter::Begin(absl::string_view name, DType dtype, const TensorShape& shape,
                                const TensorMetadata& metadata) {
  return impl_->Begin(name, dtype, shape, metadata);
}
absl::Status TorchWriter::Append(const TensorView& piece) { return impl_->Append(piece); }
absl::Status TorchWriter::AddView(absl::string_view name, absl::string_view target, const Layout& layout,
                                  bool requires_grad) {
  return impl_->AddView(name, target, &layout, requires_grad);
}
absl::Status TorchWriter::AddAlias(absl::string_view name, absl::string_view target) {
  return impl_->AddView(name, target, nullptr, false);
}
absl::Status TorchWriter::SetValues(ValueTree values, std::vector<std::string> names) {
  return impl_->SetValues(std::move(values), std::move(names));
}
absl::Status TorchWriter::Finish() { return impl_->Finish(); }

absl::StatusOr<FileEditResult> EditTorchMetadata(const std::shared_ptr<const ByteSource>& source,
                                                 const std::map<std::string, std::string>& metadata,
                                                 const FileEditOptions& options) {
  const ByteSource& file = *source;
  CASK_ASSIGN_OR_RETURN(std::vector<ZipMember> members, ReadZipDirectory(file, options.limits));
  CASK_ASSIGN_OR_ANNOTATE(const std::string pickle, torch::WriteTexts(metadata), file.name());
  const std::string folder = members.empty() ? "" : members[0].name.substr(0, members[0].name.find('/') + 1);
  const std::string record = absl::StrCat(folder, torch::kMetadataRecord);
  const std::string promise = absl::StrCat(folder, torch::kFormatVersionRecord);
  members.erase(
      std::remove_if(members.begin(), members.end(),
                     [&](const ZipMember& member) { return member.name == record || member.name == promise; }),
      members.end());
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.header_offset < b.header_offset; });
  const auto write = [&](ByteSink* sink) -> absl::Status {
    ZipWriter zip(sink);
    for (const ZipMember& member : members) CASK_RETURN_IF_ERROR(zip.CopyMember(file, member, member.name));
    if (!metadata.empty()) {
      ZipMemberOptions member;
      member.size_bytes = pickle.size();
      member.crc32 = Crc32(pickle);
      member.alignment = TorchWriterOptions().alignment;
      CASK_RETURN_IF_ERROR(zip.BeginMember(record, member));
      CASK_RETURN_IF_ERROR(zip.Append(pickle));
      CASK_RETURN_IF_ERROR(zip.EndMember());
    }
    return zip.Finish();
  };
  CountingSink planned;
  CASK_RETURN_IF_ERROR(write(&planned));
  FileEditResult result;
  result.files.push_back(options.output.empty() ? file.name() : options.output);
  for (const ZipMember& member : members) result.copied_bytes += member.stored_bytes;
  result.written_bytes = planned.position() - result.copied_bytes;
  if (options.dry_run) return result;
  Publication publish({options.file_system, options.sync, /*overwrite=*/options.output.empty()});
  publish.KeepPermissionsOf(file.name());
  publish.ReplaceOnly(source);
  CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish.Add(result.files[0]));
  PacedSink paced(sink, &options.progress);
  CASK_RETURN_IF_ERROR(write(&paced));
  CASK_RETURN_IF_ERROR(publish.Commit());
  return result;
}

}  // namespace tensorcask
