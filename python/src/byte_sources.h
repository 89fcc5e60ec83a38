// Bytes of Python as a file: objects with the buffer protocol, and file objects.

#ifndef TENSORCASK_PYTHON_SRC_BYTE_SOURCES_H_
#define TENSORCASK_PYTHON_SRC_BYTE_SOURCES_H_

#include <nanobind/nanobind.h>

#include <memory>

#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask::python {

// The bytes of `object`, or null if it is a path (str or os.PathLike).
//
// Bytes, bytearray, memoryview, mmap and other buffers are not copied, and can be mapped; the source holds the buffer.
// A file object is any object with `read` and `seek`: the source is its whole file, wherever its position is, and it
// reads from one thread at a time. Nothing that the object returns or raises is trusted: exceptions, wrong types, too
// many bytes and a file that ends early are a Status that names the file. KeyboardInterrupt and other exceptions that
// end a program are raised by WithoutGil. A name of the file is taken from its attribute `name`, or is that of its
// type.
//
// Throws TypeError for other objects, BufferError for a buffer that is not contiguous, ValueError for a file that
// cannot seek, and what the object raises. Requires: the GIL.
std::shared_ptr<const ByteSource> FromBytesOrFile(nanobind::handle object);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_BYTE_SOURCES_H_
