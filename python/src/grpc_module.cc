// The module tensorcask._grpc: the calls of remote_module.h, for `_native`.

#include <nanobind/nanobind.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorcask/python/src/remote_module.h"
#include "tensorcask/serialize/rpc/push_tensors.h"
#include "tensorcask/serialize/rpc/tls.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/version.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

class Server final : public RemoteServer {
 public:
  explicit Server(std::unique_ptr<TensorServer> server) : server_(std::move(server)) {}

  int port() const override { return server_->port(); }
  const std::string& address() const override { return server_->address(); }
  void Drain(Deadline deadline) override { server_->Drain(deadline); }
  TensorServerStats stats() const override { return server_->stats(); }

 private:
  const std::unique_ptr<TensorServer> server_;
};

absl::StatusOr<std::unique_ptr<RemoteServer>> Serve(TensorSource* source, TensorServerOptions options,
                                                    const RemoteCredentials* credentials) {
  if (credentials != nullptr) {
    TlsServerOptions own;
    own.certificate_chain = credentials->certificate;
    own.private_key = credentials->key;
    own.client_authorities = credentials->authorities;
    own.token = credentials->token;
    options.credentials = MakeTlsCredentials(own);
  }
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<TensorServer> server, TensorServer::Start(source, std::move(options)));
  return std::make_unique<Server>(std::move(server));
}

void SetCredentials(const RemoteCredentials* credentials, RemoteOptions* options) {
  if (credentials == nullptr) return;
  TlsClientOptions own;
  own.authorities = credentials->authorities;
  own.certificate_chain = credentials->certificate;
  own.private_key = credentials->key;
  own.token = credentials->token;
  options->credentials = MakeTlsCredentials(own);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& address, RemoteOptions options,
                                                    const RemoteCredentials* credentials) {
  SetCredentials(credentials, &options);
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<RemoteArchive> archive, RemoteArchive::Open(address, options));
  return std::unique_ptr<ArchiveReader>(std::move(archive));
}

const RemoteArchive& Remote(const ArchiveReader& archive) { return static_cast<const RemoteArchive&>(archive); }

absl::StatusOr<TensorVersion> Push(const std::string& address, int64_t step, std::vector<NamedView> tensors,
                                   RemoteOptions options, const RemoteCredentials* credentials) {
  SetCredentials(credentials, &options);
  return PushTensors(address, step, std::move(tensors), options);
}

constexpr RemoteModule kModule = {
    Serve,
    Open,
    [](const ArchiveReader& archive) { return Remote(archive).version(); },
    [](ArchiveReader* archive) { return static_cast<RemoteArchive*>(archive)->Refresh(); },
    [](const ArchiveReader& archive, Deadline deadline) { return Remote(archive).WaitForNewer(deadline); },
    [](const ArchiveReader& archive, absl::Span<const PullItem> items, const PullOptions& options) {
      return PullInto(&Remote(archive), items, options);
    },
    Push,
};

}  // namespace
}  // namespace tensorcask::python

NB_MODULE(_grpc, m) {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // its errors are statuses, which become exceptions
  m.attr("version") = CASK_VERSION_STRING;
  m.attr("calls") = nb::capsule(&tensorcask::python::kModule, "tensorcask.RemoteModule");
}
