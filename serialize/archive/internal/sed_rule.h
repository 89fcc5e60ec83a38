// One rule s/REGEX/TEXT/FLAGS, as `sed -E` understands it.
//
//   CASK_ASSIGN_OR_RETURN(const SedRule rule, SedRule::Parse("s,^model[.](.*),\\1,"));
//   CASK_ASSIGN_OR_RETURN(const std::string name, rule.Apply("model.w"));   // "w"
//
// The time of a match is linear in the text, and its memory is bounded. A text that is UTF-8 is a sequence of
// characters; any other text is a sequence of bytes. Classes of characters, \w and \b know the letters of ASCII alone,
// as sed does in the locale C. What is not supported is refused by Parse.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SED_RULE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SED_RULE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::archive {

class SedRule {
 public:
  // True for "s" and a character that can be a delimiter.
  static bool IsRule(absl::string_view text);

  // Errors: InvalidArgument, showing the place in the rule. Requires: IsRule(rule).
  static absl::StatusOr<SedRule> Parse(absl::string_view rule);

  SedRule(SedRule&&) noexcept;
  SedRule& operator=(SedRule&&) noexcept;
  ~SedRule();

  // The text with its matches replaced. Sets *matched to whether there was one, unless it is null.
  // Errors: InvalidArgument if the text can be divided among the groups in several ways; ResourceExhausted if a rule
  // with flag g and an unbounded repetition matches more than 1,000 times, or the result is more than 1 MiB longer.
  absl::StatusOr<std::string> Apply(absl::string_view text, bool* matched = nullptr) const;

 private:
  struct Rep;
  explicit SedRule(std::unique_ptr<Rep> rep);

  std::unique_ptr<Rep> rep_;
};

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SED_RULE_H_
