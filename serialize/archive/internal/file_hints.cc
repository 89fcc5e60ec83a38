#include "tensorcask/serialize/archive/internal/file_hints.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/stale_temporaries.h"

namespace tensorcask::archive {
namespace {

// "m" for "m.data-00000-of-00001".
std::optional<std::string> PrefixOfDataFile(const std::string& path) {
  constexpr absl::string_view kPattern = ".data-00000-of-00000";
  if (path.size() <= kPattern.size()) return std::nullopt;
  const size_t split = path.size() - kPattern.size();
  const bool matches = std::equal(kPattern.begin(), kPattern.end(), path.begin() + static_cast<std::ptrdiff_t>(split),
                                  [](char p, char c) { return p == '0' ? c >= '0' && c <= '9' : c == p; });
  if (!matches) return std::nullopt;
  return path.substr(0, split);
}

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

std::vector<std::string> NotesOfName(absl::string_view path) {
  constexpr size_t kDigits = 5;
  constexpr absl::string_view kOf = "-of-";
  const absl::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  const size_t of = name.rfind(kOf);
  if (of == absl::string_view::npos || of <= kDigits + 1 || name[of - kDigits - 1] != '-') return {};
  absl::string_view before = name.substr(of - kDigits, kDigits);
  absl::string_view after = name.substr(of + kOf.size());
  const int number = TakeNumber(kDigits, &before);
  const int count = TakeNumber(kDigits, &after);
  if (number < 1 || count < 2 || number > count) return {};
  const size_t dot = after.rfind('.');
  const absl::string_view extension = dot == absl::string_view::npos ? "" : after.substr(dot);
  return {absl::StrCat("is file ", number, " of ", count, " of a model: ", name.substr(0, of - kDigits - 1), extension,
                       ".index.json opens all of them")};
}

std::string UnfinishedHint(const std::string& path) {
  const std::optional<absl::string_view> final_name = FinalNameOfTemporary(path);
  if (!final_name.has_value()) return "";
  return absl::StrCat("this is the temporary file of a save to ", *final_name,
                      " that is not finished or was killed (tensorcask clean tells which)");
}

std::string FileHint(const ArchiveProbe& probe) {
  if (const std::optional<std::string> prefix = PrefixOfDataFile(probe.path); prefix.has_value()) {
    const std::string index = absl::StrCat(*prefix, ".index");
    return IsThere(index, probe.file_system)
               ? absl::StrCat("this is a data file of a checkpoint: name the checkpoint, ", *prefix)
               : absl::StrCat("this is a data file of a checkpoint, whose index, ", index, ", is missing");
  }
  if (std::string hint = UnfinishedHint(probe.path); !hint.empty()) return hint;
  const ContentHint hint = LookAtContent(probe.head, probe.file->size_bytes());
  return hint.what.empty() || hint.is_text ? "" : absl::StrCat("this is ", hint.what);
}

}  // namespace tensorcask::archive
