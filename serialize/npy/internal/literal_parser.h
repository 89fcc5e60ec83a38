// Parts of Python literals, as the headers of npy files have them. Internal.
//
//   LiteralParser parser(text, /*is_utf8=*/false);
//   CASK_RETURN_IF_ERROR(parser.Expect('('));
//   CASK_ASSIGN_OR_RETURN(const int64_t dim, parser.Integer());
//
// Every function first passes over spaces, tabs and line ends. No function calls itself, so the stack stays small
// whatever the text.
// Errors: InvalidArgument, "header: expected ... at byte 12, found ...".

#ifndef TENSORCASK_SERIALIZE_NPY_INTERNAL_LITERAL_PARSER_H_
#define TENSORCASK_SERIALIZE_NPY_INTERNAL_LITERAL_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::npy {

class LiteralParser {
 public:
  // Strings become UTF-8. The text is in UTF-8 or Latin-1.
  LiteralParser(absl::string_view text, bool is_utf8) : text_(text), is_utf8_(is_utf8) {}

  size_t position() const { return at_; }
  bool AtEnd();
  // True if the next character is `c`; it is consumed by Consume only.
  bool Peek(char c);
  bool Consume(char c);
  absl::Status Expect(char c);

  absl::StatusOr<std::string> String();  // 'a', "a" or Python 2's u'a', with Python's escapes
  absl::StatusOr<bool> Bool();           // True or False
  absl::StatusOr<int64_t> Integer();     // decimal, not negative; 3L is 3
  absl::StatusOr<DimVector> Dims();      // (), (3,), (2, 3); no more than a shape has

  absl::Status Error(absl::string_view expected) const;  // at the position

 private:
  void SkipSpace();
  absl::Status Escape(std::string* out);  // after the backslash

  absl::string_view text_;
  bool is_utf8_;
  size_t at_ = 0;
};

// Appends `code_point` as UTF-8; a surrogate as three bytes. False above U+10FFFF.
bool AppendUtf8(uint32_t code_point, std::string* out);

}  // namespace tensorcask::npy

#endif  // TENSORCASK_SERIALIZE_NPY_INTERNAL_LITERAL_PARSER_H_
