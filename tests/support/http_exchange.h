// Requests and answers of HTTP/1.1 on a socket, as much of it as this library asks for.

#ifndef TENSORCASK_TESTS_SUPPORT_HTTP_EXCHANGE_H_
#define TENSORCASK_TESTS_SUPPORT_HTTP_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

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
  // How the connection goes on after the bytes that are sent.
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
  bool is_silent = false;        // nothing of this is sent, not even a status
  // What is sent after it: again and again what this returns, until that is "" or the client goes away.
  std::function<std::string()> more;
  End end = End::kKeep;

  void SetHeader(const std::string& name, const std::string& value);

 private:
  const std::function<void(Exchange*)> work_;
};

// The bytes that arrive at a socket.
class SocketReader {
 public:
  explicit SocketReader(int socket) : socket_(socket) {}

  // False at the end of the connection, and past 64 KiB without an end of the line.
  bool ReadLine(std::string* line);
  bool Read(size_t bytes, std::string* out);

 private:
  bool Fill();

  const int socket_;
  std::string buffer_;
  size_t position_ = 0;
};

// False if the connection ends, or what arrives is not a request.
bool ReadRequest(SocketReader* reader, ServerRequest* request);
// False if the connection is gone.
bool SendAnswer(int socket, const Exchange& exchange);

std::string PercentEncoded(absl::string_view text);  // but for letters, digits and -._~/

// Whether the request has the signature of this secret (Amazon's "Signature Version 4 for S3").
bool IsSigned(const ServerRequest& request, const std::string& secret);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_HTTP_EXCHANGE_H_
