#include "tensorcask/tools/rename.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/rename_rules.h"
#include "tensorcask/tools/console.h"

namespace tensorcask::tools {

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
