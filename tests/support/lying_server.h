// A web server and S3 store in this process, which lies when a test tells it to.
//
//   LyingServer server;
//   server.Put("bucket/model.npy", bytes);                       // http://127.0.0.1:PORT/bucket/model.npy
//   server.LieAt(2, [](Exchange* exchange) {                     // the answer to the third request
//     exchange->Work();                                          // does what is asked for
//     exchange->end = Exchange::End::kClose;                     // and does not say so
//   });
//
// It speaks as much of HTTP/1.1 and of S3 as this library asks for: objects with ETags, ranges and conditions, uploads
// in parts with checksums, lists with pages. All objects live in memory. Each connection has a thread.

#ifndef TENSORCASK_TESTS_SUPPORT_LYING_SERVER_H_
#define TENSORCASK_TESTS_SUPPORT_LYING_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorcask/tests/support/http_exchange.h"
#include "tensorcask/tests/support/object_server.h"

namespace tensorcask::testing {

class LyingServer : public ObjectServer {
 public:
  using Lie = std::function<void(Exchange*)>;

  LyingServer();
  ~LyingServer();
  LyingServer(const LyingServer&) = delete;
  LyingServer& operator=(const LyingServer&) = delete;

  std::string url() const;  // "http://127.0.0.1:PORT"

  // Requests count from 0, or from ForgetRequests on.
  void LieAt(size_t request, Lie lie);
  void LieFrom(size_t request, Lie lie);  // at this one and all that follow, but for those of LieAt
  void LieAlways(Lie lie) { LieFrom(0, std::move(lie)); }
  void TellTheTruth();
  std::vector<ServerRequest> requests() const;  // without their bodies
  std::vector<std::string> Kinds() const;       // those of all requests
  size_t num_requests() const;
  void ForgetRequests();

  // Answers 403 to every request that is not signed with this secret (Signature Version 4). "" (the default): to none.
  void CheckSignatures(const std::string& secret);

 private:
  void Accept();
  void Serve(int socket);

  int listener_ = -1;
  int port_ = 0;
  std::thread accepting_;

  mutable std::mutex mutex_;
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
