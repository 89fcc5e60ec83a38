// Copies the elements of one layout to another. All copies of views end here.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_STRIDED_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_STRIDED_H_

#include <cstdint>
#include <optional>

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/internal/axes.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {

// What was measured to suit a family of processors (copy_plan.cc). Changes the speed of copies, never their bytes.
struct CopyChoices {
  // The cache lines of a row of the destination that a large transpose writes in succession before it goes to the next
  // row. With 1, it goes along the rows of the source.
  int64_t transpose_lines = 1;
  int64_t adjacent_lines = 8;  // the same if the rows of the source are short and adjacent
  // The lines of the source that are read meanwhile must stay in the second-level cache: the third-level one is too
  // slow.
  bool transpose_in_l2 = true;
  bool transpose_by_avx2 = false;  // with registers of 32 bytes, even where there are wider ones
  // Rows of bytes below this size are copied with ordinary stores. 0: short rows are assembled in a buffer and then
  // written with non-temporal stores.
  int64_t stream_row_bytes = 0;
  // Rows of bytes of this size and more are copied by std::memcpy if they are not streamed. 0: none.
  int64_t memcpy_row_bytes = 0;

  static const CopyChoices& Of(CpuFamily family);
};

struct CopyStridedOptions {
  int num_threads = 1;  // at most; the calling one included
  // The destination has just been allocated. The system clears its pages on the first access, which brings them into
  // the cache, so ordinary stores are faster.
  bool fresh = true;
  // Non-temporal stores are used for destinations of at least this many bytes. Unset: a size that suits the processor
  // and the kind of copy.
  std::optional<int64_t> stream_bytes;
  const CpuFeatures* features = nullptr;  // null: the features of this processor, and a short path for few elements
  const CpuTuning* tuning = nullptr;      // null: that of this processor
  const CopyChoices* choices = nullptr;   // null: those of the family of `tuning`
};

// Assigns to each element of `to`, in the memory at `to_base`, the element of `from` with the same index, in the memory
// at `from_base`. The bases are the addresses of position 0, to which a layout's offset is added. Strings must be
// constructed on both sides. Requires: `dtype` has elements in memory (a fixed size, or strings); equal dims; no two
// indices of `to` name one element; no element of one side lies in one of the other.
void CopyStrided(DType dtype, const void* from_base, const Layout& from, void* to_base, const Layout& to,
                 const CopyStridedOptions& options = {});

// CopyStrided to dense, row-major elements at `to`, in memory that was just allocated. Requires: at least one element.
void CopyToRowMajor(DType dtype, const void* from_base, const Layout& from, void* to);

// CopyStrided for elements of `element_bytes` bytes, 1, 2, 4, 8 or 16, along `axes` of more than one element, from the
// position `from` to the position `to`. *axes is unspecified afterwards.
void CopyAlong(Axes* axes, size_t element_bytes, const char* from_base, int64_t from, char* to_base, int64_t to,
               const CopyStridedOptions& options = {});

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_STRIDED_H_
