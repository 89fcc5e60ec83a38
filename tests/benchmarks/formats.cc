// The rows of `bars` about safetensors, npy and npz (tools/dev bench formats). With arguments: the times of one task,
// for tests/benchmarks/formats_peers.py.
//
//   formats
//   formats npy            // or safetensors, or archive: these rows only
//   formats open FILE.safetensors 50

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/formats_bars.h"

int main(int argc, char** argv) {
  using namespace tensorcask::benchmarks;  // NOLINT(google-build-using-namespace): this is its main
  if (argc == 4 && PrintSeconds(argv[1], argv[2], std::atoi(argv[3]))) return 0;
  const std::string part = argc == 2 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && part != "safetensors" && part != "archive" && part != "npy")) {
    std::fprintf(stderr,
                 "usage: formats [safetensors|archive|npy]\n       formats "
                 "[open|load-safetensors|load-npy|load-npz|save-npy|save-npz|open-gguf|read-gguf FILE ROUNDS]\n");
    return 2;
  }
  FormatRows(part);
  if (MissedRows() > 0) std::printf("%d missed\n", MissedRows());
  return 0;
}
