#include "tensorcask/tensor/base/cpu.h"

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

CpuFeatures Everything() {
  CpuFeatures features;
  features.sse42 = features.pclmul = features.avx2 = features.avx512 = true;
  features.vpclmul256 = features.vpclmul512 = features.vbmi2 = features.bf16 = true;
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
    EXPECT_EQ(features.neon, c.sse42);
    EXPECT_EQ(features.arm_crc32, c.sse42);
  }
}

TEST(CpuFeatures, LevelsInventNothing) {
  for (const char* level : {"avx512", "avx2", "sse42", "scalar"}) {
    SCOPED_TRACE(level);
    const CpuFeatures features = internal::LimitFeatures(CpuFeatures(), level);
    EXPECT_FALSE(features.sse42 || features.pclmul || features.avx2 || features.vpclmul256 || features.avx512 ||
                 features.vpclmul512 || features.vbmi2 || features.bf16 || features.neon || features.arm_crc32);
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

TEST(CpuTuning, FamiliesAreFoundByMakerAndCache) {
  using internal::CpuMaker;
  using internal::TuningFor;
  const CpuTuning zen4 = TuningFor(CpuMaker::kAmd, 32 << 10, 1 << 20);
  EXPECT_EQ(zen4.family, CpuFamily::kZen4);
  EXPECT_EQ(zen4.l1_bytes, 32 << 10);
  EXPECT_EQ(zen4.l2_bytes, 1 << 20);
  EXPECT_EQ(zen4.tlb_pages, 3072);
  EXPECT_EQ(zen4.stream_bytes, 32 << 20);
  EXPECT_EQ(zen4.prefetch_ahead_bytes, 0);
  const CpuTuning zen5 = TuningFor(CpuMaker::kAmd, 48 << 10, 1 << 20);
  EXPECT_EQ(zen5.family, CpuFamily::kZen5);
  EXPECT_EQ(zen5.tlb_pages, 4096);
  EXPECT_EQ(zen5.stream_bytes, 48 << 20);
  EXPECT_EQ(zen5.prefetch_ahead_bytes, 8 << 10);
  EXPECT_EQ(TuningFor(CpuMaker::kAmd, 32 << 10, 512 << 10).tlb_pages, 2048);
  const CpuTuning sapphire_rapids = TuningFor(CpuMaker::kIntel, 48 << 10, 2 << 20);
  EXPECT_EQ(sapphire_rapids.family, CpuFamily::kIceLakeServer);
  EXPECT_EQ(sapphire_rapids.tlb_pages, 2048);
  EXPECT_EQ(sapphire_rapids.stream_bytes, 16 << 20);
  EXPECT_EQ(sapphire_rapids.prefetch_ahead_bytes, 4 << 10);
  // A large first-level cache alone makes neither.
  EXPECT_EQ(TuningFor(CpuMaker::kAmd, 48 << 10, 512 << 10).family, CpuFamily::kZen2);
  EXPECT_EQ(TuningFor(CpuMaker::kIntel, 48 << 10, 1 << 20).family, CpuFamily::kSkylake);
  EXPECT_EQ(TuningFor(CpuMaker::kIntel, 32 << 10, 1 << 20).family, CpuFamily::kSkylake);
  EXPECT_EQ(TuningFor(CpuMaker::kIntel, 32 << 10, 1 << 20).tlb_pages, 1536);
  EXPECT_EQ(TuningFor(CpuMaker::kUnknown, 64 << 10, 1 << 20).family, CpuFamily::kUnknown);
  EXPECT_EQ(TuningFor(CpuMaker::kUnknown, 64 << 10, 1 << 20).tlb_pages, CpuTuning().tlb_pages);
}

TEST(CpuTuning, SizesThatNoCacheHasAreNotBelieved) {
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, int64_t{1}, INT64_MIN, INT64_MAX}) {
    SCOPED_TRACE(bytes);
    const CpuTuning tuning = internal::TuningFor(internal::CpuMaker::kAmd, bytes, bytes);
    EXPECT_EQ(tuning.l1_bytes, CpuTuning().l1_bytes);
    EXPECT_EQ(tuning.l2_bytes, CpuTuning().l2_bytes);
  }
}

TEST(CpuTuning, IsSensibleOnThisMachine) {
  const CpuTuning& tuning = GetCpuTuning();
  EXPECT_GE(tuning.l1_bytes, 8 << 10);
  EXPECT_GE(tuning.l2_bytes, tuning.l1_bytes);
  EXPECT_GE(tuning.tlb_pages, 1024);
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
  EXPECT_EXIT(
      {
        setenv("TENSORCASK_CPU", "scalar", 1);
        std::exit(GetCpuTuning().l2_bytes == CpuTuning().l2_bytes ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tensorcask
