#include "tensorcask/tests/support/lying_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>

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
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32c.h"

namespace tensorcask::testing {
namespace {

constexpr char kModified[] = "Sun, 06 Nov 1994 08:49:37 GMT";
constexpr size_t kMaxLineBytes = 64 << 10;

std::string Decoded(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
        absl::ascii_isxdigit(text[i + 2])) {
      out += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string Encoded(absl::string_view text) {
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

std::string Checksum(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  const char big[] = {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16 & 255),
                      static_cast<char>(crc >> 8 & 255), static_cast<char>(crc & 255)};
  return absl::Base64Escape(absl::string_view(big, 4));
}

// The text between <name> and </name>, from `from` on; sets *from behind it.
std::string Between(const std::string& text, const std::string& name, size_t* from) {
  const size_t start = text.find("<" + name + ">", *from);
  const size_t end = start == std::string::npos ? start : text.find("</" + name + ">", start);
  if (end == std::string::npos) {
    *from = std::string::npos;
    return "";
  }
  *from = end;
  return text.substr(start + name.size() + 2, end - start - name.size() - 2);
}

// A connection's bytes.
class SocketReader {
 public:
  explicit SocketReader(int socket) : socket_(socket) {}

  bool ReadLine(std::string* line) {
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
  bool Read(size_t bytes, std::string* out) {
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

 private:
  bool Fill() {
    buffer_.erase(0, position_);
    position_ = 0;
    const size_t before = buffer_.size();
    buffer_.resize(before + (256 << 10));
    const ssize_t got = recv(socket_, &buffer_[before], 256 << 10, 0);
    buffer_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return got > 0;
  }

  const int socket_;
  std::string buffer_;
  size_t position_ = 0;
};

bool SendAll(int socket, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
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
  if (exchange.is_silent) return true;
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
  if (key.size() > kBlock) key = absl::HexStringToBytes(internal::Sha256Hex(key));
  key.resize(kBlock, '\0');
  std::string inner = key;
  std::string outer = key;
  for (char& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (char& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  return absl::HexStringToBytes(
      internal::Sha256Hex(outer + absl::HexStringToBytes(internal::Sha256Hex(absl::StrCat(inner, text)))));
}

// Whether the signature is that of Amazon's rules ("Signature Version 4 for S3"), from the decoded request.
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
    absl::StrAppend(&query, query.empty() ? "" : "&", absl::StrReplaceAll(Encoded(name), {{"/", "%2F"}}), "=",
                    absl::StrReplaceAll(Encoded(value), {{"/", "%2F"}}));
  }
  std::string canonical = absl::StrCat(request.method, "\n/", Encoded(request.path), "\n", query, "\n");
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

void Reset(int socket) {
  const linger now = {1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
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

LyingServer::LyingServer() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CASK_CHECK(listener_ >= 0, "socket");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  CASK_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  CASK_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
  CASK_CHECK(listen(listener_, 128) == 0, "listen");
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

LyingServer::~LyingServer() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    shutdown(listener_, SHUT_RDWR);
    for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
  }
  accepting_.join();
  for (std::thread& thread : serving_) thread.join();
  close(listener_);
}

std::string LyingServer::url() const { return absl::StrCat("http://127.0.0.1:", port_); }

void LyingServer::Accept() {
  while (true) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    std::lock_guard<std::mutex> lock(mutex_);
    if (socket < 0 || ends_) {
      if (socket >= 0) close(socket);
      return;
    }
    sockets_.insert(socket);
    serving_.emplace_back([this, socket] { Serve(socket); });
  }
}

void LyingServer::Serve(int socket) {
  SocketReader reader(socket);
  Exchange::End end = Exchange::End::kKeep;
  while (end == Exchange::End::kKeep) {
    ServerRequest request;
    if (!ReadRequest(&reader, &request)) break;
    Lie lie;
    std::string secret;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      secret = secret_;
      const size_t number = requests_.size();
      ServerRequest seen = request;
      seen.body.clear();
      requests_.push_back(std::move(seen));
      const auto found = lies_.find(number);
      if (number >= lies_from_) lie = steady_lie_;
      if (found != lies_.end()) lie = found->second;
    }
    Exchange exchange(request, [this](Exchange* honest) { Work(honest); });
    if (!secret.empty() && !IsSigned(request, secret)) {
      exchange.Fail(403, "SignatureDoesNotMatch");
    } else if (lie) {
      lie(&exchange);
    } else {
      exchange.Work();
    }
    if (!exchange.has_length && exchange.end == Exchange::End::kKeep) exchange.end = Exchange::End::kClose;
    if (!SendAnswer(socket, exchange)) break;
    end = exchange.end;
  }
  if (end == Exchange::End::kReset) Reset(socket);
  if (end == Exchange::End::kHang) {
    pollfd wait = {socket, POLLRDHUP, 0};
    poll(&wait, 1, -1);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  sockets_.erase(socket);
  close(socket);
}

void LyingServer::Store(const std::string& path, std::string bytes, const std::string& save_id) {
  const std::string etag = absl::StrFormat("\"%08x-%d\"", Crc32c(bytes), ++made_);
  objects_[path] = {std::make_shared<const std::string>(std::move(bytes)), etag, save_id, 0, nullptr};
}

void LyingServer::Put(const std::string& path, std::string bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  Store(path, std::move(bytes), "");
}

void LyingServer::PutMade(const std::string& path, uint64_t size_bytes, MakeBytes make) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string etag = absl::StrFormat("\"made-%d\"", ++made_);
  objects_[path] = {std::make_shared<const std::string>(), etag, "", size_bytes, std::move(make)};
}

bool LyingServer::Has(const std::string& path) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return objects_.count(path) != 0;
}

std::string LyingServer::Get(const std::string& path) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = objects_.find(path);
  return found == objects_.end() ? "" : *found->second.bytes;
}

std::vector<std::string> LyingServer::Paths() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, object] : objects_) paths.push_back(path);
  return paths;
}

size_t LyingServer::num_uploads() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<size_t>(
      std::count_if(uploads_.begin(), uploads_.end(), [](const auto& upload) { return !upload.second.is_complete; }));
}

void LyingServer::LieAt(size_t request, Lie lie) {
  std::lock_guard<std::mutex> lock(mutex_);
  lies_[request] = std::move(lie);
}

void LyingServer::LieFrom(size_t request, Lie lie) {
  std::lock_guard<std::mutex> lock(mutex_);
  lies_from_ = request;
  steady_lie_ = std::move(lie);
}

void LyingServer::CheckSignatures(const std::string& secret) {
  std::lock_guard<std::mutex> lock(mutex_);
  secret_ = secret;
}

void LyingServer::TellTheTruth() {
  std::lock_guard<std::mutex> lock(mutex_);
  lies_.clear();
  lies_from_ = SIZE_MAX;
}

std::vector<ServerRequest> LyingServer::requests() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return requests_;
}

std::vector<std::string> LyingServer::Kinds() const {
  std::vector<std::string> kinds;
  for (const ServerRequest& request : requests()) kinds.push_back(request.Kind());
  return kinds;
}

size_t LyingServer::num_requests() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return requests_.size();
}

void LyingServer::ForgetRequests() {
  std::lock_guard<std::mutex> lock(mutex_);
  requests_.clear();
}

void LyingServer::Work(Exchange* exchange) {
  const ServerRequest& request = exchange->request;
  const std::string kind = request.Kind();
  const std::string checksum = request.Header("x-amz-checksum-crc32c");
  std::lock_guard<std::mutex> lock(mutex_);
  exchange->headers.clear();
  if (kind == "list") return List(exchange);
  if (kind == "list uploads") return ListUploads(exchange);
  if (kind == "open" || kind == "read" || kind == "head") return Read(exchange);
  if (!checksum.empty() && checksum != Checksum(request.body)) return exchange->Fail(400, "BadDigest");
  if (kind == "put") {
    if (!MayPublish(request)) return exchange->Fail(412, "PreconditionFailed");
    Store(request.path, request.body, request.Header("x-amz-meta-tensorcask-save"));
    exchange->Answer(200, "");
    exchange->SetHeader("ETag", objects_[request.path].etag);
    return;
  }
  if (kind == "create") {
    const std::string id = absl::StrCat("upload+/=", ++made_);
    uploads_[id].path = request.path;
    uploads_[id].save_id = request.Header("x-amz-meta-tensorcask-save");
    return exchange->Answer(200, absl::StrCat("<?xml version=\"1.0\"?><InitiateMultipartUploadResult><UploadId>", id,
                                              "</UploadId></InitiateMultipartUploadResult>"));
  }
  if (kind == "part") {
    const auto found = uploads_.find(request.query.at("uploadId"));
    int number = 0;
    if (found == uploads_.end() || found->second.is_complete) return exchange->Fail(404, "NoSuchUpload");
    if (!absl::SimpleAtoi(request.query.at("partNumber"), &number) || number < 1 || number > 10000) {
      return exchange->Fail(400, "InvalidArgument");
    }
    const std::string etag = absl::StrFormat("\"%08x-%d\"", Crc32c(request.body), ++made_);
    found->second.parts[number] = {etag, std::make_shared<const std::string>(request.body)};
    exchange->Answer(200, "");
    exchange->SetHeader("ETag", etag);
    return;
  }
  if (kind == "complete") return Complete(exchange);
  if (kind == "abort") {
    const auto found = uploads_.find(request.query.at("uploadId"));
    const bool is_there = found != uploads_.end() && !found->second.is_complete;
    if (!is_there && !lies_about_abort) return exchange->Fail(404, "NoSuchUpload");
    if (is_there) uploads_.erase(found);
    return exchange->Answer(204, "");
  }
  if (kind == "delete") {
    objects_.erase(request.path);
    return exchange->Answer(204, "");
  }
  exchange->Fail(501, "NotImplemented");
}

bool LyingServer::MayPublish(const ServerRequest& request) const {
  const auto found = objects_.find(request.path);
  if (request.Header("if-none-match") == "*" && found != objects_.end()) return false;
  const std::string wanted = request.Header("if-match");
  return wanted.empty() || (found != objects_.end() && found->second.etag == wanted);
}

void LyingServer::Complete(Exchange* exchange) {
  const ServerRequest& request = exchange->request;
  const auto found = uploads_.find(request.query.at("uploadId"));
  const bool is_done = found != uploads_.end() && found->second.is_complete;
  const std::string success = absl::StrCat("<?xml version=\"1.0\"?><CompleteMultipartUploadResult><Key>",
                                           Encoded(request.path), "</Key></CompleteMultipartUploadResult>");
  if (is_done && repeats_complete) return exchange->Answer(200, success);
  if (!MayPublish(request)) return exchange->Fail(412, "PreconditionFailed");
  if (found == uploads_.end() || is_done) return exchange->Fail(404, "NoSuchUpload");
  std::string bytes;
  size_t at = 0;
  size_t first_bytes = 0;
  int number = 0;
  const size_t num_parts = found->second.parts.size();
  for (const auto& [part_number, part] : found->second.parts) {
    const std::string checksum = Between(request.body, "ChecksumCRC32C", &at);
    const std::string etag = at == std::string::npos ? "" : Between(request.body, "ETag", &at);
    if (at == std::string::npos || part_number != ++number || checksum != Checksum(*part.second) ||
        etag != absl::StrCat("&quot;", part.first.substr(1, part.first.size() - 2), "&quot;")) {
      return exchange->Fail(400, "InvalidPart");
    }
    // As strict as the strictest store: all parts but the last have one size, and at least 5 MiB.
    if (number == 1) first_bytes = part.second->size();
    const bool is_last = static_cast<size_t>(number) == num_parts;
    if (!is_last && (part.second->size() != first_bytes || first_bytes < (5 << 20))) {
      return exchange->Fail(400, "EntityTooSmall");
    }
    bytes += *part.second;
  }
  Store(request.path, std::move(bytes), found->second.save_id);
  found->second.is_complete = true;
  found->second.parts.clear();
  exchange->Answer(200, success);
}

void LyingServer::Read(Exchange* exchange) {
  const ServerRequest& request = exchange->request;
  const auto found = objects_.find(request.path);
  if (found == objects_.end()) return exchange->Fail(404, "NoSuchKey");
  const Object& object = found->second;
  const uint64_t size = object.size_bytes();
  const std::string condition = request.Header("if-match");
  if (!condition.empty() && condition != object.etag) return exchange->Fail(412, "PreconditionFailed");
  exchange->Answer(200, "");
  exchange->SetHeader("ETag", object.etag);
  exchange->SetHeader("Last-Modified", kModified);
  if (!object.save_id.empty()) exchange->SetHeader("x-amz-meta-tensorcask-save", object.save_id);
  if (request.method == "HEAD") return exchange->SetHeader("Content-Length", absl::StrCat(size));

  const std::string range_text = request.Header("range");
  absl::string_view range = range_text;
  if (!absl::ConsumePrefix(&range, "bytes=") || ignores_ranges) {
    exchange->body = object.Part(0, size);
    return;
  }
  const std::pair<std::string, std::string> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
  uint64_t first = 0;
  uint64_t last = size == 0 ? 0 : size - 1;
  uint64_t number = 0;
  if (ends.first.empty()) {
    CASK_CHECK(absl::SimpleAtoi(ends.second, &number), "range");
    first = size - std::min(number, size);
  } else {
    CASK_CHECK(absl::SimpleAtoi(ends.first, &first), "range");
    if (absl::SimpleAtoi(ends.second, &number)) last = std::min<uint64_t>(last, number);
  }
  if (first >= size) {
    exchange->Fail(416, "InvalidRange");
    return exchange->SetHeader("Content-Range", absl::StrCat("bytes */", size));
  }
  exchange->status = 206;
  exchange->SetHeader("Content-Range", absl::StrCat("bytes ", first, "-", last, "/", size));
  exchange->body = object.Part(first, last - first + 1);
}

void LyingServer::List(Exchange* exchange) {
  const ServerRequest& request = exchange->request;
  const auto parameter = [&](const std::string& name) {
    const auto found = request.query.find(name);
    return found == request.query.end() ? std::string() : found->second;
  };
  size_t most = page_keys;
  size_t asked = 0;
  if (absl::SimpleAtoi(parameter("max-keys"), &asked)) most = std::min(most, asked);
  const std::string bucket = absl::StrCat(request.path, "/");
  const std::string prefix = parameter("prefix");
  const std::string after = parameter("continuation-token");
  std::string body = "<?xml version=\"1.0\"?><ListBucketResult>";
  std::string last;
  size_t count = 0;
  bool is_truncated = false;
  for (const auto& [path, object] : objects_) {
    if (!absl::StartsWith(path, bucket)) continue;
    std::string key = path.substr(bucket.size());
    if (!absl::StartsWith(key, prefix)) continue;
    const size_t slash = parameter("delimiter").empty() ? std::string::npos : key.find('/', prefix.size());
    const bool is_folder = slash != std::string::npos;
    if (is_folder) key.resize(slash + 1);
    if (key <= after || (is_folder && key == last)) continue;
    if (count == most) {
      is_truncated = true;
      break;
    }
    ++count;
    last = key;
    if (is_folder) {
      absl::StrAppend(&body, "<CommonPrefixes><Prefix>", Encoded(key), "</Prefix></CommonPrefixes>");
    } else {
      absl::StrAppend(&body, "<Contents><Key>", Encoded(key), "</Key><LastModified>2026-01-02T03:04:05.000Z",
                      "</LastModified><Size>", object.size_bytes(), "</Size></Contents>");
    }
  }
  absl::StrAppend(&body, "<IsTruncated>", is_truncated ? "true" : "false", "</IsTruncated>");
  if (is_truncated) absl::StrAppend(&body, "<NextContinuationToken>", last, "</NextContinuationToken>");
  exchange->Answer(200, absl::StrCat(body, "</ListBucketResult>"));
}

void LyingServer::ListUploads(Exchange* exchange) {
  const ServerRequest& request = exchange->request;
  std::string body = "<?xml version=\"1.0\"?><ListMultipartUploadsResult>";
  const auto prefix = request.query.find("prefix");
  for (const auto& [id, upload] : uploads_) {
    const std::string key = upload.path.substr(upload.path.find('/') + 1);
    if (upload.is_complete || (prefix != request.query.end() && !absl::StartsWith(key, prefix->second))) continue;
    absl::StrAppend(&body, "<Upload><Key>", Encoded(key), "</Key><UploadId>", id,
                    "</UploadId><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>");
  }
  exchange->Answer(200, absl::StrCat(body, "<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"));
}

}  // namespace tensorcask::testing
