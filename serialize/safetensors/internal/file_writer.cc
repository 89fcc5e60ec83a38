#include "tensorcask/serialize/safetensors/internal/file_writer.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/internal/piece_buffer.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/serialize/safetensors/dtypes.h"
#include "tensorcask/serialize/safetensors/internal/slice_runs.h"
#include "tensorcask/serialize/safetensors/internal/sub_byte.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/internal/changing_memory.h"
#include "tensorcask/tensor/strided/internal/device_elements.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::safetensors {
namespace {

// Stays in the cache between the checksum and the system's copy.
constexpr size_t kPieceBytes = size_t{512} << 10;
constexpr absl::string_view kEnding = ".safetensors";

absl::string_view LastName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 is 0

// Whether `name` is that of a shard of the model NAME.safetensors: NAME-00001-of-00003.safetensors, or
// NAME-00001-of-00003-r2.safetensors after two edits.
bool IsShardOf(absl::string_view name, absl::string_view model_name) {
  return absl::ConsumePrefix(&name, model_name.substr(0, model_name.size() - kEnding.size())) && IsShardSuffix(name);
}

}  // namespace

FileWriter::FileWriter(std::string path, const WriteOptions& options, std::vector<FilePlan> plans,
                       std::vector<PlannedTensor> tensors)
    : path_(std::move(path)),
      options_(options),
      plans_(std::move(plans)),
      tensors_(std::move(tensors)),
      states_(tensors_.size()),
      publish_({options.file_system, options.sync, options.overwrite}) {}

std::string FileWriter::IndexPath() const { return absl::StrCat(path_, ".index.json"); }

std::string FileWriter::FilePath(size_t file) const {
  return is_sharded() ? ShardName(path_, file + 1, plans_.size()) : path_;
}

std::vector<std::string> FileWriter::paths() const {
  std::vector<std::string> paths;
  for (size_t file = 0; file < plans_.size(); ++file) paths.push_back(FilePath(file));
  if (is_sharded()) paths.push_back(IndexPath());
  return paths;
}

std::vector<size_t> FileWriter::order() const {
  std::vector<size_t> numbers;
  for (const FilePlan& plan : plans_) numbers.insert(numbers.end(), plan.tensors.begin(), plan.tensors.end());
  return numbers;
}

absl::Status FileWriter::Start() {
  for (size_t file = 0; file < plans_.size(); ++file) {
    CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish_.Add(FilePath(file)));
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
  const bool read_once = !options_.checksums && !internal::IsOnDevice(view);
  return read_once ? ForEachRowMajorPiece(view, kPieceBytes, write)
                   : internal::ForEachStablePiece(view, kPieceBytes, write);
}

absl::Status FileWriter::Add(size_t number, const TensorView& view) {
  uint64_t written = 0;
  const int bits = SafetensorsDTypeBits(view.dtype());
  ElementPacker packer(bits);
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
  SliceRuns runs(tensors_[number].shape, slice, view.shape());
  const auto element_bytes = static_cast<uint64_t>(view.element_size());
  const uint64_t run_bytes = static_cast<uint64_t>(runs.length()) * element_bytes;
  uint64_t at = 0;
  uint64_t left = 0;  // of this run
  return ForEachPiece(view, [&](absl::string_view bytes) -> absl::Status {
    while (!bytes.empty()) {
      if (left == 0) {
        at = static_cast<uint64_t>(runs.Next()) * element_bytes;
        left = run_bytes;
      }
      const absl::string_view now = bytes.substr(0, static_cast<size_t>(std::min<uint64_t>(left, bytes.size())));
      CASK_RETURN_IF_ERROR(Write(number, at, now));
      bytes.remove_prefix(now.size());
      at += now.size();
      left -= now.size();
    }
    return absl::OkStatus();
  });
}

absl::Status FileWriter::CheckComplete() const {
  for (size_t number = 0; number < tensors_.size(); ++number) {
    const TensorState& state = states_[number];
    if (state.is_whole || (state.parts != nullptr && state.parts->IsComplete())) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": tensor ", Quoted(tensors_[number].name),
                     state.parts == nullptr ? " was declared and not added" : " was added in part only"));
  }
  return absl::OkStatus();
}

// Of a tensor whose parts came in another order than that of their bytes.
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
  return sinks_[file]->WriteAt(ChecksumOffset(), ChecksumDigits(plans_[file], checksums));
}

absl::Status FileWriter::Publish() {
  CASK_RETURN_IF_ERROR(CheckComplete());
  if (options_.overwrite) {
    publish_.KeepPermissionsOf(OtherForm());
    for (const std::string& path : StaleShards()) publish_.KeepPermissionsOf(path);
  }
  std::vector<std::string> names;
  for (size_t file = 0; file < plans_.size(); ++file) {
    if (options_.checksums) CASK_RETURN_IF_ERROR(WriteChecksums(file));
    names.emplace_back(LastName(FilePath(file)));
  }
  if (is_sharded()) {
    CASK_ASSIGN_OR_RETURN(FileSink* const index, publish_.Add(IndexPath()));
    CASK_RETURN_IF_ERROR(index->Append(IndexText(tensors_, names)));
    if (options_.overwrite) CASK_RETURN_IF_ERROR(RemoveOldIndex());
  }
  CASK_RETURN_IF_ERROR(publish_.Commit());
  return options_.overwrite ? RemoveStaleFiles() : absl::OkStatus();
}

// Publishing replaces the old shards one after the other. The old index goes first, so that no reader finds a mixture
// of old and new shards through it; before that, all bytes of the new shards are written, and durable if `sync` is set.
absl::Status FileWriter::RemoveOldIndex() {
  for (FileSink* const sink : sinks_) CASK_RETURN_IF_ERROR(sink->Flush(options_.sync));
  FileSystem* const files = options_.file_system;
  const std::string index = IndexPath();
  const IoResult removed = internal::RetryInterrupted([&] { return files->Remove(index); });
  if (removed == -ENOENT) return absl::OkStatus();
  if (removed < 0) return IoError(removed, index, "remove");
  if (!options_.sync) return absl::OkStatus();
  const std::string folder = FolderOf(index);
  const IoResult synced = internal::RetryInterrupted([&] { return files->SyncFolder(folder); });
  return synced < 0 ? IoError(synced, folder, "sync") : absl::OkStatus();
}

// A model is one file, or several and an index. This is what shows that the old model had the other form.
std::string FileWriter::OtherForm() const { return is_sharded() ? path_ : IndexPath(); }

// The shards that the old model may have and the new one has not.
std::vector<std::string> FileWriter::StaleShards() const {
  const absl::string_view model_name = LastName(path_);
  std::vector<std::string> stale;
  std::vector<std::string> names;
  const std::string folder(FolderOf(path_));
  if (!absl::EndsWith(model_name, kEnding) ||
      internal::RetryInterrupted([&] { return options_.file_system->List(folder, &names); }) < 0) {
    return stale;
  }
  std::set<absl::string_view> mine;
  const std::vector<std::string> written = paths();
  for (const std::string& path : written) mine.insert(LastName(path));
  for (const std::string& name : names) {
    if (!IsShardOf(name, model_name) || (is_sharded() && mine.count(name) != 0)) continue;
    stale.push_back(absl::StrCat(folder, "/", name));
  }
  return stale;
}

// The old index would name missing files, and programs that look for a single file first would load the old one; so
// these two must be removed. Old shards only take space.
absl::Status FileWriter::RemoveStaleFiles() {
  FileSystem* const files = options_.file_system;
  const IoResult removed = internal::RetryInterrupted([&] { return files->Remove(OtherForm()); });
  if (removed < 0 && removed != -ENOENT) return IoError(removed, OtherForm(), "remove");
  for (const std::string& path : StaleShards()) {
    internal::RetryInterrupted([&] { return files->Remove(path); });
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::safetensors
