// Tensors of other hosts: what opens grpc:// and grpcs:// (remote.cc), tensorcask.serve (remote_server.cc), follow and
// push (remote_client.cc).

#ifndef TENSORCASK_PYTHON_SRC_REMOTE_H_
#define TENSORCASK_PYTHON_SRC_REMOTE_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/python/src/remote_module.h"
#include "tensorcask/serialize/archive/archive_format.h"

namespace tensorcask::python {

// True for grpc://... and grpcs://...
bool IsRemote(absl::string_view path);

// The calls of the module tensorcask._grpc, which the first call imports. Throws MissingFrameworkError where it was not
// built, and FailedPreconditionError in a child of fork(2) if the parent has used gRPC. Requires: the GIL.
const RemoteModule& Grpc();

// The argument `credentials`: None, or a tensorcask.Credentials.
std::optional<RemoteCredentials> FromCredentials(nanobind::handle credentials);

// The formats of both schemes. Grpc() must have been called before they open something.
std::vector<std::unique_ptr<const ArchiveFormat>> RemoteFormats(const std::optional<RemoteCredentials>& credentials);

// A tensorcask.Version.
nanobind::object ToVersion(const TensorVersion& version);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_REMOTE_H_
