// Kills a saving process very often, over real files: `tools/dev crash`.
//
//   crash_kills [--kills N]
//
// Works in a new folder in $TMPDIR (or /tmp), which it removes. Exit status: 1 if a promise was broken, 2 if misused.

#include <stdlib.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "tensorcask/tests/crash/kill_loop.h"

namespace tensorcask::testing {
namespace {

int Main(int kills) {
  std::error_code error;
  std::string folder = std::filesystem::temp_directory_path(error).string() + "/tensorcask-kills-XXXXXX";
  if (error || mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "cannot make a folder %s\n", folder.c_str());
    return 1;
  }
  int64_t violations = 0;
  int done = 0;
  int targets_left = static_cast<int>(std::size(kAllKillTargets));
  for (const KillTarget target : kAllKillTargets) {
    const std::string name(KillTargetName(target));
    const std::string here = absl::StrCat(folder, "/", name);
    std::filesystem::create_directory(here, error);
    const auto start = std::chrono::steady_clock::now();
    const KillReport report = RunKillLoop(here, target, (kills - done) / targets_left--, /*seed=*/1);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    done += report.kills;
    violations += report.violations;
    std::printf("killed, %-9s %5d times %6lld saves %6lld temporary files left %3lld violations %6.1f s\n",
                name.c_str(), report.kills, static_cast<long long>(report.saves),
                static_cast<long long>(report.leftovers), static_cast<long long>(report.violations), seconds.count());
    if (target == KillTarget::kOverwrite) {
      std::printf(
          "    %lld kills left no readable checkpoint; files that kills left: %lld bytes, after the next save: %lld\n",
          static_cast<long long>(report.none), static_cast<long long>(report.left_bytes),
          static_cast<long long>(report.still_left));
    }
    if (report.violations > 0) std::printf("    %s\n", report.first.c_str());
    std::fflush(stdout);
  }
  std::filesystem::remove_all(folder, error);
  std::printf("%d kills, %lld violations\n", done, static_cast<long long>(violations));
  return violations == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tensorcask::testing

int main(int argc, char** argv) {
  long kills = 1000;
  bool understood = argc == 1;
  if (argc == 3 && std::strcmp(argv[1], "--kills") == 0) {
    char* end = nullptr;
    kills = strtol(argv[2], &end, 10);
    understood = *argv[2] != '\0' && *end == '\0' && kills >= 0 && kills <= 1000000;
  }
  if (!understood) {
    std::fprintf(stderr, "usage: crash_kills [--kills N]\n");
    return 2;
  }
  return tensorcask::testing::Main(static_cast<int>(kills));
}
