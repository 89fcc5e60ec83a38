#include "tensorcask/serialize/wire/internal/copy_bytes.h"

#include <cstdint>
#include <cstring>

#include "tensorcask/tensor/base/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tensorcask::internal {
namespace {

#if defined(__x86_64__)

constexpr size_t kLineBytes = 64;
constexpr size_t kPageBytes = 4096;

// Two pages at a time, line by line in turn: this keeps two rows of memory open and is faster than one after the other.
// Requires: `out` is a multiple of kLineBytes. Returns how many bytes were copied: all but a rest under two pages.
__attribute__((target("avx2"))) size_t StreamPages(char* out, const char* in, size_t bytes) {
  size_t done = 0;
  for (; bytes - done >= 2 * kPageBytes; done += 2 * kPageBytes) {
    for (size_t line = done; line < done + kPageBytes; line += kLineBytes) {
      for (size_t at = line; at <= line + kPageBytes; at += kPageBytes) {
        const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + at));
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + at + 32));
        _mm256_stream_si256(reinterpret_cast<__m256i*>(out + at), low);
        _mm256_stream_si256(reinterpret_cast<__m256i*>(out + at + 32), high);
      }
    }
  }
  _mm_sfence();  // streamed stores are seen by others only after this
  return done;
}

#endif

}  // namespace

void CopyBytes(void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return;  // either pointer may then be null
  auto* out = static_cast<char*>(destination);
  const auto* in = static_cast<const char*>(source);
#if defined(__x86_64__)
  if (bytes >= kStreamBytes && GetCpuFeatures().avx2) {
    const size_t header = (kLineBytes - reinterpret_cast<uintptr_t>(out) % kLineBytes) % kLineBytes;
    std::memcpy(out, in, header);
    const size_t done = header + StreamPages(out + header, in + header, bytes - header);
    std::memcpy(out + done, in + done, bytes - done);
    return;
  }
#endif
  std::memcpy(out, in, bytes);
}

}  // namespace tensorcask::internal
