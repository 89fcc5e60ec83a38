#include "tensorcask/serialize/object_store/internal/local_service.h"

#include <curl/curl.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/object_store/internal/object_url.h"

namespace tensorcask::internal {
namespace {

constexpr size_t kMaxServiceBytes = size_t{64} << 10;
constexpr long kServiceConnectMilliseconds = 1000;
constexpr long kServiceMilliseconds = 2000;
constexpr int kServiceAttempts = 2;

size_t OnServiceBody(char* bytes, size_t size, size_t count, void* user) {
  auto* const text = static_cast<std::string*>(user);
  if (size * count > kMaxServiceBytes - text->size()) return 0;
  text->append(bytes, size * count);
  return size * count;
}

}  // namespace

absl::StatusOr<std::string> AskLocalService(const std::string& method, const std::string& url,
                                            const std::vector<std::string>& headers) {
  std::string problem;
  for (int attempt = 0; attempt < kServiceAttempts; ++attempt) {
    const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
    if (curl == nullptr) return absl::ResourceExhaustedError("no memory for a request");
    curl_slist* list = nullptr;
    for (const std::string& header : headers) list = curl_slist_append(list, header.c_str());
    const std::unique_ptr<curl_slist, void (*)(curl_slist*)> owned(list, curl_slist_free_all);
    std::string text;
    text.reserve(kMaxServiceBytes);  // OnServiceBody is called by curl, which is C, and must not throw
    curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(curl.get(), CURLOPT_CUSTOMREQUEST, method.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");
    curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT_MS, kServiceConnectMilliseconds);
    curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, kServiceMilliseconds);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, OnServiceBody);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &text);
    const CURLcode code = curl_easy_perform(curl.get());
    long status = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status == 200) return text;
    problem = code != CURLE_OK ? curl_easy_strerror(code) : absl::StrCat("the status is ", status);
  }
  return absl::UnavailableError(absl::StrCat("no answer from ", HostOf(url), ": ", problem));
}

absl::StatusOr<Credentials> ParseCredentialAnswer(const std::string& text) {
  const nlohmann::json answer = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return absl::InvalidArgumentError("an answer with credentials is not a JSON object");
  const auto text_of = [&](const char* name) {
    const auto found = answer.find(name);
    return found != answer.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Credentials credentials;
  credentials.access_key_id = text_of("AccessKeyId");
  credentials.secret_access_key = text_of("SecretAccessKey");
  credentials.session_token = text_of("Token");
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty()) {
    return absl::InvalidArgumentError("an answer with credentials has no AccessKeyId or no SecretAccessKey");
  }
  const std::string expires = text_of("Expiration");
  std::string error;
  if (!expires.empty() && !absl::ParseTime(absl::RFC3339_full, expires, &credentials.expires, &error)) {
    return absl::InvalidArgumentError("an answer with credentials has an Expiration that is not a time");
  }
  return credentials;
}

}  // namespace tensorcask::internal
