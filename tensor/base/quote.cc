#include "tensorcask/tensor/base/quote.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/printable_text.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

// As absl::CHexEscape, but characters of UTF-8 that are safe to print stay as they are.
std::string Escaped(absl::string_view text) {
  std::string escaped;
  bool after_hex = false;  // a hex digit after "\x1b" would be part of the escape, so it is escaped, too
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = internal::PrintableBytes(text.substr(i));
    if (bytes > 1) {
      escaped.append(text.data() + i, bytes);
      after_hex = false;
      i += bytes;
      continue;
    }
    const absl::string_view byte = text.substr(i, 1);
    std::string one = absl::CHexEscape(byte);
    if (after_hex && absl::ascii_isxdigit(static_cast<unsigned char>(byte[0]))) {
      one = absl::StrCat("\\x", absl::BytesToHexString(byte));
    }
    after_hex = absl::StartsWith(one, "\\x");
    escaped += one;
    ++i;
  }
  return escaped;
}

}  // namespace

std::string Quoted(absl::string_view text, size_t max_bytes) {
  const std::string quoted = absl::StrCat("\"", Escaped(internal::Utf8Prefix(text, max_bytes)), "\"");
  return text.size() <= max_bytes ? quoted : absl::StrCat(quoted, "... (", text.size(), " bytes)");
}

}  // namespace tensorcask
