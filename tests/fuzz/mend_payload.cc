#include "tensorcask/tests/fuzz/mend_payload.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {
namespace {

constexpr uint64_t kMaxBaseBytes = uint64_t{1} << 20;
constexpr size_t kChunkEntryBytes = 16;
constexpr size_t kChecksumBytes = 4;

}  // namespace

void MendPayload(absl::Span<char> bytes) {
  if (bytes.size() < kPayloadHeaderBytes + kChecksumBytes) return;
  const absl::Span<char> header = bytes.subspan(0, kPayloadHeaderBytes);
  const auto mend = [](absl::Span<char> checked, char* checksum) {
    StoreLittleEndian(MaskCrc32c(Crc32c({checked.data(), checked.size()})), checksum);
  };
  const auto mend_head = [&] { mend(header.subspan(0, kPayloadHeaderBytes - kChecksumBytes), &header[60]); };
  mend_head();
  const absl::StatusOr<PayloadHeader> parsed = PayloadHeader::Parse({header.data(), header.size()});
  if (!parsed.ok()) return;
  if (parsed->is_delta && parsed->decoded_bytes() <= kMaxBaseBytes) {
    const absl::StatusOr<Tensor> zeros =
        Tensor::Zeros(parsed->dtype, TensorShape({static_cast<int64_t>(parsed->num_elements)}));
    const absl::StatusOr<ContentHash> hash = zeros.ok() ? HashElements(*zeros) : zeros.status();
    if (hash.ok()) std::copy(hash->bytes.begin(), hash->bytes.end(), reinterpret_cast<unsigned char*>(&header[32]));
    mend_head();
  }
  const uint64_t chunks = parsed->num_chunks();
  const size_t room = bytes.size() - kPayloadHeaderBytes - kChecksumBytes;
  if (chunks > room / kChunkEntryBytes) return;
  const size_t index_bytes = static_cast<size_t>(chunks) * kChunkEntryBytes;
  const absl::Span<char> index = bytes.subspan(bytes.size() - kChecksumBytes - index_bytes, index_bytes);
  for (size_t at = 0; at < index_bytes; at += kChunkEntryBytes) {
    const auto offset = LoadLittleEndian<uint64_t>(&index[at]);
    const auto size = LoadLittleEndian<uint32_t>(&index[at + 8]);
    if (offset > bytes.size() || size > bytes.size() - offset) continue;
    mend(bytes.subspan(static_cast<size_t>(offset), size), &index[at + 12]);
  }
  mend(index, &bytes[bytes.size() - kChecksumBytes]);
}

}  // namespace tensorcask::testing
