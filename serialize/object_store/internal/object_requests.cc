#include "tensorcask/serialize/object_store/internal/object_requests.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tensorcask/serialize/object_store/internal/xml_answer.h"
#include "tensorcask/tensor/base/crc32c.h"

namespace tensorcask::internal {
namespace {

constexpr char kSaveHeader[] = "x-amz-meta-tensorcask-save: ";
constexpr char kContentType[] = "Content-Type: application/octet-stream";

// Whether "BUCKET.s3..." is a host that the certificate of the store covers.
bool IsHostLabel(absl::string_view bucket) {
  return bucket.size() <= 63 && std::all_of(bucket.begin(), bucket.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

std::string XmlEscaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

void AddCondition(const PublishCondition& condition, std::vector<std::string>* headers) {
  if (condition.kind == PublishCondition::Kind::kNew) headers->push_back("If-None-Match: *");
  if (condition.kind == PublishCondition::Kind::kSame) headers->push_back(absl::StrCat("If-Match: ", condition.etag));
}

}  // namespace

std::string Crc32cHeader(absl::string_view body) {
  const uint32_t crc = Crc32c(body);
  const char bytes[] = {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16 & 0xff),
                        static_cast<char>(crc >> 8 & 0xff), static_cast<char>(crc & 0xff)};
  return absl::Base64Escape(absl::string_view(bytes, sizeof(bytes)));
}

std::string ObjectRequests::UrlOf(const ObjectUrl& url, absl::string_view key, const Query& query) const {
  if (!url.is_s3) return url.http;
  std::string text;
  if (endpoint_.empty() && IsHostLabel(url.bucket)) {
    text = absl::StrCat("https://", url.bucket, ".s3.", engine_->region(), ".amazonaws.com/");
  } else if (endpoint_.empty()) {
    text = absl::StrCat("https://s3.", engine_->region(), ".amazonaws.com/", url.bucket, "/");
  } else {
    text = absl::StrCat(endpoint_, "/", url.bucket, "/");
  }
  if (key.empty()) text.pop_back();
  absl::StrAppend(&text, PercentEncoded(key, "/"));
  // The query is signed as it is: sorted, each value encoded, and a "=" behind each name.
  char separator = '?';
  for (const auto& [name, value] : query) {
    absl::StrAppend(&text, absl::string_view(&separator, 1), name, "=", PercentEncoded(value));
    separator = '&';
  }
  return text;
}

HttpRequest ObjectRequests::Make(const char* method, const ObjectUrl& url, const char* purpose,
                                 const Query& query) const {
  HttpRequest request;
  request.method = method;
  request.url = UrlOf(url, url.key, query);
  request.name = url.name;
  request.purpose = purpose;
  request.is_signed = url.is_s3;
  return request;
}

HttpRequest ObjectRequests::MakeOfBucket(const ObjectUrl& url, const char* purpose, const Query& query) const {
  HttpRequest request = Make("GET", url, purpose);
  request.url = UrlOf(url, "", query);
  return request;
}

HttpAnswer ObjectRequests::Head(const ObjectUrl& url) const { return engine_->Send(Make("HEAD", url, "head")); }

HttpAnswer ObjectRequests::OpenTail(const ObjectUrl& url, uint64_t tail_bytes) const {
  HttpRequest request = Make("GET", url, "open");
  request.headers.push_back(absl::StrCat("Range: bytes=-", tail_bytes));
  request.max_text_bytes = kMaxWholeFileBytes;
  request.is_small = true;
  return engine_->Send(request);
}

HttpAnswer ObjectRequests::OpenWhole(const ObjectUrl& url) const {
  HttpRequest request = Make("GET", url, "open");
  request.max_text_bytes = kMaxWholeFileBytes;
  request.is_small = true;
  return engine_->Send(request);
}

HttpAnswer ObjectRequests::ReadRange(const ObjectUrl& url, const ExpectedRange& range) const {
  HttpRequest request = Make("GET", url, "read");
  request.record_offset = range.offset();
  return engine_->ReadRange(request, range);
}

HttpAnswer ObjectRequests::Put(const ObjectUrl& url, absl::string_view body, const std::string& save_id,
                               const PublishCondition& condition) const {
  HttpRequest request = Make("PUT", url, "put");
  request.headers = {kContentType, absl::StrCat("x-amz-checksum-crc32c: ", Crc32cHeader(body)),
                     absl::StrCat(kSaveHeader, save_id)};
  AddCondition(condition, &request.headers);
  request.body = body;
  request.is_single = true;
  return engine_->Send(request);
}

HttpAnswer ObjectRequests::CreateUpload(const ObjectUrl& url, const std::string& save_id) const {
  HttpRequest request = Make("POST", url, "create", {{"uploads", ""}});
  request.headers = {kContentType, "x-amz-checksum-algorithm: CRC32C", absl::StrCat(kSaveHeader, save_id)};
  return engine_->Send(request);
}

HttpAnswer ObjectRequests::PutPart(const ObjectUrl& url, const std::string& upload_id, int number, uint64_t offset,
                                   absl::string_view body, const std::string& crc32c) const {
  HttpRequest request = Make("PUT", url, "part", {{"partNumber", absl::StrCat(number)}, {"uploadId", upload_id}});
  request.headers = {absl::StrCat("x-amz-checksum-crc32c: ", crc32c)};
  request.body = body;
  request.record_offset = offset;
  return engine_->Send(request);
}

HttpAnswer ObjectRequests::CompleteUpload(const ObjectUrl& url, const std::string& upload_id,
                                          absl::Span<const UploadedPart> parts,
                                          const PublishCondition& condition) const {
  std::string body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::StrAppend(&body, "<Part><ChecksumCRC32C>", parts[i].crc32c, "</ChecksumCRC32C><ETag>",
                    XmlEscaped(parts[i].etag), "</ETag><PartNumber>", i + 1, "</PartNumber></Part>");
  }
  absl::StrAppend(&body, "</CompleteMultipartUpload>");
  HttpRequest request = Make("POST", url, "complete", {{"uploadId", upload_id}});
  request.headers = {"Content-Type: application/xml"};
  AddCondition(condition, &request.headers);
  request.body = body;
  request.is_single = true;
  request.is_slow = true;
  return engine_->Send(request);
}

HttpAnswer ObjectRequests::AbortUpload(const ObjectUrl& url, const std::string& upload_id) const {
  HttpRequest request = Make("DELETE", url, "abort", {{"uploadId", upload_id}});
  request.is_cleanup = true;
  return engine_->Send(request);
}

HttpAnswer ObjectRequests::Delete(const ObjectUrl& url) const { return engine_->Send(Make("DELETE", url, "delete")); }

HttpAnswer ObjectRequests::List(const ObjectUrl& url, const std::string& prefix, bool folders, int max_keys,
                                const std::string& continuation) const {
  Query query;
  if (!continuation.empty()) query.emplace_back("continuation-token", continuation);
  if (folders) query.emplace_back("delimiter", "/");
  query.emplace_back("encoding-type", "url");
  query.emplace_back("list-type", "2");
  query.emplace_back("max-keys", absl::StrCat(max_keys));
  query.emplace_back("prefix", prefix);
  return engine_->Send(MakeOfBucket(url, "list", query));
}

HttpAnswer ObjectRequests::ListUploads(const ObjectUrl& url, const std::string& prefix, const std::string& next_key,
                                       const std::string& next_upload_id) const {
  Query query = {{"encoding-type", "url"}};
  if (!next_key.empty()) query.emplace_back("key-marker", next_key);
  query.emplace_back("max-uploads", absl::StrCat(kMaxKeysInPage));
  query.emplace_back("prefix", prefix);
  if (!next_key.empty()) query.emplace_back("upload-id-marker", next_upload_id);
  query.emplace_back("uploads", "");
  return engine_->Send(MakeOfBucket(url, "list uploads", query));
}

}  // namespace tensorcask::internal
