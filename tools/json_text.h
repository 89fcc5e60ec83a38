// Text from files for JSON documents, which hold only Unicode.

#ifndef TENSORCASK_TOOLS_JSON_TEXT_H_
#define TENSORCASK_TOOLS_JSON_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tensorcask::tools {

// `text` if it is UTF-8, else with every byte outside ASCII replaced by U+FFFD.
std::string JsonText(absl::string_view text);

// {"name": TEXT}. If JsonText had to replace bytes, "name_hex" holds the exact bytes.
nlohmann::ordered_json JsonName(absl::string_view name);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_JSON_TEXT_H_
