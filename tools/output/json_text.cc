#include "tensorcask/tools/output/json_text.h"

#include "absl/strings/escaping.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::tools {
std::string JsonText(absl::string_view text) {
  if (internal::IsUtf8(text)) return std::string(text);
  std::string replaced;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80) {
      replaced += c;
    } else {
      replaced += "\xef\xbf\xbd";
    }
  }
  return replaced;
}

void SetJsonText(const std::string& key, absl::string_view text, nlohmann::ordered_json* object) {
  const std::string shown = JsonText(text);
  (*object)[key] = shown;
  if (shown != text) (*object)[key + "_hex"] = absl::BytesToHexString(text);
}

nlohmann::ordered_json JsonName(absl::string_view name) {
  nlohmann::ordered_json object;
  SetJsonText("name", name, &object);
  return object;
}

}  // namespace tensorcask::tools
