// Names and paths of Python as bytes of C++, and back. Names of tensors are any bytes: those that are not UTF-8 become
// surrogates ("surrogateescape"), as file names do in Python.

#ifndef TENSORCASK_PYTHON_SRC_BASE_TEXT_H_
#define TENSORCASK_PYTHON_SRC_BASE_TEXT_H_

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tensorcask::python {

nanobind::object ToText(absl::string_view bytes);
nanobind::list TextList(const std::vector<std::string>& texts);  // ToText of each
nanobind::bytes ToBytes(absl::string_view bytes);

// Of str or bytes. Throws TypeError, naming `what`, for other objects.
std::string FromText(nanobind::handle text, const char* what);

// The text in HTML, outside of attributes.
std::string EscapeHtml(absl::string_view text);

// str(object).
std::string TextOf(nanobind::handle object);

// Of str, bytes or os.PathLike. Throws TypeError.
std::string FromPath(nanobind::handle path);
// "" for None.
std::string FromPathOrNone(nanobind::handle path);

// Of None (nothing), str (one pattern) or an iterable of str.
std::optional<std::vector<std::string>> FromNames(nanobind::handle names, const char* what);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_BASE_TEXT_H_
