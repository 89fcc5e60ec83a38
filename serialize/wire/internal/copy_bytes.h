// Copying elements at the speed of memory. Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_INTERNAL_COPY_BYTES_H_
#define TENSORCASK_SERIALIZE_WIRE_INTERNAL_COPY_BYTES_H_

#include <cstddef>

namespace tensorcask::internal {

// As memcpy (no overlap). From kStreamBytes on, with AVX2, by stores that go around the cache: the destination is not
// read before it is written. Measured on a Xeon with 260 MiB of last-level cache: 1.2 to 1.4 x the speed of
// glibc 2.36's memcpy at 8 and 16 MiB, the same at 256 MiB, where memcpy does so itself; 0.7 x at 1 MiB, in the cache.
void CopyBytes(void* destination, const void* source, size_t bytes);

inline constexpr size_t kStreamBytes = size_t{8} << 20;

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_INTERNAL_COPY_BYTES_H_
