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

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// What is known of families of processors. The pages are those of the second-level TLB (AMD, "Software Optimization
// Guide" of the families 17h, 19h, 1Ah and of Zen 4; Intel, "64 and IA-32 Architectures Optimization Reference
// Manual"). How the rest was measured stands where it is used. The first row that fits counts. The newest processors of
// a maker have the largest caches.
struct KnownFamily {
  internal::CpuMaker maker;
  int64_t l1_bytes;  // at least
  int64_t l2_bytes;  // at least
  CpuFamily family;
  int64_t tlb_pages;
  int64_t stream_bytes;
  int64_t prefetch_ahead_bytes;
};
constexpr KnownFamily kFamilies[] = {
    {internal::CpuMaker::kAmd, 48 * kKiB, 1024 * kKiB, CpuFamily::kZen5, 4096, 48 * kMiB, 8 * kKiB},
    {internal::CpuMaker::kAmd, 0, 1024 * kKiB, CpuFamily::kZen4, 3072, 32 * kMiB, 0},
    {internal::CpuMaker::kAmd, 0, 0, CpuFamily::kZen2, 2048, 16 * kMiB, 0},
    {internal::CpuMaker::kIntel, 48 * kKiB, 1280 * kKiB, CpuFamily::kIceLakeServer, 2048, 16 * kMiB, 4 * kKiB},
    {internal::CpuMaker::kIntel, 0, 0, CpuFamily::kSkylake, 1536, 16 * kMiB, 0},
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
  for (const KnownFamily& known : kFamilies) {
    if (known.maker != maker || known.l1_bytes > l1_bytes || known.l2_bytes > l2_bytes) continue;
    tuning.family = known.family;
    tuning.tlb_pages = known.tlb_pages;
    tuning.stream_bytes = known.stream_bytes;
    tuning.prefetch_ahead_bytes = known.prefetch_ahead_bytes;
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
