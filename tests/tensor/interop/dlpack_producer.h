// A producer of DLPack tensors for tests, and one name for both forms of import.

#ifndef TENSORCASK_TESTS_TENSOR_INTEROP_DLPACK_PRODUCER_H_
#define TENSORCASK_TESTS_TENSOR_INTEROP_DLPACK_PRODUCER_H_

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// A producer whose tensor is float32 [2,3] of 0 ... 5, unless a test changes that. It counts calls of the deleter.
template <typename Managed>
struct Producer {
  alignas(64) float values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<int64_t> dims = {2, 3};
  std::vector<int64_t> strides = {3, 1};
  int deletes = 0;
  Managed managed = {};

  Producer() {
    if constexpr (std::is_same_v<Managed, dlpack::DLManagedTensorVersioned>) managed.version = {1, 1};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->deletes; };
    managed.dl_tensor = {values, {1, 0}, 2, {dlpack::kDLFloat, 32, 1}, dims.data(), strides.data(), 0};
  }
  void SetGeometry(std::vector<int64_t> new_dims, const std::optional<std::vector<int64_t>>& new_strides) {
    dims = std::move(new_dims);
    strides = new_strides.value_or(std::vector<int64_t>());
    managed.dl_tensor.ndim = static_cast<int32_t>(dims.size());
    managed.dl_tensor.shape = dims.empty() ? nullptr : dims.data();
    managed.dl_tensor.strides = new_strides && !dims.empty() ? strides.data() : nullptr;
  }
};

using Versioned = Producer<dlpack::DLManagedTensorVersioned>;
using Legacy = Producer<dlpack::DLManagedTensor>;

inline absl::StatusOr<TensorView> Import(dlpack::DLManagedTensorVersioned* managed,
                                         const DLPackImportOptions& options = {}) {
  return FromDLPack(managed, options);
}
inline absl::StatusOr<TensorView> Import(dlpack::DLManagedTensor* managed, const DLPackImportOptions& options = {}) {
  return FromLegacyDLPack(managed, options);
}

}  // namespace tensorcask

#endif  // TENSORCASK_TESTS_TENSOR_INTEROP_DLPACK_PRODUCER_H_
