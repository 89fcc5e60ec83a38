#include "tensorcask/serialize/archive/similar_names.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::archive {
namespace {

constexpr size_t kMaxNames = 100000;
constexpr size_t kMaxNameBytes = 200;  // longer names are compared as they are not

// How many characters must be inserted, removed, replaced or swapped with their neighbour; `limit` + 1 if more than
// `limit`.
size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit) {
  if (a.size() > b.size() + limit || b.size() > a.size() + limit) return limit + 1;
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    if (*std::min_element(row.begin(), row.end()) > limit) return limit + 1;
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

constexpr size_t kMinWordBytes = 3;  // of a word that is long enough to mean something

// The names that contain a word.
struct Containing {
  size_t count = 0;
  std::vector<std::string> first;  // quoted

  std::string ListedNames() const {
    return absl::StrCat(absl::StrJoin(first, ", "), count > first.size() ? ", ..." : "");
  }
};

Containing NamesThatContain(absl::string_view word, absl::Span<const absl::string_view> names) {
  constexpr size_t kMaxListed = 3;
  Containing found;
  if (word.size() < kMinWordBytes) return found;
  std::set<absl::string_view> seen;  // names of several files may be the same
  for (const absl::string_view name : names.subspan(0, kMaxNames)) {
    if (name.size() > kMaxNameBytes || !absl::StrContains(name, word) || !seen.insert(name).second) continue;
    if (++found.count <= kMaxListed) found.first.push_back(Quoted(name));
  }
  return found;
}

// The most similar one of `names`, or one that ends with "/" and the name; "" if there is none.
absl::string_view MostSimilar(absl::string_view name, absl::Span<const absl::string_view> names) {
  const size_t limit = std::max<size_t>(1, name.size() / 4);
  size_t best = limit + 1;
  absl::string_view similar;
  absl::string_view longer;  // ends with the name: "kernel" for "dense/kernel"
  for (const absl::string_view candidate : names.subspan(0, kMaxNames)) {
    if (candidate.size() > kMaxNameBytes) continue;
    const size_t distance = EditDistance(name, candidate, std::min(limit, best - 1));
    if (distance < best) {
      best = distance;
      similar = candidate;
      if (best <= 1) break;
    }
    if (longer.empty() && absl::EndsWith(candidate, absl::StrCat("/", name))) longer = candidate;
  }
  return similar.empty() ? longer : similar;
}

std::string Meant(absl::string_view quoted) { return absl::StrCat("; did you mean ", quoted, "?"); }

// The longest part of a pattern without wildcards: "embed" of "*.embed*".
absl::string_view LongestWord(absl::string_view glob) {
  absl::string_view longest;
  for (const absl::string_view word : absl::StrSplit(glob, absl::ByAnyChar("*?[]\\"))) {
    if (word.size() > longest.size()) longest = word;
  }
  return longest;
}

}  // namespace

std::string DidYouMean(absl::string_view name, absl::Span<const absl::string_view> names) {
  if (name.empty() || name.size() > kMaxNameBytes) return "";
  const absl::string_view similar = MostSimilar(name, names);
  if (!similar.empty()) return Meant(Quoted(similar));
  const Containing found = NamesThatContain(name, names);
  if (found.count == 0) return "";
  if (found.count == 1) return Meant(found.first[0]);
  return absl::StrCat("; ", found.count, " names contain it: ", found.ListedNames());
}

std::string HintForPattern(absl::string_view glob, absl::Span<const absl::string_view> names) {
  if (glob.empty() || glob.size() > kMaxNameBytes) return "";
  const absl::string_view word = LongestWord(glob);
  if (glob.find_first_of("*?") == absl::string_view::npos) {  // it may be meant as a name, such as "x[0]"
    const absl::string_view similar = MostSimilar(glob, names);
    if (!similar.empty()) return Meant(Quoted(similar));
  }
  const Containing found = NamesThatContain(word, names);
  if (found.count == 0) return "";
  if (found.count == 1) return Meant(found.first[0]);
  return absl::StrCat("; ", Quoted(absl::StrCat("*", word, "*")), " matches ", found.count, ": ", found.ListedNames());
}

}  // namespace tensorcask::archive
