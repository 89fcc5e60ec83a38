#include "tensorcask/serialize/safetensors/internal/file_writer.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"
#include "tensorcask/serialize/safetensors/shard_files.h"
#include "tensorcask/serialize/stored/element_runs.h"
#include "tensorcask/serialize/stored/packed_elements.h"
#include "tensorcask/serialize/stored/written_parts.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/changing_memory.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::safetensors {
namespace {

// Stays in the cache between the checksum and the system's copy.
constexpr size_t kPieceBytes = size_t{512} << 10;
}  // namespace

FileWriter::FileWriter(std::string path, const WriteOptions& options, std::vector<FilePlan> plans,
                       std::vector<PlannedTensor> tensors)
    : path_(std::move(path)),
      options_(options),
      plans_(std::move(plans)),
      tensors_(std::move(tensors)),
      states_(tensors_.size()),
      publish_({options.file_system, options.sync, options.overwrite, /*only_switch=*/is_sharded()}) {}

std::string FileWriter::IndexPath() const { return absl::StrCat(path_, ".index.json"); }

std::vector<std::string> FileWriter::paths() const {
  std::vector<std::string> paths = file_paths_;
  if (is_sharded()) paths.push_back(IndexPath());
  return paths;
}

std::vector<size_t> FileWriter::order() const {
  std::vector<size_t> numbers;
  for (const FilePlan& plan : plans_) numbers.insert(numbers.end(), plan.tensors.begin(), plan.tensors.end());
  return numbers;
}

// A set of files gets names that are free, so that the old model stays whole until the new index replaces the old one.
absl::Status FileWriter::Start() {
  if (!is_sharded()) {
    file_paths_ = {path_};
  } else if (options_.overwrite) {
    CASK_ASSIGN_OR_RETURN(file_paths_, FreeShardPaths(path_, plans_.size(), options_.file_system));
  } else {
    for (size_t file = 1; file <= plans_.size(); ++file) file_paths_.push_back(ShardName(path_, file, plans_.size()));
  }
  for (size_t file = 0; file < plans_.size(); ++file) {
    CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish_.Add(file_paths_[file]));
    sink->ReserveHint(plans_[file].size_bytes);
    CASK_RETURN_IF_ERROR(sink->Append(plans_[file].header));
    sinks_.push_back(sink);
  }
  return absl::OkStatus();
}

absl::Status FileWriter::Write(size_t number, uint64_t offset_in_tensor, absl::string_view bytes) {
  TensorState& state = states_[number];
  if (options_.checksums && state.checked_bytes == offset_in_tensor) {
    state.checksum = ExtendCrc32c(state.checksum, bytes);
    state.checked_bytes += bytes.size();
  }
  FileSink& sink = *sinks_[tensors_[number].file];
  const uint64_t offset = tensors_[number].offset + offset_in_tensor;
  return offset == sink.position() ? sink.Append(bytes) : sink.WriteAt(offset, bytes);
}

// For a checksum, elements are read twice, so those that code outside the library may change are copied first.
absl::Status FileWriter::ForEachPiece(const TensorView& view,
                                      absl::FunctionRef<absl::Status(absl::string_view bytes)> write) const {
  return options_.checksums ? internal::ForEachStablePiece(view, kPieceBytes, write)
                            : stored::ForEachPieceOnce(view, kPieceBytes, write);
}

absl::Status FileWriter::Add(size_t number, const TensorView& view) {
  uint64_t written = 0;
  const int bits = SafetensorsDTypeBits(view.dtype());
  stored::ElementPacker packer(bits);
  CASK_RETURN_IF_ERROR(ForEachPiece(view, [&](absl::string_view bytes) {
    if (bits < 8) {
      packed_.clear();
      packer.Pack(bytes, &packed_);
      bytes = packed_;
    }
    const uint64_t at = written;
    written += bytes.size();
    return Write(number, at, bytes);
  }));
  states_[number].is_whole = true;
  return absl::OkStatus();
}

absl::Status FileWriter::RegisterPart(size_t number, const TensorSlice& slice, const TensorView& view) {
  const PlannedTensor& tensor = tensors_[number];
  TensorState& state = states_[number];
  std::unique_ptr<TensorSliceSet> first;
  if (state.parts == nullptr) first = std::make_unique<TensorSliceSet>(tensor.dtype, tensor.shape);
  TensorSliceSet* const parts = first != nullptr ? first.get() : state.parts.get();
  CASK_RETURN_IF_ERROR(parts->CheckPart(slice, view.dtype(), view.shape()));
  CASK_RETURN_IF_ERROR(parts->Register(slice, ""));
  if (first != nullptr) state.parts = std::move(first);
  return absl::OkStatus();
}

absl::Status FileWriter::AddPart(size_t number, const TensorSlice& slice, const TensorView& view) {
  if (view.num_elements() == 0) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(Layout in_file, Layout::RowMajor(tensors_[number].shape).Slice(slice));
  Layout in_memory = Layout::RowMajor(view.shape());
  CASK_RETURN_IF_ERROR(stored::SortAxes(&in_file, &in_memory));
  stored::ElementRuns runs(in_file);
  const auto element_bytes = static_cast<uint64_t>(view.element_size());
  return ForEachPiece(view, [&](absl::string_view bytes) -> absl::Status {
    while (!bytes.empty()) {
      const stored::ElementRuns::Run run = runs.Next(static_cast<int64_t>(bytes.size() / element_bytes));
      const auto run_bytes = static_cast<size_t>(static_cast<uint64_t>(run.count) * element_bytes);
      CASK_RETURN_IF_ERROR(Write(number, static_cast<uint64_t>(run.first) * element_bytes, bytes.substr(0, run_bytes)));
      bytes.remove_prefix(run_bytes);
    }
    return absl::OkStatus();
  });
}

absl::Status FileWriter::CheckComplete() const {
  for (size_t number = 0; number < tensors_.size(); ++number) {
    const TensorState& state = states_[number];
    if (state.is_whole || (state.parts != nullptr && state.parts->IsComplete())) continue;
    return Annotate(stored::Incomplete(state.parts != nullptr),
                    absl::StrCat(path_, ": tensor ", Quoted(tensors_[number].name)));
  }
  return absl::OkStatus();
}

// Computes the checksum of a tensor whose parts came in another order than that of their bytes.
absl::Status FileWriter::ChecksumFromFile(size_t number) {
  TensorState& state = states_[number];
  const PlannedTensor& tensor = tensors_[number];
  FileSink& sink = *sinks_[tensor.file];
  CASK_RETURN_IF_ERROR(sink.Flush(/*sync=*/false));
  ReadOptions read;
  read.file_system = options_.file_system;
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(sink.path(), read));
  PieceBuffer piece(tensor.stored_bytes, kPieceBytes);
  while (state.checked_bytes < tensor.stored_bytes) {
    const uint64_t left = tensor.stored_bytes - state.checked_bytes;
    const auto now = absl::MakeSpan(piece).subspan(0, static_cast<size_t>(std::min<uint64_t>(left, piece.size())));
    CASK_RETURN_IF_ERROR(file->ReadAt(tensor.offset + state.checked_bytes, now));
    state.checksum = ExtendCrc32c(state.checksum, absl::string_view(now.data(), now.size()));
    state.checked_bytes += now.size();
  }
  return absl::OkStatus();
}

absl::Status FileWriter::WriteChecksums(size_t file) {
  std::vector<uint32_t> checksums;
  checksums.reserve(plans_[file].tensors.size());
  for (const size_t number : plans_[file].tensors) {
    if (states_[number].checked_bytes < tensors_[number].stored_bytes) CASK_RETURN_IF_ERROR(ChecksumFromFile(number));
    checksums.push_back(states_[number].checksum);
  }
  return sinks_[file]->WriteAt(ChecksumOffset(), SetChecksums(checksums, &plans_[file]));
}

absl::Status FileWriter::Publish() {
  CASK_RETURN_IF_ERROR(CheckComplete());
  CASK_ASSIGN_OR_RETURN(const ReplacedFiles replaced, Replaced());
  for (const std::string& path : replaced.removed) {
    const bool was_switch = path == path_ || path == IndexPath();
    was_switch ? publish_.RemoveOldSwitch(path) : publish_.RemoveAfterwards(path);
  }
  for (const std::string& path : replaced.beside) publish_.KeepPermissionsOf(path);
  std::vector<std::string> names;
  for (size_t file = 0; file < plans_.size(); ++file) {
    if (options_.checksums) CASK_RETURN_IF_ERROR(WriteChecksums(file));
    names.emplace_back(LastName(file_paths_[file]));
  }
  if (is_sharded()) {
    CASK_ASSIGN_OR_RETURN(FileSink* const index, publish_.Add(IndexPath()));
    CASK_RETURN_IF_ERROR(index->Append(IndexText(tensors_, names)));
  }
  return publish_.Commit();
}

absl::StatusOr<ReplacedFiles> FileWriter::Replaced() const {
  if (!options_.overwrite) return ReplacedFiles();
  const NewModel kind = !is_sharded()           ? NewModel::kOneFile
                        : options_.always_index ? NewModel::kOnlyByIndex
                                                : NewModel::kFiles;
  return FindReplacedModel(path_, kind, options_.file_system);
}

}  // namespace tensorcask::safetensors
