#include "tensorcask/tensor/base/quote.h"

#include <string>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

TEST(Quoted, EscapesWhatIsNotPrintable) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("cuda:0"), "\"cuda:0\"");
  EXPECT_EQ(Quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(Quoted("\x1b[2J\n\x7f\xff"), "\"\\x1b[2J\\n\\x7f\\xff\"");
  EXPECT_EQ(Quoted(absl::string_view("a\0z", 3)), "\"a\\x00z\"");
  EXPECT_EQ(Quoted(absl::string_view("a\0b", 3)), "\"a\\x00\\x62\"");  // \x00b would be another byte
}

TEST(Quoted, KeepsUtf8) {
  EXPECT_EQ(Quoted("weights/gr\u00f6\u00dfe"), "\"weights/gr\u00f6\u00dfe\"");
  EXPECT_EQ(Quoted("\u91cd\u307f \U0001f600"), "\"\u91cd\u307f \U0001f600\"");
  EXPECT_EQ(Quoted("\x1b\u00f6"
                   "a"),
            "\"\\x1b\u00f6"
            "a\"");  // the digit does not follow the escape
}

TEST(Quoted, EscapesCharactersThatControlATerminalOrHide) {
  EXPECT_EQ(Quoted("\u009b"
                   "2J"),
            "\"\\xc2\\x9b\\x32J\"");                                        // CSI, as one character
  EXPECT_EQ(Quoted("\u0085"), "\"\\xc2\\x85\"");                            // next line
  EXPECT_EQ(Quoted("\u202e"), "\"\\xe2\\x80\\xae\"");                       // right-to-left override
  EXPECT_EQ(Quoted("\u2066\u2069"), "\"\\xe2\\x81\\xa6\\xe2\\x81\\xa9\"");  // isolates
  EXPECT_EQ(Quoted("\u2028\u2029"), "\"\\xe2\\x80\\xa8\\xe2\\x80\\xa9\"");  // separators
  EXPECT_EQ(Quoted("\u200b\ufeff"), "\"\\xe2\\x80\\x8b\\xef\\xbb\\xbf\"");  // without a width
}

TEST(Quoted, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(Quoted("\xc3"), "\"\\xc3\"");
  EXPECT_EQ(Quoted("\xc0\xaf"), "\"\\xc0\\xaf\"");                    // not the shortest form
  EXPECT_EQ(Quoted("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"");           // a surrogate
  EXPECT_EQ(Quoted("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\"");  // past U+10FFFF
}

TEST(Quoted, CutsLongText) {
  EXPECT_EQ(Quoted(std::string(64, 'x')), "\"" + std::string(64, 'x') + "\"");
  EXPECT_EQ(Quoted(std::string(10 << 20, 'x')), "\"" + std::string(64, 'x') + "\"... (10485760 bytes)");
  EXPECT_EQ(Quoted("abcdef", 2), "\"ab\"... (6 bytes)");
  EXPECT_EQ(Quoted("ab\u91cd"
                   "c",
                   4),
            "\"ab\"... (6 bytes)");  // never inside a character
  EXPECT_EQ(Quoted("\u00f6\u00f6", 2), "\"\u00f6\"... (4 bytes)");
  EXPECT_EQ(Quoted("\x80\x80\x80\x80\x80\x80", 5), "\"\\x80\\x80\\x80\\x80\\x80\"... (6 bytes)");
  EXPECT_EQ(Quoted("\u00f6", 1), "\"\"... (2 bytes)");
}

}  // namespace
}  // namespace tensorcask
