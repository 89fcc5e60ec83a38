#include "tensorcask/tests/support/object_server.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32c.h"

namespace tensorcask::testing {
namespace {

constexpr char kModified[] = "Sun, 06 Nov 1994 08:49:37 GMT";

std::string Checksum(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  const char big[] = {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16 & 255),
                      static_cast<char>(crc >> 8 & 255), static_cast<char>(crc & 255)};
  return absl::Base64Escape(absl::string_view(big, 4));
}

// The text between <name> and </name>, from `from` on; sets *from after it.
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

}  // namespace

void ObjectServer::Store(const std::string& path, std::string bytes, const std::string& save_id) {
  const std::string etag = absl::StrFormat("\"%08x-%d\"", Crc32c(bytes), ++made_);
  objects_[path] = {std::make_shared<const std::string>(std::move(bytes)), etag, save_id, 0, nullptr};
}

void ObjectServer::Put(const std::string& path, std::string bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  Store(path, std::move(bytes), "");
}

void ObjectServer::PutMade(const std::string& path, uint64_t size_bytes, MakeBytes make) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string etag = absl::StrFormat("\"made-%d\"", ++made_);
  objects_[path] = {std::make_shared<const std::string>(), etag, "", size_bytes, std::move(make)};
}

bool ObjectServer::Has(const std::string& path) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return objects_.count(path) != 0;
}

std::string ObjectServer::Get(const std::string& path) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = objects_.find(path);
  return found == objects_.end() ? "" : *found->second.bytes;
}

std::vector<std::string> ObjectServer::Paths() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, object] : objects_) paths.push_back(path);
  return paths;
}

size_t ObjectServer::num_uploads() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<size_t>(
      std::count_if(uploads_.begin(), uploads_.end(), [](const auto& upload) { return !upload.second.is_complete; }));
}

void ObjectServer::Work(Exchange* exchange) {
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

bool ObjectServer::MayPublish(const ServerRequest& request) const {
  const auto found = objects_.find(request.path);
  if (request.Header("if-none-match") == "*" && found != objects_.end()) return false;
  const std::string wanted = request.Header("if-match");
  return wanted.empty() || (found != objects_.end() && found->second.etag == wanted);
}

void ObjectServer::Complete(Exchange* exchange) {
  const ServerRequest& request = exchange->request;
  const auto found = uploads_.find(request.query.at("uploadId"));
  const bool is_done = found != uploads_.end() && found->second.is_complete;
  const std::string success = absl::StrCat("<?xml version=\"1.0\"?><CompleteMultipartUploadResult><Key>",
                                           PercentEncoded(request.path), "</Key></CompleteMultipartUploadResult>");
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
    if (number == 1) first_bytes = part.second->size();
    const bool is_last = static_cast<size_t>(number) == num_parts;
    if (demands_equal_parts && !is_last && (part.second->size() != first_bytes || first_bytes < (5 << 20))) {
      return exchange->Fail(400, "EntityTooSmall");
    }
    bytes += *part.second;
  }
  Store(request.path, std::move(bytes), found->second.save_id);
  found->second.is_complete = true;
  found->second.parts.clear();
  exchange->Answer(200, success);
}

void ObjectServer::Read(Exchange* exchange) {
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

std::string ObjectServer::ListedKey(const std::string& key) const {
  if (list_keys == ListKeys::kRaw) return absl::StrReplaceAll(key, {{"&", "&amp;"}, {"<", "&lt;"}});
  const std::string encoded = PercentEncoded(key);
  return list_keys == ListKeys::kPlus ? absl::StrReplaceAll(encoded, {{"%20", "+"}}) : encoded;
}

std::string ObjectServer::EncodingElement() const {
  return list_keys == ListKeys::kRaw ? "" : "<EncodingType>url</EncodingType>";
}

void ObjectServer::List(Exchange* exchange) {
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
      absl::StrAppend(&body, "<CommonPrefixes><Prefix>", ListedKey(key), "</Prefix></CommonPrefixes>");
    } else {
      absl::StrAppend(&body, "<Contents><Key>", ListedKey(key), "</Key><LastModified>2026-01-02T03:04:05.000Z",
                      "</LastModified><Size>", object.size_bytes(), "</Size></Contents>");
    }
  }
  absl::StrAppend(&body, EncodingElement(), "<IsTruncated>", is_truncated ? "true" : "false", "</IsTruncated>");
  if (is_truncated) absl::StrAppend(&body, "<NextContinuationToken>", last, "</NextContinuationToken>");
  exchange->Answer(200, absl::StrCat(body, "</ListBucketResult>"));
}

void ObjectServer::ListUploads(Exchange* exchange) {
  const ServerRequest& request = exchange->request;
  std::string body = "<?xml version=\"1.0\"?><ListMultipartUploadsResult>";
  const auto prefix = request.query.find("prefix");
  for (const auto& [id, upload] : uploads_) {
    const std::string key = upload.path.substr(upload.path.find('/') + 1);
    if (upload.is_complete || (prefix != request.query.end() && !absl::StartsWith(key, prefix->second))) continue;
    absl::StrAppend(&body, "<Upload><Key>", ListedKey(key), "</Key><UploadId>", id,
                    "</UploadId><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>");
  }
  exchange->Answer(
      200, absl::StrCat(body, EncodingElement(), "<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"));
}

}  // namespace tensorcask::testing
