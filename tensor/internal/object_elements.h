// Buffers of elements that are objects: strings, resources, variants. Internal.

#ifndef TENSORCASK_TENSOR_INTERNAL_OBJECT_ELEMENTS_H_
#define TENSORCASK_TENSOR_INTERNAL_OBJECT_ELEMENTS_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::internal {

// TensorBuffer::AllocateElements of the class of `dtype`. Requires: IsObject(dtype).
absl::StatusOr<RefPtr<TensorBuffer>> AllocateObjects(DType dtype, size_t count, const RefPtr<Allocator>& allocator);

// Why the memory of `buffer` cannot be elements of `dtype`, whatever its size: objects want a buffer of their class,
// from the start of one of them, and all others one of plain bytes. Null if it can.
const char* FaultOfElements(DType dtype, const TensorBuffer& buffer);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_INTERNAL_OBJECT_ELEMENTS_H_
