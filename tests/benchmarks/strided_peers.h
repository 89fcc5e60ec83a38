// The same copies by other libraries, on one thread.

#ifndef TENSORCASK_TESTS_BENCHMARKS_STRIDED_PEERS_H_
#define TENSORCASK_TESTS_BENCHMARKS_STRIDED_PEERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tensorcask/tests/benchmarks/strided_cases.h"

namespace tensorcask::benchmarks {

// A case for a library that knows no StridedCase.
struct PeerCase {
  StridedCase copied;
  size_t element_size = 0;       // bytes
  bool to_bfloat16 = false;      // converts float32 to bfloat16 on the way
  std::vector<int64_t> dims;     // those of the view
  std::vector<int64_t> strides;  // those of the view
  const void* from = nullptr;    // the dense source
  void* to = nullptr;            // row-major; not for fresh copies, which bring their own memory
};

// Does the copy once: all that can be prepared has been. Empty if the library has no such copy. What it uses of the
// case must live as long.
using PeerCopy = std::function<void()>;

PeerCopy TorchCopy(const PeerCase& peer_case);
PeerCopy DnnlCopy(const PeerCase& peer_case);
PeerCopy EigenCopy(const PeerCase& peer_case);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_STRIDED_PEERS_H_
