#include "tensorcask/tests/support/http_exchange.h"

#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/object_store/internal/sha256.h"
#include "tensorcask/tests/support/hex.h"

namespace tensorcask::testing {
namespace {

constexpr size_t kMaxLineBytes = 64 << 10;

std::string Decoded(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
        absl::ascii_isxdigit(text[i + 2])) {
      out += BytesOfHex(text.substr(i + 1, 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool SendAll(int socket, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool SendHeadAndBody(int socket, const Exchange& exchange) {
  std::string head = absl::StrCat("HTTP/1.1 ", exchange.status, " Status\r\n");
  bool names_length = false;
  for (const auto& [name, value] : exchange.headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
    names_length = names_length || name == "Content-Length";
  }
  if (exchange.has_length && !names_length && exchange.status != 204) {
    absl::StrAppend(&head, "Content-Length: ", exchange.body.size(), "\r\n");
  }
  absl::StrAppend(&head, "\r\n");
  if (exchange.request.method == "HEAD") return SendAll(socket, head);
  // In one piece, if it is small: the kernel would hold a second one back until the first is acknowledged.
  constexpr size_t kSmallBody = 64 << 10;
  absl::string_view body = absl::string_view(exchange.body).substr(0, exchange.sent_bytes);
  head.append(body.data(), std::min(body.size(), kSmallBody));
  body.remove_prefix(std::min(body.size(), kSmallBody));
  return SendAll(socket, head) && SendAll(socket, body);
}

std::string HmacSha256(std::string key, absl::string_view text) {
  constexpr size_t kBlock = 64;
  if (key.size() > kBlock) key = BytesOfHex(internal::Sha256Hex(key));
  key.resize(kBlock, '\0');
  std::string inner = key;
  std::string outer = key;
  for (char& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (char& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  return BytesOfHex(internal::Sha256Hex(outer + BytesOfHex(internal::Sha256Hex(absl::StrCat(inner, text)))));
}

}  // namespace

std::string ServerRequest::Kind() const {
  const bool is_upload = Has("uploadId");
  if (method == "HEAD") return "head";
  if (method == "PUT") return is_upload ? "part" : "put";
  if (method == "POST") return is_upload ? "complete" : "create";
  if (method == "DELETE") return is_upload ? "abort" : "delete";
  if (Has("list-type")) return "list";
  if (Has("uploads")) return "list uploads";
  return absl::StartsWith(Header("range"), "bytes=-") ? "open" : "read";
}

void Exchange::Fail(int new_status, const std::string& code) {
  Answer(new_status, absl::StrCat("<?xml version=\"1.0\"?><Error><Code>", code,
                                  "</Code><Message>as a test asked</Message><RequestId>18EB</RequestId></Error>"));
}

void Exchange::SetHeader(const std::string& name, const std::string& value) {
  for (auto& [known, old] : headers) {
    if (known == name) {
      old = value;
      return;
    }
  }
  headers.emplace_back(name, value);
}

bool SocketReader::ReadLine(std::string* line) {
  line->clear();
  while (true) {
    const size_t end = buffer_.find("\r\n", position_);
    if (end != std::string::npos) {
      *line = buffer_.substr(position_, end - position_);
      position_ = end + 2;
      return true;
    }
    if (buffer_.size() - position_ > kMaxLineBytes || !Fill()) return false;
  }
}

bool SocketReader::Read(size_t bytes, std::string* out) {
  out->clear();
  out->reserve(bytes);
  while (out->size() < bytes) {
    if (position_ == buffer_.size() && !Fill()) return false;
    const size_t now = std::min(bytes - out->size(), buffer_.size() - position_);
    out->append(buffer_, position_, now);
    position_ += now;
  }
  return true;
}

bool SocketReader::Fill() {
  buffer_.erase(0, position_);
  position_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + (256 << 10));
  const ssize_t got = recv(socket_, &buffer_[before], 256 << 10, 0);
  buffer_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return got > 0;
}

std::string PercentEncoded(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (absl::ascii_isalnum(c) || absl::StrContains("-._~/", c)) {
      out += c;
    } else {
      absl::StrAppendFormat(&out, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return out;
}

bool ReadRequest(SocketReader* reader, ServerRequest* request) {
  std::string line;
  if (!reader->ReadLine(&line)) return false;
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words.size() != 3) return false;
  request->method = words[0];
  const std::pair<std::string, std::string> target = absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  request->path = Decoded(absl::StripPrefix(target.first, "/"));
  for (const absl::string_view part : absl::StrSplit(target.second, '&', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    request->query[Decoded(pair.first)] = Decoded(pair.second);
  }
  while (reader->ReadLine(&line) && !line.empty()) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(line, absl::MaxSplits(':', 1));
    request->headers[absl::AsciiStrToLower(pair.first)] = std::string(absl::StripAsciiWhitespace(pair.second));
  }
  size_t length = 0;
  if (request->headers.count("content-length") != 0 && !absl::SimpleAtoi(request->Header("content-length"), &length)) {
    return false;
  }
  return reader->Read(length, &request->body);
}

bool SendAnswer(int socket, const Exchange& exchange) {
  if (!exchange.is_silent && !SendHeadAndBody(socket, exchange)) return false;
  while (exchange.more) {
    const std::string bytes = exchange.more();
    if (bytes.empty()) break;
    if (!SendAll(socket, bytes)) return false;
  }
  return true;
}

bool IsSigned(const ServerRequest& request, const std::string& secret) {
  const std::string text = request.Header("authorization");
  const auto field = [&](const std::string& name) {
    const size_t start = text.find(name + "=");
    if (start == std::string::npos) return std::string();
    const size_t from = start + name.size() + 1;
    return text.substr(from, text.find_first_of(", ", from) - from);
  };
  const std::string names = field("SignedHeaders");
  const std::vector<std::string> scope = absl::StrSplit(field("Credential"), '/');
  if (scope.size() != 5) return false;
  std::string query;
  for (const auto& [name, value] : request.query) {  // a map is sorted
    absl::StrAppend(&query, query.empty() ? "" : "&", absl::StrReplaceAll(PercentEncoded(name), {{"/", "%2F"}}), "=",
                    absl::StrReplaceAll(PercentEncoded(value), {{"/", "%2F"}}));
  }
  std::string canonical = absl::StrCat(request.method, "\n/", PercentEncoded(request.path), "\n", query, "\n");
  for (const absl::string_view name : absl::StrSplit(names, ';')) {
    absl::StrAppend(&canonical, name, ":", request.Header(std::string(name)), "\n");
  }
  absl::StrAppend(&canonical, "\n", names, "\n", request.Header("x-amz-content-sha256"));
  const std::string scope_text = absl::StrCat(scope[1], "/", scope[2], "/", scope[3], "/", scope[4]);
  const std::string to_sign = absl::StrCat("AWS4-HMAC-SHA256\n", request.Header("x-amz-date"), "\n", scope_text, "\n",
                                           internal::Sha256Hex(canonical));
  std::string key = "AWS4" + secret;
  for (size_t i = 1; i < scope.size(); ++i) key = HmacSha256(key, scope[i]);
  return absl::BytesToHexString(HmacSha256(key, to_sign)) == field("Signature");
}

}  // namespace tensorcask::testing
