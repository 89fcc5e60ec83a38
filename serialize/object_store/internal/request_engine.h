// Sends HTTP requests: signs them, keeps connections open, repeats what failed for a reason that may pass, and checks
// that an answer is what was asked for before any byte of it is used.
//
//   HttpRequest request;
//   request.method = "HEAD";
//   request.url = "https://models.s3.eu-west-1.amazonaws.com/run/model.index";
//   const HttpAnswer answer = engine.Send(request);   // answer.result: 0, or minus an errno, with answer.detail
//
// Each request runs on the calling thread, with one of a bounded number of curl handles. The errno of a failure:
//
//   ECONNREFUSED, EHOSTUNREACH, ECONNRESET, EAGAIN   no answer, or 408, 5xx, after all attempts
//   EUSERS                                           429, and SlowDown, after all attempts
//   ETIMEDOUT                                        a transfer stalled, after all attempts; the deadline has passed
//   EBADMSG                                          the answer is not what was asked for
//   ESTALE                                           the object was replaced (412, or another ETag)
//   ENOENT, EACCES, EOPNOTSUPP, EDESTADDRREQ, EIO    404; 401, 403; 405, 501; a redirect or another region; others

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_REQUEST_ENGINE_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_REQUEST_ENGINE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/object_store/credentials.h"
#include "tensorcask/serialize/object_store/internal/answer_receiver.h"
#include "tensorcask/serialize/object_store/internal/http_headers.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tensor/base/owner_process.h"

namespace tensorcask::internal {

constexpr char kInChildOfFork[] = "an ObjectStore is not used in a child of fork; make a new one there";

struct HttpRequest {
  std::string method = "GET";
  std::string url;                   // percent-encoded, with its query
  std::string name;                  // for messages and records
  const char* purpose = "";          // for records
  std::vector<std::string> headers;  // "name: value"; those of signatures are added
  absl::string_view body;            // of PUT and POST
  bool is_signed = false;
  bool is_slow = false;     // the server may work for minutes before it answers
  bool is_cleanup = false;  // is also sent after the deadline, once
  bool is_small = false;    // of a few bytes, and others wait for it: does not wait for those that move data
  bool is_single = false;   // one attempt: the caller finds out what a lost answer means
  uint64_t record_offset = 0;
  uint64_t max_text_bytes = uint64_t{8} << 20;
};

struct HttpAnswer {
  IoResult result = 0;  // 0 for a status 2xx
  int status = 0;       // 0: there was none
  AnswerHeaders headers;
  std::string text;      // the body
  std::string code;      // of an error: "NoSuchKey"
  std::string detail;    // of an error: a sentence
  bool is_open = false;  // of an error: the server may have done what was asked, or may do it yet
};

class RequestEngine {
 public:
  RequestEngine(const ObjectStoreOptions& options, std::string region, std::shared_ptr<CredentialSource> credentials);
  ~RequestEngine();  // not in a child of fork: it would close the connections of the parent
  RequestEngine(const RequestEngine&) = delete;
  RequestEngine& operator=(const RequestEngine&) = delete;

  // The whole body becomes answer.text. DataLoss (EBADMSG) if it is longer than request.max_text_bytes.
  HttpAnswer Send(const HttpRequest& request);

  // Adds the headers of a range to a GET and fills its parts, after a broken connection from the first missing byte on.
  // After an error, the parts may hold some bytes of the object, and none of another one.
  HttpAnswer ReadRange(const HttpRequest& request, const ExpectedRange& range);

  // Sleeps before the attempt after `attempt`: a random part of 50 ms * 2^attempt, at most 20 s; longer if the server
  // asks for it in Retry-After, at most a minute. Ends at the deadline.
  void Pause(int attempt, const AnswerHeaders& headers) const;

  void SetDeadline(absl::Time deadline) { deadline_ = absl::ToUnixNanos(deadline); }

  // While it lives, the request of this thread that moves data leaves its place to others: it waits for them, or for
  // the caller. Requires: this thread has such a request.
  class Waiting {
   public:
    explicit Waiting(RequestEngine* engine) : engine_(engine) { engine_->AddUsed(-1); }
    ~Waiting() { engine_->AddUsed(1); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    RequestEngine* const engine_;
  };

  ObjectStoreStats stats() const;
  int max_attempts() const { return options_.max_attempts; }
  bool is_in_owner_process() const { return owner_.IsThisProcess(); }
  const std::string& region() const { return region_; }

 private:
  struct Connection;
  struct Outcome;
  class Lease;

  std::unique_ptr<Connection> Acquire(bool moves_data);
  void Release(std::unique_ptr<Connection> connection, bool moved_data);
  void AddUsed(int count);
  absl::Duration TimeLeft() const { return absl::FromUnixNanos(deadline_) - absl::Now(); }
  bool has_deadline() const { return deadline_ != INT64_MAX; }
  Outcome Attempt(const HttpRequest& request, const Credentials& credentials, AnswerReceiver* receiver);
  HttpAnswer Repeat(const HttpRequest& request, const std::function<std::unique_ptr<AnswerReceiver>()>& make_receiver);
  HttpAnswer Judge(const HttpRequest& request, const Credentials& credentials, Outcome outcome, bool* may_pass) const;
  void Record(const HttpRequest& request, const Outcome& outcome, int attempt);

  const ObjectStoreOptions options_;
  const std::string region_;
  const std::shared_ptr<CredentialSource> credentials_;
  const OwnerProcess owner_;

  std::atomic<int64_t> deadline_;  // in nanoseconds since 1970; INT64_MAX: none

  std::mutex mutex_;
  std::condition_variable released_;
  std::vector<std::unique_ptr<Connection>> idle_;
  int used_ = 0;          // connections
  int used_to_move_ = 0;  // connections for requests that move data

  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> retries_{0};
  std::atomic<uint64_t> bytes_received_{0};
  std::atomic<uint64_t> bytes_sent_{0};
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_REQUEST_ENGINE_H_
