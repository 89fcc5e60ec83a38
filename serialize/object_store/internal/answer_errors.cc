#include "tensorcask/serialize/object_store/internal/answer_errors.h"

#include <cerrno>

namespace tensorcask::internal {

bool IsTransient(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

bool IsTransient(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      return true;
    default:
      return false;
  }
}

IoResult ErrnoOfCurl(CURLcode code, bool was_connected) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return -EHOSTUNREACH;
    case CURLE_COULDNT_CONNECT:
      return -ECONNREFUSED;
    case CURLE_OPERATION_TIMEDOUT:
      return was_connected ? -ETIMEDOUT : -EHOSTUNREACH;
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      return -ECONNRESET;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return -EACCES;
    case CURLE_OUT_OF_MEMORY:
      return -ENOMEM;
    default:
      return -EBADMSG;
  }
}

IoResult ErrnoOfStatus(int status, absl::string_view code) {
  if (status == 429 || code == "SlowDown") return -EUSERS;
  if (IsTransient(status)) return -EAGAIN;
  if (status == 404) return -ENOENT;
  if (status == 401 || status == 403) return -EACCES;
  if (code == "ExpiredToken" || code == "InvalidToken") return -EACCES;
  if (status == 412) return -ESTALE;
  if (status == 405 || status == 501) return -EOPNOTSUPP;
  if (status == 413 || code == "EntityTooLarge") return -EFBIG;
  if (code == "BadDigest" || code == "InvalidDigest" || code == "XAmzContentSHA256Mismatch") return -EBADMSG;
  if (code == "InvalidBucketName" || code == "KeyTooLongError") return -EDESTADDRREQ;
  if (status >= 300 && status < 400) return -EDESTADDRREQ;
  return -EIO;
}

int StatusOfCode(absl::string_view code) {
  if (code == "InternalError") return 500;
  if (code == "SlowDown" || code == "ServiceUnavailable") return 503;
  if (code == "NoSuchUpload" || code == "NoSuchKey" || code == "NoSuchBucket") return 404;
  if (code == "PreconditionFailed") return 412;
  if (code == "ConditionalRequestConflict" || code == "OperationAborted") return 409;
  if (code == "AccessDenied") return 403;
  return 400;
}

}  // namespace tensorcask::internal
