// Buffers of elements that are objects: strings, resources, variants. Internal.

#ifndef TENSORCASK_TENSOR_OBJECT_ELEMENTS_H_
#define TENSORCASK_TENSOR_OBJECT_ELEMENTS_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::internal {

// TensorBuffer::AllocateElements of the class of `dtype`. Requires: IsObject(dtype).
absl::StatusOr<RefPtr<TensorBuffer>> AllocateObjects(DType dtype, size_t count, const RefPtr<Allocator>& allocator);

// Says why `buffer` cannot hold elements of `dtype`, apart from its size; null if it can. Objects need a buffer of
// their class that starts at an object; other dtypes need a buffer of plain bytes.
const char* FaultOfElements(DType dtype, const TensorBuffer& buffer);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_OBJECT_ELEMENTS_H_
