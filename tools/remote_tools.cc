#include "tensorcask/tools/remote_tools.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tensorcask::tools {
namespace {

constexpr char kProgram[] = "tensorcask-grpc";
constexpr absl::string_view kSchemes[] = {"grpc://", "grpcs://"};

const RemoteTools*& Tools() {
  static const RemoteTools* tools = nullptr;
  return tools;
}

// The folder of this program, with a slash; "" if the system does not say.
std::string OwnFolder() {
  std::array<char, 4096> path;
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0 || static_cast<size_t>(size) == path.size()) return "";
  const std::string text(path.data(), static_cast<size_t>(size));
  return text.substr(0, text.rfind('/') + 1);
}

}  // namespace

void SetRemoteTools(const RemoteTools* tools) { Tools() = tools; }
const RemoteTools* GetRemoteTools() { return Tools(); }

bool IsRemote(absl::string_view path) {
  return std::any_of(std::begin(kSchemes), std::end(kSchemes),
                     [&](absl::string_view scheme) { return absl::StartsWith(path, scheme); });
}

bool NeedsRemoteTools(absl::Span<const std::string> arguments) {
  const bool serves = !arguments.empty() && arguments[0] == "serve";
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    // Also behind the "=" of --base=PATH and NAME=PATH.
    const size_t equals = argument.find('=');
    return IsRemote(argument) || (equals != std::string::npos && IsRemote(argument.substr(equals + 1))) ||
           (serves && (argument == "--listen" || absl::StartsWith(argument, "--listen=")));
  });
}

absl::Status RunRemoteProgram(char** argv) {
  const std::string beside = OwnFolder() + kProgram;
  execv(beside.c_str(), argv);
  execvp(kProgram, argv);
  const int error = errno;
  if (error != ENOENT) return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", kProgram));
  return absl::NotFoundError(absl::StrCat("grpc:// and --listen need the program ", kProgram,
                                          ", which is neither beside this one nor in PATH; it is built where gRPC is "
                                          "installed: bazel build //tools:",
                                          kProgram));
}

}  // namespace tensorcask::tools
