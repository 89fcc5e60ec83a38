// Where an object is: "s3://bucket/key" and "https://host/path".
//
//   CASK_ASSIGN_OR_RETURN(const ObjectUrl url, ParseObjectUrl("s3://models/run 1/model.index"));
//   url.bucket;                          // "models"
//   PercentEncoded(url.key, "/");        // "run%201/model.index"
//
// A key is checked before it is used: some stores and proxies shorten "a//b" and "a/../b", so that one name would be
// two objects.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_OBJECT_URL_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_OBJECT_URL_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::internal {

inline constexpr size_t kMaxKeyBytes = 1024;

struct ObjectUrl {
  bool is_s3 = false;
  bool is_folder = false;  // of S3: the path ends in a slash, or names the bucket
  std::string bucket;      // of S3
  std::string key;         // of S3: as it is, without a slash at the end; "" for the bucket
  std::string http;        // else: the URL, with all that needs it percent-encoded
  std::string name;        // for messages: the path without its query
};

// Errors: InvalidArgument, naming the path and what is wrong with it: another scheme, no host, a user name in the URL,
// a bucket of an impossible name; an empty key, one of more than 1,024 bytes or not of UTF-8, a step "", "." or "..".
absl::StatusOr<ObjectUrl> ParseObjectUrl(absl::string_view path);

// Percent-encodes all but unreserved characters (RFC 3986, 2.3) and those of `kept`.
std::string PercentEncoded(absl::string_view text, absl::string_view kept = "");
// The inverse. Text after a "%" that is not two hex digits stays.
std::string PercentDecoded(absl::string_view text);

// "host" of "https://host:8080/path"; without the brackets of an IPv6 address. "" if there is none, or a user name in
// front of it, which not every program reads alike.
std::string HostOf(absl::string_view url);
// Whether it is a name or address of this host: localhost, 127.0.0.0/8, ::1.
bool IsLoopback(absl::string_view host);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_OBJECT_URL_H_
