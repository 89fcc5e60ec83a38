// Copying the elements of one layout to another: the one place below views through which such copies go.

#ifndef TENSORCASK_TENSOR_STRIDED_COPY_STRIDED_H_
#define TENSORCASK_TENSOR_STRIDED_COPY_STRIDED_H_

#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {

// Assigns each element of `to`, over the memory at `to_base`, from that of equal index of `from` over `from_base`. The
// bases are where element number 0 would lie, not the first one of the layout. Strings must be constructed on both
// sides. Requires: `dtype` has elements in memory (a fixed size, or strings); equal dims; no two indices of `to` name
// one element; the memory of the two does not overlap.
void CopyStrided(DType dtype, const void* from_base, const Layout& from, void* to_base, const Layout& to);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_COPY_STRIDED_H_
