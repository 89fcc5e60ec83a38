#include "tensorcask/serialize/archive/internal/sed_rule.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "re2/re2.h"
#include "tensorcask/serialize/archive/internal/sed_regex.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::archive {
namespace {

constexpr int64_t kMaxExpressionBytes = int64_t{8} << 20;  // for the automata of one expression, in one encoding
// Each search of an unbounded expression may look at all of the text. Without a bound, one name of many matches takes
// time that is quadratic in its length.
constexpr int kMaxUnboundedMatches = 1000;
constexpr size_t kMaxGrowth = size_t{1} << 20;
constexpr size_t kNone = absl::string_view::npos;
constexpr int kMaxGroup = 9;

using Groups = std::array<re2::StringPiece, kMaxGroup + 1>;  // [0]: the whole match

// A part of the new text: characters, or the text of a group.
struct Piece {
  std::string text;
  int group = -1;
};

struct Flags {
  bool all = false;
  bool ignore_case = false;
  int first = 1;  // the first match that is replaced
};

absl::StatusOr<Flags> ParseFlags(absl::string_view rule, size_t at) {
  Flags flags;
  bool numbered = false;
  while (at < rule.size()) {
    const char c = rule[at];
    if (c == 'g' && !flags.all) {
      flags.all = true;
    } else if (c == 'i' || c == 'I') {
      flags.ignore_case = true;
    } else if (absl::ascii_isdigit(c) && !numbered) {
      size_t end = at;
      while (end < rule.size() && absl::ascii_isdigit(rule[end])) ++end;
      if (!absl::SimpleAtoi(rule.substr(at, end - at), &flags.first) || flags.first == 0) {
        return RuleError(rule, at, "wanted the number of a match, from 1");
      }
      numbered = true;
      at = end;
      continue;
    } else {
      return RuleError(rule, at, "not supported as a flag; these are: g, I, and a number, each once");
    }
    ++at;
  }
  return flags;
}

absl::StatusOr<std::vector<Piece>> ParseText(absl::string_view rule, size_t begin, size_t end, char delimiter) {
  std::vector<Piece> pieces;
  const auto add = [&](char c) {
    if (pieces.empty() || pieces.back().group >= 0) pieces.emplace_back();
    pieces.back().text += c;
  };
  for (size_t i = begin; i < end; ++i) {
    char c = rule[i];
    if (c == '&') {
      pieces.push_back({"", 0});
      continue;
    }
    if (c != '\\') {
      add(c);
      continue;
    }
    const size_t at = i++;
    c = rule[i];
    if (c == delimiter && c == '&') return RuleError(rule, at, "versions of sed differ here: take another delimiter");
    if (absl::ascii_isdigit(c)) {
      pieces.push_back({"", c - '0'});
    } else if (absl::ascii_ispunct(c) || c == '\n') {
      add(c);
    } else if (c == 'n') {
      add('\n');
    } else if (c == 't') {
      add('\t');
    } else if (absl::StrContains("ULulE", c)) {
      return RuleError(rule, at, "the conversion of upper and lower case is not supported");
    } else {
      return RuleError(rule, at, "not supported: a backslash before this character");
    }
  }
  return pieces;
}

// The next delimiter from `at`, which neither a backslash nor, in an expression, brackets hide.
size_t NextDelimiter(absl::string_view rule, size_t at, char delimiter, bool in_regex) {
  while (at < rule.size()) {
    if (rule[at] == delimiter) return at;
    if (rule[at] == '\\') {
      at += 2;
    } else if (in_regex && rule[at] == '[') {
      at = EndOfBracket(rule, at);
    } else {
      ++at;
    }
  }
  return kNone;
}

}  // namespace

struct SedRule::Rep {
  std::string rule;
  SedRegex regex;
  Flags flags;
  std::vector<Piece> pieces;
  int num_groups = 0;                // the highest one that the new text names
  std::unique_ptr<RE2> by_utf8[2];   // null if the expression is not UTF-8
  std::unique_ptr<RE2> by_bytes[2];  // [1]: reversed; null if not needed
  bool reversed() const { return regex.has_choice && num_groups > 0; }

  absl::Status Compile() {
    for (const bool utf8 : {false, true}) {
      if (utf8 && !internal::IsUtf8(rule)) continue;
      RE2::Options options;
      options.set_encoding(utf8 ? RE2::Options::EncodingUTF8 : RE2::Options::EncodingLatin1);
      options.set_longest_match(true);
      options.set_dot_nl(true);
      options.set_log_errors(false);
      options.set_max_mem(kMaxExpressionBytes);
      for (const bool second : {false, true}) {
        if (second && !reversed()) continue;
        auto compiled = std::make_unique<RE2>(second ? regex.reversed : regex.pattern, options);
        if (!compiled->ok()) {
          return RuleError(rule, 0, absl::StrCat("the regular expression is too large (", compiled->error(), ")"));
        }
        (utf8 ? by_utf8 : by_bytes)[second] = std::move(compiled);
      }
    }
    return absl::OkStatus();
  }

  // The first match from `start`; [0].data() is null if there is none.
  absl::StatusOr<Groups> Find(absl::string_view text, size_t start, const std::unique_ptr<RE2>* expressions) const {
    const re2::StringPiece whole(text.data(), text.size());
    Groups found;
    const int wanted = num_groups + 1;
    if (!expressions[0]->Match(whole, start, text.size(), RE2::UNANCHORED, found.data(), wanted)) return Groups();
    if (expressions[1] == nullptr) return found;
    std::vector<re2::StringPiece> other(static_cast<size_t>(regex.num_groups) + 1);
    expressions[1]->Match(whole, start, text.size(), RE2::UNANCHORED, other.data(), static_cast<int>(other.size()));
    for (size_t i = 1; i < other.size(); ++i) {
      const auto group = static_cast<size_t>(regex.reversed_groups[i - 1]);
      if (group > static_cast<size_t>(num_groups)) continue;
      if (other[i].size() != found[group].size() || (!other[i].empty() && other[i].data() != found[group].data())) {
        return absl::InvalidArgumentError(absl::StrCat(RuleText(rule), ": ", Quoted(text),
                                                       " matches in more than one way, with another text for \\", group,
                                                       "; let one alternative not begin like another"));
      }
    }
    return found;
  }

  void AppendNewText(const Groups& groups, std::string* out) const {
    for (const Piece& piece : pieces) {
      if (piece.group < 0) {
        *out += piece.text;
      } else {
        const re2::StringPiece& group = groups[static_cast<size_t>(piece.group)];
        out->append(group.data() == nullptr ? "" : group.data(), group.size());
      }
    }
  }
};

SedRule::SedRule(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
SedRule::SedRule(SedRule&&) noexcept = default;
SedRule& SedRule::operator=(SedRule&&) noexcept = default;
SedRule::~SedRule() = default;

bool SedRule::IsRule(absl::string_view text) {
  return text.size() > 1 && text[0] == 's' && absl::ascii_ispunct(text[1]) && text[1] != '\\';
}

absl::StatusOr<SedRule> SedRule::Parse(absl::string_view rule) {
  const char delimiter = rule[1];
  const size_t middle = NextDelimiter(rule, 2, delimiter, /*in_regex=*/true);
  const size_t end = middle == kNone ? kNone : NextDelimiter(rule, middle + 1, delimiter, /*in_regex=*/false);
  if (end == kNone) {
    return RuleError(
        rule, 0, absl::StrCat("wanted s", rule.substr(1, 1), "REGEX", rule.substr(1, 1), "TEXT", rule.substr(1, 1)));
  }
  if (middle == 2) return RuleError(rule, 2, "the regular expression is empty");
  auto rep = std::make_unique<Rep>();
  rep->rule = std::string(rule);
  CASK_ASSIGN_OR_RETURN(rep->flags, ParseFlags(rule, end + 1));
  CASK_ASSIGN_OR_RETURN(rep->pieces, ParseText(rule, middle + 1, end, delimiter));
  for (const Piece& piece : rep->pieces) rep->num_groups = std::max(rep->num_groups, piece.group);
  CASK_ASSIGN_OR_RETURN(rep->regex, TranslateSedRegex(rule, 2, middle, delimiter, rep->flags.ignore_case,
                                                      /*groups=*/rep->num_groups > 0));
  for (const Piece& piece : rep->pieces) {
    if (piece.group <= 0) continue;
    if (piece.group > rep->regex.num_groups) {
      return RuleError(
          rule, middle + 1,
          absl::StrCat("\\", piece.group, ": the regular expression has ", rep->regex.num_groups, " groups"));
    }
    if (rep->regex.is_nested[static_cast<size_t>(piece.group - 1)]) {
      return RuleError(rule, middle + 1,
                       absl::StrCat("\\", piece.group, " is a group inside a part that is repeated, ",
                                    "or can be empty and is repeated; which of its texts is meant?"));
    }
  }
  CASK_RETURN_IF_ERROR(rep->Compile());
  return SedRule(std::move(rep));
}

absl::StatusOr<std::string> SedRule::Apply(absl::string_view text, bool* matched) const {
  const bool utf8 = rep_->by_utf8[0] != nullptr && internal::IsUtf8(text);
  const std::unique_ptr<RE2>* const expressions = utf8 ? rep_->by_utf8 : rep_->by_bytes;
  const Flags& flags = rep_->flags;
  if (text.empty()) text = "";  // its address is that of a match
  std::string result;
  size_t copied = 0;            // how much of `text` was copied
  size_t start = 0;             // where the next search starts
  size_t previous_end = kNone;  // the end of the last match
  int matches = 0;
  if (matched != nullptr) *matched = false;
  while (start <= text.size()) {
    CASK_ASSIGN_OR_RETURN(const Groups groups, rep_->Find(text, start, expressions));
    if (groups[0].data() == nullptr) break;
    const auto begin = static_cast<size_t>(groups[0].data() - text.data());
    const size_t end = begin + groups[0].size();
    const size_t next = begin == text.size() ? 1 : utf8 ? internal::Utf8CharacterBytes(text.substr(begin)) : 1;
    start = end > begin ? end : begin + next;
    if (begin == end && begin == previous_end) continue;  // as sed: no empty match right after another match
    previous_end = end;
    if (matched != nullptr) *matched = true;
    if (++matches > kMaxUnboundedMatches && rep_->regex.is_unbounded) {
      return absl::ResourceExhaustedError(
          absl::StrCat(RuleText(rep_->rule), " matches ", Quoted(text), " more than ", kMaxUnboundedMatches, " times"));
    }
    if (matches < flags.first) continue;
    absl::StrAppend(&result, text.substr(copied, begin - copied));
    rep_->AppendNewText(groups, &result);
    copied = end;
    if (result.size() > text.size() + kMaxGrowth) {
      return absl::ResourceExhaustedError(
          absl::StrCat(RuleText(rep_->rule), " makes ", Quoted(text), " more than ", kMaxGrowth, " bytes longer"));
    }
    if (!flags.all) break;
  }
  absl::StrAppend(&result, text.substr(copied));
  return result;
}

}  // namespace tensorcask::archive
