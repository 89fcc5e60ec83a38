#include "tensorcask/serialize/archive/save_load.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/internal/block_plan.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask {
namespace {

ArchiveEntry EntryOf(const TensorToSave& tensor) {
  ArchiveEntry entry;
  entry.name = tensor.name;
  entry.dtype = tensor.elements.dtype();
  entry.shape = tensor.elements.shape();
  entry.has_metadata = !tensor.metadata.IsDefault();
  return entry;
}

uint64_t BytesOf(const TensorView& view) {
  return static_cast<uint64_t>(view.num_elements()) * ObjectBytes(view.dtype());
}

absl::Status CheckTensors(const std::string& path, const ArchiveFormat& format,
                          absl::Span<const TensorToSave> tensors) {
  const ArchiveTraits traits = format.traits();
  if (!traits.many_tensors && tensors.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", format.name_with_article(), " file holds exactly one tensor, not ", tensors.size()));
  }
  std::set<absl::string_view> names;
  for (const TensorToSave& tensor : tensors) {
    const DType dtype = tensor.elements.dtype();
    const auto refuse = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", Quoted(tensor.name), " ", what, ", which ",
                                                     format.name_with_article(), " file cannot hold"));
    };
    if (!names.insert(tensor.name).second) {
      return absl::AlreadyExistsError(absl::StrCat(path, ": two tensors have the name ", Quoted(tensor.name)));
    }
    if (dtype == DType::kString ? !traits.strings : !format.HoldsDType(dtype)) {
      return refuse(absl::StrCat("is ", DTypeName(dtype)));
    }
    if (!tensor.metadata.IsDefault() && !traits.metadata && !format.HoldsMetadata(tensor.metadata)) {
      return refuse("has metadata");
    }
    absl::Status held = format.CheckEntry(EntryOf(tensor));
    if (held.ok() && dtype == DType::kString) held = format.CheckStrings(tensor.elements);
    if (!held.ok()) return Annotate(held, absl::StrCat(path, ": tensor ", Quoted(tensor.name)));
  }
  return absl::OkStatus();
}

// The block size for a tensor on a device. Within a block, the device copies one piece while the writer writes another.
constexpr uint64_t kDeviceBlockBytes = uint64_t{256} << 20;

class Saver {
 public:
  Saver(ArchiveWriter* writer, const SaveOptions& options)
      : writer_(writer), options_(options), progress_(options.progress) {}

  absl::Status Save(absl::Span<const TensorToSave> tensors) {
    for (const TensorToSave& tensor : tensors) CASK_RETURN_IF_ERROR(writer_->Declare(EntryOf(tensor)));
    for (const TensorToSave& tensor : tensors) CASK_RETURN_IF_ERROR(Add(tensor));
    return writer_->Finish();
  }

 private:
  absl::Status Add(const TensorToSave& tensor) {
    const ArchiveEntry entry = EntryOf(tensor);
    const uint64_t bytes = BytesOf(tensor.elements);
    DecodedTensor whole;
    whole.view = tensor.elements;
    whole.metadata = tensor.metadata;
    uint64_t block_bytes = options_.block_bytes;
    if (internal::IsOnDevice(whole.view) && whole.view.IsContiguous()) {
      block_bytes = std::max(block_bytes, kDeviceBlockBytes);
    } else {
      CASK_ASSIGN_OR_RETURN(whole.view, internal::InHostMemory(whole.view));
    }
    if (bytes > block_bytes && writer_->writes_in_blocks(entry)) return AddInBlocks(whole, entry, block_bytes);
    // Formats that keep strides would keep those of the view.
    if (!whole.view.IsContiguous()) {
      CASK_ASSIGN_OR_RETURN(whole.view, whole.view.Contiguous());
    }
    CASK_RETURN_IF_ERROR(writer_->Add(entry, whole));
    return Progress(bytes);
  }

  absl::Status AddInBlocks(const DecodedTensor& tensor, const ArchiveEntry& entry, uint64_t block_bytes) {
    archive::BlockPlan plan(entry.shape, tensor.view.element_size(), block_bytes);
    while (const std::optional<TensorSlice> slice = plan.Next()) {
      CASK_ASSIGN_OR_RETURN(TensorView block, tensor.view.Slice(*slice));
      if (!block.IsContiguous()) {
        CASK_ASSIGN_OR_RETURN(block, block.Contiguous());
      }
      CASK_RETURN_IF_ERROR(writer_->AddSlice(entry, tensor.metadata, *slice, block));
      CASK_RETURN_IF_ERROR(Progress(BytesOf(block)));
    }
    return absl::OkStatus();
  }

  absl::Status Progress(uint64_t bytes) {
    return progress_.Add(bytes) ? absl::OkStatus() : absl::CancelledError("the save was cancelled");
  }

  ArchiveWriter* const writer_;
  const SaveOptions& options_;
  archive::ByteProgress progress_;
};

// Calls load(i), which returns the bytes of the i-th tensor, for each of `entries`.
absl::Status LoadEach(const ArchiveReader& archive, absl::Span<const ArchiveEntry* const> entries,
                      const LoadOptions& options, absl::FunctionRef<absl::StatusOr<uint64_t>(size_t i)> load) {
  const size_t count = entries.size();
  ReadPlan plan;
  const StepOrder order = plan.StartSteps(count, [&](size_t i) { return archive.StepOf(entries[i]); });
  std::vector<absl::Status> statuses(count);
  archive::ByteProgress progress(options.progress);
  std::atomic<bool> failed{false};
  CASK_RETURN_IF_ERROR(ParallelFor(options.num_threads, count, [&](size_t position) {
    const size_t i = order[position];
    if (failed || progress.cancelled()) return;
    const absl::StatusOr<uint64_t> bytes = load(i);
    if (bytes.ok()) {
      progress.Add(*bytes);
    } else {
      statuses[i] = bytes.status();
      failed = true;
    }
  }));
  for (const absl::Status& status : statuses) CASK_RETURN_IF_ERROR(status);
  if (progress.cancelled()) return absl::CancelledError(absl::StrCat(archive.path(), ": loading was cancelled"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> LoadTensors(const ArchiveReader& archive,
                                                absl::Span<const ArchiveEntry* const> entries,
                                                const LoadOptions& options) {
  std::vector<Tensor> tensors(entries.size());
  CASK_RETURN_IF_ERROR(LoadEach(archive, entries, options, [&](size_t i) -> absl::StatusOr<uint64_t> {
    CASK_ASSIGN_OR_RETURN(tensors[i], options.map ? archive.Map(entries[i]->name) : archive.Read(entries[i]->name));
    return tensors[i].TotalBytes();
  }));
  return tensors;
}

absl::Status LoadTensorsInto(const ArchiveReader& archive, absl::Span<const TensorToLoad> tensors,
                             const LoadOptions& options) {
  std::vector<const ArchiveEntry*> entries;
  entries.reserve(tensors.size());
  for (const TensorToLoad& tensor : tensors) entries.push_back(archive.Find(tensor.name).value_or(nullptr));
  return LoadEach(archive, entries, options, [&](size_t i) -> absl::StatusOr<uint64_t> {
    TensorView out = tensors[i].out;
    CASK_RETURN_IF_ERROR(archive.ReadInto(tensors[i].name, &out));
    return BytesOf(out);
  });
}

absl::Status CheckWriterOptions(const ArchiveFormat& format, const ArchiveWriterOptions& options) {
  const ArchiveTraits traits = format.traits();
  const auto refuse = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(what, ", which ", format.name_with_article(), " file cannot hold"));
  };
  if (options.level != PayloadLevel::kStored && !traits.levels) return refuse("a level compresses tensors");
  if (options.base != nullptr && !traits.deltas) return refuse("a base makes deltas");
  if (options.base != nullptr && options.level == PayloadLevel::kStored) {
    return absl::InvalidArgumentError("a base makes deltas, which need a level above stored");
  }
  if (!options.file_metadata.empty() && !traits.file_metadata) return refuse("file metadata is text");
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SaveTensors(const std::string& path, const ArchiveFormat& format,
                                     absl::Span<const TensorToSave> tensors, const ArchiveWriterOptions& write,
                                     const SaveOptions& options) {
  if (absl::Status status = CheckWriterOptions(format, write); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message()));
  }
  CASK_RETURN_IF_ERROR(CheckTensors(path, format, tensors));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> writer, format.Create(path, write));
  CASK_RETURN_IF_ERROR(Saver(writer.get(), options).Save(tensors));
  return writer->file_bytes();
}

}  // namespace tensorcask
