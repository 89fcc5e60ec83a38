#include "tensorcask/tools/metadata_options.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {

void AddMetadataOptions(CLI::App& app, std::vector<std::string>* set, std::vector<std::string>* unset) {
  app.add_option("--set", *set, "Set an entry of the file's metadata (safetensors, torch, onnx, gguf); may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--unset", *unset, "Remove an entry of the file's metadata, which must be there; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false);
}

absl::StatusOr<std::map<std::string, std::string>> ParseSets(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> sets;
  for (const std::string& text : texts) {
    const size_t split = text.find('=');
    if (split == std::string::npos || split == 0) {
      return Misuse(absl::StrCat("--set ", text, ": wanted KEY=VALUE, as in license=MIT"));
    }
    sets[text.substr(0, split)] = text.substr(split + 1);
  }
  return sets;
}

}  // namespace tensorcask::tools
