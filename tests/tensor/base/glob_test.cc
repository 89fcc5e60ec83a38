#include "tensorcask/tensor/base/glob.h"

#include <fnmatch.h>

#include <random>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tensorcask {
namespace {

struct GlobCase {
  const char* glob;
  const char* name;
  bool matches;
};

TEST(Glob, Matches) {
  const GlobCase cases[] = {
      {"*", "", true},
      {"*", "a/b/c", true},
      {"", "", true},
      {"", "a", false},
      {"*/kernel", "dense/1/kernel", true},
      {"*/kernel", "dense/kernel/m", false},
      {"layer_?/w", "layer_3/w", true},
      {"layer_?/w", "layer_31/w", false},
      {"[ab]*", "bias", true},
      {"[!ab]*", "bias", false},
      {"a\\*", "a*", true},
      {"a\\*", "ab", false},
      {"[]a]", "]", true},
      {"[!]a]", "]", false},
      {"[a-c]x", "bx", true},
      {"[a-c]x", "dx", false},
      {"[a-]", "-", true},
      {"[ab", "[ab", true},
      {"[ab", "a", false},
      {"a?c", "a\u00e4c", true},  // one character of two bytes
      {"[\u00e0-\u00ef]", "\u00e4", true},
      {"a?", "a\xff", true},
      {"a", "\xc1\xa1", false},  // a longer spelling of "a", which is no UTF-8
      {"?", "\xff\x80", false},
      {"[[:digit:]x]", "7", true},
      {"[[:digit:]x]", "x", true},
      {"[![:digit:]]", "7", false},
      {"[[:alpha:]]", "\u00e4", false},
      {"a??", "a\xff", false},
  };
  for (const GlobCase& c : cases) EXPECT_EQ(MatchesGlob(c.glob, c.name), c.matches) << c.glob << " " << c.name;
  EXPECT_TRUE(MatchesGlob("a*b", absl::string_view("a\0b", 3)));
  EXPECT_FALSE(MatchesGlob("a", absl::string_view("a\0b", 3)));
}

#ifdef __GLIBC__
// Random short patterns and names: the same answers as fnmatch(3), except that each name matches itself.
TEST(Glob, MatchesAsTheSystemDoes) {
  std::mt19937_64 random(1);
  const auto draw = [&](absl::string_view characters) {
    std::string text;
    for (uint64_t left = random() % 8; left > 0; --left) text += characters[random() % characters.size()];
    return text;
  };
  int matches = 0;
  for (int i = 0; i < 300'000; ++i) {
    const std::string glob = draw("ab*?[]!-^\\/");
    const std::string name = draw("ab[]-/\\!");
    const bool expected = glob == name || fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    ASSERT_EQ(MatchesGlob(glob, name), expected) << "\"" << glob << "\" and \"" << name << "\"";
    matches += expected ? 1 : 0;
  }
  EXPECT_GT(matches, 10'000);
}
#endif

// Patterns whose every part could match anywhere: a time of the product of the two sizes, not of a higher power.
TEST(Glob, ManyStars) {
  std::string glob;
  for (int i = 0; i < 1000; ++i) glob += "*a";
  EXPECT_FALSE(MatchesGlob(glob + "b", std::string(10'000, 'a')));
  EXPECT_FALSE(MatchesGlob("*" + std::string(2'000, '[') + "b", std::string(4'000, '[')));
}

}  // namespace
}  // namespace tensorcask
