// Text from files for JSON documents, which hold only Unicode.

#ifndef TENSORCASK_TOOLS_JSON_TEXT_H_
#define TENSORCASK_TOOLS_JSON_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tensorcask::tools {

// `text` if it is UTF-8, else with every byte outside ASCII replaced by U+FFFD.
std::string JsonText(absl::string_view text);

// {"name": TEXT}. If JsonText had to replace bytes, "name_hex" holds the exact bytes.
nlohmann::ordered_json JsonName(absl::string_view name);

// An object with the texts of a map from text to text, in its order. If JsonText makes two keys equal, the object has
// the value of the last one.
template <typename Map>
nlohmann::ordered_json JsonTexts(const Map& texts) {
  using Object = nlohmann::ordered_json::object_t;
  Object object;
  // operator[] would compare each key with all keys before it: a file with many keys would take for ever.
  Object::Container& members = object;
  absl::flat_hash_map<std::string, size_t> places;
  for (const auto& [key, value] : texts) {
    const auto [place, is_new] = places.try_emplace(JsonText(key), members.size());
    if (is_new) {
      members.emplace_back(place->first, JsonText(value));
    } else {
      members[place->second].second = JsonText(value);
    }
  }
  return object;
}

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_JSON_TEXT_H_
