#include "tensorcask/tensor/base/json_string.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tensorcask::internal {
namespace {

struct JsonCase {
  absl::string_view text;
  absl::string_view with_short;
  absl::string_view with_unicode;
  bool is_exact = true;
};

TEST(JsonString, HasTheEscapesOfItsForm) {
  const JsonCase cases[] = {
      {"", R"("")", R"("")"},
      {R"(a"b\c/)", R"("a\"b\\c/")", R"("a\"b\\c/")"},
      {"\b\f\n\r\t", R"("\b\f\n\r\t")", R"("\u0008\u000c\u000a\u000d\u0009")"},
      {absl::string_view("\0\x1f", 2), R"("\u0000\u001f")", R"("\u0000\u001f")"},
      {"\x7f", "\"\x7f\"", R"("\u007f")"},
      {"\xc3\xb6\xf0\x9f\x98\x80", "\"\xc3\xb6\xf0\x9f\x98\x80\"", "\"\xc3\xb6\xf0\x9f\x98\x80\""},
      {"\xc3\xb6\xff\xc3", "\"\xc3\xb6\xef\xbf\xbd\xef\xbf\xbd\"", "\"\xc3\xb6\xef\xbf\xbd\xef\xbf\xbd\"", false},
  };
  for (const JsonCase& one : cases) {
    std::string text = "x";
    EXPECT_EQ(AppendJsonString(one.text, JsonEscapes::kShort, &text), one.is_exact);
    EXPECT_EQ(text, std::string("x").append(one.with_short.data(), one.with_short.size()));
    text.clear();
    EXPECT_EQ(AppendJsonString(one.text, JsonEscapes::kUnicode, &text), one.is_exact);
    EXPECT_EQ(text, one.with_unicode);
  }
}

}  // namespace
}  // namespace tensorcask::internal
