// The headers of an HTTP answer that decide what its body is. All of them come from a server that is not trusted.
//
//   ParseContentRange("bytes 0-99/1000");   // first 0, last 99, total 1000
//   ParseRetryAfter("120", now);            // two minutes

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_HTTP_HEADERS_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_HTTP_HEADERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tensorcask::internal {

inline constexpr size_t kMaxHeaderBytes = size_t{300} << 10;  // of one answer, in all

// RFC 9110, 14.4: "bytes 0-99/1000", "bytes */1000".
struct ContentRange {
  bool is_satisfied = true;  // false: "*", so that there is only a total
  uint64_t first = 0;
  uint64_t last = 0;  // the last byte itself
  uint64_t total = 0;
};

// Nothing for any other text; for an unknown total ("bytes 0-99/*"), which says too little; for numbers above 2^62; for
// a last byte before the first or not before the total.
std::optional<ContentRange> ParseContentRange(absl::string_view text);

// A number of digits alone, up to 2^62.
std::optional<uint64_t> ParseByteCount(absl::string_view text);

// The text as it is, if it is an entity tag (RFC 9110, 8.8.3) of up to 1,024 bytes: "abc", W/"abc". Some stores leave
// out the quotes; those are added. "" for anything else.
std::string ParseETag(absl::string_view text);
// Whether If-Match can compare it: not for a weak one, nor for none.
bool IsStrongETag(absl::string_view tag);

// Seconds, or a date (RFC 9110, 10.2.3). Nothing for any other text. Never negative.
std::optional<absl::Duration> ParseRetryAfter(absl::string_view text, absl::Time now);
// "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<absl::Time> ParseHttpDate(absl::string_view text);

// What is kept of the headers of one answer.
class AnswerHeaders {
 public:
  // A line as the server sent it, with or without the end of the line. The first line of a new answer ("HTTP/1.1 200
  // OK") forgets the lines before, those of "100 Continue" for example. False once there are more than kMaxHeaderBytes
  // in all, or where a header stands twice with different values that must be one.
  bool AddLine(absl::string_view line);

  std::optional<ContentRange> content_range;
  bool has_content_range = false;  // also where it cannot be parsed
  std::optional<uint64_t> content_length;
  bool is_chunked = false;  // Transfer-Encoding: the end of the body is marked
  std::string etag;
  std::string last_modified;
  std::string content_encoding;
  std::string retry_after;
  std::string bucket_region;
  std::string save_id;     // x-amz-meta-tensorcask-save
  std::string request_id;  // x-amz-request-id

 private:
  void Forget();

  size_t total_bytes_ = 0;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_HTTP_HEADERS_H_
