#include "tensorcask/tensor/base/cpu.h"

#include <cstdlib>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

CpuFeatures Everything() {
  CpuFeatures features;
  features.sse42 = features.pclmul = features.avx2 = features.avx512 = true;
  features.vpclmul256 = features.vpclmul512 = features.vbmi2 = features.bf16 = features.amd = true;
  features.neon = features.arm_crc32 = true;
  return features;
}

struct LevelCase {
  const char* level;
  bool sse42;
  bool avx2;
  bool avx512;
};

TEST(CpuFeatures, LevelsHideWhatStandsAbove) {
  const LevelCase cases[] = {{"avx512", true, true, true},     {"avx2", true, true, false},
                             {"sse42", true, false, false},    {"scalar", false, false, false},
                             {"AVX512", false, false, false},  {"misspelt", false, false, false},
                             {"avx512 ", false, false, false}, {"", false, false, false}};
  for (const LevelCase& c : cases) {
    SCOPED_TRACE(c.level);
    const CpuFeatures features = internal::LimitFeatures(Everything(), c.level);
    EXPECT_EQ(features.sse42, c.sse42);
    EXPECT_EQ(features.pclmul, c.sse42);
    EXPECT_EQ(features.avx2, c.avx2);
    EXPECT_EQ(features.avx512, c.avx512);
    EXPECT_EQ(features.vpclmul256, c.avx2);
    EXPECT_EQ(features.vpclmul512, c.avx512);
    EXPECT_EQ(features.vbmi2, c.avx512);
    EXPECT_EQ(features.bf16, c.avx512);
    EXPECT_EQ(features.amd, c.sse42);
    EXPECT_EQ(features.neon, c.sse42);
    EXPECT_EQ(features.arm_crc32, c.sse42);
  }
}

TEST(CpuFeatures, LevelsInventNothing) {
  for (const char* level : {"avx512", "avx2", "sse42", "scalar"}) {
    SCOPED_TRACE(level);
    const CpuFeatures features = internal::LimitFeatures(CpuFeatures(), level);
    EXPECT_FALSE(features.sse42 || features.pclmul || features.avx2 || features.vpclmul256 || features.avx512 ||
                 features.vpclmul512 || features.vbmi2 || features.bf16 || features.amd || features.neon ||
                 features.arm_crc32);
  }
}

TEST(CpuFeatures, EachImpliesThoseAbove) {
  const CpuFeatures& features = GetCpuFeatures();
  if (features.vpclmul512) {
    EXPECT_TRUE(features.vpclmul256);
  }
  if (features.vpclmul512 || features.vbmi2 || features.bf16) {
    EXPECT_TRUE(features.avx512);
  }
  if (features.avx512 || features.vpclmul256) {
    EXPECT_TRUE(features.avx2);
  }
  if (features.avx2) {
    EXPECT_TRUE(features.pclmul);
  }
  if (features.pclmul) {
    EXPECT_TRUE(features.sse42);
  }
}

TEST(CpuFeatures, AreDetectedOnceAndForAllThreads) {
  const CpuFeatures* const here = &GetCpuFeatures();
  std::vector<const CpuFeatures*> seen(4);
  std::vector<std::thread> threads;
  for (auto& slot : seen) threads.emplace_back([&slot] { slot = &GetCpuFeatures(); });
  for (std::thread& thread : threads) thread.join();
  for (const CpuFeatures* features : seen) EXPECT_EQ(features, here);
}

// The process is started anew, with the variable set before the features are first asked for.
TEST(CpuFeaturesDeathTest, EnvironmentHidesExtensions) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("TENSORCASK_CPU", "scalar", 1);
        std::exit(GetCpuFeatures().sse42 ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tensorcask
