#include "tensorcask/serialize/archive/internal/sed_regex.h"

#include <algorithm>
#include <bitset>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::archive {
namespace {

constexpr int kMaxDepth = 100;     // for groups, and for signs of repetition one after the other
constexpr int kMaxRepeats = 1000;  // the bound of RE2
constexpr size_t kNone = absl::string_view::npos;

using AsciiSet = std::bitset<128>;

constexpr char kWord[] = "0-9A-Za-z_";
constexpr char kSpace[] = "\\x09-\\x0d\\x20";

std::string Hex(unsigned char c) { return absl::StrFormat("\\x%02x", c); }

// One character outside brackets; the bytes of a UTF-8 character stay as they are.
std::string Literal(absl::string_view character, bool ignore_case) {
  const char c = character[0];
  if (character.size() > 1) return absl::StrCat("(?:", character, ")");
  if (static_cast<unsigned char>(c) >= 0x80) return std::string(character);
  if (ignore_case && absl::ascii_isalpha(c)) {
    return absl::StrCat("[", std::string(1, absl::ascii_tolower(c)), std::string(1, absl::ascii_toupper(c)), "]");
  }
  return absl::ascii_isalnum(c) ? std::string(1, c) : Hex(c);
}

// The character that \n, \t and their like stand for.
std::optional<char> ControlCharacter(char letter) {
  switch (letter) {
    case 'a':
      return '\a';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return std::nullopt;
  }
}

bool InClass(absl::string_view name, char c) {
  if (name == "alpha") return absl::ascii_isalpha(c);
  if (name == "digit") return absl::ascii_isdigit(c);
  if (name == "alnum") return absl::ascii_isalnum(c);
  if (name == "upper") return absl::ascii_isupper(c);
  if (name == "lower") return absl::ascii_islower(c);
  if (name == "space") return absl::ascii_isspace(c);
  if (name == "blank") return absl::ascii_isblank(c);
  if (name == "punct") return absl::ascii_ispunct(c);
  if (name == "print") return absl::ascii_isprint(c);
  if (name == "graph") return absl::ascii_isgraph(c);
  if (name == "cntrl") return absl::ascii_iscntrl(c);
  return absl::ascii_isxdigit(c);
}

constexpr absl::string_view kClasses[] = {"alpha", "digit", "alnum", "upper", "lower", "space",
                                          "blank", "punct", "print", "graph", "cntrl", "xdigit"};

// A part of the expression, in both orders of its alternatives.
struct Part {
  std::string pattern;
  std::string reversed;
  std::vector<int> groups;  // in the order of `reversed`
  bool can_be_empty = true;
  bool is_position = false;  // "^", "\b": nothing that can be repeated
};

class Translator {
 public:
  Translator(absl::string_view rule, size_t begin, size_t end, char delimiter, bool ignore_case, bool groups)
      : rule_(rule.substr(0, end)),
        whole_(rule),
        at_(begin),
        delimiter_(delimiter),
        ignore_case_(ignore_case),
        groups_(groups) {}

  absl::StatusOr<SedRegex> Translate() {
    CASK_ASSIGN_OR_RETURN(Part part, Choice(0));
    if (at_ < rule_.size()) return Error(at_, "this ')' closes no '('; write \\) for the character");
    result_.pattern = std::move(part.pattern);
    result_.reversed = std::move(part.reversed);
    result_.reversed_groups = std::move(part.groups);
    return std::move(result_);
  }

 private:
  absl::Status Error(size_t at, absl::string_view what) const { return RuleError(whole_, at, what); }

  bool AtEnd() const { return at_ >= rule_.size(); }

  // Up to the end or to a ')'.
  absl::StatusOr<Part> Choice(int depth) {
    CASK_ASSIGN_OR_RETURN(Part choice, Sequence(depth));
    while (!AtEnd() && rule_[at_] == '|') {
      ++at_;
      result_.has_choice = true;
      CASK_ASSIGN_OR_RETURN(Part next, Sequence(depth));
      choice.pattern = absl::StrCat(choice.pattern, "|", next.pattern);
      choice.reversed = absl::StrCat(next.reversed, "|", choice.reversed);
      next.groups.insert(next.groups.end(), choice.groups.begin(), choice.groups.end());
      choice.groups = std::move(next.groups);
      choice.can_be_empty = choice.can_be_empty || next.can_be_empty;
    }
    return choice;
  }

  absl::StatusOr<Part> Sequence(int depth) {
    Part sequence;
    while (!AtEnd() && rule_[at_] != '|' && rule_[at_] != ')') {
      CASK_ASSIGN_OR_RETURN(Part part, Atom(depth));
      for (int signs = 0; !AtEnd() && absl::StrContains("*+?{", rule_[at_]); ++signs) {
        if (part.is_position) return Error(at_, "a position cannot be repeated");
        if (signs == kMaxDepth) return Error(at_, "too many signs of repetition");
        CASK_RETURN_IF_ERROR(Repeat(&part));
      }
      sequence.pattern += part.pattern;
      sequence.reversed += part.reversed;
      sequence.groups.insert(sequence.groups.end(), part.groups.begin(), part.groups.end());
      sequence.can_be_empty = sequence.can_be_empty && part.can_be_empty;
    }
    return sequence;
  }

  absl::StatusOr<Part> Atom(int depth) {
    const size_t at = at_;
    switch (rule_[at]) {
      case '(':
        return Group(depth);
      case '[':
        return Bracket();
      case '\\':
        return Escape();
      case '*':
      case '+':
      case '?':
      case '{':
        return Error(at, absl::StrCat("nothing to repeat; write \\", rule_.substr(at, 1), " for the character"));
      case '.':
        ++at_;
        return Characters(".");
      case '^':
        ++at_;
        return Position("\\A");
      case '$':
        ++at_;
        return Position("\\z");
      default:
        break;
    }
    at_ += std::max<size_t>(1, internal::Utf8CharacterBytes(rule_.substr(at)));
    if (ignore_case_ && static_cast<unsigned char>(rule_[at]) >= 0x80) {
      return Error(at, "flag I knows only the letters of ASCII");
    }
    return Characters(Literal(rule_.substr(at, at_ - at), ignore_case_));
  }

  static Part Characters(std::string pattern) {
    Part part;
    part.reversed = pattern;
    part.pattern = std::move(pattern);
    part.can_be_empty = false;
    return part;
  }

  static Part Position(absl::string_view pattern) {
    Part part;
    part.pattern = part.reversed = std::string(pattern);
    part.is_position = true;
    return part;
  }

  absl::StatusOr<Part> Group(int depth) {
    const size_t at = at_++;
    if (depth == kMaxDepth) return Error(at, absl::StrCat("groups are nested more than ", kMaxDepth, " deep"));
    const int number = ++result_.num_groups;
    result_.is_nested.push_back(false);
    CASK_ASSIGN_OR_RETURN(Part part, Choice(depth + 1));
    if (AtEnd()) return Error(at, "this '(' is not closed; write \\( for the character");
    ++at_;
    const char* const open = groups_ ? "(" : "(?:";
    part.pattern = absl::StrCat(open, part.pattern, ")");
    part.reversed = absl::StrCat(open, part.reversed, ")");
    part.groups.insert(part.groups.begin(), number);
    part.is_position = false;
    return part;
  }

  absl::StatusOr<Part> Escape() {
    const size_t at = at_;
    if (at + 1 == rule_.size()) return Error(at, "nothing follows the backslash");
    const char c = rule_[at + 1];
    at_ += 2;
    if (c == delimiter_) {
      if (absl::StrContains("*+?{}()[]|^$.", c)) {
        return Error(at, "versions of sed differ here: take a delimiter that has no other meaning");
      }
      return Characters(Literal(rule_.substr(at + 1, 1), ignore_case_));
    }
    switch (c) {
      case 'w':
        return Characters(absl::StrCat("[", kWord, "]"));
      case 'W':
        return Characters(absl::StrCat("[^", kWord, "]"));
      case 's':
        return Characters(absl::StrCat("[", kSpace, "]"));
      case 'S':
        return Characters(absl::StrCat("[^", kSpace, "]"));
      case 'b':
        return Position("\\b");
      case 'B':
        return Position("\\B");
      case '`':
        return Position("\\A");
      case '\'':
        return Position("\\z");
      case '<':
      case '>':
        return Error(at, "not supported; \\b is the boundary of a word");
      default:
        break;
    }
    if (const std::optional<char> control = ControlCharacter(c)) return Characters(Hex(*control));
    if (c >= '1' && c <= '9') return Error(at, "references to groups are supported in the new text alone");
    if (!absl::ascii_ispunct(c)) return Error(at, "not supported: a backslash before this character");
    return Characters(Hex(c));
  }

  // One member of a bracket expression, a character of ASCII, and moves past it.
  absl::StatusOr<char> Member() {
    const size_t at = at_;
    const char c = rule_[at];
    if (static_cast<unsigned char>(c) >= 0x80) return Error(at, "in brackets only characters of ASCII are supported");
    ++at_;
    if (c != '\\' || !absl::ascii_isalnum(rule_[at_])) return c;
    const std::optional<char> control = ControlCharacter(rule_[at_]);
    if (!control.has_value()) return Error(at, "not supported in brackets, where a backslash is an ordinary character");
    ++at_;
    return *control;
  }

  absl::StatusOr<Part> Bracket() {
    const size_t begin = at_;
    const size_t end = EndOfBracket(rule_, begin);
    if (end == kNone) return Error(begin, "this '[' is not closed; write \\[ for the character");
    ++at_;
    const bool negated = rule_[at_] == '^';
    if (negated) ++at_;
    AsciiSet members;
    while (at_ < end - 1) {
      if (rule_[at_] == '[' && absl::StrContains(":.=", rule_[at_ + 1])) {
        CASK_RETURN_IF_ERROR(Class(end, &members));
        continue;
      }
      const size_t at = at_;
      CASK_ASSIGN_OR_RETURN(const char first, Member());
      char last = first;
      if (rule_[at_] == '-' && at_ + 1 < end - 1) {
        ++at_;
        if (rule_[at_] == '[' && absl::StrContains(":.=", rule_[at_ + 1])) {
          return Error(at_, "not supported as the end of a range");
        }
        CASK_ASSIGN_OR_RETURN(last, Member());
        if (last < first) return Error(at, "the range ends before it begins");
      }
      for (int c = first; c <= last; ++c) members.set(static_cast<size_t>(c));
    }
    at_ = end;
    return Characters(Written(members, negated));
  }

  // "[:alpha:]" and its like.
  absl::Status Class(size_t end, AsciiSet* members) {
    const size_t at = at_;
    const size_t close = rule_.find(absl::StrCat(rule_.substr(at + 1, 1), "]"), at + 2);
    if (rule_[at + 1] != ':') return Error(at, "not supported in brackets");
    const absl::string_view name = rule_.substr(at + 2, close - at - 2);
    bool known = false;
    for (const absl::string_view other : kClasses) known = known || name == other;
    if (!known) return Error(at, "no class of characters has this name");
    for (int c = 0; c < 128; ++c) {
      if (InClass(name, static_cast<char>(c))) members->set(static_cast<size_t>(c));
    }
    at_ = close + 2;
    if (at_ < end - 2 && rule_[at_] == '-') return Error(at, "not supported as the begin of a range");
    return absl::OkStatus();
  }

  std::string Written(AsciiSet members, bool negated) const {
    if (ignore_case_) {
      for (size_t c = 'a'; c <= 'z'; ++c) {
        const size_t upper = c - 'a' + 'A';
        members[c] = members[upper] = members[c] || members[upper];
      }
    }
    std::string text = negated ? "[^" : "[";
    for (size_t c = 0; c < 128; ++c) {
      if (members[c]) text += Hex(static_cast<unsigned char>(c));
    }
    return text + "]";
  }

  absl::Status Repeat(Part* part) {
    const size_t at = at_;
    int least = rule_[at] == '+' ? 1 : 0;
    int most = rule_[at] == '?' ? 1 : -1;
    std::string sign(rule_.substr(at, 1));
    ++at_;
    if (sign == "{") {
      const size_t close = rule_.find('}', at);
      const absl::string_view inside = close == kNone ? "" : rule_.substr(at + 1, close - at - 1);
      const size_t comma = inside.find(',');
      const bool is_number = comma == kNone;
      const absl::string_view low = inside.substr(0, comma);
      const absl::string_view high = is_number ? low : inside.substr(comma + 1);
      const auto is_count = [](absl::string_view text) {
        for (const char c : text) {
          if (!absl::ascii_isdigit(c)) return false;
        }
        return true;
      };
      if (!is_count(low) || !is_count(high) || (is_number && low.empty())) {
        return Error(at, "wanted {N}, {N,}, {,M} or {N,M}; write \\{ for the character");
      }
      if ((!low.empty() && (!absl::SimpleAtoi(low, &least) || least > kMaxRepeats)) ||
          (!high.empty() && (!absl::SimpleAtoi(high, &most) || most > kMaxRepeats))) {
        return Error(at, absl::StrCat("more than ", kMaxRepeats, " repetitions are not supported"));
      }
      if (most >= 0 && most < least) return Error(at, "the larger number comes first");
      sign = most < 0 ? absl::StrCat("{", least, ",}") : absl::StrCat("{", least, ",", most, "}");
      at_ = close + 1;
    }
    if (most != 1) {
      // The text of a group that is repeated is that of its last time. What is inside it, and what can be empty, have
      // another one in each program.
      for (const int group : part->groups) {
        if (part->can_be_empty || group != part->groups.front() || part->pattern[0] != '(' || part->pattern[1] == '?') {
          result_.is_nested[static_cast<size_t>(group - 1)] = true;
        }
      }
    }
    if (most < 0) result_.is_unbounded = true;
    part->pattern = absl::StrCat("(?:", part->pattern, sign, ")");
    part->reversed = absl::StrCat("(?:", part->reversed, sign, ")");
    part->can_be_empty = part->can_be_empty || least == 0;
    return absl::OkStatus();
  }

  const absl::string_view rule_;   // up to the end of the expression
  const absl::string_view whole_;  // for messages
  size_t at_;
  const char delimiter_;
  const bool ignore_case_;
  const bool groups_;
  SedRegex result_;
};

}  // namespace

std::string RuleText(absl::string_view rule) {
  const std::string quoted = Quoted(rule);
  const bool is_plain =
      quoted.size() == rule.size() + 2 && quoted.compare(1, rule.size(), rule.data(), rule.size()) == 0;
  const bool has_backslash_only = absl::StrReplaceAll(rule, {{"\\", "\\\\"}}).size() + 2 == quoted.size();
  return absl::StrCat("rename ", is_plain || has_backslash_only ? std::string(rule) : quoted);
}

absl::Status RuleError(absl::string_view rule, size_t at, absl::string_view what) {
  constexpr size_t kShown = 20;
  const absl::string_view rest = rule.substr(at);
  return absl::InvalidArgumentError(absl::StrCat(RuleText(rule), ": at byte ", at + 1, ", ",
                                                 Quoted(rest.substr(0, kShown)), rest.size() > kShown ? "..." : "",
                                                 ": ", what));
}

size_t EndOfBracket(absl::string_view rule, size_t at) {
  ++at;
  if (at < rule.size() && rule[at] == '^') ++at;
  if (at < rule.size() && rule[at] == ']') ++at;  // first, it is an ordinary character
  while (at < rule.size()) {
    if (rule[at] == ']') return at + 1;
    if (rule[at] == '[' && at + 1 < rule.size() && absl::StrContains(":.=", rule[at + 1])) {
      const size_t close = rule.find(absl::StrCat(rule.substr(at + 1, 1), "]"), at + 2);
      if (close == kNone) return kNone;
      at = close + 2;
    } else {
      ++at;
    }
  }
  return kNone;
}

absl::StatusOr<SedRegex> TranslateSedRegex(absl::string_view rule, size_t begin, size_t end, char delimiter,
                                           bool ignore_case, bool groups) {
  return Translator(rule, begin, end, delimiter, ignore_case, groups).Translate();
}

}  // namespace tensorcask::archive
