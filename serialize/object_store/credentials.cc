#include "tensorcask/serialize/object_store/credentials.h"

#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/object_store/internal/environment.h"
#include "tensorcask/serialize/object_store/internal/local_service.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

using internal::AskLocalService;
using internal::StoreEnvironment;

constexpr absl::Duration kRenewBefore = absl::Minutes(5);
constexpr uint64_t kMaxTokenBytes = 64 << 10;
constexpr char kMetadataEndpoint[] = "http://169.254.169.254";
constexpr char kContainerEndpoint[] = "http://169.254.170.2";
constexpr char kRolePath[] = "/latest/meta-data/iam/security-credentials/";

class StaticCredentials final : public CredentialSource {
 public:
  explicit StaticCredentials(Credentials credentials) : credentials_(std::move(credentials)) {}
  absl::StatusOr<Credentials> Get(bool) override { return credentials_; }

 private:
  const Credentials credentials_;
};

// A value that goes into a header or a line of text as it is.
absl::Status CheckPrintable(absl::string_view value, absl::string_view what) {
  for (const char c : value) {
    if (c < 0x21 || c > 0x7e) {
      return absl::InvalidArgumentError(absl::StrCat(what, " has a character that is not printable ASCII"));
    }
  }
  return absl::OkStatus();
}

class DefaultCredentials final : public CredentialSource {
 public:
  explicit DefaultCredentials(StoreEnvironment environment) : environment_(std::move(environment)) {}

  absl::StatusOr<Credentials> Get(bool renew) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!renew && known_.has_value() && absl::Now() < known_->expires - kRenewBefore) return *known_;
    if (renew) environment_.ReadFiles();
    absl::StatusOr<Credentials> found = Find();
    if (!found.ok()) {
      // Those that are known may still do for some minutes.
      const bool are_good = !renew && known_.has_value() && absl::Now() < known_->expires;
      return are_good ? absl::StatusOr<Credentials>(*known_) : found;
    }
    CASK_RETURN_IF_ERROR(CheckPrintable(found->access_key_id, "the access key id"));
    CASK_RETURN_IF_ERROR(CheckPrintable(found->secret_access_key, "the secret access key"));
    CASK_RETURN_IF_ERROR(CheckPrintable(found->session_token, "the session token"));
    known_ = *found;
    return found;
  }

 private:
  absl::StatusOr<Credentials> Find() const {
    if (environment_.IsTrue("AWS_NO_SIGN_REQUEST")) return Credentials();
    Credentials named;
    named.access_key_id = environment_.Get("AWS_ACCESS_KEY_ID");
    named.secret_access_key = environment_.Get("AWS_SECRET_ACCESS_KEY");
    named.session_token = environment_.Get("AWS_SESSION_TOKEN");
    if (!named.access_key_id.empty() && !named.secret_access_key.empty()) return named;
    if (named.access_key_id.empty() != named.secret_access_key.empty()) {
      return absl::FailedPreconditionError(
          "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are wanted together, and one of them is missing");
    }
    CASK_ASSIGN_OR_RETURN(std::optional<Credentials> profile, FindProfile());
    if (profile.has_value()) return *std::move(profile);
    const std::string full = environment_.Get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const std::string relative = environment_.Get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    if (!relative.empty()) return AskContainer(absl::StrCat(kContainerEndpoint, relative));
    if (!full.empty()) return AskContainer(full);
    if (!environment_.IsTrue("AWS_EC2_METADATA_DISABLED")) {
      absl::StatusOr<Credentials> of_machine = AskMachine();
      if (of_machine.ok() || !absl::IsUnavailable(of_machine.status())) return of_machine;
    }
    return absl::NotFoundError(
        absl::StrCat("there are none in AWS_ACCESS_KEY_ID, in the profile ", Quoted(environment_.profile()),
                     ", from a container or from the machine; AWS_NO_SIGN_REQUEST=true reads public objects"));
  }

  // Nothing if the profile says nothing of credentials.
  absl::StatusOr<std::optional<Credentials>> FindProfile() const {
    Credentials found;
    found.access_key_id = environment_.Profile("aws_access_key_id");
    found.secret_access_key = environment_.Profile("aws_secret_access_key");
    found.session_token = environment_.Profile("aws_session_token");
    if (!found.access_key_id.empty() && !found.secret_access_key.empty()) return found;
    for (const char* setting : {"credential_process", "role_arn", "sso_session", "sso_start_url",
                                "web_identity_token_file", "login_session"}) {
      if (environment_.Profile(setting).empty()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("the profile ", Quoted(environment_.profile()), " has ", setting,
                       ", which is not used: no program is run and no other service is asked. Put keys into the "
                       "environment, for example with `aws configure export-credentials --format env`"));
    }
    const bool is_named = !environment_.Get("AWS_PROFILE").empty();
    if (is_named && !environment_.has_profile()) {
      return absl::NotFoundError(absl::StrCat("there is no profile ", Quoted(environment_.profile())));
    }
    return std::optional<Credentials>();
  }

  absl::StatusOr<Credentials> AskContainer(const std::string& url) const {
    const std::string host = internal::HostOf(url);
    const bool is_agent = host == "169.254.170.2" || host == "169.254.170.23" || host == "fd00:ec2::23";
    if (host.empty()) {
      return absl::InvalidArgumentError(
          "AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI gives a URL without a host, or with a user name");
    }
    const bool is_near = absl::StartsWith(url, "http://") && (is_agent || internal::IsLoopback(host));
    if (!is_near && !absl::StartsWith(url, "https://")) {
      return absl::InvalidArgumentError(
          "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https: nor of this host, so keys would be sent in the clear");
    }
    std::string token = environment_.Get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const std::string token_file = environment_.Get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if (!token_file.empty()) {
      CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> bytes, ReadWholeFile(token_file, kMaxTokenBytes));
      token = std::string(absl::StripAsciiWhitespace(bytes->bytes()));
    }
    CASK_RETURN_IF_ERROR(CheckPrintable(absl::StripPrefix(token, "Bearer "), "the authorization token"));
    std::vector<std::string> headers;
    if (!token.empty()) headers.push_back(absl::StrCat("Authorization: ", token));
    CASK_ASSIGN_OR_RETURN(const std::string answer, AskLocalService("GET", url, headers));
    return internal::ParseCredentialAnswer(answer);
  }

  // IMDSv2: a token first, which a request that was forwarded by mistake cannot get.
  absl::StatusOr<Credentials> AskMachine() const {
    std::string endpoint = environment_.Get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (endpoint.empty()) endpoint = kMetadataEndpoint;
    if (absl::EndsWith(endpoint, "/")) endpoint.pop_back();
    CASK_ASSIGN_OR_RETURN(const std::string token, AskLocalService("PUT", absl::StrCat(endpoint, "/latest/api/token"),
                                                                   {"X-aws-ec2-metadata-token-ttl-seconds: 21600"}));
    CASK_RETURN_IF_ERROR(CheckPrintable(token, "the token of the metadata service"));
    const std::vector<std::string> headers = {absl::StrCat("X-aws-ec2-metadata-token: ", token)};
    CASK_ASSIGN_OR_RETURN(const std::string roles, AskLocalService("GET", absl::StrCat(endpoint, kRolePath), headers));
    const absl::string_view first = absl::StripAsciiWhitespace(absl::string_view(roles).substr(0, roles.find('\n')));
    if (first.empty()) return absl::UnavailableError("the machine has no role");
    CASK_ASSIGN_OR_RETURN(
        const std::string answer,
        AskLocalService("GET", absl::StrCat(endpoint, kRolePath, internal::PercentEncoded(first)), headers));
    return internal::ParseCredentialAnswer(answer);
  }

  StoreEnvironment environment_;
  std::mutex mutex_;
  std::optional<Credentials> known_;
};

}  // namespace

std::shared_ptr<CredentialSource> MakeStaticCredentials(Credentials credentials) {
  return std::make_shared<StaticCredentials>(std::move(credentials));
}

std::shared_ptr<CredentialSource> MakeAnonymousCredentials() { return MakeStaticCredentials(Credentials()); }

std::shared_ptr<CredentialSource> MakeDefaultCredentials() {
  return std::make_shared<DefaultCredentials>(StoreEnvironment::Read());
}

}  // namespace tensorcask
