// Whether the indices of a sparse tensor name elements of its shape: what PyTorch checks when it loads one
// (torch._validate_sparse_coo_tensor_args, torch._validate_sparse_compressed_tensor_args).
//
//   "torch.sparse_coo"           indices [sparse axes, N], values [N, ...]
//   "torch.sparse_csr", "_bsr"   compressed indices [..., rows + 1], plain indices [..., N], values [..., N, ...]
//   "torch.sparse_csc", "_bsc"   the same with columns; BSR and BSC count rows and columns of blocks

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_SPARSE_INDICES_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_SPARSE_INDICES_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::torch {

// The tensors with indices among the parts of a sparse tensor, which come first: 1 or 2; 0 for an unknown layout.
// Requires: the form of the tensor is kSparse.
size_t NumIndexParts(const Pickle& pickle, const PickledTensor& sparse);

// The elements of a slice of `layout`, row-major. The layout is that of a tensor with indices, or has the same elements
// along one axis.
using IndexReader = std::function<absl::StatusOr<Tensor>(const Layout& layout, const TensorSlice& slice)>;

// `readers`: one for each tensor with indices. Reads in blocks, but a tensor whole that is neither row-major nor of one
// axis and has compressed or plain indices. Errors, for which *part is the position of the wrong tensor: DataLoss, with
// the position of the index, what was found and what was wanted; those of the readers.
absl::Status CheckSparseIndices(const Pickle& pickle, const PickledTensor& sparse,
                                absl::Span<const IndexReader> readers, size_t* part);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_SPARSE_INDICES_H_
