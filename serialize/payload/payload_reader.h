// Reads encoded payloads (FORMAT.md): whole, in part, or only to check them.
//
//   CASK_ASSIGN_OR_RETURN(PayloadReader payload, PayloadReader::Open(bytes, {}));
//   CASK_ASSIGN_OR_RETURN(Tensor weights, Tensor::Create(payload.head().dtype, shape));
//   CASK_RETURN_IF_ERROR(payload.ReadInto(&view));                       // all chunks, straight into the view
//   CASK_RETURN_IF_ERROR(payload.ReadSliceInto(shape, rows, &part));     // only those that hold the rows
//
// A chunk's checksum is verified each time it is decoded, unless `verify` is false; a wrong one is DataLoss, naming the
// chunk and the elements it holds. Other chunks stay readable. Const methods are safe together.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_READER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_READER_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct PayloadReadOptions {
  DecodeLimits limits;  // max_unbacked_bytes and max_expansion; what decoded elements may take is the caller's to check
  int num_threads = 1;  // at most, in each call
  bool verify = true;   // checksums of chunks; head and index are always verified
};

class PayloadReader {
 public:
  // The payload is `bytes`, which must outlive the reader, or size_bytes at `offset` of `source`. Reads head and index.
  // Errors: InvalidArgument, saying what is wrong; Unimplemented for what is newer; DataLoss for a wrong checksum;
  // ResourceExhausted past a limit; of the source.
  static absl::StatusOr<PayloadReader> Open(absl::string_view bytes, const PayloadReadOptions& options);
  static absl::StatusOr<PayloadReader> Open(std::shared_ptr<const ByteSource> source, uint64_t offset,
                                            uint64_t size_bytes, const PayloadReadOptions& options);

  PayloadReader(PayloadReader&&) noexcept;
  PayloadReader& operator=(PayloadReader&&) noexcept;
  ~PayloadReader();

  const PayloadHead& head() const;

  // Gives a delta its base, which must stay as it is while it is read. Hashes it; copies what is not contiguous.
  // Errors: FailedPrecondition if it is not the one, or this is no delta; ResourceExhausted.
  absl::Status SetBase(const TensorView& base);

  // All elements. Requires: *out has the head's dtype and number of elements, and no two indices name one element.
  // Errors: DataLoss for a wrong checksum; InvalidArgument; FailedPrecondition for a delta without its base.
  absl::Status ReadInto(TensorView* out) const;

  // The elements of `slice` of a tensor of shape `whole`; only chunks that hold some are read (of strings: all).
  // Errors besides: OutOfRange for a slice outside. Requires: `whole` has head().num_elements, *out the slice's dims.
  absl::Status ReadSliceInto(const TensorShape& whole, const TensorSlice& slice, TensorView* out) const;

  // The elements from `first` on, as many as fill `out`, as bytes. Errors: as ReadInto. Requires: fixed size; they are
  // there; out.size() is a multiple of the element's.
  absl::Status ReadRange(uint64_t first, absl::Span<char> out) const;

  // Decodes every chunk and calls report for each that is damaged, in their order and one at a time, on any of the
  // threads. Needs no base. Errors: what keeps it from looking.
  absl::Status Verify(absl::FunctionRef<void(const absl::Status& damage)> report) const;

  // How many chunks were decoded so far.
  uint64_t chunks_decoded() const;

 private:
  class Impl;
  explicit PayloadReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_READER_H_
