#include "tensorcask/tools/siblings/sibling_program.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

namespace tensorcask::tools {
namespace {

// The folder of this program, with a slash; "" if the system does not say.
std::string OwnFolder() {
  std::array<char, 4096> path;
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0 || static_cast<size_t>(size) == path.size()) return "";
  const std::string text(path.data(), static_cast<size_t>(size));
  return text.substr(0, text.rfind('/') + 1);
}

}  // namespace

absl::Status RunSiblingProgram(const char* program, absl::string_view what, absl::string_view how_to_get, char** argv) {
  const std::string folder = OwnFolder();
  // Without a folder the name alone would be a file of the working folder.
  if (!folder.empty()) execv((folder + program).c_str(), argv);
  execvp(program, argv);
  const int error = errno;
  if (error != ENOENT) return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", program));
  return absl::NotFoundError(absl::StrCat(what, " need the program ", program,
                                          ", which is neither beside this one nor in PATH; ", how_to_get));
}

}  // namespace tensorcask::tools
