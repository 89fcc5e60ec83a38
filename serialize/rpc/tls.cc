#include "tensorcask/serialize/rpc/tls.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorcask {
namespace {

constexpr char kHeader[] = "authorization";

// Compares all bytes, so that the time does not tell how many are right.
bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned char>(a[i] ^ b[i]);
  return different == 0;
}

class TokenCheck final : public grpc::AuthMetadataProcessor {
 public:
  explicit TokenCheck(const std::string& token) : wanted_(absl::StrCat("Bearer ", token)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* /*context*/, OutputMetadata* consumed,
                       OutputMetadata* /*response*/) override {
    const auto found = metadata.find(kHeader);
    if (found == metadata.end()) return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "the server wants a token");
    const absl::string_view given(found->second.data(), found->second.size());
    if (!SameSecret(given, wanted_)) return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "the token is wrong");
    consumed->emplace(kHeader, std::string(given));
    return grpc::Status::OK;
  }

 private:
  const std::string wanted_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const TlsServerOptions& options) {
  grpc::SslServerCredentialsOptions ssl(options.client_authorities.empty()
                                            ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                            : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  ssl.pem_root_certs = options.client_authorities;
  ssl.pem_key_cert_pairs.push_back({options.private_key, options.certificate_chain});
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::SslServerCredentials(ssl);
  if (!options.token.empty()) credentials->SetAuthMetadataProcessor(std::make_shared<TokenCheck>(options.token));
  return credentials;
}

std::shared_ptr<grpc::ChannelCredentials> MakeTlsCredentials(const TlsClientOptions& options) {
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = options.authorities;
  ssl.pem_cert_chain = options.certificate_chain;
  ssl.pem_private_key = options.private_key;
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::SslCredentials(ssl);
  if (options.token.empty()) return credentials;
  return grpc::CompositeChannelCredentials(credentials, grpc::AccessTokenCredentials(options.token));
}

}  // namespace tensorcask
