// What the processor can do. Every choice of a vector kernel goes through this header.
//
//   __attribute__((target("avx2"))) void CopyAvx2(...);
//   const auto copy = GetCpuFeatures().avx2 ? CopyAvx2 : CopyScalar;
//
// TENSORCASK_CPU in the environment hides extensions, so that each kernel can be tested on one machine: "scalar" hides
// all, the maker too, "sse42" leaves sse42 and pclmul, "avx2" leaves avx2 and vpclmul256 as well, "avx512" hides
// nothing. Of ARM's extensions "scalar" alone hides some: all. Any other text counts as "scalar", so that a misspelling
// costs speed and nothing else; empty counts as unset.

#ifndef TENSORCASK_TENSOR_BASE_CPU_H_
#define TENSORCASK_TENSOR_BASE_CPU_H_

#include "absl/strings/string_view.h"

namespace tensorcask {

struct CpuFeatures {
  bool sse42 = false;       // includes crc32
  bool pclmul = false;      // carry-less multiplication of 64 bits; implies sse42
  bool avx2 = false;        // includes f16c, popcnt, bmi and bmi2; implies pclmul
  bool vpclmul256 = false;  // carry-less multiplication in 256-bit registers; implies avx2
  bool avx512 = false;      // f, bw, dq, vl together; implies avx2
  bool vpclmul512 = false;  // the same in 512-bit registers; implies vpclmul256 and avx512
  bool vbmi2 = false;       // compress and expand bytes and words; implies avx512
  bool bf16 = false;        // rounds to bfloat16; implies avx512

  bool amd = false;  // no extension, but the maker: caches differ

  bool neon = false;       // every AArch64 processor has it
  bool arm_crc32 = false;  // the crc32 instructions of ARMv8; implies neon
};

// Detected on the first call; thread-safe. A kernel asks for the extension that implies all that it uses.
const CpuFeatures& GetCpuFeatures();

namespace internal {
// What `features` become under TENSORCASK_CPU=`level`.
CpuFeatures LimitFeatures(CpuFeatures features, absl::string_view level);
}  // namespace internal

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_CPU_H_
