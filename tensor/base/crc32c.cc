#include "tensorcask/tensor/base/crc32c.h"

#include <algorithm>
#include <cstring>

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/internal/crc32c_kernels.h"
#include "tensorcask/tensor/base/internal/crc_math.h"

namespace tensorcask {
namespace {

constexpr internal::CrcTables kTables = internal::MakeCrcTables(internal::kCrc32cPolynomial);  // made by the compiler
constexpr internal::CrcPowers kPowers = internal::MakeCrcPowers(internal::kCrc32cPolynomial);

// A chunk is copied, and then still in the first-level cache when its checksum is taken.
constexpr size_t kChunkBytes = 8 << 10;
// From here on a copy is larger than the caches of one core, and goes past them: a store into a cache would first read
// from memory what it overwrites.
constexpr size_t kStreamedBytes = 8 << 20;

struct Kernels {
  internal::Crc32cKernel extend = internal::Crc32cPortable;
  internal::StreamingCrc32cKernel stream = nullptr;  // null: none is faster than chunks
};

const Kernels& GetKernels() {
  static const Kernels kernels = [] {
    Kernels chosen;
#if defined(__x86_64__)
    const CpuFeatures& cpu = GetCpuFeatures();
    if (cpu.vpclmul512) {
      chosen = {internal::Crc32cAvx512, internal::StreamCrc32cAvx512};
    } else if (cpu.vpclmul256) {
      chosen = {internal::Crc32cAvx2, internal::StreamCrc32cAvx2};
    } else if (cpu.pclmul) {
      chosen = {internal::Crc32cSse42, internal::StreamCrc32cSse42};
    }
#elif defined(__aarch64__)
    if (GetCpuFeatures().arm_crc32) chosen = {internal::Crc32cArm, nullptr};
#endif
    return chosen;
  }();
  return kernels;
}

const unsigned char* Bytes(absl::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

}  // namespace

namespace internal {

uint32_t Crc32cPortable(uint32_t crc, const unsigned char* bytes, size_t count) {
  return ExtendByTables(kTables, crc, bytes, count);
}

uint32_t ExtendCrc32cPortable(uint32_t crc, absl::string_view bytes) {
  return ~Crc32cPortable(~crc, Bytes(bytes), bytes.size());
}

}  // namespace internal

uint32_t Crc32c(absl::string_view bytes) { return ExtendCrc32c(0, bytes); }

uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes) {
  return ~GetKernels().extend(~crc, Bytes(bytes), bytes.size());
}

uint32_t CombineCrc32c(uint32_t crc_a, uint32_t crc_b, uint64_t b_bytes) {
  return internal::CombineCrcs(kPowers, internal::kCrc32cPolynomial, crc_a, crc_b, b_bytes);
}

uint32_t CopyAndExtendCrc32c(uint32_t crc, const void* source, void* destination, size_t bytes) {
  const auto* const from = static_cast<const unsigned char*>(source);
  auto* const to = static_cast<unsigned char*>(destination);
  const Kernels& kernels = GetKernels();
  if (bytes >= kStreamedBytes && kernels.stream != nullptr) return ~kernels.stream(~crc, from, bytes, to);
  uint32_t state = ~crc;
  for (size_t i = 0; i < bytes; i += kChunkBytes) {
    const size_t n = std::min(kChunkBytes, bytes - i);
    std::memcpy(to + i, from + i, n);
    state = kernels.extend(state, from + i, n);
  }
  return ~state;
}

}  // namespace tensorcask
