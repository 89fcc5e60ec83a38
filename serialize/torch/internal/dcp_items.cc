#include "tensorcask/serialize/torch/internal/dcp_items.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::torch {
namespace {

// "stream.zstd/1", "stream.zstd/1.2".
bool IsZstd(absl::string_view transform) {
  constexpr absl::string_view kZstd = "stream.zstd/1";
  return transform == kZstd || absl::StartsWith(transform, absl::StrCat(kZstd, "."));
}

absl::Status CheckTransforms(const DcpItem& item) {
  if (item.transforms.empty() || (item.transforms.size() == 1 && IsZstd(item.transforms[0]))) return absl::OkStatus();
  const auto unknown = std::find_if(item.transforms.begin(), item.transforms.end(),
                                    [](const std::string& transform) { return !IsZstd(transform); });
  return absl::UnimplementedError(
      unknown == item.transforms.end()
          ? absl::StrCat("is stored with ", item.transforms.size(), " transforms; one, stream.zstd/1, is read")
          : absl::StrCat("is stored with the transform ", Quoted(*unknown), "; stream.zstd/1 is read"));
}

// A file that is opened when it is read.
class ItemFile final : public ByteSource {
 public:
  // `file`: is open now.
  ItemFile(std::shared_ptr<const ContainedFiles> files, std::string file_name, const ByteSource& file)
      : files_(std::move(files)),
        file_name_(std::move(file_name)),
        name_(file.name()),
        size_bytes_(file.size_bytes()),
        shape_(file.read_shape()) {}

  const std::string& name() const override { return name_; }
  uint64_t size_bytes() const override { return size_bytes_; }
  ReadShape read_shape() const override { return shape_; }

  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, Get());
    return file->ReadAt(offset, out);
  }
  absl::Status ReadRanges(absl::Span<const ReadRange> ranges) const override {
    CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, Get());
    return file->ReadRanges(ranges);
  }
  absl::StatusOr<RefPtr<TensorBuffer>> Map(uint64_t offset, size_t size_bytes) const override {
    CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, Get());
    return file->Map(offset, size_bytes);
  }
  std::shared_ptr<Announcement> Announce(absl::Span<const FileRange> ranges,
                                         const AnnounceOptions& options) const override {
    const absl::StatusOr<std::shared_ptr<const ByteSource>> file = Get();
    if (!file.ok()) return nullptr;
    std::shared_ptr<Announcement> announced = (*file)->Announce(ranges, options);
    if (announced == nullptr) return nullptr;
    Announcement* const of_file = announced.get();
    // Ends before the file may be closed.
    return std::shared_ptr<Announcement>(of_file,
                                         [file = *file, announced](Announcement*) mutable { announced = nullptr; });
  }

 private:
  absl::StatusOr<std::shared_ptr<const ByteSource>> Get() const { return files_->Open(file_name_); }

  const std::shared_ptr<const ContainedFiles> files_;
  const std::string file_name_;
  const std::string name_;
  const uint64_t size_bytes_;
  const ReadShape shape_;
};

}  // namespace

DcpItems::DcpItems(ContainedFolder folder, const TorchReaderOptions& options)
    : files_(std::make_shared<const ContainedFiles>(std::move(folder))), options_(options) {}

absl::StatusOr<DcpItems> DcpItems::Of(const std::string& metadata_path, const TorchReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(ContainedFolder folder,
                        ContainedFolder::Of(metadata_path, ContainedFolder::Links::kContained, options.read));
  TorchReaderOptions of_items = options;
  of_items.listing = nullptr;  // an item is opened and closed many times
  return DcpItems(std::move(folder), of_items);
}

absl::Status DcpItems::Check(const DcpItem& item) {
  CASK_RETURN_IF_ERROR(CheckTransforms(item));
  const auto [found, is_new] = looked_at_.try_emplace(item.file);
  File& file = found->second;
  if (is_new) file.status = Look(item.file, &file);
  if (absl::IsNotFound(file.status)) {
    file.status = absl::DataLossError(absl::StrCat(PathOf(item), ": is missing; the metadata lists it"));
  } else if (absl::IsInvalidArgument(file.status)) {
    file.status = absl::DataLossError(file.status.message());
  }
  CASK_RETURN_IF_ERROR(file.status);
  if (RangeFits(item.offset, item.size_bytes, file.source->size_bytes())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("is ", item.size_bytes, " bytes at ", item.offset, " of ", PathOf(item),
                                          ", which has ", file.source->size_bytes()));
}

absl::Status DcpItems::Look(const std::string& name, File* file) {
  CASK_ASSIGN_OR_RETURN(const std::string contained, ContainedName(name));
  if (contained != name) {
    return absl::DataLossError(
        absl::StrCat("the name ", Quoted(name), " has steps to spare: it is that of ", Quoted(contained)));
  }
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> opened, files_->Open(name));
  file->source = std::make_shared<const ItemFile>(files_, name, *opened);
  return absl::OkStatus();
}

std::vector<absl::Status> DcpItems::CheckApart(const std::vector<const DcpItem*>& items) const {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return items[a]->file != items[b]->file ? items[a]->file < items[b]->file : items[a]->offset < items[b]->offset;
  });
  std::vector<absl::Status> result(items.size());
  size_t last = 0;  // in `order`: of those before, the one that ends last
  for (size_t i = 1; i < order.size(); ++i) {
    const DcpItem& before = *items[order[last]];
    const DcpItem& item = *items[order[i]];
    const uint64_t end = before.offset + before.size_bytes;
    if (before.file == item.file && item.offset < end) {
      const absl::Status shared = absl::DataLossError(
          absl::StrCat("has bytes of ", PathOf(item), " at ", item.offset, " that are in two boxes or values"));
      result[order[last]] = shared;
      result[order[i]] = shared;
    }
    if (before.file != item.file || item.offset + item.size_bytes > end) last = i;
  }
  return result;
}

absl::StatusOr<std::unique_ptr<const TorchReader>> DcpItems::Open(const DcpItem& item, DecodeQuota* quota) const {
  const auto open = [&]() -> absl::StatusOr<TorchReader> {
    const File& file = looked_at_.find(item.file)->second;
    CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> window,
                          MakeWindow(file.source, item.offset, item.size_bytes));
    if (IsCompressed(item)) {
      CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> bytes, DecodeZstd(*window, options_.limits, quota));
      window = MakeMemorySource(window->name(), std::move(bytes));
    }
    return TorchReader::OpenSource(std::move(window), options_);
  };
  absl::StatusOr<TorchReader> reader = open();
  if (reader.ok()) return std::make_unique<const TorchReader>(*std::move(reader));
  return Annotate(reader.status(), absl::StrCat("the file at ", item.offset, " of ", PathOf(item)));
}

absl::Status DcpItems::Verify(const TorchReader& file) {
  absl::Status first;
  CASK_RETURN_IF_ERROR(file.VerifyAll([&](const TorchDamage& damage) {
    if (first.ok()) first = damage.status;
  }));
  return first;
}

std::vector<std::string> DcpItems::files() const {
  std::vector<std::string> paths;
  for (const auto& [name, file] : looked_at_) {
    if (file.source != nullptr) paths.push_back(folder().PathOf(name));
  }
  return paths;
}

}  // namespace tensorcask::torch
