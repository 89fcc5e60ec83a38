// A web server and S3 store in this process, which lies when a test tells it to.
//
//   LyingServer server;
//   server.Put("bucket/model.npy", bytes);                       // http://127.0.0.1:PORT/bucket/model.npy
//   server.LieAt(2, [](Exchange* exchange) {                     // of the third request
//     exchange->Work();                                          // does what is asked for
//     exchange->end = Exchange::End::kClose;                     // and does not say so
//   });
//
// It speaks as much of HTTP/1.1 and of S3 as this library asks for: objects with ETags, ranges and conditions, uploads
// in parts with checksums, lists with pages. All objects live in memory. Each connection has a thread.

#ifndef TENSORCASK_TESTS_SUPPORT_LYING_SERVER_H_
#define TENSORCASK_TESTS_SUPPORT_LYING_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tensorcask::testing {

struct ServerRequest {
  std::string method;
  std::string path;                            // decoded, without the first slash: "bucket/key"
  std::map<std::string, std::string> query;    // decoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  bool Has(const std::string& name) const { return query.count(name) != 0; }
  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  // "open", "read", "head", "put", "create", "part", "complete", "abort", "delete", "list", "list uploads"
  std::string Kind() const;
};

// One request and its answer. A lie changes the answer, before or after Work.
class Exchange {
 public:
  // How the connection goes on behind the bytes that are sent.
  enum class End {
    kKeep,   // open, for the next request
    kClose,  // closed
    kReset,  // closed, with a reset instead of an end
    kHang,   // open, and silent until the client goes away
  };

  explicit Exchange(const ServerRequest& request, std::function<void(Exchange*)> work)
      : request(request), work_(std::move(work)) {}

  // What an honest server does; fills the answer. A lie that does not call it leaves the store as it is.
  void Work() { work_(this); }
  void Answer(int new_status, std::string new_body) {
    status = new_status;
    headers.clear();
    body = std::move(new_body);
  }
  // An error of S3.
  void Fail(int new_status, const std::string& code);

  const ServerRequest& request;
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool has_length = true;        // a Content-Length; without, the body ends with the connection
  size_t sent_bytes = SIZE_MAX;  // at most so many bytes of the body are sent
  bool is_silent = false;        // nothing is sent, not even a status
  End end = End::kKeep;

  void SetHeader(const std::string& name, const std::string& value);

 private:
  const std::function<void(Exchange*)> work_;
};

class LyingServer {
 public:
  using Lie = std::function<void(Exchange*)>;

  LyingServer();
  ~LyingServer();
  LyingServer(const LyingServer&) = delete;
  LyingServer& operator=(const LyingServer&) = delete;

  std::string url() const;  // "http://127.0.0.1:PORT"

  // Objects, by "bucket/key".
  void Put(const std::string& path, std::string bytes);
  // The same of an object whose bytes are made when they are asked for: make(offset, count) returns them. It has any
  // size and takes no memory, and Get does not return it. `make` is called from several threads.
  using MakeBytes = std::function<std::string(uint64_t offset, uint64_t count)>;
  void PutMade(const std::string& path, uint64_t size_bytes, MakeBytes make);
  bool Has(const std::string& path) const;
  std::string Get(const std::string& path) const;  // "" if there is none
  std::vector<std::string> Paths() const;
  size_t num_uploads() const;

  // Requests count from 0, or from ForgetRequests on.
  void LieAt(size_t request, Lie lie);
  void LieFrom(size_t request, Lie lie);  // at this one and all that follow, but for those of LieAt
  void LieAlways(Lie lie) { LieFrom(0, std::move(lie)); }
  void TellTheTruth();
  std::vector<ServerRequest> requests() const;  // without their bodies
  std::vector<std::string> Kinds() const;       // of all requests
  size_t num_requests() const;
  void ForgetRequests();

  // Answers 403 to every request that is not signed with this secret (Signature Version 4). "" (the default): to none.
  void CheckSignatures(const std::string& secret);

  // How this store differs from Amazon's.
  std::atomic<bool> ignores_ranges{false};    // as a simple web server does
  std::atomic<bool> repeats_complete{true};   // false: a second complete gets 404, as MinIO answers
  std::atomic<bool> lies_about_abort{false};  // 204 for an upload that is completed, as MinIO answers
  std::atomic<size_t> page_keys{1000};        // of a page of a list

 private:
  struct Object {
    std::shared_ptr<const std::string> bytes;
    std::string etag;
    std::string save_id;
    uint64_t made_bytes = 0;  // the size, if `make` makes the bytes
    MakeBytes make;

    uint64_t size_bytes() const { return make ? made_bytes : bytes->size(); }
    std::string Part(uint64_t offset, uint64_t count) const {
      return make ? make(offset, count) : bytes->substr(offset, count);
    }
  };
  struct Upload {
    std::string path;
    std::string save_id;
    std::map<int, std::pair<std::string, std::shared_ptr<const std::string>>> parts;  // ETag and bytes
    bool is_complete = false;
  };

  void Accept();
  void Serve(int socket);
  void Work(Exchange* exchange);
  void Read(Exchange* exchange);
  void List(Exchange* exchange);
  void ListUploads(Exchange* exchange);
  bool MayPublish(const ServerRequest& request) const;  // by its conditions
  void Complete(Exchange* exchange);
  void Store(const std::string& path, std::string bytes, const std::string& save_id);

  int listener_ = -1;
  int port_ = 0;
  std::thread accepting_;

  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;
  int made_ = 0;  // objects, parts and uploads
  std::string secret_;
  std::vector<ServerRequest> requests_;
  std::map<size_t, Lie> lies_;
  size_t lies_from_ = SIZE_MAX;
  Lie steady_lie_;
  std::set<int> sockets_;
  std::vector<std::thread> serving_;
  bool ends_ = false;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_LYING_SERVER_H_
