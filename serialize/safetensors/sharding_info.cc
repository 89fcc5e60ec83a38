#include "tensorcask/serialize/safetensors/sharding_info.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/safetensors/internal/json_events.h"
#include "tensorcask/serialize/safetensors/internal/json_header.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::safetensors {
namespace {

constexpr absl::string_view kOffsets = "saved_offsets";
constexpr uint64_t kShardingEntryBytes = 128;  // what an entry takes in memory, without its name and numbers

// Depth 1 is the object of all tensors, depth 2 that of one, depth 3 its list.
class ShardingHandler final : public JsonHandler {
 public:
  ShardingHandler(uint64_t text_bytes, const DecodeLimits& limits, ShardingInfo* info)
      : info_(info), memory_(DecodeQuota::ForUnbacked(limits, text_bytes)) {}

  absl::Status Null() override { return Other("null"); }
  absl::Status Bool(bool value) override { return Other(value ? "true" : "false"); }
  absl::Status OtherNumber(absl::string_view text) override { return Other(text.substr(0, 40)); }
  absl::Status String(std::string* value) override { return Other(Quoted(*value)); }
  absl::Status Unsigned(uint64_t value) override {
    if (!in_offsets_ || depth_ != 3 || value > static_cast<uint64_t>(INT64_MAX)) return Other(absl::StrCat(value));
    CASK_RETURN_IF_ERROR(memory_.Charge(2 * sizeof(int64_t)));
    (*info_)[name_].push_back(static_cast<int64_t>(value));
    return absl::OkStatus();
  }

  absl::Status Key(std::string* name) override {
    if (depth_ == 1) {
      CASK_RETURN_IF_ERROR(memory_.Charge(kShardingEntryBytes + name->size()));
      name_ = std::move(*name);
      if (!info_->try_emplace(name_).second) {
        return absl::DataLossError(absl::StrCat("has ", Quoted(name_), " twice: duplicate key"));
      }
      has_offsets_ = false;
    } else if (depth_ == 2) {
      in_offsets_ = *name == kOffsets;
      if (in_offsets_ && std::exchange(has_offsets_, true)) {
        return absl::DataLossError(absl::StrCat(kOffsets, " of ", Quoted(name_), " is there twice: duplicate key"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status StartObject() override {
    if (depth_ >= 2 && in_offsets_) CASK_RETURN_IF_ERROR(Other("an object"));
    ++depth_;
    return absl::OkStatus();
  }
  absl::Status EndObject() override {
    --depth_;
    if (depth_ == 1 && !has_offsets_) {
      return absl::DataLossError(absl::StrCat("has no ", kOffsets, " of ", Quoted(name_)));
    }
    return absl::OkStatus();
  }
  absl::Status StartArray() override {
    if (depth_ < 2 || (in_offsets_ && depth_ != 2)) CASK_RETURN_IF_ERROR(Other("an array"));
    ++depth_;
    return absl::OkStatus();
  }
  absl::Status EndArray() override {
    --depth_;
    return absl::OkStatus();
  }

 private:
  absl::Status Other(absl::string_view found) const {
    if (depth_ >= 2 && !in_offsets_) return absl::OkStatus();
    if (depth_ == 0) return absl::DataLossError(absl::StrCat("is ", found, "; it must be an object"));
    if (depth_ == 1) {
      return absl::DataLossError(absl::StrCat("has ", found, " for ", Quoted(name_), "; it must be an object"));
    }
    return absl::DataLossError(
        absl::StrCat(kOffsets, " of ", Quoted(name_), " has ", found, "; it must be a list of numbers"));
  }

  ShardingInfo* const info_;
  DecodeQuota memory_;
  int depth_ = 0;
  std::string name_;
  bool in_offsets_ = false;
  bool has_offsets_ = false;
};

}  // namespace

absl::StatusOr<ShardingInfo> ParseShardingInfo(absl::string_view text, const DecodeLimits& limits) {
  ShardingInfo info;
  ShardingHandler handler(text.size(), limits, &info);
  const absl::Status status = ParseJson(text, limits.max_depth, &handler);
  if (!status.ok()) return AsDataLoss(status, kShardingInfoKey);
  return info;
}

}  // namespace tensorcask::safetensors
