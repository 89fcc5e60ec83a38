#include "tensorcask/serialize/object_store/internal/object_url.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::internal {
namespace {

constexpr size_t kMaxUrlBytes = 4095;
constexpr size_t kShownPathBytes = 200;

absl::Status BadUrl(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(Quoted(path.substr(0, path.find('?')), kShownPathBytes), ": ", what));
}

bool IsUnreserved(char c) { return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~'; }

bool IsBucketName(absl::string_view name) {
  if (name.size() < 3 || name.size() > 255 || name == "..." || absl::StrContains(name, "..")) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return IsUnreserved(c) && c != '~'; });
}

// What is wrong with a key; "" if nothing.
std::string ProblemOfKey(absl::string_view key) {
  if (key.size() > kMaxKeyBytes) return absl::StrCat("the key has ", key.size(), " bytes, the limit is ", kMaxKeyBytes);
  if (!IsUtf8(key)) return "the key is not UTF-8";
  for (const char c : key) {
    if (absl::ascii_iscntrl(c)) return "the key has a control character";
  }
  for (const absl::string_view step : absl::StrSplit(key, '/')) {
    if (step.empty()) return "the key has an empty step (\"//\")";
    if (step == "." || step == "..") return absl::StrCat("the key has the step \"", step, "\"");
  }
  return "";
}

absl::StatusOr<ObjectUrl> ParseS3Url(absl::string_view path, absl::string_view rest) {
  ObjectUrl url;
  url.is_s3 = true;
  url.name = std::string(path);
  const size_t slash = rest.find('/');
  url.bucket = std::string(rest.substr(0, slash));
  if (!IsBucketName(url.bucket)) return BadUrl(path, "the name of the bucket is not one that a store allows");
  if (slash == absl::string_view::npos) {
    url.is_folder = true;
    return url;
  }
  absl::string_view key = rest.substr(slash + 1);
  if (key == "/") return BadUrl(path, "the key has an empty step (\"//\")");
  url.is_folder = absl::ConsumeSuffix(&key, "/") || key.empty();
  url.key = std::string(key);
  if (url.key.empty()) return url;
  const std::string problem = ProblemOfKey(key);
  if (!problem.empty()) return BadUrl(path, problem);
  return url;
}

absl::StatusOr<ObjectUrl> ParseHttpUrl(absl::string_view path, absl::string_view rest) {
  ObjectUrl url;
  url.name = std::string(path.substr(0, path.find('?')));
  const absl::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  if (authority.empty()) return BadUrl(path, "the URL has no host");
  if (absl::StrContains(authority, '@')) return BadUrl("the URL", "a user name and a password in it are not used");
  if (absl::StrContains(rest, '#')) return BadUrl(path, "the URL has a fragment (\"#\")");
  for (const char c : path) {
    if (absl::ascii_iscntrl(c)) return BadUrl(path, "the URL has a control character");
  }
  for (const char c : authority) {
    if (!IsUnreserved(c) && !absl::StrContains(":[]", c)) return BadUrl(path, "the host has an unknown character");
  }
  url.http = PercentEncoded(path, "/:?[]@!$&'()*+,;=%");
  if (authority.size() == rest.size()) url.http += '/';
  return url;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

absl::StatusOr<ObjectUrl> ParseObjectUrl(absl::string_view path) {
  if (path.size() > kMaxUrlBytes) {
    return BadUrl(path, absl::StrCat("has ", path.size(), " bytes, the limit is ", kMaxUrlBytes));
  }
  absl::string_view rest = path;
  if (absl::ConsumePrefix(&rest, "s3://")) return ParseS3Url(path, rest);
  if (absl::ConsumePrefix(&rest, "https://") || absl::ConsumePrefix(&rest, "http://")) return ParseHttpUrl(path, rest);
  return BadUrl(path, "is not a URL of s3://, https:// or http://");
}

std::string PercentEncoded(absl::string_view text, absl::string_view kept) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (IsUnreserved(c) || absl::StrContains(kept, c)) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 15];
    }
  }
  return encoded;
}

std::string PercentDecoded(absl::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool has_two = text[i] == '%' && text.size() - i > 2;
    const int high = has_two ? HexDigit(text[i + 1]) : -1;
    const int low = has_two ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      decoded += text[i];
    } else {
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return decoded;
}

std::string HostOf(absl::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == absl::string_view::npos) return "";
  absl::string_view host = url.substr(scheme + 3);
  host = host.substr(0, host.find_first_of("/?#"));
  if (absl::StrContains(host, '@')) return "";
  if (absl::ConsumePrefix(&host, "[")) return std::string(host.substr(0, host.find(']')));
  return std::string(host.substr(0, host.find(':')));
}

bool IsLoopback(absl::string_view host) {
  if (host == "::1" || absl::EqualsIgnoreCase(host, "localhost")) return true;
  // Only addresses of four numbers: 127.example.org is a name of another host.
  if (!absl::StartsWith(host, "127.")) return false;
  return std::all_of(host.begin(), host.end(), [](char c) { return absl::ascii_isdigit(c) || c == '.'; });
}

}  // namespace tensorcask::internal
