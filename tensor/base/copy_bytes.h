// std::memcpy, and faster where the bytes are more than the caches keep.
//
//   internal::CopyBytes(out, elements.data(), elements.size());

#ifndef TENSORCASK_TENSOR_BASE_COPY_BYTES_H_
#define TENSORCASK_TENSOR_BASE_COPY_BYTES_H_

#include <cstddef>

namespace tensorcask::internal {

// As std::memcpy, for memory that was written before. (The system clears fresh memory on the first access, which brings
// it into the cache: there std::memcpy is faster.) Copies of CpuTuning::stream_bytes, source and destination together,
// are StreamBytes. Either pointer may be null if `bytes` is 0.
void CopyBytes(void* to, const void* from, size_t bytes);

// As std::memcpy, with non-temporal stores where there is AVX2: the destination is not read before it is written, and
// is in no cache afterwards. `pages` pages of 4 KiB, 1 or 2, are written in turn.
void StreamBytes(void* to, const void* from, size_t bytes, int pages);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_COPY_BYTES_H_
