#include "tensorcask/tools/rename.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/internal/similar_names.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/console.h"

namespace tensorcask::tools {
namespace {

// std::regex takes stack and time with the length of the text. Longer names keep their name.
constexpr size_t kMaxNameBytes = 4096;

struct RegexRule {
  std::string text;  // as typed
  std::regex pattern;
  std::string replacement;
  bool all = false;  // every match in a name, not only the first

  std::string Apply(const std::string& name) const {
    if (name.size() > kMaxNameBytes) return name;
    auto flags = std::regex_constants::format_sed;
    if (!all) flags |= std::regex_constants::format_first_only;
    return std::regex_replace(name, pattern, replacement, flags);
  }
};

std::regex_constants::syntax_option_type Syntax() {
#ifdef __GLIBCXX__
  // Without backtracking: time is bounded by the product of both lengths, whatever the name.
  return std::regex_constants::ECMAScript | std::regex_constants::__polynomial;
#else
  return std::regex_constants::ECMAScript;
#endif
}

// The position of the next '/' from `from` that has no backslash before it.
size_t NextSlash(const std::string& text, size_t from) {
  for (size_t i = from; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '/') {
      return i;
    }
  }
  return std::string::npos;
}

// "s/REGEX/TEXT/" or "s/REGEX/TEXT/g"; nullopt for any other text. Errors: Misuse for a bad expression.
absl::StatusOr<std::optional<RegexRule>> ParseRegexRule(const std::string& text) {
  if (!absl::StartsWith(text, "s/")) return std::nullopt;
  const size_t middle = NextSlash(text, 2);
  const size_t end = middle == std::string::npos ? middle : NextSlash(text, middle + 1);
  if (end == std::string::npos) return std::nullopt;
  const std::string tail = text.substr(end + 1);
  if (!tail.empty() && tail != "g") return std::nullopt;
  RegexRule rule;
  rule.text = text;
  rule.replacement = text.substr(middle + 1, end - middle - 1);
  rule.all = tail == "g";
  try {
    rule.pattern = std::regex(text.substr(2, middle - 2), Syntax());
  } catch (const std::regex_error& error) {
    return Misuse(absl::StrCat("--rename ", text, ": the regular expression is wrong: ", error.what()));
  }
  return rule;
}

struct Rules {
  std::map<std::string, std::string> exact;
  std::vector<RegexRule> patterns;

  std::string Apply(absl::string_view old_name) const {
    std::string name(old_name);
    const auto found = exact.find(name);
    if (found != exact.end()) return found->second;
    for (const RegexRule& rule : patterns) name = rule.Apply(name);
    return name;
  }
};

// True if the rule, after `earlier` ones, matches the name of a tensor.
bool MatchesSome(const RegexRule& rule, const Rules& earlier, const std::vector<const ArchiveReader*>& sources) {
  for (const ArchiveReader* const source : sources) {
    for (const ArchiveEntry& entry : source->entries()) {
      const std::string name = earlier.Apply(entry.name);
      if (name.size() <= kMaxNameBytes && std::regex_search(name, rule.pattern)) return true;
    }
  }
  return false;
}

std::string Hint(const std::string& from, const std::vector<const ArchiveReader*>& sources) {
  std::vector<absl::string_view> names;
  for (const ArchiveReader* const source : sources) {
    for (const ArchiveEntry& entry : source->entries()) names.push_back(entry.name);
  }
  return archive::DidYouMean(from, names);
}

}  // namespace

absl::StatusOr<std::function<std::string(absl::string_view)>> ParseRenames(
    const std::vector<std::string>& rules, const std::vector<const ArchiveReader*>& sources) {
  const auto known = [&](const std::string& name) {
    return std::any_of(sources.begin(), sources.end(),
                       [&](const ArchiveReader* source) { return source->Find(name).ok(); });
  };
  auto parsed = std::make_shared<Rules>();
  for (const std::string& rule : rules) {
    // Names may have '=' themselves: the first one that leaves a known name in front of it counts.
    size_t split = rule.find('=');
    while (split != std::string::npos && !known(rule.substr(0, split))) split = rule.find('=', split + 1);
    if (split != std::string::npos) {
      parsed->exact[rule.substr(0, split)] = rule.substr(split + 1);
      continue;
    }
    const size_t last = rule.rfind('=');  // the old name may be escaped, as `ls` prints it
    if (last != std::string::npos && known(Unescaped(rule.substr(0, last)))) {
      parsed->exact[Unescaped(rule.substr(0, last))] = rule.substr(last + 1);
      continue;
    }
    CASK_ASSIGN_OR_RETURN(std::optional<RegexRule> pattern, ParseRegexRule(rule));
    if (!pattern.has_value()) {
      const std::string from = rule.substr(0, rule.find('='));
      if (from.size() < rule.size()) {
        return Misuse(absl::StrCat("--rename ", rule, ": no tensor ", Quoted(from), Hint(from, sources)));
      }
      return Misuse(absl::StrCat("--rename ", rule, ": wanted FROM=TO, FROM the name of a tensor, or s/REGEX/TEXT/"));
    }
    if (!MatchesSome(*pattern, *parsed, sources)) return Misuse(absl::StrCat("--rename ", rule, " matches no tensor"));
    parsed->patterns.push_back(*std::move(pattern));
  }
  if (rules.empty()) return std::function<std::string(absl::string_view)>();
  return std::function<std::string(absl::string_view)>(
      [parsed](absl::string_view name) { return parsed->Apply(name); });
}

}  // namespace tensorcask::tools
