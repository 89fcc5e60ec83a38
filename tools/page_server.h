// Serves one page to a browser of this machine: over HTTP, at a port of the loopback interface.
//
//   CASK_ASSIGN_OR_RETURN(std::unique_ptr<PageServer> server, PageServer::Start(/*port=*/0, answer));
//   console.out << server->url() << '\n';   // http://127.0.0.1:40123/?token=3f2a...
//   server->Run([] { return !Interrupted(); });
//
// libevent speaks HTTP. Only a request with the token of the address gets an answer, and only GET and HEAD. The Host of
// a request must be that of the address, so that no name that leads to this machine (DNS rebinding) reaches the server;
// its Origin, if it has one, must be the same. A request has 16 KiB of headers at most, no body, and 10 seconds between
// two bytes. When the process has no descriptors left, new connections wait.

#ifndef TENSORCASK_TOOLS_PAGE_SERVER_H_
#define TENSORCASK_TOOLS_PAGE_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::tools {

struct PageAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// The answer for a path, "/values", and the decoded parameters of its query.
using AnswerPage = std::function<PageAnswer(const std::string& path, const std::map<std::string, std::string>& query)>;

class PageServer {
 public:
  virtual ~PageServer() = default;

  // Port 0: the system chooses one. `answer` is called by Run, for one request at a time.
  // Errors: from errno, naming the port; Unavailable if the system gives no random bytes or no event loop.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(uint16_t port, AnswerPage answer);

  virtual const std::string& url() const = 0;
  // Serves until go_on() returns false; it is called ten times a second.
  virtual void Run(absl::FunctionRef<bool()> go_on) = 0;
};

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_PAGE_SERVER_H_
