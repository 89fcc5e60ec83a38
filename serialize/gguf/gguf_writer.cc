#include "tensorcask/serialize/gguf/gguf_writer.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/gguf/block_types.h"
#include "tensorcask/serialize/gguf/internal/header_text.h"
#include "tensorcask/serialize/gguf/internal/value_types.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/stored/writer_state.h"
#include "tensorcask/serialize/stored/written_parts.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace gguf {
namespace {

constexpr uint32_t kVersion = 3;
constexpr size_t kWrittenPieceBytes = size_t{512} << 10;

// Null if GGUF has no type of plain numbers of this dtype.
const ElementType* PlainType(DType dtype) {
  for (const ElementType& type : AllElementTypes()) {
    if (!type.is_block() && type.dtype == dtype) return &type;
  }
  return nullptr;
}

// The shape of the elements of blocks whose bytes have `shape`. Errors: InvalidArgument.
absl::StatusOr<TensorShape> ShapeOfBlocks(const ElementType& type, const TensorShape& shape) {
  auto dims = shape.dims();
  if (dims.empty() || dims.back() % type.bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("has the shape ", shape.ToString(),
                                                   " in bytes; the last size must be a multiple of ", type.bytes,
                                                   ", which a block of ", type.name, " has"));
  }
  const std::optional<int64_t> row = CheckedMul<int64_t>(dims.back() / type.bytes, type.elements);
  if (!row) return absl::InvalidArgumentError(absl::StrCat("has too large rows: ", shape.ToString(), " bytes"));
  dims.back() = *row;
  return TensorShape::Create(dims);
}

}  // namespace
}  // namespace gguf

class GgufWriter::Impl {
 public:
  Impl(const std::string& path, const GgufWriterOptions& options)
      : path_(path),
        options_(options),
        publish_({options.file_system, options.sync, options.overwrite}),
        state_(path) {}

  absl::Status About(absl::string_view name, const absl::Status& status) const { return state_.About(name, status); }

  // `array_bytes` are those of an array in a file.
  absl::Status SetValue(absl::string_view name, Value value, absl::string_view array_bytes = {}) {
    CASK_RETURN_IF_ERROR(state_.status());
    const absl::Status set = [&]() -> absl::Status {
      if (sink_ != nullptr) return absl::FailedPreconditionError("metadata comes before the first Add");
      CASK_RETURN_IF_ERROR(gguf::CheckKeyName(name));
      CASK_RETURN_IF_ERROR(gguf::CheckWritableKey(name, value));
      if (name == gguf::kAlignmentKey) {
        CASK_ASSIGN_OR_RETURN(alignment_, gguf::AlignmentOfValue(value));
      }
      CASK_ASSIGN_OR_RETURN(std::string typed, value.kind() == ValueKind::kFileArray
                                                   ? gguf::EncodeArray(value.file_array(), array_bytes)
                                                   : gguf::EncodeValue(value, /*big_endian=*/false));
      const auto [at, is_new] = key_numbers_.emplace(name, keys_.size());
      if (is_new) keys_.emplace_back(name, "");
      keys_[at->second].second = std::move(typed);
      return absl::OkStatus();
    }();
    return set.ok() ? set : Annotate(set, absl::StrCat(path_, ": key ", Quoted(name)));
  }

  absl::Status SetParsed(absl::string_view name, absl::string_view text, const std::optional<Value>& old) {
    CASK_ASSIGN_OR_ANNOTATE(const ValueTree value, gguf::ParseValue(text, old),
                            absl::StrCat(path_, ": key ", Quoted(name)));
    return SetValue(name, value.root());
  }

  absl::Status Declare(absl::string_view name, const gguf::ElementType* type, const TensorShape& shape_in_memory) {
    CASK_RETURN_IF_ERROR(state_.status());
    if (sink_ != nullptr || !held_.empty()) {
      return About(name, absl::FailedPreconditionError("Declare comes before the first Add"));
    }
    return New(name, type, shape_in_memory);
  }

  absl::Status Add(absl::string_view name, const TensorView& tensor) {
    CASK_RETURN_IF_ERROR(state_.status());
    if (tensors_.size() > held_.size()) return AddSlice(name, TensorSlice::Full(tensor.rank()), tensor);
    if (sink_ != nullptr) return About(name, absl::FailedPreconditionError("was not declared before Start"));
    absl::StatusOr<TensorView> held = tensor.LazyClone();
    CASK_RETURN_IF_ERROR(About(name, held.status()));
    CASK_RETURN_IF_ERROR(About(name, CheckTensor(name, tensor.dtype(), tensor.shape())));
    CASK_RETURN_IF_ERROR(New(name, gguf::PlainType(tensor.dtype()), tensor.shape()));
    held_.push_back(*std::move(held));
    return absl::OkStatus();
  }

  absl::Status AddSlice(absl::string_view name, const TensorSlice& slice, const TensorView& part) {
    CASK_RETURN_IF_ERROR(state_.status());
    CASK_RETURN_IF_ERROR(About(name, CheckNext(name, slice, part)));
    if (sink_ == nullptr) CASK_RETURN_IF_ERROR(state_.Keep(WriteHeader()));
    return state_.Keep(WritePart(part));
  }

  absl::StatusOr<ReplacedFiles> Start() {
    CASK_RETURN_IF_ERROR(state_.status());
    if (sink_ == nullptr) CASK_RETURN_IF_ERROR(state_.Keep(WriteHeader()));
    return options_.overwrite ? ReplacedFileAt(path_, options_.file_system) : ReplacedFiles();
  }

  absl::Status Finish() {
    CASK_RETURN_IF_ERROR(state_.status());
    const auto write = [&]() -> absl::Status {
      if (sink_ == nullptr) CASK_RETURN_IF_ERROR(WriteHeader());
      for (TensorView& tensor : held_) {
        CASK_RETURN_IF_ERROR(WritePart(tensor));
        tensor = TensorView();
      }
      if (next_ < tensors_.size()) return About(tensors_[next_].name, stored::Incomplete(written_ > 0));
      return publish_.Commit();
    };
    return state_.Finish(write());
  }

 private:
  struct Declared {
    std::string name;
    const gguf::ElementType* type;
    TensorShape shape;            // that of the elements
    TensorShape shape_in_memory;  // that of what Add accepts: bytes for blocks
    uint64_t offset;              // from the start of the data
    uint64_t stored_bytes;

    DType dtype_in_memory() const { return type->is_block() ? DType::kUint8 : type->dtype; }
  };

  // Requires: CheckTensor or CheckBlocks has accepted it.
  absl::Status New(absl::string_view name, const gguf::ElementType* type, const TensorShape& shape_in_memory) {
    if (numbers_.contains(name)) return About(name, absl::AlreadyExistsError("was added or declared before"));
    Declared tensor{std::string(name), type, shape_in_memory, shape_in_memory, data_bytes_, 0};
    if (type->is_block()) {
      CASK_ASSIGN_OR_RETURN(tensor.shape, gguf::ShapeOfBlocks(*type, shape_in_memory));
    }
    const auto element_bytes = static_cast<int64_t>(type->is_block() ? 1 : type->bytes);
    const std::optional<int64_t> bytes = CheckedMul<int64_t>(shape_in_memory.num_elements(), element_bytes);
    const std::optional<uint64_t> end =
        bytes ? CheckedAdd<uint64_t>(data_bytes_, static_cast<uint64_t>(*bytes)) : std::nullopt;
    if (!end || *end > uint64_t{1} << 62) return About(name, absl::InvalidArgumentError("has too many bytes"));
    tensor.stored_bytes = static_cast<uint64_t>(*bytes);
    data_bytes_ = *end;
    numbers_.emplace(tensor.name, tensors_.size());
    tensors_.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  // Whether `part` is what comes next.
  absl::Status CheckNext(absl::string_view name, const TensorSlice& slice, const TensorView& part) const {
    const auto number = numbers_.find(name);
    if (number == numbers_.end()) return absl::NotFoundError("was not declared");
    if (number->second < next_) return absl::AlreadyExistsError("was added before");
    if (number->second > next_) {
      return absl::FailedPreconditionError(
          absl::StrCat("is added in the order of the declarations; ", Quoted(tensors_[next_].name), " comes first"));
    }
    const Declared& tensor = tensors_[next_];
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(tensor.shape_in_memory));
    CASK_RETURN_IF_ERROR(stored::CheckIsDeclared(part, tensor.dtype_in_memory(), shape));
    return stored::CheckFollows(part, slice, tensor.shape_in_memory, written_);
  }

  absl::Status WriteHeader() {
    gguf::HeaderText header(/*big_endian=*/false);
    for (const auto& [name, typed] : keys_) header.Key(name, typed);
    uint64_t offset = 0;
    for (Declared& tensor : tensors_) {
      tensor.offset = offset;
      header.Tensor(tensor.name, *tensor.type, tensor.shape, offset);
      offset = (offset + tensor.stored_bytes + alignment_ - 1) / alignment_ * alignment_;
    }
    const std::string text = header.Finish(gguf::kVersion, alignment_);
    CASK_ASSIGN_OR_RETURN(sink_, publish_.Add(path_));
    sink_->ReserveHint(text.size() + offset);
    return sink_->Append(text);
  }

  absl::Status WritePart(const TensorView& part) {
    CASK_RETURN_IF_ERROR(stored::ForEachPieceOnce(part, gguf::kWrittenPieceBytes,
                                                  [&](absl::string_view bytes) { return sink_->Append(bytes); }));
    written_ += static_cast<uint64_t>(part.num_elements()) * static_cast<uint64_t>(part.element_size());
    if (written_ < tensors_[next_].stored_bytes) return absl::OkStatus();
    written_ = 0;
    ++next_;
    const uint64_t padding = (alignment_ - sink_->position() % alignment_) % alignment_;
    return sink_->Append(std::string(static_cast<size_t>(padding), '\0'));
  }

  const std::string path_;
  const GgufWriterOptions options_;
  Publication publish_;
  FileSink* sink_ = nullptr;  // null before the first byte
  stored::WriterState state_;
  uint64_t alignment_ = gguf::kDefaultAlignment;
  std::vector<std::pair<std::string, std::string>> keys_;  // the name, the type with the value
  absl::flat_hash_map<std::string, size_t> key_numbers_;
  std::vector<Declared> tensors_;
  absl::flat_hash_map<std::string, size_t> numbers_;  // positions in tensors_
  uint64_t data_bytes_ = 0;                           // without padding
  std::vector<TensorView> held_;                      // unless streaming
  size_t next_ = 0;                                   // the tensor that is written
  uint64_t written_ = 0;                              // bytes of it
};

GgufWriter::GgufWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufWriter::GgufWriter(GgufWriter&&) noexcept = default;
GgufWriter& GgufWriter::operator=(GgufWriter&&) noexcept = default;
GgufWriter::~GgufWriter() = default;

absl::StatusOr<GgufWriter> GgufWriter::Create(const std::string& path, const GgufWriterOptions& options) {
  CASK_RETURN_IF_ERROR(CheckPath(path));
  if (!options.overwrite) CASK_RETURN_IF_ERROR(CheckNewFile(path, options.file_system));
  return GgufWriter(std::make_unique<Impl>(path, options));
}

bool GgufWriter::HoldsDType(DType dtype) { return gguf::PlainType(dtype) != nullptr; }

bool GgufWriter::IsBlockType(absl::string_view type) {
  const gguf::ElementType* const found = gguf::FindElementType(type);
  return found != nullptr && found->is_block();
}

bool GgufWriter::IsOfOneFile(absl::string_view key, absl::string_view text) {
  return gguf::IsSplitKey(key) || gguf::IsPadding(key, text);
}

absl::Status GgufWriter::CheckTensor(absl::string_view name, DType dtype, const TensorShape& shape) {
  CASK_RETURN_IF_ERROR(gguf::CheckTensorName(name));
  CASK_RETURN_IF_ERROR(gguf::CheckRank(shape));
  if (HoldsDType(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("GGUF files cannot hold ", DTypeName(dtype)));
}

absl::Status GgufWriter::CheckBlocks(absl::string_view name, absl::string_view type, const TensorShape& shape) {
  CASK_RETURN_IF_ERROR(gguf::CheckTensorName(name));
  CASK_RETURN_IF_ERROR(gguf::CheckRank(shape));
  if (IsBlockType(type)) return gguf::ShapeOfBlocks(*gguf::FindElementType(type), shape).status();
  return absl::InvalidArgumentError(absl::StrCat("GGUF has no type of blocks ", Quoted(type)));
}

absl::Status GgufWriter::CheckValue(Value value) { return gguf::CheckValue(value); }

absl::Status GgufWriter::SetValue(absl::string_view name, Value value) { return impl_->SetValue(name, value); }

absl::Status GgufWriter::SetArray(absl::string_view name, Value array, absl::string_view bytes) {
  return impl_->SetValue(name, array, bytes);
}

absl::Status GgufWriter::SetText(absl::string_view name, absl::string_view text) {
  return impl_->SetParsed(name, absl::StrCat("text:", text), std::nullopt);
}

absl::Status GgufWriter::SetParsed(absl::string_view name, absl::string_view text) {
  return impl_->SetParsed(name, text, std::nullopt);
}

absl::Status GgufWriter::SetParsed(absl::string_view name, absl::string_view text, Value old) {
  return impl_->SetParsed(name, text, old);
}

absl::Status GgufWriter::CheckEntry(absl::string_view name, Value value) {
  CASK_RETURN_IF_ERROR(gguf::CheckKeyName(name));
  CASK_RETURN_IF_ERROR(gguf::CheckWritableKey(name, value));
  if (name == gguf::kAlignmentKey) CASK_RETURN_IF_ERROR(gguf::AlignmentOfValue(value).status());
  return CheckValue(value);
}

absl::Status GgufWriter::CheckParsed(absl::string_view name, absl::string_view text, const std::optional<Value>& old) {
  CASK_ASSIGN_OR_RETURN(const ValueTree value, gguf::ParseValue(text, old));
  return CheckEntry(name, value.root());
}

absl::Status GgufWriter::Declare(absl::string_view name, DType dtype, const TensorShape& shape) {
  CASK_RETURN_IF_ERROR(impl_->About(name, CheckTensor(name, dtype, shape)));
  return impl_->Declare(name, gguf::PlainType(dtype), shape);
}

absl::Status GgufWriter::DeclareBlocks(absl::string_view name, absl::string_view type, const TensorShape& shape) {
  CASK_RETURN_IF_ERROR(impl_->About(name, CheckBlocks(name, type, shape)));
  return impl_->Declare(name, gguf::FindElementType(type), shape);
}

absl::Status GgufWriter::Add(absl::string_view name, const TensorView& tensor) { return impl_->Add(name, tensor); }

absl::Status GgufWriter::AddSlice(absl::string_view name, const TensorSlice& slice, const TensorView& tensor) {
  return impl_->AddSlice(name, slice, tensor);
}

absl::StatusOr<ReplacedFiles> GgufWriter::Start() { return impl_->Start(); }

absl::Status GgufWriter::Finish() { return impl_->Finish(); }

}  // namespace tensorcask
