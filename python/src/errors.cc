#include "tensorcask/python/src/errors.h"

#include <nanobind/nanobind.h>

#include "absl/strings/string_view.h"
#include "tensorcask/python/src/text.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

const char* ClassName(absl::StatusCode code, About about) {
  const bool is_file = about == About::kFile;
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return "InvalidArgumentError";
    case absl::StatusCode::kDataLoss:
      return "DataLossError";
    case absl::StatusCode::kNotFound:
      return is_file ? "MissingFileError" : "MissingTensorError";
    case absl::StatusCode::kAlreadyExists:
      return is_file ? "ExistingFileError" : "ExistingTensorError";
    case absl::StatusCode::kUnimplemented:
      return "UnimplementedError";
    case absl::StatusCode::kOutOfRange:
      return "OutOfRangeError";
    case absl::StatusCode::kResourceExhausted:
      return "ResourceExhaustedError";
    case absl::StatusCode::kFailedPrecondition:
      return "FailedPreconditionError";
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return "NoPermissionError";
    case absl::StatusCode::kDeadlineExceeded:
      return "DeadlineError";
    case absl::StatusCode::kUnavailable:
      return "UnavailableError";
    case absl::StatusCode::kCancelled:
      return "CancelledError";
    default:
      return "SystemCallError";
  }
}

[[noreturn]] void RaiseClass(const char* name, absl::string_view message) {
  const nb::object type = nb::module_::import_("tensorcask._errors").attr(name);
  const nb::object text = ToText(message);
  PyErr_SetObject(type.ptr(), text.ptr());
  throw nb::python_error();
}

}  // namespace

void Raise(const absl::Status& status, About about) { RaiseClass(ClassName(status.code(), about), status.message()); }

void RaiseClosed(const char* what) { RaiseClass("ClosedError", what); }

}  // namespace tensorcask::python
