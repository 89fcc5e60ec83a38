// The streams of bytes that a payload holds for a tensor (FORMAT.md section 1), read in any pieces.
//
//   CASK_ASSIGN_OR_RETURN(const ElementStreams streams, ElementStreams::Of(view));
//   streams.size_bytes(0);                                 // the elements; for strings, their lengths
//   streams.Read(/*stream=*/1, begin, 1 << 16, &scratch);  // the characters of all strings
//
// Elements of fixed size are read in place if the view is contiguous, else gathered. Those in memory that other code
// may write to (changing_memory.h) are copied by each Read, so that what a caller does with the result agrees. A
// strided view of strings is copied. Read is safe from several threads, each with its own scratch.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_ELEMENT_STREAMS_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_ELEMENT_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/codec/scratch.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::payload {

class ElementStreams {
 public:
  // Errors: Unimplemented for dtypes without such a form; InvalidArgument for 2^63 bytes and more; FailedPrecondition
  // for a buffer without data; ResourceExhausted.
  static absl::StatusOr<ElementStreams> Of(const TensorView& view);

  const TensorView& view() const { return view_; }
  uint64_t size_bytes(int stream) const { return stream == 0 ? first_bytes_ : characters_; }

  // Bytes [begin, begin + size) of a stream, in place or in *scratch. Requires: the stream has them, and they are whole
  // numbers (FORMAT.md section 3). Errors: ResourceExhausted.
  absl::StatusOr<absl::string_view> Read(int stream, uint64_t begin, size_t size, Scratch* scratch) const;

 private:
  explicit ElementStreams(const TensorView& view) : view_(view) {}

  const uint64_t* ends() const { return static_cast<const uint64_t*>(ends_->data()); }
  void CopyLengths(uint64_t begin, absl::Span<char> out) const;
  void CopyCharacters(uint64_t begin, absl::Span<char> out) const;

  TensorView view_;  // for strings: contiguous
  bool may_change_ = false;
  uint64_t first_bytes_ = 0;
  uint64_t characters_ = 0;
  RefPtr<TensorBuffer> ends_;  // for strings: where the characters of each string end in the stream
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_ELEMENT_STREAMS_H_
