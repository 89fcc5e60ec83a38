#include "tensorcask/serialize/safetensors/model_index.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/safetensors/internal/json_events.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::safetensors {
namespace {

constexpr size_t kMaxFileNameBytes = 255;
constexpr uint64_t kEntryBytes = 128;  // what an entry takes in memory, without its texts

class IndexHandler final : public JsonHandler {
 public:
  IndexHandler(uint64_t text_bytes, const ParseOptions& options, ModelIndex* index)
      : options_(options), index_(index), memory_(DecodeQuota::ForUnbacked(options.limits, text_bytes)) {}

  bool has_files() const { return has_files_; }

  absl::Status Null() override {
    if (skipping_ == 0 && state_ == State::kMetadata) {
      state_ = State::kName;
      return absl::OkStatus();
    }
    return OtherValue("null");
  }
  absl::Status Bool(bool value) override { return OtherValue(value ? "true" : "false"); }
  absl::Status OtherNumber(absl::string_view text) override { return OtherValue(text.substr(0, 40)); }
  absl::Status Unsigned(uint64_t value) override {
    if (skipping_ == 0 && state_ == State::kMetadataValue && key_ == "total_size") index_->total_size = value;
    return OtherValue(absl::StrCat(value));
  }
  absl::Status String(std::string* value) override;
  absl::Status Key(std::string* name) override;
  absl::Status StartObject() override;
  absl::Status EndObject() override;
  absl::Status StartArray() override {
    if (skipping_ == 0) CASK_RETURN_IF_ERROR(OtherValue("an array"));
    ++skipping_;
    return absl::OkStatus();
  }
  absl::Status EndArray() override {
    --skipping_;
    return absl::OkStatus();
  }

 private:
  enum class State { kStart, kName, kUnknown, kMetadata, kMetadataKey, kMetadataValue, kFiles, kFileKey, kFileValue };

  absl::Status OtherValue(absl::string_view found);

  const ParseOptions& options_;
  ModelIndex* const index_;
  State state_ = State::kStart;
  int skipping_ = 0;  // arrays and objects around this event that are skipped
  bool has_metadata_ = false;
  bool has_files_ = false;
  int64_t num_entries_ = 0;
  DecodeQuota memory_;  // that the entries take
  std::string key_;
};

absl::Status IndexHandler::OtherValue(absl::string_view found) {
  if (skipping_ > 0) return absl::OkStatus();
  switch (state_) {
    case State::kUnknown:
      state_ = State::kName;
      return absl::OkStatus();
    case State::kMetadataValue:  // Numbers are usual here.
      state_ = State::kMetadataKey;
      return absl::OkStatus();
    case State::kFileValue:
      return absl::DataLossError(
          absl::StrCat("the file of tensor ", Quoted(key_), " is ", found, "; it must be a string"));
    case State::kFiles:
      return absl::DataLossError(absl::StrCat("weight_map is ", found, "; it must be an object"));
    case State::kMetadata:
      return absl::DataLossError(absl::StrCat("metadata is ", found, "; it must be an object"));
    default:
      return absl::DataLossError(absl::StrCat("is ", found, "; it must be an object"));
  }
}

absl::Status IndexHandler::String(std::string* value) {
  if (skipping_ > 0 || (state_ != State::kFileValue && state_ != State::kMetadataValue)) {
    return OtherValue(Quoted(*value));
  }
  CASK_RETURN_IF_ERROR(memory_.Charge(kEntryBytes + key_.size() + value->size()));
  if (state_ == State::kMetadataValue) {
    index_->metadata[std::move(key_)] = std::move(*value);
    state_ = State::kMetadataKey;
    return absl::OkStatus();
  }
  if (!IsPlainFileName(*value)) {
    return absl::DataLossError(absl::StrCat("the file of tensor ", Quoted(key_), " is ", Quoted(*value),
                                            "; it must be the name of a file in the folder of the index"));
  }
  index_->files[std::move(key_)] = std::move(*value);
  state_ = State::kFileKey;
  return absl::OkStatus();
}

absl::Status IndexHandler::Key(std::string* name) {
  if (skipping_ > 0) return absl::OkStatus();
  if (state_ == State::kName) {
    bool* const seen = *name == "metadata" ? &has_metadata_ : *name == "weight_map" ? &has_files_ : nullptr;
    if (seen == nullptr) {
      AddNote(absl::StrCat("the index has the unknown key ", Quoted(*name)), &index_->notes);
      state_ = State::kUnknown;
      return absl::OkStatus();
    }
    if (*seen) return absl::DataLossError(absl::StrCat(*name, " is there twice: duplicate key"));
    *seen = true;
    state_ = seen == &has_files_ ? State::kFiles : State::kMetadata;
    return absl::OkStatus();
  }
  if (++num_entries_ > options_.limits.max_entries) {
    return PastLimit("has more tensors and entries of metadata", "max_entries", options_.limits.max_entries);
  }
  const bool is_file = state_ == State::kFileKey;
  if ((is_file ? index_->files : index_->metadata).count(*name) != 0) {
    return absl::DataLossError(
        absl::StrCat(is_file ? "weight_map" : "metadata", " has ", Quoted(*name), " twice: duplicate key"));
  }
  if (is_file && name->size() > LimitOf(options_.limits.max_name_bytes)) {
    return PastLimit(absl::StrCat("the name of a tensor has ", name->size(), " bytes"), "max_name_bytes",
                     options_.limits.max_name_bytes);
  }
  key_ = std::move(*name);
  state_ = is_file ? State::kFileValue : State::kMetadataValue;
  return absl::OkStatus();
}

absl::Status IndexHandler::StartObject() {
  if (skipping_ == 0) {
    switch (state_) {
      case State::kStart:
        state_ = State::kName;
        return absl::OkStatus();
      case State::kMetadata:
        state_ = State::kMetadataKey;
        return absl::OkStatus();
      case State::kFiles:
        state_ = State::kFileKey;
        return absl::OkStatus();
      default:
        CASK_RETURN_IF_ERROR(OtherValue("an object"));
    }
  }
  ++skipping_;
  return absl::OkStatus();
}

absl::Status IndexHandler::EndObject() {
  if (skipping_ > 0) {
    --skipping_;
  } else {
    state_ = State::kName;
  }
  return absl::OkStatus();
}

}  // namespace

bool IsPlainFileName(absl::string_view name) {
  if (name.empty() || name == "." || name == ".." || name.size() > kMaxFileNameBytes) return false;
  return name.find_first_of(absl::string_view("/\\\0", 3)) == absl::string_view::npos;
}

absl::StatusOr<ModelIndex> ParseModelIndex(absl::string_view text, const ParseOptions& options) {
  ModelIndex index;
  IndexHandler handler(text.size(), options, &index);
  absl::Status status = ParseJson(text, options.limits.max_depth, &handler);
  if (!status.ok()) return AsDataLoss(status, "index");
  if (!handler.has_files()) return absl::DataLossError("the index has no weight_map");
  return index;
}

absl::StatusOr<ModelIndex> ParseModelIndex(absl::string_view text, const DecodeLimits& limits) {
  ParseOptions options;
  options.limits = limits;
  return ParseModelIndex(text, options);
}

}  // namespace tensorcask::safetensors
