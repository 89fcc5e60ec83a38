// Text from files for JSON documents, which hold only Unicode.

#ifndef TENSORCASK_TOOLS_OUTPUT_JSON_TEXT_H_
#define TENSORCASK_TOOLS_OUTPUT_JSON_TEXT_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tensorcask::tools {

// `text` if it is UTF-8, else with every byte outside ASCII replaced by U+FFFD.
std::string JsonText(absl::string_view text);

// Sets (*object)[key] to JsonText(text). If that had to replace bytes, (*object)["KEY_hex"] holds the exact bytes in
// hexadecimal digits: two texts may look the same, but never both.
void SetJsonText(const std::string& key, absl::string_view text, nlohmann::ordered_json* object);

// {"name": TEXT}, by SetJsonText.
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

// Sets (*object)[key] to JsonTexts(texts). If that had to replace bytes, (*object)["KEY_hex"] is an array of
// [key, value] in hexadecimal digits, one for each entry whose bytes were replaced.
template <typename Map>
void SetJsonTexts(const std::string& key, const Map& texts, nlohmann::ordered_json* object) {
  (*object)[key] = JsonTexts(texts);
  nlohmann::ordered_json exact = nlohmann::ordered_json::array();
  for (const auto& [name, value] : texts) {
    if (JsonText(name) == name && JsonText(value) == value) continue;
    exact.push_back({absl::BytesToHexString(name), absl::BytesToHexString(value)});
  }
  if (!exact.empty()) (*object)[key + "_hex"] = std::move(exact);
}

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_OUTPUT_JSON_TEXT_H_
