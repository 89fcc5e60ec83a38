// Rules for new names, compiled once: FROM=TO for one tensor, s/REGEX/TEXT/ for all whose names match.
//
//   ConvertOptions options;
//   CASK_ASSIGN_OR_RETURN(options.rename, CompileRenames({"s/^model[.]//", "b=bias"}, {archive.get()}));
//
// A rule FROM=TO comes before all others; the others apply one after the other, to the result of those before.
//
// s/REGEX/TEXT/ is a command of `sed -E`: an extended regular expression, of which the first and longest match is
// replaced. Any character of punctuation can be the delimiter ("s,/,.,g"). In TEXT, & is the match, \1 to \9 are its
// groups, and \n and \t are newline and tab. Flags: g for every match, a number N for the Nth match (and, with g, those
// after it), I for letters of ASCII in either case. Supported besides what POSIX defines: \w \W \s \S, \b \B \` \', \n
// \t and their like, + and ?. A name that is UTF-8 is a sequence of characters, any other name one of bytes. Refused,
// with the place in the rule: references to groups inside REGEX, and in TEXT to a group inside a part that is repeated;
// \< and \>; the conversion of case (\U \L \u \l \E); characters by number (\x2e); classes like [=a=]; more than 1,000
// repetitions ({1001}); groups that are nested more than 100 deep.
//
// The names may come from an untrusted file: time grows linearly with their length, memory is bounded, and a rule is
// tried on each of them. A name is refused if it matches in several ways that give a group different texts
// ("(a|ab)(c|bcd)"), if a rule with flag g and an unbounded repetition (* + {n,}) matches it more than 1,000 times, or
// if a rule makes it more than 1 MiB longer.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_RENAME_RULES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_RENAME_RULES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"

namespace tensorcask {

// The function that gives a name its new name; null without rules. Its errors are those above, for names that are not
// in `sources`. Errors: InvalidArgument for bad syntax and for a rule that renames no tensor of `sources`; those above
// for names of `sources`.
absl::StatusOr<std::function<absl::StatusOr<std::string>(absl::string_view)>> CompileRenames(
    const std::vector<std::string>& rules, const std::vector<const ArchiveReader*>& sources);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_RENAME_RULES_H_
