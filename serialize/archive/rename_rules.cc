#include "tensorcask/serialize/archive/rename_rules.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/internal/sed_regex.h"
#include "tensorcask/serialize/archive/internal/sed_rule.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

using Sources = std::vector<const ArchiveReader*>;

struct Rules {
  std::map<std::string, std::string, std::less<>> exact;
  std::vector<archive::SedRule> patterns;

  absl::StatusOr<std::string> Apply(absl::string_view old_name) const {
    const auto found = exact.find(old_name);
    if (found != exact.end()) return found->second;
    std::string name(old_name);
    for (const archive::SedRule& rule : patterns) {
      CASK_ASSIGN_OR_RETURN(name, rule.Apply(name));
    }
    return name;
  }
};

// Whether the rule matches a name that no exact rule takes. All such names are tried, so that a name that the rule
// cannot be applied to is an error here. *names has what the rules before make of the names of all tensors, and then
// what this rule makes of those; null: there is no other rule.
absl::StatusOr<bool> MatchesSome(const archive::SedRule& rule, const Rules& earlier, const Sources& sources,
                                 std::vector<std::string>* names) {
  bool some = false;
  size_t number = 0;
  for (const ArchiveReader* const source : sources) {
    for (const ArchiveEntry& entry : source->entries()) {
      const size_t i = number++;
      if (earlier.exact.count(entry.name) != 0) continue;
      bool matched = false;
      CASK_ASSIGN_OR_RETURN(std::string name, rule.Apply(names != nullptr ? (*names)[i] : entry.name, &matched));
      some = some || matched;
      if (names != nullptr) (*names)[i] = std::move(name);
    }
  }
  return some;
}

std::vector<std::string> AllNames(const Sources& sources) {
  std::vector<std::string> names;
  for (const ArchiveReader* const source : sources) {
    for (const ArchiveEntry& entry : source->entries()) names.push_back(entry.name);
  }
  return names;
}

// What the writer of a FROM that names no tensor may have meant.
std::string Hint(const std::string& from, const Sources& sources) {
  if (from.find_first_of("*?^$()\\") != std::string::npos) return "; a pattern is written s/REGEX/TEXT/";
  std::vector<absl::string_view> names;
  for (const ArchiveReader* const source : sources) {
    for (const ArchiveEntry& entry : source->entries()) names.push_back(entry.name);
  }
  return archive::DidYouMean(from, names);
}

// Adds FROM=TO to *rules if FROM is a known name; false if it is not.
bool AddExact(const std::string& rule, const Sources& sources, Rules* rules) {
  const auto known = [&](const std::string& name) {
    return std::any_of(sources.begin(), sources.end(),
                       [&](const ArchiveReader* source) { return source->Find(name).ok(); });
  };
  // Names may have '=' themselves: the first one that leaves a known name in front of it counts.
  for (size_t split = rule.find('='); split != std::string::npos; split = rule.find('=', split + 1)) {
    std::string from = rule.substr(0, split);
    if (!known(from)) continue;
    rules->exact[std::move(from)] = rule.substr(split + 1);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::function<absl::StatusOr<std::string>(absl::string_view)>> CompileRenames(
    const std::vector<std::string>& rules, const std::vector<const ArchiveReader*>& sources) {
  if (rules.empty()) return nullptr;
  auto compiled = std::make_shared<Rules>();
  std::vector<std::string> names;
  if (rules.size() > 1) names = AllNames(sources);
  for (const std::string& rule : rules) {
    if (AddExact(rule, sources, compiled.get())) continue;
    if (!archive::SedRule::IsRule(rule) || (rule[1] == '=' && std::count(rule.begin(), rule.end(), '=') < 3)) {
      const std::string from = rule.substr(0, rule.find('='));
      if (from.size() < rule.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(archive::RuleText(rule), ": no tensor ", Quoted(from), Hint(from, sources)));
      }
      return absl::InvalidArgumentError(
          absl::StrCat(archive::RuleText(rule), ": wanted FROM=TO, FROM the name of a tensor, or s/REGEX/TEXT/"));
    }
    CASK_ASSIGN_OR_RETURN(archive::SedRule pattern, archive::SedRule::Parse(rule));
    CASK_ASSIGN_OR_RETURN(const bool matches,
                          MatchesSome(pattern, *compiled, sources, rules.size() > 1 ? &names : nullptr));
    if (!matches) return absl::InvalidArgumentError(absl::StrCat(archive::RuleText(rule), " matches no tensor"));
    compiled->patterns.push_back(std::move(pattern));
  }
  return [compiled](absl::string_view name) { return compiled->Apply(name); };
}

}  // namespace tensorcask
