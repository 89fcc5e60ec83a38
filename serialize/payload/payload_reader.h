// Reads encoded payloads (FORMAT.md): whole, by slice, or only to verify them.
//
//   CASK_ASSIGN_OR_RETURN(PayloadReader payload, PayloadReader::Open(bytes, {}));
//   CASK_ASSIGN_OR_RETURN(Tensor weights, Tensor::Create(payload.header().dtype, shape));
//   CASK_RETURN_IF_ERROR(payload.ReadInto(&view));                       // all chunks, straight into the view
//   CASK_RETURN_IF_ERROR(payload.ReadSliceInto(shape, rows, &part));     // only the chunks that hold the rows
//
// A reader verifies the checksum of a chunk each time it decodes the chunk, unless `verify` is false. A wrong checksum
// is DataLoss, naming the chunk and its elements; other chunks stay readable. Const methods are safe from several
// threads.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_READER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct PayloadReadOptions {
  DecodeLimits limits;  // max_memory_beyond_input and max_expansion; the caller checks the decoded size
  int num_threads = 1;  // at most, in each call
  bool verify = true;   // checksums of chunks; header and index are always verified
};

class PayloadReader {
 public:
  // The payload is `bytes`, which must outlive the reader, or size_bytes at `offset` of `source`. Reads header and
  // index.
  // Errors: InvalidArgument, saying what is wrong; Unimplemented for a newer version; DataLoss for a wrong checksum;
  // ResourceExhausted past a limit; those of the source.
  static absl::StatusOr<PayloadReader> Open(absl::string_view bytes, const PayloadReadOptions& options);
  static absl::StatusOr<PayloadReader> Open(std::shared_ptr<const ByteSource> source, uint64_t offset,
                                            uint64_t size_bytes, const PayloadReadOptions& options);

  PayloadReader(PayloadReader&&) noexcept;
  PayloadReader& operator=(PayloadReader&&) noexcept;
  ~PayloadReader();

  const PayloadHeader& header() const;

  // Gives a delta its base, whose elements must not change while the delta is read. Hashes the base unless that was
  // done before.
  // Errors: FailedPrecondition if `base` is not the base of this delta, or the payload is not a delta;
  // ResourceExhausted.
  absl::Status SetBase(std::shared_ptr<const BaseTensor> base);
  // The same; copies a base that is not contiguous.
  absl::Status SetBase(const TensorView& base);
  // Gives a delta the tensor called `name` in `lookup`, which may be null, and does nothing for other payloads.
  // Errors: FailedPrecondition if it is not there or not the base of this delta; errors of reading it.
  absl::Status SetBase(const BaseLookup* lookup, absl::string_view name);
  const BaseTensor* base() const;  // null if none was set

  // All elements. Requires: *out has the header's dtype and number of elements, and no two indices name one element.
  // Errors: DataLoss for a wrong checksum; InvalidArgument; FailedPrecondition for a delta without its base.
  absl::Status ReadInto(TensorView* out) const;

  // The elements of `slice` of a tensor of shape `whole`; only chunks that hold some of them are read (for strings: all
  // chunks). Errors: also OutOfRange for a slice outside. Requires: `whole` has header().num_elements, *out the slice's
  // dims.
  absl::Status ReadSliceInto(const TensorShape& whole, const TensorSlice& slice, TensorView* out) const;

  // The elements from `first` on, as many as fill `out`, as bytes.
  // Errors: those of ReadInto. Requires: a dtype of fixed size; the elements exist; out.size() is a multiple of the
  // element size.
  absl::Status ReadRange(uint64_t first, absl::Span<char> out) const;

  // Decodes every chunk and calls report for each damaged one, in order and one at a time, on any of the threads. Needs
  // no base. Errors: failures to read.
  absl::Status Verify(absl::FunctionRef<void(const absl::Status& damage)> report) const;

  // How many chunks this reader has decoded.
  uint64_t chunks_decoded() const;

 private:
  class Impl;
  explicit PayloadReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_READER_H_
