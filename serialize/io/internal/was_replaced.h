// Whether a file that is open still is the file at its path.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_WAS_REPLACED_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_WAS_REPLACED_H_

#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask::internal {

// True if the path now leads to another file, or to none. False where the file system cannot tell.
bool WasReplaced(const ByteSource& file);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_WAS_REPLACED_H_
