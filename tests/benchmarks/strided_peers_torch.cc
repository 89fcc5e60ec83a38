#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tensorcask/tests/benchmarks/strided_peers.h"

namespace tensorcask::benchmarks {

PeerCopy TorchCopy(const PeerCase& peer_case) {
  at::set_num_threads(1);
  at::ScalarType type = at::kByte;
  switch (peer_case.element_size) {
    case 1:
      type = at::kByte;
      break;
    case 2:
      type = at::kShort;
      break;
    case 4:
      type = at::kFloat;
      break;
    case 8:
      type = at::kDouble;
      break;
    case 16:
      type = at::kComplexDouble;
      break;
    default:
      return nullptr;
  }
  const at::Tensor from = at::from_blob(const_cast<void*>(peer_case.from), peer_case.dims, peer_case.strides, type);
  if (peer_case.copied.fresh) return [from] { (void)from.contiguous(); };
  at::Tensor to = at::from_blob(peer_case.to, peer_case.dims, peer_case.to_bfloat16 ? at::kBFloat16 : type);
  return [from, to]() mutable { to.copy_(from); };
}

}  // namespace tensorcask::benchmarks
