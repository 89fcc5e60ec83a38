#include "tensorcask/serialize/archive/similar_names.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// "; 2 names contain it: "conv2d/bias", "conv2d/kernel"", for a word that is long enough to mean something.
std::string NamesThatContain(absl::string_view word, absl::Span<const absl::string_view> names) {
  constexpr size_t kMinWordBytes = 3;
  constexpr size_t kMaxListed = 3;
  if (word.size() < kMinWordBytes) return "";
  std::vector<std::string> listed;
  size_t count = 0;
  for (const absl::string_view name : names.subspan(0, kMaxNames)) {
    if (name.size() <= kMaxNameBytes && absl::StrContains(name, word) && ++count <= kMaxListed) {
      listed.push_back(Quoted(name));
    }
  }
  if (count == 0) return "";
  if (count == 1) return absl::StrCat("; did you mean ", listed[0], "?");
  return absl::StrCat("; ", count, " names contain it: ", absl::StrJoin(listed, ", "),
                      count > kMaxListed ? ", ..." : "");
}

}  // namespace

std::string DidYouMean(absl::string_view name, absl::Span<const absl::string_view> names) {
  if (name.empty() || name.size() > kMaxNameBytes) return "";
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
  if (similar.empty()) similar = longer;
  return similar.empty() ? NamesThatContain(name, names) : absl::StrCat("; did you mean ", Quoted(similar), "?");
}

}  // namespace tensorcask::archive
