#include "tensorcask/serialize/safetensors/internal/alias_keys.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "tensorcask/serialize/safetensors/internal/file_plan.h"
#include "tensorcask/serialize/safetensors/internal/json_events.h"
#include "tensorcask/serialize/safetensors/internal/json_header.h"
#include "tensorcask/tensor/base/json_string.h"

namespace tensorcask::safetensors {
namespace {

using Metadata = std::map<std::string, std::string>;

bool MayBeAlias(const Metadata::value_type& entry, IsTensor is_tensor) {
  const auto& [key, value] = entry;
  return key != kFormatKey && key != kMetadataName && key != kAliasesKey && is_tensor(value) && !is_tensor(key);
}

// Collects the strings of a list that are keys of possible aliases: no more memory than the metadata has.
class ListHandler final : public JsonHandler {
 public:
  ListHandler(const Metadata& metadata, IsTensor is_tensor) : metadata_(metadata), is_tensor_(is_tensor) {}

  std::set<std::string> keys;

  absl::Status Null() override { return Refuse(); }
  absl::Status Bool(bool /*value*/) override { return Refuse(); }
  absl::Status Unsigned(uint64_t /*value*/) override { return Refuse(); }
  absl::Status OtherNumber(absl::string_view /*text*/) override { return Refuse(); }
  absl::Status String(std::string* value) override {
    const auto it = metadata_.find(*value);
    if (it != metadata_.end() && MayBeAlias(*it, is_tensor_)) keys.insert(*value);
    return absl::OkStatus();
  }
  absl::Status Key(std::string* /*name*/) override { return Refuse(); }
  absl::Status StartObject() override { return Refuse(); }
  absl::Status EndObject() override { return Refuse(); }
  absl::Status StartArray() override { return absl::OkStatus(); }
  absl::Status EndArray() override { return absl::OkStatus(); }

 private:
  static absl::Status Refuse() { return absl::InvalidArgumentError("not an array of strings"); }

  const Metadata& metadata_;
  const IsTensor is_tensor_;
};

}  // namespace

std::set<std::string> AliasKeys(const Metadata& metadata, IsTensor is_tensor) {
  if (const auto list = metadata.find(std::string(kAliasesKey)); list != metadata.end()) {
    ListHandler handler(metadata, is_tensor);
    const absl::Status status = ParseJson(list->second, /*max_depth=*/1, &handler);
    return status.ok() ? std::move(handler.keys) : std::set<std::string>();
  }
  const auto format = metadata.find(std::string(kFormatKey));
  if (format == metadata.end() || format->second != "pt") return {};
  std::set<std::string> keys;
  for (const auto& entry : metadata) {
    if (MayBeAlias(entry, is_tensor)) keys.insert(entry.first);
  }
  return keys;
}

std::string AliasList(const std::set<std::string>& keys) {
  std::string list = "[";
  for (const std::string& key : keys) {
    if (list.size() > 1) list += ',';
    internal::AppendJsonString(key, internal::JsonEscapes::kShort, &list);
  }
  return list + "]";
}

}  // namespace tensorcask::safetensors
