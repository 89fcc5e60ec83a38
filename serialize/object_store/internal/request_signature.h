// The signature of a request to a store: "Signature Version 4", as Amazon's "Authenticating Requests" has it for S3.
//
//   std::vector<std::string> headers = {"Range: bytes=0-9", "x-amz-content-sha256: UNSIGNED-PAYLOAD"};
//   SignRequest("GET", "https://bucket.s3.eu-north-1.amazonaws.com/a%20b", credentials, "eu-north-1", absl::Now(),
//               &headers);   // adds "Host: ...", "x-amz-date: ...", "Authorization: AWS4-HMAC-SHA256 ..."
//
// libcurl signs, too, but not all of its versions do it by the rules: from 8.14 to 8.18 "%2B" in a query counts as a
// space, and since 8.14 paths that are sent as they are cannot be signed.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_REQUEST_SIGNATURE_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_REQUEST_SIGNATURE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/object_store/credentials.h"

namespace tensorcask::internal {

// Requires: the path and the query of `url` are percent-encoded, and the query is sorted and has a "=" behind each
// name. Each of `headers` is "Name: value", and one is x-amz-content-sha256. All of them are signed.
void SignRequest(absl::string_view method, absl::string_view url, const Credentials& credentials,
                 absl::string_view region, absl::Time now, std::vector<std::string>* headers);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_REQUEST_SIGNATURE_H_
