#include "tensorcask/tensor/memory/caching_options.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr size_t kMiB = size_t{1} << 20;

TEST(CachingOptions, DefaultsRoundToMultiplesOf512) {
  ASSERT_OK_AND_ASSIGN(const CachingOptions options, CachingOptions::Parse(""));
  EXPECT_EQ(options.max_split_size, CachingOptions::kNoSplitLimit);
  EXPECT_EQ(options.garbage_collection_threshold, 0);
  EXPECT_EQ(options.RoundSize(1), 512u);
  EXPECT_EQ(options.RoundSize(511), 512u);
  EXPECT_EQ(options.RoundSize(512), 512u);
  EXPECT_EQ(options.RoundSize(513), 1024u);
  EXPECT_EQ(options.RoundSize(100 * kMiB + 1), 100 * kMiB + 512);
}

TEST(CachingOptions, ReadsPyTorchsText) {
  ASSERT_OK_AND_ASSIGN(const CachingOptions options,
                       CachingOptions::Parse("max_split_size_mb:21, garbage_collection_threshold : 0.5,backend:native,"
                                             "expandable_segments:False,roundup_power2_divisions:4"));
  EXPECT_EQ(options.max_split_size, 21 * kMiB);
  EXPECT_EQ(options.garbage_collection_threshold, 0.5);
  for (const size_t divisions : options.roundup_power2_divisions) EXPECT_EQ(divisions, 4u);
}

TEST(CachingOptions, DividesPowersOfTwo) {
  const CachingOptions options = CachingOptions::Parse("roundup_power2_divisions:4").value();
  EXPECT_EQ(options.RoundSize(600), 1024u);   // small sizes keep their steps of 512
  EXPECT_EQ(options.RoundSize(2048), 2048u);  // not more than 512 * 4
  EXPECT_EQ(options.RoundSize(2049), 2560u);
  EXPECT_EQ(options.RoundSize(4097), 5120u);
  EXPECT_EQ(options.RoundSize(5121), 6144u);
  EXPECT_EQ(options.RoundSize(7169), 8192u);
  EXPECT_EQ(options.RoundSize(kMiB), kMiB);
  EXPECT_EQ(options.RoundSize(kMiB + 1), kMiB + kMiB / 4);
}

TEST(CachingOptions, DividesByInterval) {
  const CachingOptions options =
      CachingOptions::Parse("roundup_power2_divisions:[64:8,128:2,256:4,1024:1,>:2]").value();
  EXPECT_EQ(options.RoundSize(40 * kMiB + 1), 44 * kMiB);  // below the first: as the first, steps of 4 MiB
  EXPECT_EQ(options.RoundSize(65 * kMiB), 72 * kMiB);      // steps of 8 MiB
  EXPECT_EQ(options.RoundSize(129 * kMiB), 192 * kMiB);    // steps of 64 MiB
  EXPECT_EQ(options.RoundSize(257 * kMiB), 320 * kMiB);    // steps of 64 MiB
  EXPECT_EQ(options.RoundSize(513 * kMiB), 513 * kMiB);    // not in the list
  EXPECT_EQ(options.RoundSize(1025 * kMiB), 1025 * kMiB);  // 1: multiples of 512
  EXPECT_EQ(options.RoundSize(2049 * kMiB), 3072 * kMiB);  // above the last: steps of 1 GiB
  EXPECT_EQ(options.RoundSize(size_t{1} << 42), size_t{1} << 42);
  const CachingOptions all = CachingOptions::Parse("roundup_power2_divisions:[>:2]").value();
  EXPECT_EQ(all.RoundSize(1025 * kMiB), 1536 * kMiB);
  EXPECT_EQ(all.RoundSize(3 * 512), 3 * 512u);
  EXPECT_EQ(all.RoundSize(5 * 512), 6 * 512u);
}

struct Reject {
  absl::string_view text;
  absl::string_view says;
};

TEST(CachingOptions, RefusesWhatItDoesNotKnow) {
  const Reject kRejects[] = {
      {"max_split_size:30", "unknown allocator option \"max_split_size\""},
      {"max_split_size_mb", "max_split_size_mb: found \"\"; ':' is needed"},
      {"max_split_size_mb:", "found \"\""},
      {"max_split_size_mb:20", "greater than 20"},
      {"max_split_size_mb:-1", "greater than 20"},
      {"max_split_size_mb:30,", "after ','"},
      {"max_split_size_mb:30;backend:native", "greater than 20"},
      {"max_split_size_mb:30:31", "',' is needed"},
      {",", "allocator option ,"},
      {"garbage_collection_threshold:0", "greater than 0 and less than 1"},
      {"garbage_collection_threshold:1", "greater than 0 and less than 1"},
      {"garbage_collection_threshold:nan", "greater than 0 and less than 1"},
      {"roundup_power2_divisions:3", "a power of two"},
      {"roundup_power2_divisions:[", "found \"\""},
      {"roundup_power2_divisions:[]", "found"},
      {"roundup_power2_divisions:[64:8", "',' is needed"},
      {"roundup_power2_divisions:[64,8]", "':' is needed"},
      {"roundup_power2_divisions:[63:8]", "power of two"},
      {"roundup_power2_divisions:[64:0]", "power of two"},
      {"roundup_power2_divisions:[64:8,64:8]", "must increase"},
      {"roundup_power2_divisions:[>:8,64:2]", "']' is needed"},
      {"backend:cudaMallocAsync", "only 'native'"},
      {"expandable_segments:yes", "'True' or 'False'"},
  };
  for (const Reject& reject : kRejects) {
    SCOPED_TRACE(reject.text);
    EXPECT_THAT(CachingOptions::Parse(reject.text), StatusIs(Code::kInvalidArgument, HasSubstr(reject.says)));
  }
  EXPECT_TRUE(CachingOptions::Parse("expandable_segments:True")->expandable_segments);
  EXPECT_FALSE(CachingOptions::Parse("expandable_segments:False")->expandable_segments);
}

}  // namespace
}  // namespace tensorcask
