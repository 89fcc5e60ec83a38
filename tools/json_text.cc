#include "tensorcask/tools/json_text.h"

#include "absl/strings/escaping.h"

namespace tensorcask::tools {
namespace {

// Strict: no overlong forms, no surrogates, nothing above U+10FFFF (RFC 3629, section 4).
bool IsUtf8(absl::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&byte](size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  for (size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    const unsigned second = byte(i + 1);
    if (lead < 0x80) {
      i += 1;
    } else if (lead >= 0xc2 && lead <= 0xdf && continues(i + 1)) {
      i += 2;
    } else if (lead >= 0xe0 && lead <= 0xef && continues(i + 1) && continues(i + 2) &&
               !(lead == 0xe0 && second < 0xa0) && !(lead == 0xed && second > 0x9f)) {
      i += 3;
    } else if (lead >= 0xf0 && lead <= 0xf4 && continues(i + 1) && continues(i + 2) && continues(i + 3) &&
               !(lead == 0xf0 && second < 0x90) && !(lead == 0xf4 && second > 0x8f)) {
      i += 4;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string JsonText(absl::string_view text) {
  if (IsUtf8(text)) return std::string(text);
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

nlohmann::ordered_json JsonName(absl::string_view name) {
  nlohmann::ordered_json object;
  object["name"] = JsonText(name);
  if (object["name"].get_ref<const std::string&>() != name) object["name_hex"] = absl::BytesToHexString(name);
  return object;
}

}  // namespace tensorcask::tools
