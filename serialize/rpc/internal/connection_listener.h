// Listens at an address, and hands each connection to gRPC.
//
//   CASK_ASSIGN_OR_RETURN(const auto listener, ConnectionListener::Create("127.0.0.1:0"));
//   listener->Start([acceptor](int connection) { ... });   // from a thread of its own
//
// gRPC's own listener ends for good when the process has no descriptor left for a connection, which any host that
// reaches it can bring about. This one waits until there is one again.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_CONNECTION_LISTENER_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_CONNECTION_LISTENER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask::rpc {

class ConnectionListener {
 public:
  // "HOST:PORT", all addresses of the host; port 0: any that is free.
  // Errors: Unavailable if the host is unknown or the port is in use.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Create(const std::string& address);
  ~ConnectionListener() { Stop(); }

  int port() const { return port_; }
  // True if all addresses are of the loopback interface: no other host reaches them.
  bool is_loopback() const { return is_loopback_; }
  // `take` owns the connection that it gets. Once.
  void Start(std::function<void(int connection)> take);
  // Closes the address; `take` is not called any more. Thread-safe.
  void Stop();

 private:
  ConnectionListener() = default;
  void Run(const std::function<void(int connection)>& take) const;

  int port_ = 0;
  bool is_loopback_ = true;
  std::mutex mutex_;
  std::vector<ScopedDescriptor> sockets_;
  ScopedDescriptor wake_;  // an eventfd: the thread ends
  std::thread thread_;
};

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_CONNECTION_LISTENER_H_
