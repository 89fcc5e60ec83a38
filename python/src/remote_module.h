// What the module tensorcask._native has from gRPC. Two extension modules are built: `_native`, which is not linked
// with gRPC, and `_grpc`, which is, and exists where gRPC was found when the package was built. `_grpc` has no code of
// the library: it finds that in `_native`, so that the process has one copy of it. A second copy would register the
// descriptors of the .proto files twice, which ends the process.

#ifndef TENSORCASK_PYTHON_SRC_REMOTE_MODULE_H_
#define TENSORCASK_PYTHON_SRC_REMOTE_MODULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask::python {

// Of a server or a client. Texts in PEM; "": none.
struct RemoteCredentials {
  std::string certificate;  // of this side
  std::string key;
  std::string authorities;  // that may have signed the certificate of the other side
  std::string token;        // that the client shows
};

// A TensorServer. Thread-safe.
class RemoteServer {
 public:
  virtual ~RemoteServer() = default;
  virtual int port() const = 0;
  virtual const std::string& address() const = 0;
  virtual void Drain(Deadline deadline) = 0;
  virtual TensorServerStats stats() const = 0;
};

// The calls of serialize/rpc that need gRPC. Null credentials: none. An archive is one that `open` has made: `_native`
// has no code of RemoteArchive, its destructor included.
struct RemoteModule {
  absl::StatusOr<std::unique_ptr<RemoteServer>> (*serve)(TensorSource* source, TensorServerOptions options,
                                                         const RemoteCredentials* credentials);
  absl::StatusOr<std::unique_ptr<ArchiveReader>> (*open)(const std::string& address, RemoteOptions options,
                                                         const RemoteCredentials* credentials);
  TensorVersion (*version)(const ArchiveReader& archive);
  absl::Status (*refresh)(ArchiveReader* archive);
  absl::StatusOr<TensorVersion> (*wait_for_newer)(const ArchiveReader& archive, Deadline deadline);
  absl::Status (*pull_into)(const ArchiveReader& archive, absl::Span<const PullItem> items, const PullOptions& options);
  absl::StatusOr<TensorVersion> (*push)(const std::string& address, int64_t step, std::vector<NamedView> tensors,
                                        RemoteOptions options, const RemoteCredentials* credentials);
};

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_REMOTE_MODULE_H_
