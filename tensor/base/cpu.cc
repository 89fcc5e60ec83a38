#include "tensorcask/tensor/base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

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
  features.amd = __builtin_cpu_is("amd");
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

}  // namespace

namespace internal {

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
    const char* const level = std::getenv("TENSORCASK_CPU");
    return level == nullptr || *level == '\0' ? detected : internal::LimitFeatures(detected, level);
  }();
  return features;
}

}  // namespace tensorcask
