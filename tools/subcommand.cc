#include "tensorcask/tools/subcommand.h"

#include <fnmatch.h>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace tensorcask::tools {
namespace {
constexpr char kMisuseUrl[] = "tensorcask/misuse";
}  // namespace

absl::Status Misuse(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kMisuseUrl, absl::Cord());
  return status;
}

bool IsMisuse(const absl::Status& status) { return status.GetPayload(kMisuseUrl).has_value(); }

bool MatchesAny(const std::string& name, const std::vector<std::string>& globs) {
  for (const std::string& glob : globs) {
    // fnmatch stops at NUL bytes, which names may have.
    if (name.find('\0') == std::string::npos && fnmatch(glob.c_str(), name.c_str(), 0) == 0) return true;
  }
  return false;
}

void AddFormatOption(CLI::App& app, std::string* format) {
  app.add_option("--format", *format, "What PATH is, where its bytes cannot tell")
      ->check(CLI::IsMember({kCheckpoint, kTensorProto, kTensorProtoText}))
      ->type_name("FORMAT");
}

}  // namespace tensorcask::tools
