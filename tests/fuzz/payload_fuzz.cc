// An encoded payload: checked, read whole, by range and by slice; what can be read twice is the same.
//
// Is to reach what input can reach of these files:
//   serialize/payload/payload_header*
//   serialize/payload/payload_reader*
//   serialize/payload/codec/*codec*
//   serialize/payload/codec/chunk_decoder*
//   serialize/payload/internal/chunk_reader*
//   serialize/payload/internal/payload_index*

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"
#include "tensorcask/tests/fuzz/mend_payload.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

PayloadReadOptions Options() {
  PayloadReadOptions options;
  options.limits.max_memory_beyond_input = kMaxBytes;
  options.limits.max_expansion = 10;
  return options;
}

TensorShape ShapeOf(const PayloadHeader& header) { return TensorShape({static_cast<int64_t>(header.num_elements)}); }

void CheckParts(const PayloadReader& payload, const Tensor& whole) {
  const TensorShape shape = whole.shape();
  const int64_t count = shape.num_elements();
  if (count < 2) return;  // no slice is empty
  const int64_t start = count / 3;
  const int64_t length = count / 2;
  const absl::StatusOr<TensorSlice> slice = TensorSlice::Create({{start, length}});
  FUZZ_CHECK(slice.ok(), slice.status().ToString());
  absl::StatusOr<Tensor> part = Tensor::Create(whole.dtype(), TensorShape({length}));
  FUZZ_CHECK(part.ok(), part.status().ToString());
  TensorView view(*part);
  const absl::Status read = payload.ReadSliceInto(shape, *slice, &view);
  FUZZ_CHECK(read.ok(), read.ToString());
  if (whole.dtype() == DType::kString) {
    for (int64_t i = 0; i < length; ++i) {
      FUZZ_CHECK(part->flat<std::string>()(i) == whole.flat<std::string>()(start + i), "a string of the slice differs");
    }
    return;
  }
  const size_t size = ElementSize(whole.dtype());
  const absl::string_view wanted =
      whole.bytes().substr(static_cast<size_t>(start) * size, static_cast<size_t>(length) * size);
  FUZZ_CHECK(part->bytes() == wanted, "the slice differs");
  std::string range(wanted.size(), 'x');
  const absl::Status ranged = payload.ReadRange(static_cast<uint64_t>(start), absl::MakeSpan(&range[0], range.size()));
  FUZZ_CHECK(ranged.ok() && range == wanted, "the range differs");
}

void Check(absl::string_view bytes) {
  absl::StatusOr<PayloadReader> payload = PayloadReader::Open(bytes, Options());
  if (!payload.ok()) return;
  const PayloadHeader header = payload->header();
  FUZZ_CHECK(header.decoded_bytes() <= static_cast<uint64_t>(kMaxBytes) + 10 * bytes.size(), "past the limit");
  bool damaged = false;
  const absl::Status verified = payload->Verify([&damaged](const absl::Status&) { damaged = true; });
  FUZZ_CHECK(verified.ok(), verified.ToString());
  absl::StatusOr<Tensor> whole = Tensor::Create(header.dtype, ShapeOf(header));
  FUZZ_CHECK(whole.ok(), whole.status().ToString());
  if (header.is_delta) {
    const absl::StatusOr<Tensor> zeros = Tensor::Zeros(header.dtype, ShapeOf(header));
    FUZZ_CHECK(zeros.ok(), zeros.status().ToString());
    if (!payload->SetBase(*zeros).ok()) return;
  }
  TensorView view(*whole);
  const absl::Status read = payload->ReadInto(&view);
  // Lengths of strings are added up by readers alone.
  FUZZ_CHECK(read.ok() == !damaged || header.dtype == DType::kString, read.ToString());
  if (read.ok()) CheckParts(*payload, *whole);
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) tensorcask::testing::MendPayload(absl::MakeSpan(reinterpret_cast<char*>(data), size));
  return size;
}
