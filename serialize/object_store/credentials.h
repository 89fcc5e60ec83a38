// The keys that requests to an S3 store are signed with, and where they come from.
//
//   ObjectStoreOptions options;
//   options.credentials = MakeStaticCredentials({"AKIA...", "secret", /*session_token=*/""});
//
// Without options.credentials an ObjectStore uses MakeDefaultCredentials(), which asks in this order, as other programs
// do:
//
// - AWS_NO_SIGN_REQUEST=true: requests are not signed;
// - AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN;
// - the profile AWS_PROFILE ("default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_CONFIG_FILE;
// - AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN or _TOKEN_FILE; http:
// is taken only of this host and of 169.254.170.2 and .23;
// - the metadata service of the machine (IMDSv2), at AWS_EC2_METADATA_SERVICE_ENDPOINT, unless
// AWS_EC2_METADATA_DISABLED is true.
//
// No program is executed: a profile that has only a credential_process is refused, with a sentence.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_CREDENTIALS_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_CREDENTIALS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tensorcask {

struct Credentials {
  std::string access_key_id;  // "": requests are not signed
  std::string secret_access_key;
  std::string session_token;                    // "" for keys that do not expire
  absl::Time expires = absl::InfiniteFuture();  // new ones are asked for some minutes before

  bool is_anonymous() const { return access_key_id.empty(); }
};

// Asked before each request, so it remembers what it found. Safe from several threads.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;

  // `renew`: the store says that the last ones have expired; what is remembered does not count.
  // Errors: those of the source. No message holds a key, a token or a part of them.
  virtual absl::StatusOr<Credentials> Get(bool renew) = 0;
};

std::shared_ptr<CredentialSource> MakeStaticCredentials(Credentials credentials);
std::shared_ptr<CredentialSource> MakeAnonymousCredentials();
// Reads the environment now, and files and services when it is first asked.
// Errors of Get: NotFound if no place has credentials, naming the places; FailedPrecondition for a profile that needs
// what is not done here; InvalidArgument for a file or an answer that cannot be read.
std::shared_ptr<CredentialSource> MakeDefaultCredentials();

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_CREDENTIALS_H_
