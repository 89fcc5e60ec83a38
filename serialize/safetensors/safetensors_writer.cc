#include "tensorcask/serialize/safetensors/safetensors_writer.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/safetensors/internal/alias_keys.h"
#include "tensorcask/serialize/safetensors/internal/file_plan.h"
#include "tensorcask/serialize/safetensors/internal/file_writer.h"
#include "tensorcask/serialize/safetensors/internal/json_header.h"
#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"
#include "tensorcask/serialize/safetensors/shard_files.h"
#include "tensorcask/serialize/stored/writer_state.h"
#include "tensorcask/serialize/stored/written_parts.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

using safetensors::FilePlan;
using safetensors::FileWriter;
using safetensors::kFormatKey;
using safetensors::PlannedTensor;

constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;

absl::Status CheckOptions(const std::string& path, const SafetensorsWriterOptions& options) {
  CASK_RETURN_IF_ERROR(CheckPath(path));
  const uint64_t alignment = options.alignment;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kMaxAlignment) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the alignment is ", alignment, "; it must be a power of two from 1 to ", kMaxAlignment));
  }
  if (options.max_shard_bytes > 0 && !absl::EndsWith(path, ".safetensors")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the name of a model in several files ends in .safetensors"));
  }
  for (const auto& [key, value] : options.metadata) {
    CASK_ANNOTATE_IF_ERROR(SafetensorsWriter::CheckMetadata(key, value),
                           absl::StrCat(path, ": the metadata ", Quoted(key)));
  }
  return absl::OkStatus();
}

// The bytes that a tensor takes in a file. Errors: InvalidArgument.
absl::StatusOr<uint64_t> StoredBytes(DType dtype, const TensorShape& shape) {
  const int bits = SafetensorsDTypeBits(dtype);
  if (bits == 0) {
    return absl::InvalidArgumentError(absl::StrCat("safetensors files cannot hold ", DTypeName(dtype)));
  }
  const std::optional<int64_t> all = CheckedMul<int64_t>(shape.num_elements(), bits);
  if (!all.has_value()) return absl::InvalidArgumentError(absl::StrCat("the size of ", shape.ToString(), " overflows"));
  if (*all % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(DTypeName(dtype), " ", shape.ToString(), " has ", *all, " bits, which do not fill whole bytes"));
  }
  return static_cast<uint64_t>(*all / 8);
}

}  // namespace

class SafetensorsWriter::Impl {
 public:
  Impl(const std::string& path, SafetensorsWriterOptions options)
      : path_(path), options_(std::move(options)), state_(path) {
    if (options_.checksums && !options_.default_format.empty()) {
      options_.metadata.emplace(std::string(kFormatKey), options_.default_format);
    }
  }

  absl::Status CheckTarget() const;
  absl::Status Declare(absl::string_view name, DType dtype, const TensorShape& shape);
  absl::Status AddAlias(absl::string_view name, absl::string_view target);
  absl::Status Add(absl::string_view name, const TensorView& tensor);
  absl::Status AddSlice(absl::string_view name, const TensorSlice& slice, const TensorView& tensor);
  absl::StatusOr<ReplacedFiles> Start();
  absl::Status Finish();
  const std::vector<std::string>& files() const { return written_; }
  const std::vector<std::string>& removed_files() const { return removed_; }

 private:
  enum class Mode { kUnknown, kInMemory, kStreaming };

  absl::Status NewTensor(absl::string_view name, DType dtype, const TensorShape& shape);
  absl::StatusOr<size_t> Locate(absl::string_view name) const;
  absl::Status StartWriting();
  void NoteAliases();
  absl::Status StartStreaming();
  absl::Status AddWhole(size_t number, const TensorView& tensor);
  const PlannedTensor& Declared(size_t number) const {
    return files_ != nullptr ? files_->tensor(number) : tensors_[number];
  }

  const std::string path_;
  SafetensorsWriterOptions options_;
  Mode mode_ = Mode::kUnknown;
  stored::WriterState state_;
  std::vector<PlannedTensor> tensors_;
  std::vector<TensorView> held_;                      // for Mode::kInMemory, by number
  absl::node_hash_map<std::string, size_t> by_name_;  // which has the names of tensors_
  std::map<std::string, std::string> aliases_;
  std::unique_ptr<FileWriter> files_;  // null before the first byte
  std::vector<std::string> written_;   // the paths, after Finish
  std::vector<std::string> removed_;   // likewise
};

absl::Status SafetensorsWriter::Impl::CheckTarget() const {
  return options_.overwrite ? absl::OkStatus() : safetensors::CheckNoModel(path_, options_.file_system);
}

absl::Status SafetensorsWriter::Impl::NewTensor(absl::string_view name, DType dtype, const TensorShape& shape) {
  absl::Status valid = safetensors::CheckName(name);
  if (!valid.ok()) return absl::InvalidArgumentError(absl::StrCat(path_, ": ", valid.message()));
  const absl::StatusOr<uint64_t> bytes = StoredBytes(dtype, shape);
  CASK_RETURN_IF_ERROR(state_.About(name, bytes.status()));
  if (aliases_.count(std::string(name)) != 0) return state_.About(name, absl::AlreadyExistsError("is an alias"));
  const auto [at, is_new] = by_name_.emplace(name, tensors_.size());
  if (!is_new) return state_.About(name, absl::AlreadyExistsError("was added or declared before"));
  PlannedTensor tensor;
  tensor.name = at->first;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.stored_bytes = *bytes;
  tensors_.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::StatusOr<size_t> SafetensorsWriter::Impl::Locate(absl::string_view name) const {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return state_.About(name, absl::NotFoundError("was not declared"));
  return it->second;
}

absl::Status SafetensorsWriter::Impl::Declare(absl::string_view name, DType dtype, const TensorShape& shape) {
  CASK_RETURN_IF_ERROR(state_.status());
  if (files_ != nullptr || mode_ == Mode::kInMemory) {
    return state_.About(name, absl::FailedPreconditionError("Declare comes before the first Add"));
  }
  CASK_RETURN_IF_ERROR(NewTensor(name, dtype, shape));
  mode_ = Mode::kStreaming;
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Impl::AddAlias(absl::string_view name, absl::string_view target) {
  CASK_RETURN_IF_ERROR(state_.status());
  if (files_ != nullptr) {
    return state_.About(name, absl::FailedPreconditionError("AddAlias comes before the first Add of declared tensors"));
  }
  for (const absl::string_view each : {name, target}) {
    absl::Status valid = safetensors::CheckName(each);
    if (!valid.ok()) return absl::InvalidArgumentError(absl::StrCat(path_, ": ", valid.message()));
  }
  if (name == kFormatKey)
    return state_.About(name, absl::InvalidArgumentError("cannot be an alias: metadata uses the name"));
  const std::string key(name);
  if (by_name_.contains(name) || aliases_.count(key) != 0 || options_.metadata.count(key) != 0) {
    return state_.About(name, absl::AlreadyExistsError("is a tensor, an alias or metadata already"));
  }
  aliases_[key] = std::string(target);
  return absl::OkStatus();
}

// Lists the aliases in the metadata, if readers would take others for them.
void SafetensorsWriter::Impl::NoteAliases() {
  std::map<std::string, std::string> with_aliases;
  if (!aliases_.empty()) with_aliases = options_.metadata;
  std::set<std::string> keys;
  for (const auto& [name, target] : aliases_) {
    with_aliases[name] = target;
    keys.insert(name);
  }
  const auto is_tensor = [&](const std::string& name) { return by_name_.contains(name); };
  if (safetensors::AliasKeys(aliases_.empty() ? options_.metadata : with_aliases, is_tensor) == keys) return;
  options_.metadata.emplace(std::string(safetensors::kAliasesKey), safetensors::AliasList(keys));
}

absl::Status SafetensorsWriter::Impl::StartWriting() {
  for (const auto& [name, target] : aliases_) {
    if (by_name_.contains(target)) continue;
    return state_.About(name,
                        absl::NotFoundError(absl::StrCat("is an alias of ", Quoted(target), ", which was not added")));
  }
  safetensors::PlanOptions plan;
  plan.alignment = options_.alignment;
  plan.by_alignment = options_.order == SafetensorsOrder::kByAlignment;
  plan.checksums = options_.checksums;
  plan.max_shard_bytes = options_.max_shard_bytes;
  plan.metadata = &options_.metadata;
  plan.aliases = aliases_;
  NoteAliases();
  CASK_ASSIGN_OR_ANNOTATE(std::vector<FilePlan> plans, safetensors::PlanFiles(plan, &tensors_), path_);
  safetensors::WriteOptions write;
  write.file_system = options_.file_system;
  write.checksums = options_.checksums;
  write.sync = options_.sync;
  write.overwrite = options_.overwrite;
  write.always_index = options_.always_index && options_.max_shard_bytes > 0;
  files_ = std::make_unique<FileWriter>(path_, write, std::move(plans), std::move(tensors_));
  return files_->Start();
}

absl::Status SafetensorsWriter::Impl::StartStreaming() {
  return files_ != nullptr ? absl::OkStatus() : state_.Keep(StartWriting());
}

absl::Status SafetensorsWriter::Impl::AddWhole(size_t number, const TensorView& tensor) {
  const absl::string_view name = files_->tensor(number).name;
  if (files_->has_part(number)) return state_.About(name, absl::AlreadyExistsError("was added before"));
  return state_.Keep(files_->Add(number, tensor));
}

absl::Status SafetensorsWriter::Impl::Add(absl::string_view name, const TensorView& tensor) {
  CASK_RETURN_IF_ERROR(state_.status());
  CASK_RETURN_IF_ERROR(state_.About(name, stored::CheckCanBeRead(tensor)));
  if (mode_ == Mode::kStreaming) {
    CASK_ASSIGN_OR_RETURN(const size_t number, Locate(name));
    const PlannedTensor& declared = Declared(number);
    CASK_RETURN_IF_ERROR(state_.About(name, stored::CheckIsDeclared(tensor, declared.dtype, declared.shape)));
    CASK_RETURN_IF_ERROR(StartStreaming());
    return AddWhole(number, tensor);
  }
  absl::StatusOr<TensorView> held = tensor.LazyClone();
  CASK_RETURN_IF_ERROR(state_.About(name, held.status()));
  CASK_RETURN_IF_ERROR(NewTensor(name, tensor.dtype(), tensor.shape()));
  mode_ = Mode::kInMemory;
  held_.push_back(*std::move(held));
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Impl::AddSlice(absl::string_view name, const TensorSlice& slice,
                                               const TensorView& tensor) {
  CASK_RETURN_IF_ERROR(state_.status());
  if (mode_ != Mode::kStreaming) return state_.About(name, absl::NotFoundError("was not declared"));
  CASK_ASSIGN_OR_RETURN(const size_t number, Locate(name));
  CASK_RETURN_IF_ERROR(state_.About(name, stored::CheckCanBeRead(tensor)));
  const PlannedTensor& declared = Declared(number);
  const absl::StatusOr<TensorShape> part = slice.Apply(declared.shape);
  CASK_RETURN_IF_ERROR(state_.About(name, part.status()));
  if (*part == declared.shape) return Add(name, tensor);
  if (SafetensorsDTypeBits(declared.dtype) < 8) {
    return state_.About(name, absl::UnimplementedError("elements below 8 bits are stored only as a whole"));
  }
  CASK_RETURN_IF_ERROR(StartStreaming());
  if (files_->is_whole(number)) return state_.About(name, absl::AlreadyExistsError("was added before"));
  CASK_RETURN_IF_ERROR(state_.About(name, files_->RegisterPart(number, slice, tensor)));
  return state_.Keep(files_->AddPart(number, slice, tensor));
}

absl::StatusOr<ReplacedFiles> SafetensorsWriter::Impl::Start() {
  CASK_RETURN_IF_ERROR(state_.status());
  CASK_RETURN_IF_ERROR(StartStreaming());
  return files_->Replaced();
}

absl::Status SafetensorsWriter::Impl::Finish() {
  CASK_RETURN_IF_ERROR(state_.status());
  const auto write = [&]() -> absl::Status {
    if (files_ == nullptr) CASK_RETURN_IF_ERROR(StartWriting());
    if (mode_ == Mode::kInMemory) {
      for (const size_t number : files_->order()) {
        CASK_RETURN_IF_ERROR(files_->Add(number, held_[number]));
        held_[number] = TensorView();
      }
    }
    return files_->Publish();
  };
  absl::Status status = state_.Finish(write());
  if (status.ok()) written_ = files_->paths();
  if (status.ok()) removed_ = files_->removed();
  files_.reset();
  return status;
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(const std::string& path, SafetensorsWriterOptions options) {
  CASK_RETURN_IF_ERROR(CheckOptions(path, options));
  auto impl = std::make_unique<Impl>(path, std::move(options));
  CASK_RETURN_IF_ERROR(impl->CheckTarget());
  return SafetensorsWriter(std::move(impl));
}

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

absl::Status SafetensorsWriter::CheckMetadata(absl::string_view key, absl::string_view value) {
  if (!internal::IsUtf8(key) || !internal::IsUtf8(value)) return absl::InvalidArgumentError("is not UTF-8");
  if (key == safetensors::kChecksumKey || key == safetensors::kAliasesKey) {
    return absl::InvalidArgumentError("has a reserved name: the writer makes it");
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::CheckTensor(absl::string_view name, DType dtype, const TensorShape& shape) {
  CASK_RETURN_IF_ERROR(safetensors::CheckName(name));
  return StoredBytes(dtype, shape).status();
}

absl::Status SafetensorsWriter::Declare(absl::string_view name, DType dtype, const TensorShape& shape) {
  return impl_->Declare(name, dtype, shape);
}

absl::Status SafetensorsWriter::AddAlias(absl::string_view name, absl::string_view target) {
  return impl_->AddAlias(name, target);
}

absl::Status SafetensorsWriter::Add(absl::string_view name, const TensorView& tensor) {
  return impl_->Add(name, tensor);
}

absl::Status SafetensorsWriter::AddSlice(absl::string_view name, const TensorSlice& slice, const TensorView& tensor) {
  return impl_->AddSlice(name, slice, tensor);
}

absl::StatusOr<ReplacedFiles> SafetensorsWriter::Start() { return impl_->Start(); }

absl::Status SafetensorsWriter::Finish() { return impl_->Finish(); }

const std::vector<std::string>& SafetensorsWriter::files() const { return impl_->files(); }
const std::vector<std::string>& SafetensorsWriter::removed_files() const { return impl_->removed_files(); }

}  // namespace tensorcask
