#include "tensorcask/tensor/base/checksum.h"

#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/crc32c.h"

namespace tensorcask {
namespace {

struct Algorithm {
  ChecksumKind kind;
  uint32_t (*extend)(uint32_t before, absl::string_view bytes);
  uint32_t (*copy_and_extend)(uint32_t before, const void* source, void* destination, size_t bytes);
  uint32_t (*combine)(uint32_t a, uint32_t b, uint64_t b_bytes);
  uint32_t (*as_stored)(uint32_t computed);
};

uint32_t Same(uint32_t computed) { return computed; }
uint32_t Masked(uint32_t computed) { return MaskCrc32c(computed); }

constexpr Algorithm kAlgorithms[] = {
    {ChecksumKind::kCrc32c, &ExtendCrc32c, &CopyAndExtendCrc32c, &CombineCrc32c, &Same},
    {ChecksumKind::kMaskedCrc32c, &ExtendCrc32c, &CopyAndExtendCrc32c, &CombineCrc32c, &Masked},
    {ChecksumKind::kCrc32, &ExtendCrc32, &CopyAndExtendCrc32, &CombineCrc32, &Same},
};

const Algorithm& AlgorithmOf(ChecksumKind kind) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.kind == kind) return algorithm;
  }
  CASK_CHECK(false, "a checksum of this kind cannot be computed");
  return kAlgorithms[0];
}

}  // namespace

uint32_t ExtendChecksum(ChecksumKind kind, uint32_t before, absl::string_view bytes) {
  return AlgorithmOf(kind).extend(before, bytes);
}

uint32_t CopyAndExtendChecksum(ChecksumKind kind, uint32_t before, const void* source, void* destination,
                               size_t bytes) {
  return AlgorithmOf(kind).copy_and_extend(before, source, destination, bytes);
}

uint32_t CombineChecksums(ChecksumKind kind, uint32_t a, uint32_t b, uint64_t b_bytes) {
  return AlgorithmOf(kind).combine(a, b, b_bytes);
}

uint32_t ChecksumAsStored(ChecksumKind kind, uint32_t computed) { return AlgorithmOf(kind).as_stored(computed); }

}  // namespace tensorcask
