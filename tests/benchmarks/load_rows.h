// Rows about loading files: beside read(), and over their limit, the best hand-written loop that reads and sums the
// same bytes.

#ifndef TENSORCASK_TESTS_BENCHMARKS_LOAD_ROWS_H_
#define TENSORCASK_TESTS_BENCHMARKS_LOAD_ROWS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/limits.h"

namespace tensorcask::benchmarks {

// What is loaded: the bytes of `path` from `offset` on, as tensors like those of `warm`.
struct Loaded {
  std::string path;
  uint64_t offset = 0;
  std::vector<Tensor>* warm = nullptr;  // read into, if not `fresh`
  ExtendSum extend = nullptr;           // the checksum; null: none
  bool fresh = false;                   // into memory of the default allocator, allocated for it each time
  int num_threads = 1;
};

// Two rows: what `load` takes beside read() of one thread into the same kind of memory, without a bar, and over its
// limit.
void LoadRows(const std::string& name, const Loaded& loaded, const std::function<void()>& load);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_LOAD_ROWS_H_
