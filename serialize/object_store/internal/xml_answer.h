// The XML documents that an S3 store answers with: an error, the id of an upload, a page of a list.
//
//   CASK_ASSIGN_OR_RETURN(const std::string id, ParseUploadId(answer.text));
//
// expat reads them, without entities, external ones or a DTD: a document that has one is refused, so none can grow. All
// sizes are bounded by that of the text, which the caller bounds.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_XML_ANSWER_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_XML_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::internal {

inline constexpr size_t kMaxKeysInPage = 1000;
inline constexpr uint64_t kMaxListBytes = uint64_t{256} << 20;  // of the names in all pages of a list

struct StoreError {
  std::string code;     // "NoSuchKey"
  std::string message;  // as the store says it
  std::string request_id;
  std::string region;  // of AuthorizationHeaderMalformed and PermanentRedirect
};

struct ListedObject {
  std::string key;
  uint64_t size_bytes = 0;
  int64_t modified_unix_seconds = 0;
};

struct ObjectPage {
  std::vector<ListedObject> objects;
  std::vector<std::string> folders;  // common prefixes, which end in a slash
  std::string next;                  // the token of the next page; "": this is the last
};

struct ListedUpload {
  std::string key;
  std::string upload_id;
  int64_t started_unix_seconds = 0;
};

struct UploadPage {
  std::vector<ListedUpload> uploads;
  std::string next_key;  // "": this is the last page
  std::string next_upload_id;
};

// Errors of all: DataLoss if the text is not such a document, or has a DTD, more than 32 levels or more than 1,000
// entries; the message says what was found.
absl::StatusOr<StoreError> ParseStoreError(absl::string_view text);
absl::StatusOr<std::string> ParseUploadId(absl::string_view text);  // InitiateMultipartUploadResult
// ListBucketResult and ListMultipartUploadsResult. Keys are decoded only if the page says <EncodingType>url: some
// stores ignore the request for it.
absl::StatusOr<ObjectPage> ParseObjectPage(absl::string_view text);
absl::StatusOr<UploadPage> ParseUploadPage(absl::string_view text);
absl::StatusOr<std::string> RootElementOf(absl::string_view text);  // "Error", "CompleteMultipartUploadResult"

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_XML_ANSWER_H_
