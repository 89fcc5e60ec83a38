#include "tensorcask/tensor/base/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/internal/crc32c_kernels.h"

namespace tensorcask {
namespace {

using Table = std::array<uint32_t, 256>;

// tables[k][b]: what byte b contributes when k more bytes follow it. Made by the compiler.
constexpr std::array<Table, 8> MakeTables() {
  std::array<Table, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? internal::kCrc32cPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}
constexpr std::array<Table, 8> kTables = MakeTables();

// x^(8 2^k) mod P: appends 2^k zero bytes.
constexpr std::array<uint32_t, 64> MakeZeroBytes() {
  std::array<uint32_t, 64> powers{};
  powers[0] = internal::PowerOfXModP(8);
  for (size_t k = 1; k < powers.size(); ++k) powers[k] = internal::MultiplyModP(powers[k - 1], powers[k - 1]);
  return powers;
}
constexpr std::array<uint32_t, 64> kZeroBytes = MakeZeroBytes();

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
  size_t i = 0;
  for (; count - i >= 8; i += 8) {
    const uint32_t low = crc ^ LoadLittleEndian<uint32_t>(bytes + i);
    const uint32_t high = LoadLittleEndian<uint32_t>(bytes + i + 4);
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][high & 0xff] ^ kTables[2][(high >> 8) & 0xff] ^
          kTables[1][(high >> 16) & 0xff] ^ kTables[0][high >> 24];
  }
  for (; i < count; ++i) crc = (crc >> 8) ^ kTables[0][(crc ^ bytes[i]) & 0xff];
  return crc;
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
  uint32_t shifted = crc_a;
  for (size_t k = 0; b_bytes != 0; ++k, b_bytes >>= 1) {
    if ((b_bytes & 1) != 0) shifted = internal::MultiplyModP(shifted, kZeroBytes[k]);
  }
  return shifted ^ crc_b;  // the XORs with 0xFFFFFFFF at both ends cancel
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
