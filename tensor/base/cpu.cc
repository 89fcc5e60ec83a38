#include "tensorcask/tensor/base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__linux__)
#include <unistd.h>
#endif

#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"

namespace tensorcask {
namespace {

#if defined(__x86_64__)
// Every processor with AVX2 has F16C, but a virtual machine may hide it. (Clang 14 does not take this name below.)
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

CpuFeatures DetectFeatures() {
  CpuFeatures features;
#if defined(__x86_64__)
  __builtin_cpu_init();  // also asks the system (XGETBV) whether it keeps the wide registers
  features.sse42 = __builtin_cpu_supports("sse4.2");
  features.pclmul = features.sse42 && __builtin_cpu_supports("pclmul");
  features.avx2 = features.pclmul && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && HasF16c();
  features.avx512 = features.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  features.vpclmul256 = features.avx2 && __builtin_cpu_supports("vpclmulqdq");
  features.vpclmul512 = features.vpclmul256 && features.avx512;
  features.vbmi2 = features.avx512 && __builtin_cpu_supports("avx512vbmi2");
  features.bf16 = features.avx512 && __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__)
  features.neon = true;
#if defined(__linux__)
  constexpr unsigned long kHwcapCrc32 = 1 << 7;  // HWCAP_CRC32 of <asm/hwcap.h>
  features.arm_crc32 = (getauxval(AT_HWCAP) & kHwcapCrc32) != 0;
#elif defined(__ARM_FEATURE_CRC32)
  features.arm_crc32 = true;
#endif
#endif
  return features;
}

internal::CpuMaker DetectMaker() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd")) return internal::CpuMaker::kAmd;
  if (__builtin_cpu_is("intel")) return internal::CpuMaker::kIntel;
#endif
  return internal::CpuMaker::kUnknown;
}

CpuTuning DetectTuning() {
  int64_t l1_bytes = 0;
  int64_t l2_bytes = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
  l1_bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  l2_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
  return internal::TuningFor(DetectMaker(), l1_bytes, l2_bytes);
}

// What is known of families of processors. The pages are those of the second-level TLB (AMD, "Software Optimization
// Guide" of the families 17h, 19h, 1Ah and of Zen 4; Intel, "64 and IA-32 Architectures Optimization Reference
// Manual"). How the rest was measured stands where it is used: pieces of files in
// serialize/checkpoint/write/tensor_job.cc, dense copies in tensor/base/copy_bytes.cc, transposes and conversions in
// tensor/strided/internal/copy_plan.cc and convert_kernels.cc. What is not set is as for an unknown processor.

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

constexpr CpuTuning Zen2And3() {
  CpuTuning tuning;
  tuning.tlb_pages = 2048;
  tuning.write_piece_bytes = 512 * kKiB;
  return tuning;
}

constexpr CpuTuning Zen4() {
  CpuTuning tuning;
  tuning.tlb_pages = 3072;
  tuning.write_piece_bytes = 1024 * kKiB;
  // Not measured. Transposes stream as fast as on a Zen 5.
  tuning.stream_bytes = 32 * kMiB;
  tuning.stream_pages = 1;
  return tuning;
}

constexpr CpuTuning Zen5() {
  CpuTuning tuning;
  tuning.tlb_pages = 4096;
  tuning.write_piece_bytes = 512 * kKiB;
  tuning.copy_piece_bytes = 256 * kKiB;
  tuning.stream_bytes = 48 * kMiB;
  tuning.stream_pages = 1;
  tuning.stream_row_bytes = 512;
  tuning.memcpy_row_bytes = 8 * kKiB;
  tuning.transpose_lines = 8;
  tuning.transpose_adjacent_lines = 2;
  tuning.transpose_in_l2 = false;
  tuning.transpose_by_avx2 = true;
  tuning.prefetch_ahead_bytes = 8 * kKiB;
  return tuning;
}

constexpr CpuTuning Skylake() {
  CpuTuning tuning;
  tuning.tlb_pages = 1536;
  return tuning;
}

constexpr CpuTuning IceLakeServer() {
  CpuTuning tuning;
  tuning.tlb_pages = 2048;
  tuning.transpose_lines = 2;
  tuning.transpose_adjacent_lines = 2;
  tuning.prefetch_ahead_bytes = 4 * kKiB;
  return tuning;
}

// The first row that fits counts. The newest processors of a maker have the largest caches.
struct CpuFamily {
  internal::CpuMaker maker;
  int64_t l1_bytes;  // at least
  int64_t l2_bytes;  // at least
  CpuTuning tuning;
};
constexpr CpuFamily kFamilies[] = {
    {internal::CpuMaker::kAmd, 48 * kKiB, 1024 * kKiB, Zen5()},
    {internal::CpuMaker::kAmd, 0, 1024 * kKiB, Zen4()},
    {internal::CpuMaker::kAmd, 0, 0, Zen2And3()},
    {internal::CpuMaker::kIntel, 48 * kKiB, 1280 * kKiB, IceLakeServer()},  // and later
    {internal::CpuMaker::kIntel, 0, 0, Skylake()},                          // and later
};

// The level that the environment asks for; empty without one.
absl::string_view LevelOfEnvironment() {
  const char* const level = std::getenv("TENSORCASK_CPU");
  return level == nullptr ? absl::string_view() : absl::string_view(level);
}

}  // namespace

namespace internal {

CpuTuning TuningFor(CpuMaker maker, int64_t l1_bytes, int64_t l2_bytes) {
  // A virtual machine may tell anything. Outside these ranges a size is not believed.
  if (l1_bytes < 8 * kKiB || l1_bytes > kMiB) l1_bytes = CpuTuning().l1_bytes;
  if (l2_bytes < 128 * kKiB || l2_bytes > 64 * kMiB) l2_bytes = CpuTuning().l2_bytes;
  CpuTuning tuning;
  for (const CpuFamily& family : kFamilies) {
    if (family.maker != maker || family.l1_bytes > l1_bytes || family.l2_bytes > l2_bytes) continue;
    tuning = family.tuning;
    break;
  }
  tuning.l1_bytes = l1_bytes;
  tuning.l2_bytes = l2_bytes;
  return tuning;
}

CpuFeatures LimitFeatures(CpuFeatures features, absl::string_view level) {
  // Each level hides what the levels before it in this list add.
  if (level == "avx512") return features;
  features.avx512 = features.vpclmul512 = features.vbmi2 = features.bf16 = false;
  if (level == "avx2") return features;
  features.avx2 = features.vpclmul256 = false;
  if (level == "sse42") return features;
  return CpuFeatures();
}

}  // namespace internal

const CpuFeatures& GetCpuFeatures() {
  static const CpuFeatures features = [] {
    const CpuFeatures detected = DetectFeatures();
    const absl::string_view level = LevelOfEnvironment();
    return level.empty() ? detected : internal::LimitFeatures(detected, level);
  }();
  return features;
}

const CpuTuning& GetCpuTuning() {
  static const CpuTuning tuning = [] {
    const absl::string_view level = LevelOfEnvironment();
    CpuFeatures least;  // what every level but "scalar" leaves
    least.sse42 = true;
    const bool hidden = !level.empty() && !internal::LimitFeatures(least, level).sse42;
    return hidden ? CpuTuning() : DetectTuning();
  }();
  return tuning;
}

}  // namespace tensorcask
