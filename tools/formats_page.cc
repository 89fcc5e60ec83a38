#include "tensorcask/tools/formats_page.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/tools/formats.h"

namespace tensorcask::tools {
namespace {

constexpr absl::string_view kTableHead =
    "| Format | Extensions | Written | Edited | Options of its own |\n"
    "| --- | --- | --- | --- | --- |\n";

std::string CodeList(const std::vector<std::string>& words) {
  return words.empty() ? "-" : absl::StrCat("`", absl::StrJoin(words, "` `"), "`");
}

std::string RowOf(const ArchiveFormat& format) {
  const ArchiveTraits traits = format.traits();
  std::vector<std::string> extensions;
  for (const absl::string_view extension : format.extensions()) extensions.emplace_back(extension);
  std::vector<std::string> options;
  for (const FormatOption& option : FormatOptionList()) {
    const bool has_it = std::find(option.formats.begin(), option.formats.end(), format.name()) != option.formats.end();
    if (has_it) options.push_back(absl::StrCat("--", option.name));
  }
  const absl::string_view written = !traits.is_written ? "no" : traits.needs_base ? "from another one" : "yes";
  return absl::StrCat("| ", format.name(), " | ", CodeList(extensions), traits.is_prefix ? ", or none" : "", " | ",
                      written, " | ", traits.is_edited ? "yes" : "no", " | ", CodeList(options), " |\n");
}

}  // namespace

std::string FormatsPage() {
  const AllFormats library;
  const ArchiveFormats all = Formats();  // those of the library come first
  std::string page = absl::StrCat(
      "# Formats\n\n"
      "`tensorcask --print formats` writes this page from `serialize/archive/formats/all_formats.h`, the one list of\n"
      "formats and of their options. All formats are read. A format is recognized by the content of a file; the\n"
      "extension of a new file names the format that is written. The first column has the names that `--format` and\n"
      "`--to` of the tool take, `format=` of Python, and `FindFormat` of C++. Which versions, and which parts, are "
      "read\n"
      "and written: [COMPATIBILITY.md](../COMPATIBILITY.md).\n\n",
      kTableHead);
  for (const ArchiveFormat* const format : library.list()) page += RowOf(*format);
  absl::StrAppend(
      &page,
      "\nThese are of the tool alone. It also reads the tensors of a server, `unix:SOCKET`, as Python does, "
      "and\nrecords from standard input.\n\n",
      kTableHead);
  for (const ArchiveFormat* const format : all.subspan(library.list().size())) {
    if (format->scheme().empty()) page += RowOf(*format);
  }
  return page;
}

}  // namespace tensorcask::tools
