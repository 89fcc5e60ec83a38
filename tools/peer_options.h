// The options that `send`, `recv` and `serve` share: where the other side is, and what it must show.

#ifndef TENSORCASK_TOOLS_PEER_OPTIONS_H_
#define TENSORCASK_TOOLS_PEER_OPTIONS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tensorcask/tools/siblings/remote_tools.h"

namespace tensorcask::tools {

// How often a command that waits looks for a signal.
inline constexpr absl::Duration kPeerTick = absl::Milliseconds(100);

struct SocketFlags {
  std::string path;      // "": none
  double timeout_s = 0;  // how long to wait for a silent peer

  absl::Duration timeout() const { return absl::Seconds(timeout_s); }
};

// --unix and --timeout; `what` describes the socket, `timeout_s` is the default.
void AddSocketOptions(CLI::App& app, SocketFlags* flags, const char* what, double timeout_s);
// --listen, and what a server wants of its clients.
void AddListenOptions(CLI::App& app, ListenFlags* flags, const char* what);

// Errors: Misuse unless one of --unix and --listen is given, for options of the other, and without a folder for the
// socket.
absl::Status CheckPlace(const SocketFlags& socket, const ListenFlags& listen);
// Errors: Misuse if there is no folder for the socket.
absl::Status CheckSocketFolder(const std::string& socket);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_PEER_OPTIONS_H_
