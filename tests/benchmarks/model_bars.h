// The promises about the files of models: those of torch.save, ONNX and GGUF.

#ifndef TENSORCASK_TESTS_BENCHMARKS_MODEL_BARS_H_
#define TENSORCASK_TESTS_BENCHMARKS_MODEL_BARS_H_

#include <string>

namespace tensorcask::benchmarks {

void ModelRows();

// For tests/benchmarks/formats_peers.py, as PrintSeconds (formats_bars.h). `what` is open-torch, load-torch (all
// tensors into fresh memory, verified), map-torch, save-torch (10,000 tensors of 64 bytes), open-onnx, load-onnx,
// open-gguf, or read-gguf (the first tensor, decoded into the same memory).
bool PrintModelSeconds(const std::string& what, const std::string& path, int rounds);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_MODEL_BARS_H_
