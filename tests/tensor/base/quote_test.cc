#include "tensorcask/tensor/base/quote.h"

#include <string>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

TEST(Quoted, EscapesWhatIsNotPrintableAscii) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("cuda:0"), "\"cuda:0\"");
  EXPECT_EQ(Quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(Quoted("\x1b[2J\n\x7f\xff"), "\"\\x1b[2J\\n\\x7f\\xff\"");
  EXPECT_EQ(Quoted(absl::string_view("a\0z", 3)), "\"a\\x00z\"");
  EXPECT_EQ(Quoted(absl::string_view("a\0b", 3)), "\"a\\x00\\x62\"");  // \x00b would be another byte
}

TEST(Quoted, CutsLongText) {
  EXPECT_EQ(Quoted(std::string(64, 'x')), "\"" + std::string(64, 'x') + "\"");
  EXPECT_EQ(Quoted(std::string(10 << 20, 'x')), "\"" + std::string(64, 'x') + "\"... (10485760 bytes)");
  EXPECT_EQ(Quoted("abcdef", 2), "\"ab\"... (6 bytes)");
}

}  // namespace
}  // namespace tensorcask
