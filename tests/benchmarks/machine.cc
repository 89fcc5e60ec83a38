#include "tensorcask/tests/benchmarks/machine.h"

#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {

std::string ProcessorName(absl::string_view cpuinfo) {
  for (const absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    if (absl::StripAsciiWhitespace(line.substr(0, colon)) != "model name") continue;
    const absl::string_view name = absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (!name.empty()) return std::string(name);
  }
  return "unknown processor";
}

std::string CacheSize(long bytes) {
  if (bytes <= 0) return "unknown";
  return bytes >= (1 << 20) ? absl::StrFormat("%.4g MiB", static_cast<double>(bytes) / (1 << 20))
                            : absl::StrFormat("%.4g KiB", static_cast<double>(bytes) / (1 << 10));
}

double MemcpySpeed() {
  const size_t size = size_t{64} << 20;
  const std::vector<char> from(size, '\1');
  std::vector<char> to(size, '\2');
  const Figure seconds = MedianSeconds(9, [&] {
    std::memcpy(to.data(), from.data(), size);
    Keep(to.data());
  });
  return static_cast<double>(size) / seconds.median / 1e9;
}

std::string DescribeMachine() {
  std::ostringstream cpuinfo;
  cpuinfo << std::ifstream("/proc/cpuinfo").rdbuf();
  return absl::StrCat("processor: ", ProcessorName(cpuinfo.str()), ", ", sysconf(_SC_NPROCESSORS_ONLN),
                      " processors; caches: L1d ", CacheSize(sysconf(_SC_LEVEL1_DCACHE_SIZE)), ", L2 ",
                      CacheSize(sysconf(_SC_LEVEL2_CACHE_SIZE)), ", L3 ", CacheSize(sysconf(_SC_LEVEL3_CACHE_SIZE)),
                      "; memcpy of 64 MiB: ", absl::StrFormat("%.1f GB/s", MemcpySpeed()));
}

}  // namespace tensorcask::benchmarks
