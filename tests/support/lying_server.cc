#include "tensorcask/tests/support/lying_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"

namespace tensorcask::testing {
namespace {

void Reset(int socket) {
  const linger now = {1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

}  // namespace

LyingServer::LyingServer() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CASK_CHECK(listener_ >= 0, "socket");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  CASK_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  CASK_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
  CASK_CHECK(listen(listener_, 128) == 0, "listen");
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

LyingServer::~LyingServer() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    shutdown(listener_, SHUT_RDWR);
    for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
  }
  accepting_.join();
  for (std::thread& thread : serving_) thread.join();
  close(listener_);
}

std::string LyingServer::url() const { return absl::StrCat("http://127.0.0.1:", port_); }

void LyingServer::Accept() {
  while (true) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    std::lock_guard<std::mutex> lock(mutex_);
    if (socket < 0 || ends_) {
      if (socket >= 0) close(socket);
      return;
    }
    sockets_.insert(socket);
    serving_.emplace_back([this, socket] { Serve(socket); });
  }
}

void LyingServer::Serve(int socket) {
  SocketReader reader(socket);
  Exchange::End end = Exchange::End::kKeep;
  while (end == Exchange::End::kKeep) {
    ServerRequest request;
    if (!ReadRequest(&reader, &request)) break;
    Lie lie;
    std::string secret;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      secret = secret_;
      const size_t number = requests_.size();
      ServerRequest seen = request;
      seen.body.clear();
      requests_.push_back(std::move(seen));
      const auto found = lies_.find(number);
      if (number >= lies_from_) lie = steady_lie_;
      if (found != lies_.end()) lie = found->second;
    }
    Exchange exchange(request, [this](Exchange* honest) { Work(honest); });
    if (!secret.empty() && !IsSigned(request, secret)) {
      exchange.Fail(403, "SignatureDoesNotMatch");
    } else if (lie) {
      lie(&exchange);
    } else {
      exchange.Work();
    }
    if (!exchange.has_length && exchange.end == Exchange::End::kKeep) exchange.end = Exchange::End::kClose;
    if (!SendAnswer(socket, exchange)) break;
    end = exchange.end;
  }
  if (end == Exchange::End::kReset) Reset(socket);
  if (end == Exchange::End::kHang) {
    pollfd wait = {socket, POLLRDHUP, 0};
    poll(&wait, 1, -1);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  sockets_.erase(socket);
  close(socket);
}

void LyingServer::LieAt(size_t request, Lie lie) {
  std::lock_guard<std::mutex> lock(mutex_);
  lies_[request] = std::move(lie);
}

void LyingServer::LieFrom(size_t request, Lie lie) {
  std::lock_guard<std::mutex> lock(mutex_);
  lies_from_ = request;
  steady_lie_ = std::move(lie);
}

void LyingServer::CheckSignatures(const std::string& secret) {
  std::lock_guard<std::mutex> lock(mutex_);
  secret_ = secret;
}

void LyingServer::TellTheTruth() {
  std::lock_guard<std::mutex> lock(mutex_);
  lies_.clear();
  lies_from_ = SIZE_MAX;
}

std::vector<ServerRequest> LyingServer::requests() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return requests_;
}

std::vector<std::string> LyingServer::Kinds() const {
  std::vector<std::string> kinds;
  for (const ServerRequest& request : requests()) kinds.push_back(request.Kind());
  return kinds;
}

size_t LyingServer::num_requests() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return requests_.size();
}

void LyingServer::ForgetRequests() {
  std::lock_guard<std::mutex> lock(mutex_);
  requests_.clear();
}

}  // namespace tensorcask::testing
