// Copying the elements of one layout to another: the one place below views through which such copies go.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_STRIDED_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_STRIDED_H_

#include <cstdint>

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {

struct CopyStridedOptions {
  int num_threads = 1;  // at most; the calling one included
  // The destination was only just allocated: the system clears its pages when they are touched, so they are in the
  // cache, and what is written in order had better stay there.
  bool fresh = true;
  // From this size of the destination on, in bytes, what does not stay in the cache is written past it.
  int64_t stream_bytes = int64_t{2} << 20;
  const CpuFeatures* features = nullptr;  // null: those of this processor, and few elements are copied singly
};

// Assigns each element of `to`, over the memory at `to_base`, from that of equal index of `from` over `from_base`. The
// bases are where element number 0 would lie, not the first one of the layout. Strings must be constructed on both
// sides. Requires: `dtype` has elements in memory (a fixed size, or strings); equal dims; no two indices of `to` name
// one element; no element of one side lies in one of the other.
void CopyStrided(DType dtype, const void* from_base, const Layout& from, void* to_base, const Layout& to,
                 const CopyStridedOptions& options = {});

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_STRIDED_H_
