// The memory of a caching allocator as DeviceMemory.

#ifndef TENSORCASK_TENSOR_MEMORY_INTERNAL_ALLOCATOR_MEMORY_H_
#define TENSORCASK_TENSOR_MEMORY_INTERNAL_ALLOCATOR_MEMORY_H_

#include <memory>

#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/internal/staged_memory.h"

namespace tensorcask::internal {

// `cache` outlives the result.
std::unique_ptr<StagedMemory> MakeStagedMemory(CachingAllocator* cache, StreamId stream);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_MEMORY_INTERNAL_ALLOCATOR_MEMORY_H_
