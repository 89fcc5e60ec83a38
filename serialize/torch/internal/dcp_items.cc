#include "tensorcask/serialize/torch/internal/dcp_items.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/torch/internal/zstd_item.h"
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

}  // namespace

absl::StatusOr<DcpItems> DcpItems::Of(const std::string& metadata_path, const TorchReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(ContainedFolder folder,
                        ContainedFolder::Of(metadata_path, ContainedFolder::Links::kContained, options.read));
  TorchReaderOptions of_items = options;
  of_items.listing = nullptr;  // an item is opened and closed many times
  return DcpItems(std::move(folder), of_items);
}

absl::Status DcpItems::Check(const DcpItem& item) {
  CASK_RETURN_IF_ERROR(CheckTransforms(item));
  const auto [found, is_new] = files_.try_emplace(item.file);
  File& file = found->second;
  if (is_new) {
    absl::StatusOr<std::shared_ptr<const ByteSource>> source = folder_.Open(item.file);
    if (source.ok()) {
      file.source = *std::move(source);
    } else if (absl::IsNotFound(source.status())) {
      file.status = absl::DataLossError(absl::StrCat(PathOf(item), ": is missing; the metadata lists it"));
    } else if (absl::IsInvalidArgument(source.status())) {
      file.status = absl::DataLossError(source.status().message());
    } else {
      file.status = source.status();
    }
  }
  CASK_RETURN_IF_ERROR(file.status);
  if (RangeFits(item.offset, item.size_bytes, file.source->size_bytes())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("is ", item.size_bytes, " bytes at ", item.offset, " of ", PathOf(item),
                                          ", which has ", file.source->size_bytes()));
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

absl::StatusOr<std::unique_ptr<const TorchReader>> DcpItems::Open(const DcpItem& item) const {
  const auto open = [&]() -> absl::StatusOr<TorchReader> {
    const File& file = files_.find(item.file)->second;
    CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> window,
                          MakeWindow(file.source, item.offset, item.size_bytes));
    if (IsCompressed(item)) {
      CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> bytes, DecodeZstd(*window, options_.limits));
      window = MakeMemorySource(window->name(), std::move(bytes));
    }
    return TorchReader::OpenSource(std::move(window), options_);
  };
  absl::StatusOr<TorchReader> reader = open();
  if (reader.ok()) return std::make_unique<const TorchReader>(*std::move(reader));
  return Annotate(reader.status(), absl::StrCat("the file at ", item.offset, " of ", PathOf(item)));
}

std::vector<std::string> DcpItems::files() const {
  std::vector<std::string> paths;
  for (const auto& [name, file] : files_) {
    if (file.source != nullptr) paths.push_back(folder_.PathOf(name));
  }
  return paths;
}

}  // namespace tensorcask::torch
