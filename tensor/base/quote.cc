#include "tensorcask/tensor/base/quote.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tensorcask {

std::string Quoted(absl::string_view text, size_t max_bytes) {
  const std::string quoted = absl::StrCat("\"", absl::CHexEscape(text.substr(0, max_bytes)), "\"");
  return text.size() <= max_bytes ? quoted : absl::StrCat(quoted, "... (", text.size(), " bytes)");
}

}  // namespace tensorcask
