#include "tensorcask/serialize/npy/internal/literal_parser.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::npy {
namespace {

constexpr uint32_t kMaxCodePoint = 0x10ffff;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::optional<uint32_t> HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

}  // namespace

bool AppendUtf8(uint32_t code_point, std::string* out) {
  if (code_point > kMaxCodePoint) return false;
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->push_back(static_cast<char>(0xc0 | (code_point >> 6)));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
  } else if (code_point < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | (code_point >> 12)));
    out->push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | (code_point >> 18)));
    out->push_back(static_cast<char>(0x80 | ((code_point >> 12) & 0x3f)));
    out->push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
  }
  return true;
}

absl::Status LiteralParser::Error(absl::string_view expected) const {
  const std::string found = at_ < text_.size() ? Quoted(text_.substr(at_, 16)) : std::string("the end");
  return absl::InvalidArgumentError(absl::StrCat("header: expected ", expected, " at byte ", at_, ", found ", found));
}

void LiteralParser::SkipSpace() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
}

bool LiteralParser::AtEnd() {
  SkipSpace();
  return at_ == text_.size();
}

bool LiteralParser::Peek(char c) {
  SkipSpace();
  return at_ < text_.size() && text_[at_] == c;
}

bool LiteralParser::Consume(char c) {
  if (!Peek(c)) return false;
  ++at_;
  return true;
}

absl::Status LiteralParser::Expect(char c) {
  if (Consume(c)) return absl::OkStatus();
  return Error(absl::StrCat("'", absl::string_view(&c, 1), "'"));
}

absl::Status LiteralParser::Escape(std::string* out) {
  if (at_ == text_.size()) return Error("an escape");
  const char c = text_[at_];
  size_t digits = 0;
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      out->push_back(c);
      break;
    case 'n':
      out->push_back('\n');
      break;
    case 'r':
      out->push_back('\r');
      break;
    case 't':
      out->push_back('\t');
      break;
    case 'x':
      digits = 2;
      break;
    case 'u':
      digits = 4;
      break;
    case 'U':
      digits = 8;
      break;
    default:
      return Error("one of the escapes \\\\ \\' \\\" \\n \\r \\t \\x \\u \\U");
  }
  ++at_;
  if (digits == 0) return absl::OkStatus();
  uint32_t code_point = 0;
  for (size_t i = 0; i < digits; ++i, ++at_) {
    const std::optional<uint32_t> digit = at_ < text_.size() ? HexDigit(text_[at_]) : std::nullopt;
    if (!digit) return Error("a hexadecimal digit");
    code_point = code_point << 4 | *digit;
  }
  if (!AppendUtf8(code_point, out)) return Error("a code point up to U+10FFFF before this place");
  return absl::OkStatus();
}

absl::StatusOr<std::string> LiteralParser::String() {
  SkipSpace();
  const auto is_quote = [&](size_t at) { return at < text_.size() && (text_[at] == '\'' || text_[at] == '"'); };
  if (at_ < text_.size() && (text_[at_] == 'u' || text_[at_] == 'U') && is_quote(at_ + 1)) ++at_;
  if (!is_quote(at_)) return Error("a string");
  const size_t start = at_;
  const char quote = text_[at_++];
  std::string out;
  while (true) {
    if (at_ == text_.size() || text_[at_] == '\n') return Error("the end of a string");
    const char c = text_[at_++];
    if (c == quote) break;
    if (c == '\\') {
      CASK_RETURN_IF_ERROR(Escape(&out));
    } else if (is_utf8_ || static_cast<unsigned char>(c) < 0x80) {
      out.push_back(c);
    } else {
      AppendUtf8(static_cast<unsigned char>(c), &out);
    }
  }
  if (is_utf8_ && !internal::IsUtf8(text_.substr(start, at_ - start))) {
    at_ = start;
    return Error("a string in UTF-8");
  }
  return out;
}

absl::StatusOr<bool> LiteralParser::Bool() {
  SkipSpace();
  for (const absl::string_view word : {absl::string_view("True"), absl::string_view("False")}) {
    if (text_.substr(at_, word.size()) != word) continue;
    const size_t end = at_ + word.size();
    if (end < text_.size() && (absl::ascii_isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) break;
    at_ = end;
    return word == "True";
  }
  return Error("True or False");
}

absl::StatusOr<int64_t> LiteralParser::Integer() {
  SkipSpace();
  const size_t start = at_;
  std::optional<int64_t> value = 0;
  for (; at_ < text_.size() && IsDigit(text_[at_]); ++at_) {
    if (value) value = CheckedMul(*value, 10);
    if (value) value = CheckedAdd(*value, text_[at_] - '0');
  }
  const size_t digits = at_ - start;
  if (digits == 0) return Error("a number that is not negative");
  if (!value || (digits > 1 && text_[start] == '0')) {
    at_ = start;
    return Error("a number below 2^63 without leading zeros");
  }
  if (at_ < text_.size() && text_[at_] == 'L') ++at_;
  return *value;
}

absl::StatusOr<DimVector> LiteralParser::Dims() {
  if (!Peek('(')) return Error("a tuple of numbers");
  CASK_RETURN_IF_ERROR(Expect('('));
  DimVector dims;
  while (!Consume(')')) {
    if (dims.size() == TensorShape::kMaxRank) return Error(absl::StrCat("at most ", TensorShape::kMaxRank, " dims"));
    CASK_ASSIGN_OR_RETURN(const int64_t dim, Integer());
    dims.push_back(dim);
    if (Consume(',')) continue;
    if (dims.size() == 1) return Error("',' behind the one dim of a tuple");
    CASK_RETURN_IF_ERROR(Expect(')'));
    break;
  }
  return dims;
}

}  // namespace tensorcask::npy
