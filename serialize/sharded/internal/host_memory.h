// Memory that the processes of one host read in common.
//
//   CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> memory, AllocateHostMemory(bytes));      // one process writes it
//   const HostMemoryAddress address = AddressOf(*memory);                               // sent to the others
//   CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> same, OpenHostMemory(address, bytes));   // they read it
//
// A memory file (exchange/shared_memory.h), which the others open through /proc/PROCESS/fd. Linux; elsewhere these
// functions return Unimplemented, and no host has a name.

#ifndef TENSORCASK_SERIALIZE_SHARDED_INTERNAL_HOST_MEMORY_H_
#define TENSORCASK_SERIALIZE_SHARDED_INTERNAL_HOST_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::sharded {

struct HostMemoryAddress {
  uint64_t process = 0;
  uint64_t descriptor = 0;
};

// What processes have in common that see the same process ids of one running system. "" where the system does not say.
std::string NameOfHost();

// Errors: those of SharedMemoryAllocator::Create; ResourceExhausted.
absl::StatusOr<RefPtr<TensorBuffer>> AllocateHostMemory(uint64_t bytes);
// Requires: `memory` is of AllocateHostMemory.
HostMemoryAddress AddressOf(const TensorBuffer& memory);

// The first `bytes` of the memory of another process, or of this one; UINT64_MAX: all. Read only.
// Errors: from errno; those of MapSharedMemory.
absl::StatusOr<RefPtr<TensorBuffer>> OpenHostMemory(const HostMemoryAddress& address, uint64_t bytes);

}  // namespace tensorcask::sharded

#endif  // TENSORCASK_SERIALIZE_SHARDED_INTERNAL_HOST_MEMORY_H_
