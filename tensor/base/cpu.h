// What the processor can do, and how large its caches are. Every choice of a vector kernel, or of a size that fits a
// cache, goes through this header.
//
//   __attribute__((target("avx2"))) void CopyAvx2(...);
//   const auto copy = GetCpuFeatures().avx2 ? CopyAvx2 : CopyScalar;
//   const int64_t tile_bytes = GetCpuTuning().l2_bytes / 8;
//
// TENSORCASK_CPU in the environment hides extensions, so that each kernel can be tested on one machine: "sse42" leaves
// sse42 and pclmul, "avx2" leaves avx2 and vpclmul256 as well, "avx512" hides nothing. "scalar" hides all, ARM's too,
// and the caches: the tuning is that of an unknown processor. Any other text counts as "scalar", so that a misspelling
// costs speed and nothing else; empty counts as unset.

#ifndef TENSORCASK_TENSOR_BASE_CPU_H_
#define TENSORCASK_TENSOR_BASE_CPU_H_

#include <cstdint>

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

  bool neon = false;       // every AArch64 processor has it
  bool arm_crc32 = false;  // the crc32 instructions of ARMv8; implies neon
};

// Detected on the first call; thread-safe. A kernel asks for the extension that implies all that it uses.
const CpuFeatures& GetCpuFeatures();

// Processors between which a choice that was measured may differ. The choice stands where it is used.
enum class CpuFamily { kUnknown, kZen2, kZen4, kZen5, kSkylake, kIceLakeServer };  // kZen2, and the last two: and later

// Sizes by which loops are cut. They change the speed of results, never their bytes. The defaults are those of an
// unknown processor, smaller than what most have.
struct CpuTuning {
  CpuFamily family = CpuFamily::kUnknown;
  int64_t l1_bytes = 32 << 10;   // the data cache of a core
  int64_t l2_bytes = 256 << 10;  // the next cache of a core
  int64_t tlb_pages = 1024;      // pages of 4 KiB in the second-level TLB of a core
  // From this size on, the caches do not keep the data, and non-temporal stores are used: by a dense copy, for source
  // and destination together; by a fill, unless its bytes are all equal. Conversions begin at half of it, source and
  // result together, and copies of rows with a destination of a quarter. Transposes and gathers have a limit of their
  // own.
  int64_t stream_bytes = 16 << 20;
  // Large conversions, and copies of rows with non-temporal stores, prefetch the source this many bytes ahead. 0: no
  // prefetch.
  int64_t prefetch_ahead_bytes = 0;
};

// Detected on the first call; thread-safe.
const CpuTuning& GetCpuTuning();

namespace internal {
// What `features` become under TENSORCASK_CPU=`level`.
CpuFeatures LimitFeatures(CpuFeatures features, absl::string_view level);

enum class CpuMaker { kUnknown, kAmd, kIntel };
// The tuning for a processor by this maker whose caches have these sizes. A size of 0 or less is unknown.
CpuTuning TuningFor(CpuMaker maker, int64_t l1_bytes, int64_t l2_bytes);
}  // namespace internal

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_CPU_H_
