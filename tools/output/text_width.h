// How wide a terminal shows text.
//
//   TextWidth("größe")       // 5
//   TextWidth("日本語/核")    // 9: a character of East Asian scripts takes two columns

#ifndef TENSORCASK_TOOLS_OUTPUT_TEXT_WIDTH_H_
#define TENSORCASK_TOOLS_OUTPUT_TEXT_WIDTH_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace tensorcask::tools {

// The columns of a terminal that `text` takes: two for a wide or full-width character (Unicode Standard Annex 11) and
// for an emoji, none for an accent that combines with the character before it, one for any other character. Each byte
// that is not part of well-formed UTF-8 counts as one.
size_t TextWidth(absl::string_view text);

// The longest start of `text`, in whole characters, that takes at most `width` columns; and the longest such end.
absl::string_view StartOfWidth(absl::string_view text, size_t width);
absl::string_view EndOfWidth(absl::string_view text, size_t width);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_OUTPUT_TEXT_WIDTH_H_
