// One small request to a service that gives credentials: the metadata service of a machine, an agent beside a
// container.
//
//   CASK_ASSIGN_OR_RETURN(const std::string text, AskLocalService("GET", url, {"X-aws-ec2-metadata-token: ..."}));
//
// Not through a proxy, without redirects, 64 KiB at most, one second to connect and two for the answer, and twice.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_LOCAL_SERVICE_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_LOCAL_SERVICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/object_store/credentials.h"

namespace tensorcask::internal {

// Errors: Unavailable if there is no answer of a status 200. No message has a header or a body.
absl::StatusOr<std::string> AskLocalService(const std::string& method, const std::string& url,
                                            const std::vector<std::string>& headers);

// {"AccessKeyId": "...", "SecretAccessKey": "...", "Token": "...", "Expiration": "2026-11-28T12:00:00Z"}
// Errors: InvalidArgument, without a piece of the text.
absl::StatusOr<Credentials> ParseCredentialAnswer(const std::string& text);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_LOCAL_SERVICE_H_
