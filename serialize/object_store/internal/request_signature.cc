#include "tensorcask/serialize/object_store/internal/request_signature.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/object_store/internal/sha256.h"

namespace tensorcask::internal {
namespace {

struct UrlParts {
  absl::string_view host;  // with the port, unless it is the one that the scheme has
  absl::string_view path;
  absl::string_view query;
};

UrlParts PartsOf(absl::string_view url) {
  UrlParts parts;
  const bool is_https = absl::ConsumePrefix(&url, "https://");
  if (!is_https) absl::ConsumePrefix(&url, "http://");
  const size_t query = std::min(url.find('?'), url.size());
  parts.query = url.substr(query);
  absl::ConsumePrefix(&parts.query, "?");
  const size_t path = std::min(url.find('/'), query);
  parts.path = url.substr(path, query - path);
  parts.host = url.substr(0, path);
  absl::ConsumeSuffix(&parts.host, is_https ? ":443" : ":80");
  return parts;
}

}  // namespace

void SignRequest(absl::string_view method, absl::string_view url, const Credentials& credentials,
                 absl::string_view region, absl::Time now, std::vector<std::string>* headers) {
  const UrlParts parts = PartsOf(url);
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone());
  const std::string day = time.substr(0, time.find('T'));
  headers->push_back(absl::StrCat("Host: ", parts.host));
  headers->push_back(absl::StrCat("x-amz-date: ", time));

  std::map<std::string, absl::string_view> sorted;
  for (const std::string& line : *headers) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, absl::MaxSplits(':', 1));
    sorted[absl::AsciiStrToLower(field.first)] = absl::StripAsciiWhitespace(field.second);
  }
  std::string canonical = absl::StrCat(method, "\n", parts.path.empty() ? "/" : parts.path, "\n", parts.query, "\n");
  std::string names;
  for (const auto& [name, value] : sorted) {
    absl::StrAppend(&canonical, name, ":", value, "\n");
    absl::StrAppend(&names, names.empty() ? "" : ";", name);
  }
  absl::StrAppend(&canonical, "\n", names, "\n", sorted["x-amz-content-sha256"]);

  const std::string scope = absl::StrCat(day, "/", region, "/s3/aws4_request");
  const std::string text = absl::StrCat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", Sha256Hex(canonical));
  std::string key = absl::StrCat("AWS4", credentials.secret_access_key);
  for (const absl::string_view part : {absl::string_view(day), region, absl::string_view("s3"),
                                       absl::string_view("aws4_request"), absl::string_view(text)}) {
    key = HmacSha256(key, part);
  }
  headers->push_back(absl::StrCat("Authorization: AWS4-HMAC-SHA256 Credential=", credentials.access_key_id, "/", scope,
                                  ", SignedHeaders=", names, ", Signature=", absl::BytesToHexString(key)));
}

}  // namespace tensorcask::internal
