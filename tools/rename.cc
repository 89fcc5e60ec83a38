#include "tensorcask/tools/rename.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/rename_rules.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {

void AddRenameOption(CLI::App& app, absl::string_view where, std::vector<std::string>* rules) {
  app.add_option(
         "--rename", *rules,
         absl::StrCat("Rename a tensor", where,
                      ": FROM=TO, or s/REGEX/TEXT/ as in sed -E, with any punctuation as delimiter and the flags g, "
                      "I and a number; may be repeated"))
      ->type_name("RULE")
      ->allow_extra_args(false);
}

absl::StatusOr<std::function<absl::StatusOr<std::string>(absl::string_view)>> ParseRenames(
    std::vector<std::string> rules, const std::vector<const ArchiveReader*>& sources) {
  const auto known = [&](const std::string& name) {
    return std::any_of(sources.begin(), sources.end(),
                       [&](const ArchiveReader* source) { return source->Find(name).ok(); });
  };
  for (std::string& rule : rules) {
    const size_t last = rule.rfind('=');
    if (last == std::string::npos || known(rule.substr(0, last))) continue;
    const std::string from = Unescaped(rule.substr(0, last));
    if (known(from)) rule = absl::StrCat(from, rule.substr(last));
  }
  auto compiled = CompileRenames(rules, sources);
  if (absl::IsInvalidArgument(compiled.status())) return Misuse(absl::StrCat("--", compiled.status().message()));
  return compiled;
}

}  // namespace tensorcask::tools
