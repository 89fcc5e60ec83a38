// Applies rules of sed to texts: pairs of a rule and a text on standard input, each ended by a NUL. For each, writes
// "=" and the new text, "!" and why the rule is refused, or "?" and why the text is, ended by a NUL.

#include <cstddef>
#include <iostream>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/internal/sed_rule.h"

namespace {

using tensorcask::archive::SedRule;

std::string Answer(const absl::StatusOr<SedRule>& rule, const std::string& text) {
  if (!rule.ok()) return absl::StrCat("!", rule.status().message());
  const absl::StatusOr<std::string> result = rule->Apply(text);
  return result.ok() ? absl::StrCat("=", *result) : absl::StrCat("?", result.status().message());
}

}  // namespace

int main() {
  const std::string input(std::istreambuf_iterator<char>(std::cin), {});
  std::string last;
  absl::StatusOr<SedRule> rule = absl::UnknownError("no rule");
  for (size_t at = 0; at < input.size();) {
    const size_t middle = input.find('\0', at);
    const size_t end = input.find('\0', middle + 1);
    if (end == std::string::npos) return 2;
    if (input.compare(at, middle - at, last) != 0) {
      last = input.substr(at, middle - at);
      rule = SedRule::Parse(last);
    }
    std::cout << Answer(rule, input.substr(middle + 1, end - middle - 1)) << '\0';
    at = end + 1;
  }
  return 0;
}
