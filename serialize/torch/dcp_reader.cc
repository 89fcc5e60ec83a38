#include "tensorcask/serialize/torch/dcp_reader.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/stored/boxes.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/serialize/stored/name_order.h"
#include "tensorcask/serialize/torch/internal/dcp_items.h"
#include "tensorcask/serialize/torch/internal/dcp_metadata.h"
#include "tensorcask/serialize/torch/internal/dcp_values.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask {
namespace torch {
namespace {

constexpr absl::string_view kItemExtension = ".distcp";
// What Megatron keeps beside a checkpoint: values and tensors that are equal on all ranks.
constexpr absl::string_view kCommonFile = "common.pt";

absl::string_view Basename(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

// The .metadata that `path` names.
absl::StatusOr<std::string> MetadataPathOf(const std::string& path, const ReadOptions& options) {
  if (Basename(path) == kDcpMetadataFile || options.source != nullptr) return path;
  CASK_ASSIGN_OR_RETURN(const FileInfo there, DescribeFile(path, options.file_system, "open"));
  if (there.type != FileInfo::Type::kFolder) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a distributed checkpoint is a folder; open ", FolderOf(path)));
  }
  const std::string folder(absl::StripSuffix(path, "/"));
  std::string metadata = absl::StrCat(folder, "/", kDcpMetadataFile);
  if (DescribeFile(metadata, options.file_system, "open").ok()) return metadata;
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder, options.file_system, "list"));
  const auto count = std::count_if(names.begin(), names.end(),
                                   [](const std::string& name) { return absl::EndsWith(name, kItemExtension); });
  if (count == 0) return absl::NotFoundError(absl::StrCat(metadata, ": no such file"));
  return absl::DataLossError(absl::StrCat(folder, ": has ", count, " ", kItemExtension, count == 1 ? " file" : " files",
                                          " and no ", kDcpMetadataFile,
                                          ", which is written last: the checkpoint is not finished, or not all of it "
                                          "was copied"));
}

}  // namespace

class DcpReaderImpl {
 public:
  static absl::StatusOr<std::unique_ptr<DcpReaderImpl>> Open(const std::string& path,
                                                             const TorchReaderOptions& options) {
    CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
    const uint64_t most = LimitOf(options.limits.max_message_bytes);
    if (file->size_bytes() > most) {
      return Annotate(PastLimit(absl::StrCat("has ", file->size_bytes(), " bytes"), "max_message_bytes",
                                options.limits.max_message_bytes),
                      path);
    }
    std::string bytes(static_cast<size_t>(file->size_bytes()), '\0');
    CASK_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(bytes.data(), bytes.size())));
    const std::shared_ptr<ListingBudget> budget =
        options.listing != nullptr ? options.listing : std::make_shared<ListingBudget>(options.limits);
    CASK_ASSIGN_OR_ANNOTATE(DcpMetadata metadata, ReadDcpMetadata(bytes, options.limits, budget.get()), path);
    CASK_ASSIGN_OR_RETURN(DcpItems items, DcpItems::Of(path, options));
    std::unique_ptr<DcpReaderImpl> reader(new DcpReaderImpl(path, std::move(metadata), std::move(items), options));
    CASK_RETURN_IF_ERROR(reader->CheckItems());
    CASK_RETURN_IF_ERROR(reader->List(budget.get()));
    return reader;
  }

  const std::string& path() const { return path_; }
  const std::vector<DcpEntry>& entries() const { return entries_; }
  const std::vector<std::string>& notes() const { return notes_; }
  std::vector<std::string> files() const {
    std::vector<std::string> files = items_.files();
    files.insert(files.begin(), path_);
    return files;
  }

  absl::StatusOr<ValueTree> Values() const {
    NestedValues nested;
    // Of each value, the numbers of its tensors.
    std::vector<std::vector<uint64_t>> numbers(objects_.size());
    for (size_t i = 0; i < objects_.size(); ++i) {
      if (objects_[i] != nullptr) numbers[i].resize(objects_[i]->entries().size());
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Source& source = sources_[i];
      if (source.is_tensor) {
        nested.AddTensor(entries_[i].name, PathTo(entries_[i].name), i);
      } else if (objects_[source.number] != nullptr) {
        numbers[source.number][source.part] = i;
      }
    }
    for (size_t i = 0; i < objects_.size(); ++i) {
      if (objects_[i] == nullptr) continue;
      const ValueTree tree = objects_[i]->Values();
      nested.AddValue(metadata_.objects[i].name, PathTo(metadata_.objects[i].name), tree.root(), numbers[i]);
    }
    return nested.Build();
  }

  absl::StatusOr<size_t> Locate(absl::string_view name) const {
    const DcpEntry* const found = stored::FindByName(entries_, name);
    if (found != nullptr) return static_cast<size_t>(found - entries_.data());
    return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", Quoted(name)));
  }

  absl::Status ReadInto(size_t number, const TensorSlice* slice, TensorView* out) const {
    const auto read = [&]() -> absl::Status {
      const DcpEntry& entry = entries_[number];
      CASK_RETURN_IF_ERROR(entry.read_status);
      TensorShape shape = entry.shape;
      if (slice != nullptr) {
        CASK_ASSIGN_OR_RETURN(shape, slice->Apply(shape));
      }
      CASK_RETURN_IF_ERROR(stored::CheckTarget(entry.dtype, shape, *out));
      return Fill(number, slice, out);
    };
    return At(number, read());
  }

  // All of it if `slice` is null.
  absl::StatusOr<Tensor> Read(size_t number, const TensorSlice* slice) const {
    const auto read = [&]() -> absl::StatusOr<Tensor> {
      const DcpEntry& entry = entries_[number];
      CASK_RETURN_IF_ERROR(entry.read_status);
      TensorShape shape = entry.shape;
      if (slice != nullptr) {
        CASK_ASSIGN_OR_RETURN(shape, slice->Apply(shape));
      }
      CASK_RETURN_IF_ERROR(DecodeQuota::ForFile(options_.limits)
                               .Charge(static_cast<uint64_t>(shape.num_elements()) * ElementSize(entry.dtype)));
      CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(entry.dtype, shape, options_.allocator));
      CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
      TensorView view = tensor;
      CASK_RETURN_IF_ERROR(Fill(number, slice, &view));
      return tensor;
    };
    absl::StatusOr<Tensor> tensor = read();
    if (!tensor.ok()) return At(number, tensor.status());
    return tensor;
  }

  absl::StatusOr<Tensor> Map(size_t number) const {
    const Source& source = sources_[number];
    const DcpTensor* const stored = source.is_tensor ? &metadata_.tensors[source.number] : nullptr;
    const bool has_one_box =
        stored == nullptr || (stored->boxes.size() == 1 && !DcpItems::IsCompressed(stored->items[0]));
    if (!entries_[number].read_status.ok() || !has_one_box) return Read(number, nullptr);
    const auto map = [&]() -> absl::StatusOr<Tensor> {
      if (stored == nullptr) {
        return objects_[source.number]->Map(objects_[source.number]->entries()[source.part].name);
      }
      CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const TorchReader> file,
                            boxes_.Open(*stored, 0, DcpBoxes::BytesOf(*stored, 0)));
      return file->Map("");
    };
    absl::StatusOr<Tensor> tensor = map();
    if (!tensor.ok()) return At(number, tensor.status());
    return tensor;
  }

  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(size_t number) const {
    const auto open = [&]() -> absl::StatusOr<std::unique_ptr<ElementStream>> {
      CASK_RETURN_IF_ERROR(entries_[number].read_status);
      const Source& source = sources_[number];
      if (!source.is_tensor) {
        return objects_[source.number]->OpenStream(objects_[source.number]->entries()[source.part].name);
      }
      const DcpTensor& tensor = metadata_.tensors[source.number];
      if (stored::AreRows(tensor.shape, tensor.boxes)) {
        return boxes_.OpenRows(tensor, [this, number](const absl::Status& status) { return At(number, status); });
      }
      if (options_.verify) {
        for (size_t box = 0; box < tensor.boxes.size(); ++box) CASK_RETURN_IF_ERROR(boxes_.Verify(tensor, box));
      }
      return std::unique_ptr<ElementStream>();
    };
    absl::StatusOr<std::unique_ptr<ElementStream>> stream = open();
    if (!stream.ok()) return At(number, stream.status());
    return stream;
  }

  absl::StatusOr<TensorMetadata> Metadata(size_t number) const {
    const auto read = [&]() -> absl::StatusOr<TensorMetadata> {
      TensorMetadata metadata;
      if (!entries_[number].has_metadata) return metadata;
      const Source& source = sources_[number];
      if (!source.is_tensor) {
        return objects_[source.number]->Metadata(objects_[source.number]->entries()[source.part].name);
      }
      const DcpTensor& tensor = metadata_.tensors[source.number];
      for (size_t box = 0; IsQuantized(tensor.dtype) && tensor.status.ok() && box < tensor.boxes.size(); ++box) {
        CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const TorchReader> file,
                              boxes_.Open(tensor, box, DcpBoxes::BytesOf(tensor, box)));
        CASK_ASSIGN_OR_RETURN(TensorMetadata of_box, file->Metadata(""));
        if (box > 0 && of_box.attributes != metadata.attributes) {
          return absl::UnimplementedError("its boxes are quantized with different scales");
        }
        metadata = std::move(of_box);
      }
      metadata.requires_grad = tensor.requires_grad;
      return metadata;
    };
    absl::StatusOr<TensorMetadata> metadata = read();
    if (!metadata.ok()) return At(number, metadata.status());
    return metadata;
  }

  absl::Status VerifyAll(absl::FunctionRef<void(const TorchDamage&)> report) const {
    std::vector<absl::Status> of_objects(objects_.size());
    for (size_t i = 0; i < objects_.size(); ++i) {
      if (objects_[i] != nullptr) of_objects[i] = DcpItems::Verify(*objects_[i]);
      if (IsResourceFailure(of_objects[i])) return of_objects[i];
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (absl::IsUnimplemented(entries_[i].read_status)) continue;
      const Source& source = sources_[i];
      absl::Status status = entries_[i].read_status;
      std::string file = path_;
      uint64_t offset = 0;
      if (!source.is_tensor) {
        const DcpItem& item = metadata_.objects[source.number].item;
        if (status.ok()) status = std::exchange(of_objects[source.number], absl::OkStatus());
        if (!item.file.empty()) file = items_.PathOf(item);
        offset = item.offset;
      } else if (status.ok()) {
        const DcpTensor& tensor = metadata_.tensors[source.number];
        for (size_t box = 0; box < tensor.boxes.size() && status.ok(); ++box) {
          status = boxes_.Verify(tensor, box);
          file = items_.PathOf(tensor.items[box]);
          offset = tensor.items[box].offset;
        }
      }
      if (IsResourceFailure(status)) return status;
      if (!status.ok()) report({entries_[i].name, file, offset, At(i, status)});
    }
    // Of values without a tensor.
    for (size_t i = 0; i < objects_.size(); ++i) {
      if (of_objects[i].ok()) continue;
      const DcpObject& object = metadata_.objects[i];
      report({"", items_.PathOf(object.item), object.item.offset,
              Annotate(of_objects[i], absl::StrCat(path_, ": value ", Quoted(object.name)))});
    }
    return absl::OkStatus();
  }

 private:
  // What an entry is: a tensor of the metadata, or a part of a value.
  struct Source {
    bool is_tensor = true;
    size_t number = 0;  // the number among the tensors, or among the values
    size_t part = 0;    // the number among the tensors of a value
  };

  DcpReaderImpl(std::string path, DcpMetadata metadata, DcpItems items, const TorchReaderOptions& options)
      : path_(std::move(path)),
        metadata_(std::move(metadata)),
        items_(std::move(items)),
        options_(options),
        boxes_(&items_, options) {}

  absl::Status At(size_t number, const absl::Status& status) const {
    if (status.ok()) return status;
    return MarkDamagedPart(Annotate(status, absl::StrCat(path_, entries_[number].is_value ? ": value " : ": tensor ",
                                                         Quoted(entries_[number].name))));
  }

  const std::vector<PathStep>* PathTo(const std::string& name) const {
    const auto found = metadata_.paths.find(name);
    return found == metadata_.paths.end() ? nullptr : &found->second;
  }

  // ---- Opening ------------------------------------------------------------------------------------------------------

  // Opens the files, and sets the status of what does not lie in them.
  absl::Status CheckItems() {
    std::vector<const DcpItem*> items;
    std::vector<absl::Status*> statuses;
    for (DcpTensor& tensor : metadata_.tensors) {
      for (size_t box = 0; box < tensor.items.size() && tensor.status.ok(); ++box) {
        tensor.status = CheckBox(tensor, box);
        if (IsResourceFailure(tensor.status)) return tensor.status;
      }
      if (!tensor.status.ok()) continue;
      for (const DcpItem& item : tensor.items) {
        items.push_back(&item);
        statuses.push_back(&tensor.status);
      }
    }
    for (DcpObject& object : metadata_.objects) {
      if (object.status.ok()) object.status = items_.Check(object.item);
      if (IsResourceFailure(object.status)) return object.status;
      if (!object.status.ok()) continue;
      items.push_back(&object.item);
      statuses.push_back(&object.status);
    }
    const std::vector<absl::Status> apart = items_.CheckApart(items);
    for (size_t i = 0; i < apart.size(); ++i) {
      if (!apart[i].ok()) *statuses[i] = apart[i];
    }
    return absl::OkStatus();
  }

  absl::Status CheckBox(const DcpTensor& tensor, size_t box) {
    const DcpItem& item = tensor.items[box];
    CASK_RETURN_IF_ERROR(items_.Check(item));
    const uint64_t wanted = DcpBoxes::BytesOf(tensor, box);
    if (DcpItems::IsCompressed(item) || item.size_bytes >= wanted) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("the box at [", absl::StrJoin(tensor.boxes[box].offsets, ","), "] has ",
                                            wanted, " bytes; its file at ", item.offset, " of ", items_.PathOf(item),
                                            " has ", item.size_bytes));
  }

  // Megatron's values, if they are there.
  void AddCommonFile() {
    DcpObject common;
    common.name = std::string(kCommonFile);
    absl::StatusOr<std::shared_ptr<const ByteSource>> file = items_.folder().Open(kCommonFile);
    if (absl::IsNotFound(file.status())) return;
    common.item.file = common.name;
    if (file.ok()) common.item.size_bytes = (*file)->size_bytes();
    common.status = file.ok() ? items_.Check(common.item) : file.status();
    metadata_.objects.push_back(std::move(common));
  }

  absl::Status List(ListingBudget* budget) {
    AddCommonFile();
    for (size_t i = 0; i < metadata_.tensors.size(); ++i) {
      const DcpTensor& tensor = metadata_.tensors[i];
      DcpEntry entry;
      entry.name = tensor.name;
      entry.dtype = tensor.dtype;
      entry.shape = tensor.shape;
      entry.boxes = static_cast<int>(tensor.boxes.size());
      entry.has_metadata =
          IsQuantized(tensor.dtype) || (tensor.requires_grad && (IsFloating(tensor.dtype) || IsComplex(tensor.dtype)));
      // A box is decoded as a whole: blocks of several boxes would decode them again and again.
      entry.reads_in_blocks = std::none_of(tensor.items.begin(), tensor.items.end(), DcpItems::IsCompressed) ||
                              (tensor.status.ok() && stored::AreRows(tensor.shape, tensor.boxes));
      entry.read_status = tensor.status;
      if (absl::IsInvalidArgument(entry.read_status)) entry.read_status = absl::DataLossError(tensor.status.message());
      for (const DcpItem& item : tensor.items) entry.stored_bytes += item.size_bytes;
      CASK_RETURN_IF_ERROR(Keep(std::move(entry), {true, i, 0}, budget));
    }
    objects_.resize(metadata_.objects.size());
    uint64_t stored = 0;
    for (const DcpObject& object : metadata_.objects) stored += object.status.ok() ? object.item.size_bytes : 0;
    // All values stay in memory.
    DecodeQuota decoded = DecodeQuota::ForUnbacked(options_.limits, stored);
    for (size_t i = 0; i < metadata_.objects.size(); ++i) CASK_RETURN_IF_ERROR(ListObject(i, budget, &decoded));
    return Sort();
  }

  // Opens a value, and lists its tensors; or itself, if it cannot be read.
  absl::Status ListObject(size_t number, ListingBudget* budget, DecodeQuota* decoded) {
    const DcpObject& object = metadata_.objects[number];
    absl::Status status = object.status;
    if (status.ok()) {
      absl::StatusOr<std::unique_ptr<const TorchReader>> reader = items_.Open(object.item, decoded);
      if (IsResourceFailure(reader.status())) return reader.status();
      status = reader.status();
      if (reader.ok()) objects_[number] = *std::move(reader);
    }
    if (!status.ok()) {
      DcpEntry entry;
      entry.name = object.name;
      entry.is_value = true;
      entry.stored_bytes = object.item.size_bytes;
      entry.read_status = status;
      return Keep(std::move(entry), {false, number, 0}, budget);
    }
    for (const std::string& note : objects_[number]->notes()) {
      notes_.push_back(absl::StrCat("value ", Quoted(object.name), ": ", note));
    }
    const std::vector<TorchEntry>& tensors = objects_[number]->entries();
    for (size_t i = 0; i < tensors.size(); ++i) {
      DcpEntry entry;
      entry.name = tensors[i].name.empty() ? object.name : absl::StrCat(object.name, ".", tensors[i].name);
      entry.dtype = tensors[i].dtype;
      entry.shape = tensors[i].shape;
      entry.boxes = 1;
      entry.stored_bytes = tensors[i].stored_bytes;
      entry.has_metadata = tensors[i].has_metadata;
      entry.reads_in_blocks = tensors[i].reads_in_blocks;
      entry.read_status = tensors[i].read_status;
      CASK_RETURN_IF_ERROR(Keep(std::move(entry), {false, number, i}, budget));
    }
    return absl::OkStatus();
  }

  absl::Status Keep(DcpEntry entry, const Source& source, ListingBudget* budget) {
    CASK_ANNOTATE_IF_ERROR(budget->Charge(sizeof(DcpEntry) + sizeof(Source) + entry.name.size() +
                                          sizeof(int64_t) * static_cast<uint64_t>(entry.shape.rank()) +
                                          entry.read_status.message().size()),
                           path_);
    entries_.push_back(std::move(entry));
    sources_.push_back(source);
    return absl::OkStatus();
  }

  absl::Status Sort() {
    std::vector<size_t> order(entries_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return entries_[a].name < entries_[b].name; });
    std::vector<DcpEntry> entries;
    std::vector<Source> sources;
    for (const size_t i : order) {
      if (!entries.empty() && entries.back().name == entries_[i].name) {
        return absl::DataLossError(absl::StrCat(path_, ": two tensors have the name ", Quoted(entries_[i].name)));
      }
      entries.push_back(std::move(entries_[i]));
      sources.push_back(sources_[i]);
    }
    entries_ = std::move(entries);
    sources_ = std::move(sources);
    return absl::OkStatus();
  }

  absl::Status Fill(size_t number, const TensorSlice* slice, TensorView* out) const {
    const Source& source = sources_[number];
    if (!source.is_tensor) {
      const TorchReader& object = *objects_[source.number];
      const std::string& name = object.entries()[source.part].name;
      return slice == nullptr ? object.ReadInto(name, out) : object.ReadSliceInto(name, *slice, out);
    }
    const DcpTensor& tensor = metadata_.tensors[source.number];
    return boxes_.ReadInto(tensor, slice == nullptr ? TensorSlice::Full(tensor.shape.rank()) : *slice, out);
  }

  const std::string path_;
  DcpMetadata metadata_;
  DcpItems items_;
  const TorchReaderOptions options_;
  const DcpBoxes boxes_;
  std::vector<std::unique_ptr<const TorchReader>> objects_;  // as metadata_.objects; null: it cannot be read
  std::vector<DcpEntry> entries_;
  std::vector<Source> sources_;  // the source of each entry
  std::vector<std::string> notes_;
};

}  // namespace torch

DcpReader::DcpReader(std::unique_ptr<const torch::DcpReaderImpl> impl) : impl_(std::move(impl)) {}
DcpReader::DcpReader(DcpReader&&) noexcept = default;
DcpReader& DcpReader::operator=(DcpReader&&) noexcept = default;
DcpReader::~DcpReader() = default;

absl::StatusOr<DcpReader> DcpReader::Open(const std::string& path, const TorchReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(const std::string metadata, torch::MetadataPathOf(path, options.read));
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<torch::DcpReaderImpl> impl, torch::DcpReaderImpl::Open(metadata, options));
  return DcpReader(std::move(impl));
}

const std::string& DcpReader::path() const { return impl_->path(); }
const std::vector<DcpEntry>& DcpReader::entries() const { return impl_->entries(); }
absl::StatusOr<ValueTree> DcpReader::Values() const { return impl_->Values(); }
const std::vector<std::string>& DcpReader::notes() const { return impl_->notes(); }
std::vector<std::string> DcpReader::files() const { return impl_->files(); }

absl::StatusOr<Tensor> DcpReader::Read(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->Read(number, nullptr);
}

absl::Status DcpReader::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->ReadInto(number, nullptr, out);
}

absl::StatusOr<Tensor> DcpReader::ReadSlice(absl::string_view name, const TensorSlice& slice) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->Read(number, &slice);
}

absl::Status DcpReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->ReadInto(number, &slice, out);
}

absl::StatusOr<Tensor> DcpReader::Map(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->Map(number);
}

absl::StatusOr<std::unique_ptr<ElementStream>> DcpReader::OpenStream(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->OpenStream(number);
}

absl::StatusOr<TensorMetadata> DcpReader::Metadata(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->Metadata(number);
}

absl::Status DcpReader::VerifyAll(absl::FunctionRef<void(const TorchDamage&)> report) const {
  return impl_->VerifyAll(report);
}

}  // namespace tensorcask
