// A function of a project that uses Tensorcask; softmax_test.cc shows how such a project tests it.

#ifndef MODEL_SOFTMAX_H_
#define MODEL_SOFTMAX_H_

#include "absl/status/statusor.h"
#include "tensorcask/tensor/tensor.h"

namespace model {

// exp(x) / sum(exp(x)) of each row. Errors: InvalidArgument for anything but a matrix of float32.
absl::StatusOr<tensorcask::Tensor> Softmax(const tensorcask::Tensor& logits);

}  // namespace model

#endif  // MODEL_SOFTMAX_H_
