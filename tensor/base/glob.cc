#include "tensorcask/tensor/base/glob.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

// Removes the first character from *text and gives its code, or a code past all of Unicode for a byte that is no part
// of a character. Requires: *text is not empty.
uint32_t ConsumeCharacter(absl::string_view* text) {
  const auto first = static_cast<uint8_t>(text->front());
  const size_t bytes = internal::Utf8CharacterBytes(*text);
  uint32_t code = bytes == 0 ? 0x80000000u | first : bytes == 1 ? first : first & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (static_cast<uint8_t>((*text)[i]) & 0x3f);
  text->remove_prefix(bytes == 0 ? 1 : bytes);
  return code;
}

struct CharacterClass {
  absl::string_view name;  // as a set has it
  bool (*contains)(unsigned char);
};
constexpr CharacterClass kClasses[] = {
    {"[:alnum:]", absl::ascii_isalnum}, {"[:alpha:]", absl::ascii_isalpha}, {"[:blank:]", absl::ascii_isblank},
    {"[:cntrl:]", absl::ascii_iscntrl}, {"[:digit:]", absl::ascii_isdigit}, {"[:graph:]", absl::ascii_isgraph},
    {"[:lower:]", absl::ascii_islower}, {"[:print:]", absl::ascii_isprint}, {"[:punct:]", absl::ascii_ispunct},
    {"[:space:]", absl::ascii_isspace}, {"[:upper:]", absl::ascii_isupper}, {"[:xdigit:]", absl::ascii_isxdigit},
};

// Removes the class at the start of *text; null without one.
const CharacterClass* ConsumeClass(absl::string_view* text) {
  for (const CharacterClass& one : kClasses) {
    if (!absl::StartsWith(*text, one.name)) continue;
    text->remove_prefix(one.name.size());
    return &one;
  }
  return nullptr;
}

// Whether `character` is in the set at the start of *glob, after its '['. Then removes the set and its ']'. Nothing,
// and *glob is as it was, if the set has no ']'.
std::optional<bool> ConsumeSet(absl::string_view* glob, uint32_t character) {
  absl::string_view rest = *glob;
  const bool is_negated = !rest.empty() && (rest.front() == '!' || rest.front() == '^');
  if (is_negated) rest.remove_prefix(1);
  const auto consume_member = [&] {
    if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
    return ConsumeCharacter(&rest);
  };
  bool found = false;
  for (bool is_first = true; !rest.empty(); is_first = false) {
    if (rest.front() == ']' && !is_first) {
      rest.remove_prefix(1);
      *glob = rest;
      return found != is_negated;
    }
    if (const CharacterClass* const one = ConsumeClass(&rest)) {
      if (character < 0x80 && one->contains(static_cast<unsigned char>(character))) found = true;
      continue;
    }
    const uint32_t low = consume_member();
    uint32_t high = low;
    if (rest.size() > 1 && rest[0] == '-' && rest[1] != ']') {
      rest.remove_prefix(1);
      high = consume_member();
    }
    if (low <= character && character <= high) found = true;
  }
  return std::nullopt;
}

class Matcher {
 public:
  Matcher(absl::string_view glob, absl::string_view name) : glob_(glob), name_(name) {}

  bool Matches() {
    // What follows the last '*', and the name after the characters that this '*' matches so far.
    absl::string_view glob_after_star;
    absl::string_view name_after_star;
    bool has_star = false;
    while (!name_.empty()) {
      if (absl::ConsumePrefix(&glob_, "*")) {
        glob_after_star = glob_;
        name_after_star = name_;
        has_star = true;
        continue;
      }
      if (!glob_.empty() && ConsumeOne()) continue;
      if (!has_star) return false;
      ConsumeCharacter(&name_after_star);  // the '*' matches one more
      glob_ = glob_after_star;
      name_ = name_after_star;
    }
    while (absl::ConsumePrefix(&glob_, "*")) {
    }
    return glob_.empty();
  }

 private:
  // Removes one character from the name, and from the pattern what should match it. Requires: neither is empty, and the
  // pattern does not begin with '*'.
  bool ConsumeOne() {
    const uint32_t character = ConsumeCharacter(&name_);
    const uint32_t wanted = ConsumeCharacter(&glob_);
    if (wanted == '?') return true;
    if (wanted == '\\') return !glob_.empty() && ConsumeCharacter(&glob_) == character;
    if (wanted == '[' && glob_.size() > without_end_) {
      if (const std::optional<bool> is_in_set = ConsumeSet(&glob_, character)) return *is_in_set;
      without_end_ = glob_.size();
    }
    return wanted == character;
  }

  absl::string_view glob_;
  absl::string_view name_;
  // If a set has no end, no later one has. This is how much of the pattern follows the first '[' of that kind.
  size_t without_end_ = 0;
};

}  // namespace

bool MatchesGlob(absl::string_view glob, absl::string_view name) {
  return glob == name || Matcher(glob, name).Matches();
}

}  // namespace tensorcask
