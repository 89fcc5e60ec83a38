#include "tensorcask/serialize/archive/formats/internal/shard_name.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tensorcask::archive {
namespace {

// The number that `text` begins with, which goes, if it has `digits` digits; -1 if it has fewer or more.
int TakeNumber(size_t digits, absl::string_view* text) {
  size_t count = 0;
  int number = 0;
  while (count < std::min(digits, text->size()) && absl::ascii_isdigit(static_cast<unsigned char>((*text)[count]))) {
    number = 10 * number + ((*text)[count++] - '0');
  }
  if (count < digits) return -1;
  text->remove_prefix(count);
  return text->empty() || !absl::ascii_isdigit(static_cast<unsigned char>(text->front())) ? number : -1;
}

}  // namespace

std::optional<FileNumber> NumberInName(absl::string_view name) {
  constexpr size_t kDigits = 5;
  constexpr absl::string_view kOf = "-of-";
  const size_t of = name.rfind(kOf);
  if (of == absl::string_view::npos || of <= kDigits + 1 || name[of - kDigits - 1] != '-') return std::nullopt;
  absl::string_view before = name.substr(of - kDigits, kDigits);
  absl::string_view after = name.substr(of + kOf.size());
  const int number = TakeNumber(kDigits, &before);
  const int count = TakeNumber(kDigits, &after);
  if (number < 1 || count < 2 || number > count) return std::nullopt;
  return FileNumber{number, count, name.substr(0, of - kDigits - 1), after};
}

std::vector<std::string> NotesOfName(absl::string_view path) {
  const std::optional<FileNumber> file = NumberInName(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
  if (!file.has_value()) return {};
  const size_t dot = file->after.rfind('.');
  const absl::string_view extension = dot == absl::string_view::npos ? "" : file->after.substr(dot);
  return {absl::StrCat("is file ", file->number, " of ", file->count, " of a model, which is usually opened by ",
                       file->before, extension, ".index.json")};
}

}  // namespace tensorcask::archive
