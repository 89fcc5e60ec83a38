#include "tensorcask/python/src/base/errors.h"

#include <nanobind/nanobind.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/file_system.h"

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
    case absl::StatusCode::kAborted:
      return "AbortedError";
    case absl::StatusCode::kCancelled:
      return "CancelledError";
    default:
      return "SystemCallError";
  }
}

// The message, with options named as the arguments are here, "ConvertOptions::allow_loss" is allow_loss, and with what
// helps against damage of some tensors.
std::string MessageOf(const absl::Status& status) {
  std::string message = absl::StrReplaceAll(status.message(), {{"ConvertOptions::", ""}, {"NpyReaderOptions::", ""}});
  if (IsDamagedPart(status)) absl::StrAppend(&message, "; tensorcask.salvage saves the undamaged tensors");
  if (HasWrongChecksum(status)) absl::StrAppend(&message, ", verify=False reads the others as they are");
  return message;
}

nb::object ClassOf(const char* name) { return nb::module_::import_("tensorcask._errors").attr(name); }

[[noreturn]] void RaiseException(nb::handle type, const nb::object& exception) {
  PyErr_SetObject(type.ptr(), exception.ptr());
  throw nb::python_error();
}

// What failed in the system is an OSError with this number. The two exceptions: damage that was found on the way, and
// no memory, which is a MemoryError.
[[noreturn]] void RaiseNumbered(const absl::Status& status, int number) {
  nb::object type = ClassOf(ClassName(status.code(), About::kFile));
  const bool keeps_class = absl::IsDataLoss(status) || absl::IsCancelled(status) || number == ENOMEM;
  if (!keeps_class && PyObject_IsSubclass(type.ptr(), PyExc_OSError) == 0) type = ClassOf("SystemCallError");
  const nb::object exception = type(ToText(MessageOf(status)));
  if (!keeps_class) exception.attr("errno") = number;
  RaiseException(type, exception);
}

}  // namespace

void Raise(const absl::Status& status, About about) {
  if (const int number = ErrorNumberOf(status); number != 0) RaiseNumbered(status, number);
  RaiseException(ClassOf(ClassName(status.code(), about)), ToText(MessageOf(status)));
}

void RaiseClosed(const char* what) { RaiseException(ClassOf("ClosedError"), ToText(what)); }

}  // namespace tensorcask::python
