#include "tensorcask/serialize/safetensors/internal/header_handler.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::safetensors {
namespace {

constexpr unsigned kHasDType = 1;
constexpr unsigned kHasShape = 2;
constexpr unsigned kHasOffsets = 4;
// Memory of an entry and its place in the table of names, and of an entry of the metadata; without their texts.
constexpr uint64_t kTensorBytes = 192;
constexpr uint64_t kMetadataBytes = 128;
constexpr uint64_t kMaxNumber = std::numeric_limits<int64_t>::max();

// "[2,3]".
template <typename Numbers>
std::string ListText(const Numbers& numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ","), "]");
}

// The bytes that elements take in a file. Errors: InvalidArgument.
absl::StatusOr<uint64_t> StoredBytes(DType dtype, const TensorShape& shape) {
  const std::optional<uint64_t> bits =
      CheckedMul<uint64_t>(static_cast<uint64_t>(shape.num_elements()), SafetensorsDTypeBits(dtype));
  if (!bits.has_value()) return absl::InvalidArgumentError("its size overflows 64 bits");
  if (*bits % 8 != 0) return absl::InvalidArgumentError(absl::StrCat("its ", *bits, " bits do not fill whole bytes"));
  return *bits / 8;
}

}  // namespace

absl::Status HeaderHandler::Wrong(absl::string_view what) const {
  if (header_->entries.empty() || state_ == State::kMetadata || state_ == State::kMetadataKey) {
    return absl::DataLossError(what);
  }
  return absl::DataLossError(absl::StrCat("tensor ", Quoted(header_->entries.back().name), ": ", what));
}

absl::Status HeaderHandler::CountEntry() {
  if (++num_entries_ <= options_.limits.max_entries) return absl::OkStatus();
  return PastLimit("has more tensors and entries of metadata", "max_entries", options_.limits.max_entries);
}

absl::Status HeaderHandler::OtherValue(absl::string_view found) {
  if (skipping_ > 0) return absl::OkStatus();
  switch (state_) {
    case State::kUnknown:
      state_ = State::kField;
      return absl::OkStatus();
    case State::kMetadataValue:
      if (!options_.lenient) {
        return absl::DataLossError(absl::StrCat("the value of ", Quoted(metadata_key_), " in the metadata is ", found,
                                                "; it must be a string (lenient accepts this)"));
      }
      AddNote(absl::StrCat("the value of ", Quoted(metadata_key_), " in the metadata is not a string"),
              &header_->notes);
      return AddMetadata(std::string(found));
    case State::kMetadata:
      return absl::DataLossError(absl::StrCat(kMetadataName, " is ", found, "; it must be an object of strings"));
    case State::kTensor:
      return Wrong(absl::StrCat("is ", found, "; it must be an object"));
    case State::kDType:
      return Wrong(absl::StrCat("dtype is ", found, "; it must be a string"));
    case State::kShape:
      return Wrong(absl::StrCat("shape is ", found, "; it must be an array"));
    case State::kOffsets:
      return Wrong(absl::StrCat("data_offsets is ", found, "; it must be an array"));
    case State::kShapeItems:
      return Wrong(absl::StrCat("dim ", dims_.size(), " of the shape is ", found, "; it must be a natural number"));
    case State::kOffsetItems:
      return Wrong(absl::StrCat("data_offsets has ", found, "; it must have two natural numbers"));
    default:
      return absl::DataLossError(absl::StrCat("is ", found, "; it must be an object"));
  }
}

absl::Status HeaderHandler::Null() {
  if (skipping_ == 0 && state_ == State::kMetadata) {
    state_ = State::kName;
    return absl::OkStatus();
  }
  return OtherValue("null");
}

absl::Status HeaderHandler::Bool(bool value) { return OtherValue(value ? "true" : "false"); }

absl::Status HeaderHandler::OtherNumber(absl::string_view text) { return OtherValue(text.substr(0, 40)); }

absl::Status HeaderHandler::Unsigned(uint64_t value) {
  const bool is_item = skipping_ == 0 && (state_ == State::kShapeItems || state_ == State::kOffsetItems);
  if (!is_item || value > kMaxNumber) return OtherValue(absl::StrCat(value));
  if (state_ == State::kOffsetItems) {
    if (offsets_.size() == 2) return Wrong("data_offsets has more than two numbers");
    offsets_.push_back(value);
    return absl::OkStatus();
  }
  if (dims_.size() == TensorShape::kMaxRank) {
    unknown_ = absl::StrCat("has more than ", TensorShape::kMaxRank, " axes");
    return absl::OkStatus();
  }
  dims_.push_back(static_cast<int64_t>(value));
  return absl::OkStatus();
}

absl::Status HeaderHandler::String(std::string* value) {
  if (skipping_ > 0) return absl::OkStatus();
  if (state_ == State::kMetadataValue) return AddMetadata(std::move(*value));
  if (state_ != State::kDType) return OtherValue(Quoted(*value));
  const DType dtype = DTypeOfSafetensorsName(*value);
  if (dtype == DType::kInvalid) unknown_ = absl::StrCat("the dtype ", Quoted(*value), " is unknown");
  header_->entries.back().dtype = dtype;
  state_ = State::kField;
  return absl::OkStatus();
}

absl::Status HeaderHandler::AddMetadata(std::string value) {
  CASK_RETURN_IF_ERROR(memory_->Charge(kMetadataBytes + metadata_key_.size() + value.size()));
  header_->metadata[std::move(metadata_key_)] = std::move(value);
  state_ = State::kMetadataKey;
  return absl::OkStatus();
}

absl::Status HeaderHandler::Key(std::string* name) {
  if (skipping_ > 0) return absl::OkStatus();
  switch (state_) {
    case State::kName:
      return StartTensor(name);
    case State::kField:
      return StartField(*name);
    default:
      return StartMetadataEntry(name);
  }
}

absl::Status HeaderHandler::StartTensor(std::string* name) {
  if (*name == kMetadataName) {
    if (has_metadata_) return absl::DataLossError(absl::StrCat(kMetadataName, " is there twice: duplicate key"));
    has_metadata_ = true;
    state_ = State::kMetadata;
    return absl::OkStatus();
  }
  if (name->size() > LimitOf(options_.limits.max_name_bytes)) {
    return PastLimit(absl::StrCat("the name of a tensor has ", name->size(), " bytes"), "max_name_bytes",
                     options_.limits.max_name_bytes);
  }
  CASK_RETURN_IF_ERROR(CountEntry());
  header_->entries.emplace_back();
  header_->entries.back().name = std::move(*name);
  fields_ = 0;
  unknown_.clear();
  dims_.clear();
  offsets_.clear();
  state_ = State::kTensor;
  return absl::OkStatus();
}

absl::Status HeaderHandler::StartField(absl::string_view name) {
  unsigned field = 0;
  if (name == "dtype") {
    field = kHasDType;
    state_ = State::kDType;
  } else if (name == "shape") {
    field = kHasShape;
    state_ = State::kShape;
  } else if (name == "data_offsets") {
    field = kHasOffsets;
    state_ = State::kOffsets;
  } else {
    AddNote(absl::StrCat("tensor ", Quoted(header_->entries.back().name), " has the unknown field ", Quoted(name)),
            &header_->notes);
    state_ = State::kUnknown;
  }
  if ((fields_ & field) != 0) return Wrong(absl::StrCat("has ", name, " twice: duplicate key"));
  fields_ |= field;
  return absl::OkStatus();
}

absl::Status HeaderHandler::StartMetadataEntry(std::string* name) {
  if (header_->metadata.count(*name) != 0) {
    return absl::DataLossError(absl::StrCat("the metadata has ", Quoted(*name), " twice: duplicate key"));
  }
  CASK_RETURN_IF_ERROR(CountEntry());
  metadata_key_ = std::move(*name);
  state_ = State::kMetadataValue;
  return absl::OkStatus();
}

// Goes on after the array or object that begins.
absl::Status HeaderHandler::StartSkipping(absl::string_view what) {
  if (state_ == State::kUnknown) {
    state_ = State::kField;
  } else if (state_ == State::kMetadataValue && options_.lenient) {
    AddNote(absl::StrCat("the value of ", Quoted(metadata_key_), " in the metadata is ", what, "; it is left out"),
            &header_->notes);
    state_ = State::kMetadataKey;
  } else {
    return OtherValue(what);
  }
  skipping_ = 1;
  after_skipping_ = state_;
  return absl::OkStatus();
}

absl::Status HeaderHandler::StartObject() {
  if (skipping_ > 0) {
    ++skipping_;
    return absl::OkStatus();
  }
  switch (state_) {
    case State::kStart:
      state_ = State::kName;
      return absl::OkStatus();
    case State::kTensor:
      state_ = State::kField;
      return absl::OkStatus();
    case State::kMetadata:
      state_ = State::kMetadataKey;
      return absl::OkStatus();
    default:
      return StartSkipping("an object");
  }
}

absl::Status HeaderHandler::EndObject() {
  if (skipping_ > 0) {
    if (--skipping_ == 0) state_ = after_skipping_;
    return absl::OkStatus();
  }
  if (state_ == State::kField) CASK_RETURN_IF_ERROR(FinishTensor());
  state_ = state_ == State::kName ? State::kDone : State::kName;
  return absl::OkStatus();
}

absl::Status HeaderHandler::StartArray() {
  if (skipping_ > 0) {
    ++skipping_;
    return absl::OkStatus();
  }
  if (state_ == State::kShape) {
    state_ = State::kShapeItems;
  } else if (state_ == State::kOffsets) {
    state_ = State::kOffsetItems;
  } else {
    return StartSkipping("an array");
  }
  return absl::OkStatus();
}

absl::Status HeaderHandler::EndArray() {
  if (skipping_ > 0) {
    if (--skipping_ == 0) state_ = after_skipping_;
    return absl::OkStatus();
  }
  if (state_ == State::kOffsetItems && offsets_.size() != 2) {
    return Wrong(absl::StrCat("data_offsets is ", ListText(offsets_), "; it must have two numbers"));
  }
  state_ = State::kField;
  return absl::OkStatus();
}

absl::Status HeaderHandler::FinishTensor() {
  if (fields_ != (kHasDType | kHasShape | kHasOffsets)) {
    return Wrong(absl::StrCat("has no ", (fields_ & kHasDType) == 0   ? "dtype"
                                         : (fields_ & kHasShape) == 0 ? "shape"
                                                                      : "data_offsets"));
  }
  SafetensorsEntry& entry = header_->entries.back();
  CASK_RETURN_IF_ERROR(
      memory_->Charge(kTensorBytes + entry.name.size() + dims_.size() * sizeof(int64_t) + unknown_.size()));
  absl::StatusOr<TensorShape> shape = TensorShape::Create(dims_);
  if (!shape.ok()) return Wrong(absl::StrCat("shape ", ListText(dims_), ": ", shape.status().message()));
  entry.shape = *std::move(shape);
  const uint64_t begin = offsets_[0];
  const uint64_t end = offsets_[1];
  if (begin > end || end > data_bytes_) {
    return Wrong(absl::StrCat("data_offsets is ", ListText(offsets_), begin > end ? ", which runs backwards" : "",
                              "; the file has ", data_bytes_, data_bytes_ == 1 ? " byte" : " bytes", " of data",
                              begin > end ? "" : " (an incomplete download?)"));
  }
  entry.offset = begin;
  entry.stored_bytes = end - begin;
  if (!unknown_.empty()) {
    entry.dtype = DType::kInvalid;
    entry.read_status = absl::UnimplementedError(unknown_);
    return absl::OkStatus();
  }
  const absl::StatusOr<uint64_t> bytes = StoredBytes(entry.dtype, entry.shape);
  if (!bytes.ok()) return Wrong(bytes.status().message());
  if (*bytes != end - begin) {
    return Wrong(absl::StrCat("stores ", end - begin, end - begin == 1 ? " byte; " : " bytes; ",
                              SafetensorsDTypeName(entry.dtype), " ", entry.shape.ToString(), " needs ", *bytes));
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::safetensors
