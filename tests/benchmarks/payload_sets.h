// The tensors on which payloads are measured: real weights, moments, activations, tokens, masks and text where the
// folder of test data is, and generated ones.

#ifndef TENSORCASK_TESTS_BENCHMARKS_PAYLOAD_SETS_H_
#define TENSORCASK_TESTS_BENCHMARKS_PAYLOAD_SETS_H_

#include <string>
#include <vector>

#include "tensorcask/tensor/tensor.h"

namespace tensorcask::benchmarks {

struct PayloadSet {
  std::string name;
  Tensor tensor;  // one axis
  bool is_dense_weights = false;
};

// Files of $TENSORCASK_TEST_DATA/weights, and those of dense float32 weights rounded to bfloat16. Empty without them.
std::vector<PayloadSet> RealPayloadSets();

// Always the same: normally distributed weights in layers of different scale (float32, bfloat16, float16, float64),
// tokens, a mask, sparse weights, noise, a constant.
std::vector<PayloadSet> GeneratedPayloadSets();

// So many bytes of generated float32 weights.
Tensor GeneratedWeights(size_t bytes);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_PAYLOAD_SETS_H_
