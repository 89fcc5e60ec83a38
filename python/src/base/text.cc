#include "tensorcask/python/src/base/text.h"

#include <cstddef>

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

std::string BytesOf(nb::handle bytes) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.ptr(), &data, &size) != 0) throw nb::python_error();
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

nb::list TextList(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(ToText(text));
  return list;
}

nb::object ToText(absl::string_view bytes) {
  PyObject* const text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (text == nullptr) throw nb::python_error();
  return nb::steal(text);
}

nb::bytes ToBytes(absl::string_view bytes) { return nb::bytes(bytes.data(), bytes.size()); }

std::string FromText(nb::handle text, const char* what) {
  if (PyBytes_Check(text.ptr())) return BytesOf(text);
  if (!PyUnicode_Check(text.ptr())) {
    PyErr_Format(PyExc_TypeError, "%s must be str or bytes, not %R", what, text.type().ptr());
    throw nb::python_error();
  }
  PyObject* const encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (encoded == nullptr) throw nb::python_error();
  const nb::object owner = nb::steal(encoded);
  return BytesOf(owner);
}

std::string EscapeHtml(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string TextOf(nb::handle object) { return FromText(nb::str(object), "str()"); }

std::string FromPath(nb::handle path) {
  PyObject* const fspath = PyOS_FSPath(path.ptr());
  if (fspath == nullptr) throw nb::python_error();
  const nb::object owner = nb::steal(fspath);
  if (PyBytes_Check(fspath)) return BytesOf(owner);
  PyObject* const encoded = PyUnicode_EncodeFSDefault(fspath);
  if (encoded == nullptr) throw nb::python_error();
  const nb::object bytes = nb::steal(encoded);
  return BytesOf(bytes);
}

std::string FromPathOrNone(nb::handle path) { return path.is_none() ? std::string() : FromPath(path); }

std::optional<std::vector<std::string>> FromNames(nb::handle names, const char* what) {
  if (names.is_none()) return std::nullopt;
  std::vector<std::string> result;
  if (PyUnicode_Check(names.ptr()) || PyBytes_Check(names.ptr())) {
    result.push_back(FromText(names, what));
    return result;
  }
  for (const nb::handle name : nb::iter(names)) result.push_back(FromText(name, what));
  return result;
}

}  // namespace tensorcask::python
