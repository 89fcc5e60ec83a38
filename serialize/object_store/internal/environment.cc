#include "tensorcask/serialize/object_store/internal/environment.h"

#include <cstdlib>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask::internal {
namespace {

constexpr uint64_t kMaxProfileBytes = uint64_t{1} << 20;

constexpr const char* kReadVariables[] = {"AWS_ACCESS_KEY_ID",
                                          "AWS_CA_BUNDLE",
                                          "AWS_CONFIG_FILE",
                                          "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                          "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                          "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                          "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                          "AWS_DEFAULT_REGION",
                                          "AWS_EC2_METADATA_DISABLED",
                                          "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                          "AWS_ENDPOINT_URL",
                                          "AWS_ENDPOINT_URL_S3",
                                          "AWS_NO_SIGN_REQUEST",
                                          "AWS_PROFILE",
                                          "AWS_REGION",
                                          "AWS_SECRET_ACCESS_KEY",
                                          "AWS_SESSION_TOKEN",
                                          "AWS_SHARED_CREDENTIALS_FILE",
                                          "CURL_CA_BUNDLE",
                                          "HOME",
                                          "SSL_CERT_FILE"};

ProfileFile ReadProfiles(const std::string& path) {
  const absl::StatusOr<RefPtr<TensorBuffer>> bytes = ReadWholeFile(path, kMaxProfileBytes);
  return bytes.ok() ? ParseProfileFile((*bytes)->bytes()) : ProfileFile();
}

}  // namespace

StoreEnvironment StoreEnvironment::Read() {
  StoreEnvironment environment;
  for (const char* name : kReadVariables) {
    const char* const value = std::getenv(name);
    if (value != nullptr) environment.variables_[name] = value;
  }
  environment.profile_ = environment.Get("AWS_PROFILE");
  if (environment.profile_.empty()) environment.profile_ = "default";
  environment.ReadFiles();
  return environment;
}

void StoreEnvironment::ReadFiles() {
  const auto path = [&](const char* variable, const char* usual) {
    const std::string named = Get(variable);
    return named.empty() ? absl::StrCat(Get("HOME"), "/.aws/", usual) : named;
  };
  credentials_file_ = ReadProfiles(path("AWS_SHARED_CREDENTIALS_FILE", "credentials"));
  config_file_ = ReadProfiles(path("AWS_CONFIG_FILE", "config"));
}

std::string StoreEnvironment::Get(const std::string& variable) const {
  const auto found = variables_.find(variable);
  return found == variables_.end() ? "" : found->second;
}

bool StoreEnvironment::IsTrue(const std::string& variable) const {
  const std::string value = Get(variable);
  return value == "1" || absl::EqualsIgnoreCase(value, "true");
}

bool StoreEnvironment::has_profile() const { return credentials_file_.Has(profile_) || config_file_.Has(profile_); }

std::string StoreEnvironment::Profile(absl::string_view setting) const {
  std::string value = credentials_file_.Find(profile_, setting);
  return value.empty() ? config_file_.Find(profile_, setting) : value;
}

}  // namespace tensorcask::internal
