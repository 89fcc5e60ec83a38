// The requests for one object: to a web server, or to an S3 store (its REST API of 2006-03-01).
//
//   const HttpAnswer answer = requests.OpenTail(url, 65536);   // the last 64 KiB, the size and the ETag
//
// The URL of an object of S3 is https://BUCKET.s3.REGION.amazonaws.com/KEY, and ENDPOINT/BUCKET/KEY with an endpoint or
// for a bucket that is not a name of DNS.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_OBJECT_REQUESTS_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_OBJECT_REQUESTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/serialize/object_store/internal/request_engine.h"

namespace tensorcask::internal {

// A server that ignores ranges sends the whole file, which is kept up to this size.
inline constexpr uint64_t kMaxWholeFileBytes = uint64_t{64} << 20;

struct UploadedPart {
  std::string etag;
  std::string crc32c;  // as the header has it: base64 of the big-endian number
};

// On which an upload becomes an object.
struct PublishCondition {
  enum class Kind { kNone, kNew, kSame };
  Kind kind = Kind::kNone;
  std::string etag;  // kSame: that the object there still has it; a strong one
};

// The checksum of a body as x-amz-checksum-crc32c has it.
std::string Crc32cHeader(absl::string_view body);

class ObjectRequests {
 public:
  // `endpoint`: "https://host:port", without a slash at the end; "": Amazon's.
  ObjectRequests(RequestEngine* engine, std::string endpoint) : engine_(engine), endpoint_(std::move(endpoint)) {}

  HttpAnswer Head(const ObjectUrl& url) const;
  // A status 206 with the last bytes, 200 with the whole file, or 416 for one without bytes. Some servers answer 416,
  // too, if the file is shorter than that.
  HttpAnswer OpenTail(const ObjectUrl& url, uint64_t tail_bytes) const;
  HttpAnswer OpenWhole(const ObjectUrl& url) const;  // a status 200 with the whole file
  HttpAnswer ReadRange(const ObjectUrl& url, const ExpectedRange& range) const;

  // S3 alone. Put and CompleteUpload are sent once: the caller finds out what a lost answer means.
  HttpAnswer Put(const ObjectUrl& url, absl::string_view body, const std::string& save_id,
                 const PublishCondition& condition) const;
  HttpAnswer CreateUpload(const ObjectUrl& url, const std::string& save_id) const;  // the id: ParseUploadId(text)
  HttpAnswer PutPart(const ObjectUrl& url, const std::string& upload_id, int number, uint64_t offset,
                     absl::string_view body, const std::string& crc32c) const;
  HttpAnswer CompleteUpload(const ObjectUrl& url, const std::string& upload_id, absl::Span<const UploadedPart> parts,
                            const PublishCondition& condition) const;
  HttpAnswer AbortUpload(const ObjectUrl& url, const std::string& upload_id) const;
  HttpAnswer Delete(const ObjectUrl& url) const;
  // A page of the objects whose keys begin with `prefix`; with `folders` only those of one level.
  HttpAnswer List(const ObjectUrl& url, const std::string& prefix, bool folders, int max_keys,
                  const std::string& continuation) const;
  HttpAnswer ListUploads(const ObjectUrl& url, const std::string& prefix, const std::string& next_key,
                         const std::string& next_upload_id) const;

  RequestEngine* engine() const { return engine_; }

 private:
  using Query = std::vector<std::pair<absl::string_view, std::string>>;  // sorted by name

  HttpRequest Make(const char* method, const ObjectUrl& url, const char* purpose, const Query& query = {}) const;
  HttpRequest MakeOfBucket(const ObjectUrl& url, const char* purpose, const Query& query) const;
  std::string UrlOf(const ObjectUrl& url, absl::string_view key, const Query& query) const;

  RequestEngine* const engine_;
  const std::string endpoint_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_OBJECT_REQUESTS_H_
