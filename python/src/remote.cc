#include "tensorcask/python/src/remote.h"

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/serialize/rpc/remote_format.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/version.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

std::atomic<const RemoteModule*> loaded{nullptr};

[[noreturn]] void RaiseMissing(const std::string& why) {
  const nb::object type = nb::module_::import_("tensorcask._errors").attr("MissingFrameworkError");
  PyErr_SetObject(type.ptr(),
                  ToText(absl::StrCat("grpc:// needs the module tensorcask._grpc, which is missing here (", why,
                                      "): install gRPC for C++, on Debian the packages libgrpc++-dev "
                                      "and protobuf-compiler-grpc, and build the package again"))
                      .ptr());
  throw nb::python_error();
}

const RemoteModule* Import() {
  try {
    const nb::module_ module = nb::module_::import_("tensorcask._grpc");
    if (FromText(module.attr("version"), "version") != CASK_VERSION_STRING) RaiseMissing("it is of another version");
    return static_cast<const RemoteModule*>(nb::cast<nb::capsule>(module.attr("calls")).data());
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    RaiseMissing(TextOf(error.value()));
  }
}

// Opens by the calls of the module tensorcask._grpc.
class ModuleFormat final : public RemoteFormat {
 public:
  ModuleFormat(bool tls, std::optional<RemoteCredentials> credentials)
      : RemoteFormat(tls), credentials_(std::move(credentials)) {}

  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override {
    const RemoteModule* const module = loaded;
    if (module == nullptr) return absl::FailedPreconditionError(absl::StrCat(path, ": gRPC was not imported"));
    RemoteOptions remote;
    remote.limits = options.limits;
    remote.listing = options.listing;
    remote.pull.keep_going = KeepGoing;
    return module->open(path, remote, credentials_.has_value() ? &*credentials_ : nullptr);
  }

 private:
  const std::optional<RemoteCredentials> credentials_;
};

}  // namespace

bool IsRemote(absl::string_view path) {
  return absl::StartsWith(path, RemoteFormat::kScheme) || absl::StartsWith(path, RemoteFormat::kTlsScheme);
}

const RemoteModule& Grpc() {
  // The import may release the GIL: two threads may both make it.
  if (loaded == nullptr) loaded = Import();
  static const OwnerProcess* const owner = new OwnerProcess;
  if (!owner->IsThisProcess()) {
    Raise(absl::FailedPreconditionError(
        "gRPC was used before os.fork, and cannot be used in the child: start the process with the method 'spawn', or "
        "use gRPC only in the child"));
  }
  return *loaded;
}

std::optional<RemoteCredentials> FromCredentials(nb::handle credentials) {
  if (credentials.is_none()) return std::nullopt;
  if (!nb::isinstance(credentials, nb::module_::import_("tensorcask._remote").attr("Credentials"))) {
    PyErr_Format(PyExc_TypeError, "credentials must be a tensorcask.Credentials, not %R", credentials.type().ptr());
    throw nb::python_error();
  }
  const auto text = [&](const char* name) {
    const nb::object value = credentials.attr(name);
    return value.is_none() ? std::string() : FromText(value, name);
  };
  return RemoteCredentials{text("certificate"), text("key"), text("authorities"), text("token")};
}

std::vector<std::unique_ptr<const ArchiveFormat>> RemoteFormats(const std::optional<RemoteCredentials>& credentials) {
  std::vector<std::unique_ptr<const ArchiveFormat>> formats;
  for (const bool tls : {false, true}) formats.push_back(std::make_unique<ModuleFormat>(tls, credentials));
  return formats;
}

nb::object ToVersion(const TensorVersion& version) {
  return nb::module_::import_("tensorcask._remote").attr("Version")(version.step, version.id);
}

}  // namespace tensorcask::python
