// Translates the extended regular expression of a `sed -E` rule into the syntax of RE2.
//
// RE2 finds matches in a time that is linear in the text, whatever the expression. It reads many texts in another way
// than sed does ("a+?", "[a\d]", "{" alone), so no text of a rule reaches it untranslated. What RE2 has nothing for,
// and what programs understand in different ways, is refused.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SED_REGEX_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SED_REGEX_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::archive {

struct SedRegex {
  std::string pattern;
  // The same expression with the alternatives of each choice in the opposite order. If a match of both does not divide
  // the text among the groups in the same way, the order of the alternatives decides, which in sed it never does.
  std::string reversed;
  std::vector<int> reversed_groups;  // group i + 1 of `reversed` is group reversed_groups[i] of the rule
  int num_groups = 0;
  bool has_choice = false;      // an alternative, "a|b"
  bool is_unbounded = false;    // "*", "+" or "{n,}": one match may look at the whole rest of a text
  std::vector<bool> is_nested;  // by group - 1: inside a part that is repeated
};

// The regular expression in bytes [begin, end) of `rule`, in which a backslash before `delimiter` makes it an ordinary
// character. With `groups` the groups can be asked for. Errors: InvalidArgument, showing the place in the rule.
absl::StatusOr<SedRegex> TranslateSedRegex(absl::string_view rule, size_t begin, size_t end, char delimiter,
                                           bool ignore_case, bool groups);

// The position after the bracket expression that begins at rule[at]; npos if it has no end.
size_t EndOfBracket(absl::string_view rule, size_t at);

// A rule for a message: "rename s/a/b/".
std::string RuleText(absl::string_view rule);

// The error of a rule: what is wrong, at which byte.
absl::Status RuleError(absl::string_view rule, size_t at, absl::string_view what);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SED_REGEX_H_
