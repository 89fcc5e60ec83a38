#include "tensorcask/serialize/rpc/internal/connection_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tensorcask::rpc {
namespace {

constexpr int kWaitForDescriptorMs = 100;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> Resolve(const std::string& address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(std::string(host).c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (error == 0) return AddressList(found, &freeaddrinfo);
  return absl::UnavailableError(absl::StrCat("cannot listen at ", address, ": ", gai_strerror(error)));
}

bool IsLoopbackAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET6) {
    const in6_addr& bytes = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&bytes) || (IN6_IS_ADDR_V4MAPPED(&bytes) && bytes.s6_addr[12] == IN_LOOPBACKNET);
  }
  return address.sa_family == AF_INET &&
         ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

// The port of an address of IPv4 or IPv6.
in_port_t* PortOf(sockaddr_storage* address) {
  return address->ss_family == AF_INET6 ? &reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                        : &reinterpret_cast<sockaddr_in*>(address)->sin_port;
}

// A socket that listens at the address, and at *port if that is not 0; *port gets the port. None, with errno, if not.
ScopedDescriptor Listen(const addrinfo& at, int* port) {
  sockaddr_storage address = {};
  std::copy_n(reinterpret_cast<const char*>(at.ai_addr), at.ai_addrlen, reinterpret_cast<char*>(&address));
  if (*port != 0) *PortOf(&address) = htons(static_cast<uint16_t>(*port));
  ScopedDescriptor listener(socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(listener.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (at.ai_family == AF_INET6) setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  socklen_t size = at.ai_addrlen;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, size) != 0 || listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), generic, &size) != 0) {
    return ScopedDescriptor();
  }
  *port = ntohs(*PortOf(&address));
  return listener;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Create(const std::string& address) {
  absl::StatusOr<AddressList> addresses = Resolve(address);
  if (!addresses.ok()) return addresses.status();
  std::unique_ptr<ConnectionListener> listener(new ConnectionListener());
  int error = 0;
  for (const addrinfo* at = addresses->get(); at != nullptr; at = at->ai_next) {
    listener->is_loopback_ = listener->is_loopback_ && IsLoopbackAddress(*at->ai_addr);
    ScopedDescriptor socket = Listen(*at, &listener->port_);
    if (socket.is_open()) {
      listener->sockets_.push_back(std::move(socket));
      continue;
    }
    error = errno;
    // A host may have a name of IPv6 without an interface for it.
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) break;
    error = at->ai_next == nullptr && listener->sockets_.empty() ? error : 0;
  }
  listener->wake_ = ScopedDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (error == 0 && !listener->wake_.is_open()) error = errno;
  if (error == 0) return listener;
  return absl::UnavailableError(
      absl::StrCat("cannot listen at ", address, ": ",
                   error == EADDRINUSE ? "the port is in use" : std::generic_category().message(error)));
}

void ConnectionListener::Start(std::function<void(int connection)> take) {
  thread_ = std::thread([this, take = std::move(take)] { Run(take); });
}

void ConnectionListener::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (thread_.joinable()) {
    eventfd_write(wake_.get(), 1);
    thread_.join();
  }
  sockets_.clear();
}

void ConnectionListener::Run(const std::function<void(int connection)>& take) const {
  std::vector<pollfd> waiting = {{wake_.get(), POLLIN, 0}};
  for (const ScopedDescriptor& socket : sockets_) waiting.push_back({socket.get(), POLLIN, 0});
  while (true) {
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[0].revents != 0) return;
    for (size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      const int connection = accept4(waiting[i].fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (connection >= 0) {
        take(connection);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        poll(waiting.data(), 1, kWaitForDescriptorMs);
      }
    }
  }
}

}  // namespace tensorcask::rpc
