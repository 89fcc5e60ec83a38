#include "tensorcask/tensor/base/glob.h"

#include <string>

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
  };
  for (const GlobCase& c : cases) EXPECT_EQ(MatchesGlob(c.glob, c.name), c.matches) << c.glob << " " << c.name;
  EXPECT_FALSE(MatchesGlob("*", std::string("a\0b", 3)));
}

}  // namespace
}  // namespace tensorcask
