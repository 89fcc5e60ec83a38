#include "tensorcask/tools/siblings/remote_tools.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "tensorcask/tools/siblings/sibling_program.h"

namespace tensorcask::tools {
namespace {

constexpr absl::string_view kSchemes[] = {"grpc://", "grpcs://"};

const RemoteTools*& Tools() {
  static const RemoteTools* tools = nullptr;
  return tools;
}

}  // namespace

void SetRemoteTools(const RemoteTools* tools) { Tools() = tools; }
const RemoteTools* GetRemoteTools() { return Tools(); }

bool IsRemote(absl::string_view path) {
  return std::any_of(std::begin(kSchemes), std::end(kSchemes),
                     [&](absl::string_view scheme) { return absl::StartsWith(path, scheme); });
}

bool NeedsRemoteTools(absl::Span<const std::string> arguments) {
  const bool listens = !arguments.empty() && (arguments[0] == "serve" || arguments[0] == "recv");
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    // Also behind the "=" of --base=PATH and NAME=PATH.
    const size_t equals = argument.find('=');
    return IsRemote(argument) || (equals != std::string::npos && IsRemote(argument.substr(equals + 1))) ||
           (listens && (argument == "--listen" || absl::StartsWith(argument, "--listen=")));
  });
}

absl::Status RunRemoteProgram(char** argv) {
  return RunSiblingProgram("tensorcask-grpc", "grpc:// and --listen",
                           "it is built where gRPC is installed: bazel build //tools:tensorcask-grpc", argv);
}

}  // namespace tensorcask::tools
