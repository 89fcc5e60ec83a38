#include "tensorcask/serialize/object_store/internal/request_engine.h"

#include <curl/curl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tensorcask/serialize/object_store/internal/answer_errors.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/serialize/object_store/internal/request_signature.h"
#include "tensorcask/serialize/object_store/internal/sha256.h"
#include "tensorcask/serialize/object_store/internal/xml_answer.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::internal {
namespace {

constexpr long kStallBytesPerSecond = 1024;
constexpr int64_t kMostTimeoutMilliseconds = int64_t{1} << 30;
constexpr int kSlowFactor = 10;  // completing an upload may take minutes
constexpr long kCurlBufferBytes = 512L << 10;
constexpr long kContinueMilliseconds = 1;  // a body is not held back for "100 Continue"
constexpr size_t kShownWordsBytes = 200;
constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kMaxPause = absl::Seconds(20);
constexpr absl::Duration kMaxRetryAfter = absl::Seconds(60);

// What the store says, without what only this process and the store know: a server may repeat what it got.
std::string WordsWithoutSecrets(absl::string_view text, const Credentials& credentials) {
  std::string words(text);
  for (const std::string* secret :
       {&credentials.secret_access_key, &credentials.session_token, &credentials.access_key_id}) {
    if (!secret->empty()) words = absl::StrReplaceAll(words, {{*secret, "[secret]"}});
  }
  return words;
}

class HeaderList {
 public:
  ~HeaderList() { curl_slist_free_all(list_); }
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;

  bool Add(const std::string& line) {
    curl_slist* const longer = curl_slist_append(list_, line.c_str());
    if (longer != nullptr) list_ = longer;
    return longer != nullptr;
  }
  curl_slist* list() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

struct BodyReader {
  absl::string_view body;
  size_t position = 0;
};

size_t OnCurlRead(char* out, size_t size, size_t count, void* user) {
  auto* const reader = static_cast<BodyReader*>(user);
  const size_t bytes = std::min(size * count, reader->body.size() - reader->position);
  if (bytes > 0) std::memcpy(out, reader->body.data() + reader->position, bytes);
  reader->position += bytes;
  return bytes;
}

int OnCurlSeek(void* user, curl_off_t offset, int origin) {
  auto* const reader = static_cast<BodyReader*>(user);
  if (origin != SEEK_SET || offset < 0 || static_cast<uint64_t>(offset) > reader->body.size()) {
    return CURL_SEEKFUNC_CANTSEEK;
  }
  reader->position = static_cast<size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

void StartCurl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

}  // namespace

struct RequestEngine::Connection {
  Connection() : curl(curl_easy_init()) {}
  ~Connection() { curl_easy_cleanup(curl); }
  CURL* const curl;
};

// What came of one attempt.
struct RequestEngine::Outcome {
  CURLcode curl_code = CURLE_OK;
  bool was_connected = false;
  bool was_sent = false;  // a byte of the request may have reached the server
  std::string curl_words;
  AnswerHeaders headers;
  int status = 0;
  std::string text;      // of the body, or of an error
  IoResult refused = 0;  // minus an errno: the receiver refused the answer
  std::string refused_words;
  uint64_t bytes_received = 0;
  int64_t microseconds = 0;
};

// A connection for one request, which returns it, also where an exception ends the request.
class RequestEngine::Lease {
 public:
  Lease(RequestEngine* engine, bool moves_data)
      : engine_(engine), moves_data_(moves_data), connection_(engine->Acquire(moves_data)) {}
  ~Lease() {
    // Keeps the connection, and neither pointers to what ends with the request nor the keys: the handle may write to an
    // error buffer for as long as it has one.
    if (curl() != nullptr) curl_easy_reset(curl());
    engine_->Release(std::move(connection_), moves_data_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  CURL* curl() const { return connection_->curl; }

 private:
  RequestEngine* const engine_;
  const bool moves_data_;
  std::unique_ptr<Connection> connection_;
};

RequestEngine::RequestEngine(const ObjectStoreOptions& options, std::string region,
                             std::shared_ptr<CredentialSource> credentials)
    : options_(options), region_(std::move(region)), credentials_(std::move(credentials)) {
  idle_.reserve(4 * static_cast<size_t>(options.connections));  // Release takes no memory
  SetDeadline(options.deadline);
  StartCurl();
}

RequestEngine::~RequestEngine() = default;

// One more than move data, for a question that must not wait for them, nor they for it.
std::unique_ptr<RequestEngine::Connection> RequestEngine::Acquire(bool moves_data) {
  std::unique_lock<std::mutex> lock(mutex_);
  released_.wait(
      lock, [&] { return used_ <= options_.connections && (!moves_data || used_to_move_ < options_.connections); });
  std::unique_ptr<Connection> connection;
  if (idle_.empty()) {
    connection = std::make_unique<Connection>();
  } else {
    connection = std::move(idle_.back());  // the warmest
    idle_.pop_back();
  }
  ++used_;
  used_to_move_ += moves_data ? 1 : 0;
  return connection;
}

void RequestEngine::Release(std::unique_ptr<Connection> connection, bool moved_data) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    --used_;
    used_to_move_ -= moved_data ? 1 : 0;
    const bool has_room = idle_.size() < idle_.capacity();  // without more memory
    if (connection->curl != nullptr && has_room) idle_.push_back(std::move(connection));
  }
  released_.notify_all();
}

void RequestEngine::AddUsed(int count) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    used_ += count;
    used_to_move_ += count;
  }
  released_.notify_all();
}

RequestEngine::Outcome RequestEngine::Attempt(const HttpRequest& request, const Credentials& credentials,
                                              AnswerReceiver* receiver) {
  Outcome outcome;
  char words[CURL_ERROR_SIZE] = "";  // outlives the pointer to it
  const Lease lease(this, /*moves_data=*/request.method != "HEAD" && !request.is_small);
  CURL* const curl = lease.curl();
  if (curl == nullptr) {
    outcome.curl_code = CURLE_OUT_OF_MEMORY;
    return outcome;
  }
  std::vector<std::string> lines = request.headers;
  receiver->Prepare(&lines);
  const bool signs = request.is_signed && !credentials.is_anonymous();
  if (signs) {
    // Over plain http the body could be changed on its way, so its hash is signed.
    const bool is_protected = absl::StartsWith(request.url, "https:") || IsLoopback(HostOf(request.url));
    lines.push_back(absl::StrCat("x-amz-content-sha256: ",
                                 is_protected && !request.body.empty() ? "UNSIGNED-PAYLOAD" : Sha256Hex(request.body)));
    if (!credentials.session_token.empty()) {
      lines.push_back(absl::StrCat("x-amz-security-token: ", credentials.session_token));
    }
    SignRequest(request.method, request.url, credentials, region_, absl::Now(), &lines);
  }
  HeaderList headers;
  for (const std::string& line : lines) {
    if (!headers.Add(line)) outcome.curl_code = CURLE_OUT_OF_MEMORY;
  }

  BodyReader reader{request.body};
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.list());
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT") {
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, OnCurlRead);
    curl_easy_setopt(curl, CURLOPT_READDATA, &reader);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, OnCurlSeek);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, &reader);
    curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, kCurlBufferBytes);
    curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, kContinueMilliseconds);
  } else if (request.method == "POST") {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, kContinueMilliseconds);
  } else if (request.method != "GET") {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }

#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options_.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options_.ca_file.c_str());
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kCurlBufferBytes);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  const int64_t stall = absl::ToInt64Seconds(absl::Ceil(options_.stall, absl::Seconds(1)));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(stall * (request.is_slow ? kSlowFactor : 1)));
  if (has_deadline() && !request.is_cleanup) {
    const int64_t left = std::clamp<int64_t>(absl::ToInt64Milliseconds(TimeLeft()), 1, kMostTimeoutMilliseconds);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(left));
  }
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "tensorcask");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);

  struct Callbacks {
    CURL* curl;
    AnswerReceiver* receiver;

    int status() const {
      long status = 0;
      curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
      return static_cast<int>(status);
    }
    static size_t OnHeader(char* line, size_t size, size_t count, void* user) {
      const bool goes_on = static_cast<Callbacks*>(user)->receiver->AddHeader({line, size * count});
      return goes_on ? size * count : 0;
    }
    static size_t OnBody(char* bytes, size_t size, size_t count, void* user) {
      auto* const self = static_cast<Callbacks*>(user);
      return self->receiver->AddBody({bytes, size * count}, self->status()) ? size * count : 0;
    }
  } callbacks{curl, receiver};
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, Callbacks::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &callbacks);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Callbacks::OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &callbacks);

  const auto start = std::chrono::steady_clock::now();
  if (outcome.curl_code == CURLE_OK) outcome.curl_code = curl_easy_perform(curl);
  outcome.microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
  curl_off_t connected = 0;
  long request_bytes = 0;
  curl_easy_getinfo(curl, CURLINFO_CONNECT_TIME_T, &connected);
  curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &request_bytes);
  outcome.was_sent = request_bytes > 0;
  outcome.was_connected = connected > 0 || outcome.was_sent;
  outcome.status = callbacks.status();
  if (outcome.curl_code == CURLE_OK) receiver->End(outcome.status);
  outcome.curl_words = words[0] != '\0' ? words : curl_easy_strerror(outcome.curl_code);
  outcome.headers = std::move(receiver->headers());
  outcome.text = std::move(receiver->text());
  outcome.refused = receiver->refused();
  outcome.refused_words = std::move(receiver->refused_words());
  outcome.bytes_received = receiver->received();
  return outcome;
}

HttpAnswer RequestEngine::Judge(const HttpRequest& request, const Credentials& credentials, Outcome outcome,
                                bool* may_pass) const {
  HttpAnswer answer;
  answer.status = outcome.status;
  answer.headers = std::move(outcome.headers);
  *may_pass = false;
  if (outcome.refused < 0) {
    answer.result = outcome.refused;
    answer.detail = std::move(outcome.refused_words);
    answer.is_open = true;
    return answer;
  }
  if (outcome.curl_code != CURLE_OK) {
    answer.result = ErrnoOfCurl(outcome.curl_code, outcome.was_connected);
    answer.status = 0;
    answer.detail = WordsWithoutSecrets(outcome.curl_words, credentials);
    answer.is_open = outcome.was_sent;
    *may_pass = IsTransient(outcome.curl_code);
    return answer;
  }
  answer.text = std::move(outcome.text);
  const bool is_success = outcome.status >= 200 && outcome.status <= 299;
  // A store that worked for long answers 200 before it knows how the work ends.
  const bool may_be_error = request.method == "POST" && absl::StrContains(answer.text, "<Error");
  if (is_success && !may_be_error) return answer;

  // A web server that knows nothing of S3 gets no say.
  StoreError error;
  if (request.is_signed) error = ParseStoreError(answer.text).value_or(StoreError());
  if (is_success) {
    if (error.code.empty()) return answer;
    outcome.status = answer.status = StatusOfCode(error.code);
  }
  if (error.region.empty()) error.region = answer.headers.bucket_region;
  if (error.request_id.empty()) error.request_id = answer.headers.request_id;
  answer.code = error.code;
  answer.result = ErrnoOfStatus(outcome.status, error.code);
  answer.detail = absl::StrCat("the server answered ", outcome.status);
  if (!error.code.empty()) absl::StrAppend(&answer.detail, " ", Quoted(error.code));
  if (!error.message.empty()) {
    absl::StrAppend(&answer.detail, ": ", Quoted(WordsWithoutSecrets(error.message, credentials), kShownWordsBytes));
  }
  if (!error.request_id.empty()) absl::StrAppend(&answer.detail, " (request ", Quoted(error.request_id), ")");
  const bool is_of_region = outcome.status == 301 || outcome.status == 307 || outcome.status == 400;
  if (is_of_region && !error.region.empty() && error.region != region_) {
    answer.result = -EDESTADDRREQ;
    absl::StrAppend(&answer.detail, "; the bucket is in the region ", Quoted(error.region),
                    ", and the request was for ", Quoted(region_));
  } else if (outcome.status >= 300 && outcome.status < 400) {
    absl::StrAppend(&answer.detail, "; redirects are not followed");
  }
  answer.is_open = outcome.status >= 500 || outcome.status == 408;
  *may_pass = IsTransient(outcome.status) || error.code == "RequestTimeout";
  return answer;
}

void RequestEngine::Record(const HttpRequest& request, const Outcome& outcome, int attempt) {
  requests_.fetch_add(1, std::memory_order_relaxed);
  if (attempt > 0) retries_.fetch_add(1, std::memory_order_relaxed);
  bytes_received_.fetch_add(outcome.bytes_received, std::memory_order_relaxed);
  bytes_sent_.fetch_add(request.body.size(), std::memory_order_relaxed);
  if (!options_.observer) return;
  RequestRecord record;
  record.method = request.method;
  record.name = request.name;
  record.purpose = request.purpose;
  record.offset = request.record_offset;
  record.bytes = request.body.empty() ? outcome.bytes_received : request.body.size();
  record.http_status = outcome.status;
  record.attempt = attempt;
  record.microseconds = outcome.microseconds;
  options_.observer(record);
}

void RequestEngine::Pause(int attempt, const AnswerHeaders& headers) const {
  static thread_local std::minstd_rand random(std::random_device{}());
  const absl::Duration most = std::min(kFirstPause * static_cast<double>(1 << std::min(attempt, 20)), kMaxPause);
  const absl::Duration jitter = most * std::uniform_real_distribution<double>(0, 1)(random);
  const absl::Duration asked = ParseRetryAfter(headers.retry_after, absl::Now()).value_or(absl::ZeroDuration());
  absl::Duration pause = std::max(jitter, std::min(asked, kMaxRetryAfter));
  if (has_deadline()) pause = std::clamp(TimeLeft(), absl::ZeroDuration(), pause);
  std::this_thread::sleep_for(absl::ToChronoMicroseconds(pause));
}

HttpAnswer RequestEngine::Repeat(const HttpRequest& request,
                                 const std::function<std::unique_ptr<AnswerReceiver>()>& make_receiver) {
  HttpAnswer answer;
  if (!owner_.IsThisProcess()) {
    answer.result = -EOPNOTSUPP;
    answer.detail = kInChildOfFork;
    return answer;
  }
  bool renew = false;
  bool was_renewed = false;
  for (int attempt = 0;; ++attempt) {
    const bool is_late = has_deadline() && TimeLeft() <= absl::ZeroDuration();
    if (is_late && (!request.is_cleanup || attempt > 0)) {
      const std::string before = attempt > 0 ? absl::StrCat(", after ", answer.detail) : "";
      answer.detail = absl::StrCat(request.method, " ", request.name, ": the deadline has passed", before);
      answer.result = -ETIMEDOUT;
      return answer;
    }
    Credentials credentials;
    if (request.is_signed) {
      absl::StatusOr<Credentials> found = credentials_->Get(std::exchange(renew, false));
      if (!found.ok()) {
        answer.result = -EACCES;
        answer.detail = absl::StrCat("no credentials: ", found.status().message());
        return answer;
      }
      credentials = *std::move(found);
    }
    const std::unique_ptr<AnswerReceiver> receiver = make_receiver();
    Outcome outcome = Attempt(request, credentials, receiver.get());
    Record(request, outcome, attempt);
    bool may_pass = false;
    answer = Judge(request, credentials, std::move(outcome), &may_pass);
    if (answer.result >= 0) return answer;
    // HEAD has no text that would say why.
    const bool may_have_expired =
        answer.code == "ExpiredToken" || (answer.status == 400 && request.method == "HEAD" && answer.result == -EIO);
    if (request.is_signed && may_have_expired && !was_renewed) {
      renew = was_renewed = true;
      continue;
    }
    if (!may_pass || request.is_single || attempt + 1 >= options_.max_attempts) {
      answer.detail = absl::StrCat(request.method, " ", request.name, ": ", answer.detail);
      if (attempt > 0) absl::StrAppend(&answer.detail, ", after ", attempt + 1, " attempts");
      return answer;
    }
    Pause(attempt, answer.headers);
  }
}

HttpAnswer RequestEngine::Send(const HttpRequest& request) {
  return Repeat(request,
                [&] { return std::make_unique<TextReceiver>(request.method == "HEAD", request.max_text_bytes); });
}

HttpAnswer RequestEngine::ReadRange(const HttpRequest& request, const ExpectedRange& range) {
  uint64_t done = 0;
  HttpAnswer answer = Repeat(request, [&] { return std::make_unique<RangeReceiver>(range, &done); });
  if (answer.status == 412) absl::StrAppend(&answer.detail, "; the file was replaced while it was read");
  if (answer.status == 416) {
    answer.result = -ESTALE;
    absl::StrAppend(&answer.detail, "; the file is shorter than it was when it was opened");
  }
  return answer;
}

ObjectStoreStats RequestEngine::stats() const {
  ObjectStoreStats stats;
  stats.requests = requests_;
  stats.retries = retries_;
  stats.bytes_received = bytes_received_;
  stats.bytes_sent = bytes_sent_;
  return stats;
}

}  // namespace tensorcask::internal
