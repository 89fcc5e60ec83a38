#include "model/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"

namespace model {

absl::StatusOr<tensorcask::Tensor> Softmax(const tensorcask::Tensor& logits) {
  if (logits.dtype() != tensorcask::DType::kFloat32 || logits.rank() != 2) {
    return absl::InvalidArgumentError("softmax is of a float32 matrix");
  }
  absl::StatusOr<tensorcask::Tensor> result = logits.Clone();
  if (!result.ok() || result->num_elements() == 0) return result;
  auto rows = result->mutable_matrix<float>();
  for (int64_t row = 0; row < result->dim(0); ++row) {
    float largest = rows(row, 0);  // subtracted, so that exp stays finite
    for (int64_t column = 1; column < result->dim(1); ++column) largest = std::max(largest, rows(row, column));
    float sum = 0;
    for (int64_t column = 0; column < result->dim(1); ++column) {
      sum += rows(row, column) = std::exp(rows(row, column) - largest);
    }
    for (int64_t column = 0; column < result->dim(1); ++column) rows(row, column) /= sum;
  }
  return result;
}

}  // namespace model
