// The rows of `bars` about safetensors, npy, npz and the files of models (tools/dev bench formats). With arguments: the
// times of one task, for tests/benchmarks/formats_peers.py.
//
//   formats
//   formats npy            // or safetensors, archive, models: these rows only
//   formats open FILE.safetensors 50

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/formats_bars.h"
#include "tensorcask/tests/benchmarks/model_bars.h"

int main(int argc, char** argv) {
  using namespace tensorcask::benchmarks;  // NOLINT(google-build-using-namespace): this is its main
  if (argc == 4 && PrintSeconds(argv[1], argv[2], std::atoi(argv[3]))) return 0;
  if (argc == 4 && PrintModelSeconds(argv[1], argv[2], std::atoi(argv[3]))) return 0;
  const std::string part = argc == 2 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && part != "safetensors" && part != "archive" && part != "npy" && part != "models")) {
    std::fprintf(
        stderr,
        "usage: formats [safetensors|archive|npy|models]\n       formats "
        "[open|load-safetensors|load-npy|load-npz|save-npy|save-npz|{open,load,map,save}-torch|{open,load}-onnx|"
        "{open,read}-gguf FILE ROUNDS]\n");
    return 2;
  }
  if (part != "models") FormatRows(part);
  if (part.empty() || part == "models") ModelRows();
  if (MissedRows() > 0) std::printf("%d missed\n", MissedRows());
  return 0;
}
