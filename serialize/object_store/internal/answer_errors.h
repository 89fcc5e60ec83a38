// What the errors of requests mean: of curl, of HTTP and of S3, as an errno of request_engine.h. Internal.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_ANSWER_ERRORS_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_ANSWER_ERRORS_H_

#include <curl/curl.h>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::internal {

// Whether the same request may succeed later: for an HTTP status, and for a request without a whole answer.
bool IsTransient(int status);
bool IsTransient(CURLcode code);

// Of a request without a whole answer.
IoResult ErrnoOfCurl(CURLcode code, bool was_connected);
// Of an answer that is an error; `code` is that of S3 ("NoSuchKey"), "" if it has none.
IoResult ErrnoOfStatus(int status, absl::string_view code);
// The status that the code of an error stands for: one that came in a body after a status 200.
int StatusOfCode(absl::string_view code);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_ANSWER_ERRORS_H_
