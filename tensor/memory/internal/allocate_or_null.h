// Allocator::Allocate of allocators that implement TryAllocate.

#ifndef TENSORCASK_TENSOR_MEMORY_INTERNAL_ALLOCATE_OR_NULL_H_
#define TENSORCASK_TENSOR_MEMORY_INTERNAL_ALLOCATE_OR_NULL_H_

#include <cstddef>

#include "absl/status/status.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::internal {

// allocator.TryAllocate(bytes), or null if that fails or throws std::bad_alloc.
inline void* AllocateOrNull(Allocator& allocator, size_t bytes) {
  void* block = nullptr;
  static_cast<void>(CatchExceptions([&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(block, allocator.TryAllocate(bytes));
    return absl::OkStatus();
  }));
  return block;
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_MEMORY_INTERNAL_ALLOCATE_OR_NULL_H_
