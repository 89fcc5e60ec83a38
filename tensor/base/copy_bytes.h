// std::memcpy that chooses its stores by size and processor.
//
//   internal::CopyBytes(out, elements.data(), elements.size());

#ifndef TENSORCASK_TENSOR_BASE_COPY_BYTES_H_
#define TENSORCASK_TENSOR_BASE_COPY_BYTES_H_

#include <cstddef>

namespace tensorcask::internal {

// As std::memcpy, and faster for large copies to memory that was written before. (For fresh memory use std::memcpy: the
// system clears it on the first access, which brings it into the cache.) Calls StreamBytes if source and destination
// together have CpuTuning::stream_bytes or more. Both pointers may be null if `bytes` is 0.
void CopyBytes(void* to, const void* from, size_t bytes);

// As std::memcpy. Whole pages are written with non-temporal stores if the processor has AVX2: it does not read them
// first, and they are in no cache afterwards. `pages`: 1 or 2, how many pages of 4 KiB are written in turn.
// Requires: the pointers are not null.
void StreamBytes(void* to, const void* from, size_t bytes, int pages);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_COPY_BYTES_H_
