// The elements of one tensor in a file from front to back, in bounded memory: also for deflated members of a zip
// archive, which can be read only from their start.
//
//   CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ElementStream> stream, reader.OpenStream("dense/kernel"));
//   while (...) CASK_RETURN_IF_ERROR(stream->Read(block));
//   CASK_RETURN_IF_ERROR(stream->Finish());   // now, and not before, the elements are verified
//
// The reader outlives its streams. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_IO_ELEMENT_STREAM_H_
#define TENSORCASK_SERIALIZE_IO_ELEMENT_STREAM_H_

#include "tensorcask/tensor/base/cxx17.h"

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tensorcask {

class ElementStream {
 public:
  virtual ~ElementStream() = default;

  // Fills `out` with the bytes of the next elements, row-major and in the byte order of this machine.
  // Errors, naming file and tensor: InvalidArgument if out.size() is not a multiple of the element size, or more than
  // is left; DataLoss for damaged elements; from errno.
  virtual absl::Status Read(absl::Span<char> out) = 0;

  // Skips the rest, and compares the checksum that covers the elements, unless the options of the reader forbid it.
  // Errors: DataLoss if the checksum is wrong, or if a deflated member has more bytes than its array.
  virtual absl::Status Finish() = 0;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_ELEMENT_STREAM_H_
