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
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/checked_math.h"
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

// Whether a plan reads the stored bytes of the entry straight into dense memory of its size. The bytes are there, so
// the memory may be allocated.
bool IsPlannedInPlace(const ArchiveReader& archive, const ArchiveEntry& entry, const ReadPlan::Step& step) {
  if (step.source == nullptr || step.source->read_shape().in_flight <= 1 || !IsFixedSize(entry.dtype)) return false;
  const uint64_t bytes = static_cast<uint64_t>(entry.shape.num_elements()) * ElementSize(entry.dtype);
  return bytes > 0 && step.size_bytes == bytes && RangeFits(step.offset, bytes, step.source->size_bytes()) &&
         archive.IsReadInPlace(entry);
}

// Where ReadInto puts the bytes of the entry in `out`, if a plan can fetch them there; else null.
char* MemoryInPlace(const ArchiveReader& archive, const ArchiveEntry& entry, TensorView out) {
  const bool is_dense = out.dtype() == entry.dtype && out.shape() == entry.shape && out.IsContiguous() &&
                        out.num_elements() > 0 && !internal::IsOnDevice(out);
  if (!is_dense || !IsPlannedInPlace(archive, entry, archive.StepOf(&entry))) return nullptr;
  if (!out.EnsureMutable().ok()) return nullptr;  // ReadInto gives the error
  return static_cast<char*>(out.buffer()->mutable_data()) + out.bounds().begin;
}

// Calls load(i), which returns the bytes of the i-th tensor, for each of `entries`. `memory` has a place for each:
// where a plan reads the tensor, null for memory of its own.
absl::Status LoadEach(const ArchiveReader& archive, absl::Span<const ArchiveEntry* const> entries,
                      absl::Span<char* const> memory, const LoadOptions& options,
                      absl::FunctionRef<absl::StatusOr<uint64_t>(size_t i)> load) {
  const size_t count = entries.size();
  std::vector<absl::Status> statuses(count);
  archive::ByteProgress progress(options.progress);
  StepOrder order(count);
  std::vector<std::atomic<bool>> is_taken(count);
  // After one tensor has failed, only those before it are still read: the error does not depend on the threads.
  std::atomic<size_t> first_failed{count};
  const auto take = [&](size_t position) {
    const size_t i = order[position];
    if (is_taken[i].exchange(true, std::memory_order_relaxed)) return;
    if (position >= first_failed.load(std::memory_order_relaxed) || progress.cancelled()) return;
    const absl::StatusOr<uint64_t> bytes = load(i);
    if (bytes.ok()) {
      progress.Add(*bytes);
      return;
    }
    statuses[i] = bytes.status();
    size_t first = first_failed.load(std::memory_order_relaxed);
    while (position < first && !first_failed.compare_exchange_weak(first, position, std::memory_order_relaxed)) {
    }
  };
  {
    std::vector<size_t> positions(count);
    ReadPlan plan;
    // A tensor that has come into its memory is verified by the thread that fetched it, while the others fetch. What
    // hears of progress is called by the threads that it expects.
    if (!options.progress) plan.WhenFetched([&](size_t i) { take(positions[i]); });
    order = plan.StartSteps(count, [&](size_t i) {
      ReadPlan::Step step = archive.StepOf(entries[i]);
      step.into = memory[i];
      return step;
    });
    for (size_t position = 0; position < count; ++position) positions[order[position]] = position;
    CASK_RETURN_IF_ERROR(ParallelFor(options.num_threads, count, take));
  }
  const size_t failed = first_failed;
  if (failed < count) return statuses[order[failed]];
  if (progress.cancelled()) return absl::CancelledError(absl::StrCat(archive.path(), ": loading was cancelled"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> LoadTensors(const ArchiveReader& archive,
                                                absl::Span<const ArchiveEntry* const> entries,
                                                const LoadOptions& options) {
  std::vector<Tensor> tensors(entries.size());
  std::vector<char*> memory(entries.size(), nullptr);
  if (!options.map) archive.OpenFilesOf(entries);
  for (size_t i = 0; i < entries.size() && !options.map; ++i) {
    const ArchiveEntry& entry = *entries[i];
    if (!IsPlannedInPlace(archive, entry, archive.StepOf(&entry))) continue;
    // Without memory it is left to Read, which gives the error.
    tensors[i] = Tensor::Create(entry.dtype, entry.shape).value_or(Tensor());
    if (tensors[i].buffer()) memory[i] = tensors[i].mutable_bytes().data();
  }
  CASK_RETURN_IF_ERROR(LoadEach(archive, entries, memory, options, [&](size_t i) -> absl::StatusOr<uint64_t> {
    if (memory[i] != nullptr) {
      TensorView view = tensors[i];
      CASK_RETURN_IF_ERROR(archive.ReadInto(entries[i]->name, &view));
    } else {
      CASK_ASSIGN_OR_RETURN(tensors[i], options.map ? archive.Map(entries[i]->name) : archive.Read(entries[i]->name));
    }
    return tensors[i].TotalBytes();
  }));
  return tensors;
}

absl::Status LoadTensorsInto(const ArchiveReader& archive, absl::Span<const TensorToLoad> tensors,
                             const LoadOptions& options) {
  std::vector<const ArchiveEntry*> entries;
  entries.reserve(tensors.size());
  for (const TensorToLoad& tensor : tensors) entries.push_back(archive.Find(tensor.name).value_or(nullptr));
  std::vector<char*> memory(entries.size(), nullptr);
  archive.OpenFilesOf(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i] != nullptr) memory[i] = MemoryInPlace(archive, *entries[i], tensors[i].out);
  }
  return LoadEach(archive, entries, memory, options, [&](size_t i) -> absl::StatusOr<uint64_t> {
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
