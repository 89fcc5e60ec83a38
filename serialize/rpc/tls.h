// Credentials of servers and clients of tensors (tensor_server.h, remote_archive.h): TLS, and a token.
//
//   TlsServerOptions own;
//   own.certificate_chain = ...;                               // texts in PEM, not paths
//   own.private_key = ...;
//   own.token = "a secret of 128 bits or more";
//   TensorServerOptions options;
//   options.credentials = MakeTlsCredentials(own);
//
//   RemoteOptions remote;
//   remote.credentials = MakeTlsCredentials(TlsClientOptions{authorities, "", "", token});
//   RemoteArchive::Open("grpcs://host:50051", remote);
//
// These are thin wrappers around grpc::SslServerCredentials and grpc::SslCredentials, for programs that include no
// header of gRPC. TLS 1.2 and later. What TLS refuses is Unavailable; a missing token is Unauthenticated, a wrong one
// PermissionDenied.

#ifndef TENSORCASK_SERIALIZE_RPC_TLS_H_
#define TENSORCASK_SERIALIZE_RPC_TLS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace tensorcask {

struct TlsServerOptions {
  std::string certificate_chain;   // the server's, PEM
  std::string private_key;         // PEM
  std::string client_authorities;  // PEM. Clients need a certificate that one of these has signed; "": none
  std::string token;               // what clients must send; "": nothing
};
std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const TlsServerOptions& options);

struct TlsClientOptions {
  std::string authorities;        // PEM. One of these has signed the server's certificate; "": the system's
  std::string certificate_chain;  // the client's, PEM; "": it has none
  std::string private_key;
  std::string token;
};
std::shared_ptr<grpc::ChannelCredentials> MakeTlsCredentials(const TlsClientOptions& options);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_RPC_TLS_H_
