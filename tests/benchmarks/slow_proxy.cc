#include "tensorcask/tests/benchmarks/slow_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace tensorcask::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in AddressOf(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void Serve(int client, int server_port, double delay_seconds, double bytes_per_second) {
  const int server = ConnectTo(server_port);
  if (server < 0) {
    close(client);
    return;
  }
  std::atomic<bool> is_asked{false};
  std::thread asking([&] {
    std::vector<char> bytes(256 << 10);
    while (true) {
      const ssize_t got = recv(client, bytes.data(), bytes.size(), 0);
      if (got <= 0) break;
      is_asked = true;
      if (!SendAll(server, bytes.data(), static_cast<size_t>(got))) break;
    }
    shutdown(server, SHUT_RDWR);
  });
  std::vector<char> bytes(256 << 10);
  Clock::time_point due = Clock::now();
  while (true) {
    const ssize_t got = recv(server, bytes.data(), bytes.size(), 0);
    if (got <= 0) break;
    if (is_asked.exchange(false)) {
      due = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(delay_seconds));
    }
    due += std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(static_cast<double>(got) / bytes_per_second));
    std::this_thread::sleep_until(due);
    if (!SendAll(client, bytes.data(), static_cast<size_t>(got))) break;
  }
  shutdown(client, SHUT_RDWR);
  asking.join();
  close(server);
  close(client);
}

}  // namespace

int ConnectTo(int port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = AddressOf(port);
  if (made >= 0 && connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(made);
    return -1;
  }
  const int on = 1;
  if (made >= 0) setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return made;
}

bool SendAll(int socket, const char* bytes, unsigned long count) {
  while (count > 0) {
    const ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<unsigned long>(sent);
  }
  return true;
}

int RunSlowProxy(int port, int server_port, double delay_seconds, double bytes_per_second) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = AddressOf(port);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 || listen(listener, 64) != 0) {
    return 1;
  }
  while (true) {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::thread(Serve, client, server_port, delay_seconds, bytes_per_second).detach();
  }
}

}  // namespace tensorcask::benchmarks
