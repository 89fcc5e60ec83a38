// Text from files in JSON documents, which hold Unicode only.

#ifndef TENSORCASK_TOOLS_JSON_TEXT_H_
#define TENSORCASK_TOOLS_JSON_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tensorcask::tools {

// `text` if it is UTF-8, else with every byte outside ASCII replaced by U+FFFD.
std::string JsonText(absl::string_view text);

// {"name": TEXT}, and where TEXT had to be replaced, "name_hex" with the exact bytes beside it.
nlohmann::ordered_json JsonName(absl::string_view name);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_JSON_TEXT_H_
