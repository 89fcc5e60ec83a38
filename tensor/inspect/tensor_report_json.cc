// TensorReport as JSON (RFC 8259), written by hand: a dozen fields are no reason for a dependency.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/json_string.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/inspect/tensor_report.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask {
namespace {

// One object, field after field.
class JsonObject {
 public:
  std::string Done() && { return text_ + "}"; }

  void Raw(absl::string_view name, absl::string_view json) {  // `name` needs no escapes
    absl::StrAppend(&text_, text_.size() > 1 ? "," : "", "\"", name, "\":", json);
  }
  void Bool(absl::string_view name, bool value) { Raw(name, value ? "true" : "false"); }
  template <typename Integer>
  void Number(absl::string_view name, Integer value) {
    Raw(name, absl::StrCat(value));
  }
  void Numbers(absl::string_view name, const std::vector<int64_t>& values) {
    Raw(name, absl::StrCat("[", absl::StrJoin(values, ","), "]"));
  }
  // Any bytes; see ToJson.
  void Text(absl::string_view name, absl::string_view value) {
    std::string json;
    const bool exact = internal::AppendJsonString(value, internal::JsonEscapes::kUnicode, &json);
    Raw(name, json);
    if (!exact) Raw(absl::StrCat(name, "_hex"), absl::StrCat("\"", absl::BytesToHexString(value), "\""));
  }

 private:
  std::string text_ = "{";
};

std::string BufferJson(const BufferReport& buffer, TensorReport::Addresses addresses) {
  JsonObject json;
  json.Text("kind", BufferKindName(buffer.kind));
  json.Text("allocator", buffer.allocator);
  if (addresses == TensorReport::Addresses::kShow) {
    json.Text("address", absl::StrFormat("0x%x", reinterpret_cast<uintptr_t>(buffer.address)));
  }
  json.Number("size_bytes", buffer.size_bytes);
  json.Number("offset_bytes", buffer.offset_bytes);
  json.Number("root_bytes", buffer.root_bytes);
  json.Number("use_count", buffer.use_count);
  json.Number("root_use_count", buffer.root_use_count);
  json.Number("version", buffer.version);
  json.Bool("exclusive", buffer.exclusive);
  json.Bool("writable_in_place", buffer.writable_in_place);
  return std::move(json).Done();
}

std::string ObjectJson(const ObjectReport& object) {
  JsonObject json;
  json.Number("use_count", object.use_count);
  json.Number("weak_use_count", object.weak_use_count);
  json.Bool("frozen", object.frozen);
  return std::move(json).Done();
}

std::string MetadataJson(const TensorMetadata& metadata) {
  std::vector<std::string> attributes;
  for (const auto& [key, value] : metadata.attributes) {
    JsonObject attribute;
    attribute.Text("key", key);
    attribute.Text("value", value);
    attributes.push_back(std::move(attribute).Done());
  }
  JsonObject json;
  json.Text("name", metadata.name);
  json.Text("device", metadata.device.ToString());
  json.Text("memory_format", MemoryFormatName(metadata.memory_format));
  json.Bool("requires_grad", metadata.requires_grad);
  json.Raw("attributes", absl::StrCat("[", absl::StrJoin(attributes, ","), "]"));
  return std::move(json).Done();
}

}  // namespace

std::string TensorReport::ToJson(Addresses addresses) const {
  const std::optional<double> ratio = waste_ratio();
  JsonObject json;
  json.Text("dtype", DTypeName(dtype));
  json.Numbers("dims", dims);
  json.Numbers("strides", strides);
  json.Number("offset", offset);
  json.Number("num_elements", num_elements);
  json.Number("element_bytes", element_bytes);
  json.Raw("tensor_bytes", tensor_bytes ? absl::StrCat(*tensor_bytes) : "null");
  json.Raw("waste_ratio", ratio ? absl::StrFormat("%.6g", *ratio) : "null");
  json.Bool("contiguous", contiguous);
  json.Bool("channels_last_2d", channels_last_2d);
  json.Bool("channels_last_3d", channels_last_3d);
  json.Bool("dense", dense);
  json.Bool("overlaps", overlaps);
  json.Text("suggested_format", MemoryFormatName(suggested_format));
  json.Raw("buffer", buffer ? BufferJson(*buffer, addresses) : "null");
  json.Raw("object", object ? ObjectJson(*object) : "null");
  json.Raw("metadata", MetadataJson(metadata));
  return std::move(json).Done();
}

}  // namespace tensorcask
