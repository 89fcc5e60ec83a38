// An encoded payload: checked, read whole, by range and by slice; what can be read twice is the same.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;
constexpr size_t kIndexEntryBytes = 16;
constexpr size_t kChecksumBytes = 4;

PayloadReadOptions Options() {
  PayloadReadOptions options;
  options.limits.max_unbacked_bytes = kMaxBytes;
  options.limits.max_expansion = 10;
  return options;
}

TensorShape ShapeOf(const PayloadHead& head) { return TensorShape({static_cast<int64_t>(head.num_elements)}); }

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
  const PayloadHead head = payload->head();
  FUZZ_CHECK(head.decoded_bytes() <= static_cast<uint64_t>(kMaxBytes) + 10 * bytes.size(), "past the limit");
  bool damaged = false;
  const absl::Status verified = payload->Verify([&damaged](const absl::Status&) { damaged = true; });
  FUZZ_CHECK(verified.ok(), verified.ToString());
  absl::StatusOr<Tensor> whole = Tensor::Create(head.dtype, ShapeOf(head));
  FUZZ_CHECK(whole.ok(), whole.status().ToString());
  if (head.is_delta) {
    const absl::StatusOr<Tensor> zeros = Tensor::Zeros(head.dtype, ShapeOf(head));
    FUZZ_CHECK(zeros.ok(), zeros.status().ToString());
    if (!payload->SetBase(*zeros).ok()) return;
  }
  TensorView view(*whole);
  const absl::Status read = payload->ReadInto(&view);
  // Lengths of strings are added up by readers alone.
  FUZZ_CHECK(read.ok() == !damaged || head.dtype == DType::kString, read.ToString());
  if (read.ok()) CheckParts(*payload, *whole);
}

// ---- Checksums that blind changes would not get past ---------------------------------------------------------------

void Mend(absl::Span<char> bytes) {
  if (bytes.size() < kPayloadHeadBytes + kChecksumBytes) return;
  const absl::Span<char> head = bytes.subspan(0, kPayloadHeadBytes);
  const auto mend = [](absl::Span<char> checked, char* checksum) {
    StoreLittleEndian(MaskCrc32c(Crc32c({checked.data(), checked.size()})), checksum);
  };
  const auto mend_head = [&] { mend(head.subspan(0, kPayloadHeadBytes - kChecksumBytes), &head[60]); };
  mend_head();
  const absl::StatusOr<PayloadHead> parsed = PayloadHead::Parse({head.data(), head.size()});
  if (!parsed.ok()) return;
  if (parsed->is_delta && parsed->decoded_bytes() <= static_cast<uint64_t>(kMaxBytes)) {
    const absl::StatusOr<Tensor> zeros = Tensor::Zeros(parsed->dtype, ShapeOf(*parsed));
    const absl::StatusOr<ContentHash> hash = zeros.ok() ? HashElements(*zeros) : zeros.status();
    if (hash.ok()) std::copy(hash->bytes.begin(), hash->bytes.end(), reinterpret_cast<unsigned char*>(&head[32]));
    mend_head();
  }
  const uint64_t chunks = parsed->num_chunks();
  const size_t room = bytes.size() - kPayloadHeadBytes - kChecksumBytes;
  if (chunks > room / kIndexEntryBytes) return;
  const size_t index_bytes = static_cast<size_t>(chunks) * kIndexEntryBytes;
  const absl::Span<char> index = bytes.subspan(bytes.size() - kChecksumBytes - index_bytes, index_bytes);
  for (size_t at = 0; at < index_bytes; at += kIndexEntryBytes) {
    const auto offset = LoadLittleEndian<uint64_t>(&index[at]);
    const auto size = LoadLittleEndian<uint32_t>(&index[at + 8]);
    if (offset > bytes.size() || size > bytes.size() - offset) continue;
    mend(bytes.subspan(static_cast<size_t>(offset), size), &index[at + 12]);
  }
  mend(index, &bytes[bytes.size() - kChecksumBytes]);
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) tensorcask::Mend(absl::MakeSpan(reinterpret_cast<char*>(data), size));
  return size;
}
