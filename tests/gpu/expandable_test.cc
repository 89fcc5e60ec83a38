// Expandable segments on the virtual memory of a device.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tests/gpu/gpu_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AllAre;
using ::tensorcask::testing::GpuTest;
using ::tensorcask::testing::HoldsInATry;
using ::tensorcask::testing::kMiB;
using ::testing::Each;

class ExpandableTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device() == nullptr || IsSkipped()) return;
    if (backend().MappingGranularity() == 0) GTEST_SKIP() << "the device has no virtual memory";
    segments_ = CachingAllocator::Make(device(), CachingOptions::Parse("expandable_segments:True").value());
  }
  void TearDown() override {
    segments_ = nullptr;
    GpuTest::TearDown();
  }
  char* New(size_t bytes, StreamId stream = kDefaultStream) {
    return static_cast<char*>(segments_->TryAllocate(bytes, stream).value());
  }
  void Delete(void* block, size_t bytes) { segments_->Deallocate(block, bytes); }
  size_t Reserved() const { return static_cast<size_t>(segments_->statistics().reserved_bytes.all.current); }

  RefPtr<CachingAllocator> segments_;
};
CASK_ON_EACH_DEVICE(ExpandableTest);

TEST_P(ExpandableTest, GrowsAndKeepsItsContent) {
  std::vector<char*> blocks;
  for (size_t i = 0; i < 12; ++i) {
    blocks.push_back(New(9 * kMiB));
    EXPECT_EQ(blocks[i], blocks[0] + 9 * kMiB * i) << "one segment, without gaps";
    ASSERT_OK(backend().Fill(blocks[i], static_cast<uint8_t>(i + 1), 9 * kMiB, kDefaultStream));
    EXPECT_EQ(Reserved(), (9 * kMiB * (i + 1) + 20 * kMiB - 1) / (20 * kMiB) * (20 * kMiB));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_TRUE(AllAre(Bytes(blocks[i], 9 * kMiB), static_cast<uint8_t>(i + 1)));
  }
  const MemorySnapshot snapshot = segments_->Snapshot();
  ASSERT_EQ(snapshot.segments.size(), 1U);
  EXPECT_TRUE(snapshot.segments[0].is_expandable);
  for (char* const block : blocks) Delete(block, 9 * kMiB);
}

TEST_P(ExpandableTest, FreeStepsGoBackToTheDevice) {
  EXPECT_TRUE(HoldsInATry([&] {
    char* const a = New(30 * kMiB);
    char* const b = New(30 * kMiB);
    char* const c = New(30 * kMiB);
    EXPECT_OK(backend().Fill(a, 1, 30 * kMiB, kDefaultStream));
    EXPECT_OK(backend().Fill(c, 3, 30 * kMiB, kDefaultStream));
    Delete(b, 30 * kMiB);
    EXPECT_EQ(Reserved(), 100 * kMiB);
    const uint64_t before = FreeBytes();
    EXPECT_OK(segments_->EmptyCache());
    EXPECT_EQ(Reserved(), 80 * kMiB) << "bytes 40 to 60 MiB are a whole step";
    const uint64_t after = FreeBytes();
    // The neighbours keep their bytes, and the gap is filled before the end.
    EXPECT_THAT(Bytes(a + 30 * kMiB - 100, 100), Each(1));
    EXPECT_THAT(Bytes(c, 100), Each(3));
    EXPECT_EQ(New(25 * kMiB), b);
    EXPECT_EQ(Reserved(), 100 * kMiB);
    EXPECT_OK(backend().Fill(b, 2, 25 * kMiB, kDefaultStream));
    EXPECT_THAT(Bytes(b + 25 * kMiB - 100, 100), Each(2));
    Delete(a, 30 * kMiB);
    Delete(b, 25 * kMiB);
    Delete(c, 30 * kMiB);
    EXPECT_OK(segments_->EmptyCache());
    EXPECT_EQ(Reserved(), 0U);
    return after >= before + 15 * kMiB && FreeBytes() >= before + 95 * kMiB;
  }));
}

TEST_P(ExpandableTest, SlowlyGrowingRequestsNeedNoMoreThanTheLargest) {
  for (size_t bytes = 11 * kMiB; bytes <= 200 * kMiB; bytes += 7 * kMiB) {
    char* const block = New(bytes);
    ASSERT_OK(backend().Fill(block + bytes - 1, 1, 1, kDefaultStream));
    Delete(block, bytes);
  }
  EXPECT_EQ(Reserved(), 200 * kMiB);
}

TEST_P(ExpandableTest, StreamsAndPoolsHaveSegmentsOfTheirOwn) {
  const StreamId stream = NewStream();
  char* const large = New(8 * kMiB);
  char* const small = New(1000);
  char* const other = New(1000, stream);
  void* const graph = segments_->TryAllocate(1000, kDefaultStream, "graph").value();
  EXPECT_EQ(Reserved(), 26 * kMiB);
  for (void* const block : {static_cast<void*>(small), static_cast<void*>(other), graph}) Delete(block, 1000);
  Delete(large, 8 * kMiB);
  ASSERT_OK(segments_->EmptyCache());
  EXPECT_EQ(Reserved(), 2 * kMiB) << "that of the private pool";
}

TEST_P(ExpandableTest, ABlockIsReusedAfterTheRecordedWork) {
  const StreamId stream = NewStream();
  char* const block = New(3 * kMiB);
  Hold(stream);
  ASSERT_OK(backend().Fill(block, 7, 3 * kMiB, stream));
  ASSERT_OK(segments_->RecordStream(block, stream));
  Delete(block, 3 * kMiB);
  char* const other = New(3 * kMiB);
  EXPECT_NE(other, block);
  Release(stream);
  char* const again = New(3 * kMiB);
  EXPECT_EQ(again, block);
  Delete(other, 3 * kMiB);
  Delete(again, 3 * kMiB);
}

TEST_P(ExpandableTest, RandomRequests) {
  std::mt19937 random(7);
  struct Live {
    size_t bytes;
    uint8_t value;
  };
  std::map<char*, Live> live;
  for (int i = 0; i < 400; ++i) {
    const size_t choice = random() % 100;
    if (choice < 55 && live.size() < 20) {
      const size_t bytes = 1 + random() % (random() % 3 == 0 ? 30 * kMiB : 2 * kMiB);
      char* const block = New(bytes);
      const auto value = static_cast<uint8_t>(random());
      ASSERT_OK(backend().Fill(block, value, bytes, kDefaultStream));
      live[block] = {bytes, value};
    } else if (choice < 97 && !live.empty()) {
      const auto chosen = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
      const auto [bytes, value] = chosen->second;
      const size_t checked = std::min(bytes, kMiB);
      ASSERT_THAT(Bytes(chosen->first, 1), Each(value));
      ASSERT_TRUE(AllAre(Bytes(chosen->first + bytes - checked, checked), value));
      Delete(chosen->first, bytes);
      live.erase(chosen);
    } else {
      ASSERT_OK(segments_->EmptyCache());
    }
  }
  for (const auto& [block, one] : live) Delete(block, one.bytes);
  ASSERT_OK(segments_->EmptyCache());
  EXPECT_EQ(Reserved(), 0U);
}

}  // namespace
}  // namespace tensorcask
