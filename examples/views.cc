// Views of one tensor, and copies where they are needed. docs/guide/views.md shows this file.

#include <iostream>

#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/inspect/draw.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status Views() {
  const cask::Tensor rows = cask::Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  const cask::TensorView all = rows;                                           // shares the memory of `rows`
  CASK_ASSIGN_OR_RETURN(const cask::TensorView columns, all.Transpose(0, 1));  // shape [3,2], strides [1,3]
  CASK_ASSIGN_OR_RETURN(const cask::TensorView middle, columns.Select(0, 1));  // the elements 2 and 5
  std::cout << cask::DrawLayout(columns) << '\n';

  CASK_ASSIGN_OR_RETURN(cask::TensorView clone, columns.LazyClone());  // copied at the first write
  CASK_RETURN_IF_ERROR(cask::Fill(0.5f, &clone));                      // `rows` does not change
  CASK_ASSIGN_OR_RETURN(const cask::TensorView halves, cask::ConvertTo(middle, cask::DType::kFloat16));
  CASK_ASSIGN_OR_RETURN(const cask::Tensor dense, halves.ToTensor());  // a dense, row-major Tensor
  std::cout << rows << '\n' << dense << '\n';
  return absl::OkStatus();
}

int main() {
  const absl::Status status = Views();
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
