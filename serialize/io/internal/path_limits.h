// The longest paths and names that Linux takes (PATH_MAX without the NUL at the end, NAME_MAX), as numbers: other
// systems have other limits, or none.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_PATH_LIMITS_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_PATH_LIMITS_H_

#include <cstddef>

namespace tensorcask::internal {

inline constexpr size_t kMaxPathBytes = 4095;
inline constexpr size_t kMaxNameBytes = 255;  // for one part of a path

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_PATH_LIMITS_H_
