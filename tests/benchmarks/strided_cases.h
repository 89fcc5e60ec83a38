// The copies whose speed is promised, for the programs that measure them: a dense tensor seen through a view, copied
// into row-major memory.

#ifndef TENSORCASK_TESTS_BENCHMARKS_STRIDED_CASES_H_
#define TENSORCASK_TESTS_BENCHMARKS_STRIDED_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorcask/tensor/dtype.h"

namespace tensorcask::benchmarks {

struct StridedCase {
  std::string name;
  DType dtype;
  std::vector<int64_t> dims;   // those of the dense source
  std::vector<int64_t> order;  // axis i of the view is axis order[i] of the source
  int64_t step = 1;            // the step of the view's last axis: each element, each second one ...
  int64_t repeat = 0;          // an axis of this size and stride 0 before the others; 0: none
  bool fresh = false;          // into memory allocated for it
  double bar = 0;              // times memcpy of the bytes of the result
  std::string best_elsewhere{};
};

// 64 MiB each.
inline std::vector<StridedCase> PromisedCopies() {
  const auto transposed = [](const char* name, DType dtype, int64_t size, double bar, const char* best) {
    return StridedCase{name, dtype, {size, size}, {1, 0}, 1, 0, false, bar, best};
  };
  std::vector<StridedCase> cases = {transposed("transpose_float32_4096", DType::kFloat32, 4096, 1.7, "LibTorch 3.5")};
  cases.push_back(cases.back());
  cases.back().name += "_fresh";
  cases.back().fresh = true;
  cases.back().bar = 2.7;
  cases.back().best_elsewhere = "oneDNN 7.1";
  const std::vector<StridedCase> others = {
      {"nchw_to_nhwc", DType::kFloat32, {16, 64, 128, 128}, {0, 2, 3, 1}, 1, 0, false, 1.7, "oneDNN 2.8"},
      {"nhwc_to_nchw", DType::kFloat32, {16, 128, 128, 64}, {0, 3, 1, 2}, 1, 0, false, 1.3, "LibTorch 3.7"},
      {"permute_210_256", DType::kFloat32, {256, 256, 256}, {2, 1, 0}, 1, 0, false, 2.0, "Eigen 7.6"},
      {"permute_120_256", DType::kFloat32, {256, 256, 256}, {1, 2, 0}, 1, 0, false, 1.9, "oneDNN 4.2"},
      transposed("transpose_float64_2896", DType::kFloat64, 2896, 1.6, "LibTorch 3.5"),
      transposed("transpose_uint8_8192", DType::kUint8, 8192, 2.0, "LibTorch 12.9"),
      {"every_second_of_rows", DType::kFloat32, {4096, 8192}, {0, 1}, 2, 0, false, 1.3, "LibTorch 1.55"}};
  cases.insert(cases.end(), others.begin(), others.end());
  return cases;
}

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_STRIDED_CASES_H_
