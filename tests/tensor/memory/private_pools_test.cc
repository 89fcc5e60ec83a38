// Private pools of the caching allocator, and snapshots of them.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr size_t kMiB = size_t{1} << 20;

class PrivatePoolsTest : public ::testing::Test {
 protected:
  explicit PrivatePoolsTest(uint64_t device_bytes = 64 * kMiB) {
    SimulatedBackend::Options options;
    options.memory_bytes = device_bytes;
    device_ = SimulatedBackend::Create(options).value();
    cache_ = CachingAllocator::Make(device_);
  }
  void TearDown() override {
    cache_ = nullptr;
    EXPECT_EQ(device_->live_allocations(), 0);
  }

  int64_t Segments() const { return cache_->statistics().segments.all.current; }

  RefPtr<SimulatedBackend> device_;
  RefPtr<CachingAllocator> cache_;
};

TEST_F(PrivatePoolsTest, SegmentsServeTheirPoolAlone) {
  const RefPtr<Allocator> graph = CachingAllocator::OnPool(cache_, "graph");
  void* const common = cache_->Allocate(1000);
  void* const first = graph->Allocate(1000);
  EXPECT_EQ(Segments(), 2) << "there is room in the segment of the common pool";
  graph->Deallocate(first, 1000);
  void* const again = cache_->Allocate(1000);
  EXPECT_NE(again, first);
  EXPECT_EQ(CachingAllocator::OnPool(cache_, "other")->Allocate(kMiB), device_->base() + 4 * kMiB);
  EXPECT_EQ(graph->Allocate(1000), first) << "the same addresses again";
  // Any of them may free.
  cache_->Deallocate(first, 1000);
  graph->Deallocate(common, 1000);
  graph->Deallocate(again, 1000);
  cache_->Deallocate(const_cast<char*>(device_->base()) + 4 * kMiB, kMiB);
}

TEST_F(PrivatePoolsTest, StreamsAreSeparateInAPoolToo) {
  const StreamId stream = device_->CreateStream().value();
  const RefPtr<Allocator> a = CachingAllocator::OnPool(cache_, "graph");
  const RefPtr<Allocator> b = CachingAllocator::OnPool(cache_, "graph", stream);
  void* const block = a->Allocate(1000);
  a->Deallocate(block, 1000);
  void* const other = b->Allocate(1000);
  EXPECT_NE(other, block);
  b->Deallocate(other, 1000);
}

TEST_F(PrivatePoolsTest, CachedSegmentsAreKeptUntilThePoolIsRetired) {
  const RefPtr<Allocator> graph = CachingAllocator::OnPool(cache_, "graph");
  graph->Deallocate(graph->Allocate(20 * kMiB), 20 * kMiB);
  cache_->Deallocate(cache_->Allocate(20 * kMiB), 20 * kMiB);
  ASSERT_OK(cache_->EmptyCache());
  EXPECT_EQ(Segments(), 1);
  // Not even for an allocation that fails without them.
  EXPECT_THAT(cache_->TryAllocate(50 * kMiB), StatusIs(Code::kResourceExhausted, HasSubstr("20971520 are cached")));
  EXPECT_EQ(Segments(), 1);

  ASSERT_OK(cache_->RetirePool("graph"));
  EXPECT_EQ(Segments(), 1);
  ASSERT_OK_AND_ASSIGN(void* const block, cache_->TryAllocate(50 * kMiB));
  EXPECT_EQ(Segments(), 1);
  cache_->Deallocate(block, 50 * kMiB);
}

TEST_F(PrivatePoolsTest, BlocksOfARetiredPoolStayUsable) {
  const RefPtr<Allocator> graph = CachingAllocator::OnPool(cache_, "graph");
  void* const block = graph->Allocate(1000);
  ASSERT_OK(cache_->RetirePool("graph"));
  ASSERT_OK(cache_->EmptyCache());
  EXPECT_EQ(Segments(), 1);
  EXPECT_NE(graph->Allocate(1000), block) << "the pool is in use again";
  graph->Deallocate(static_cast<char*>(block) + 1024, 1000);
  graph->Deallocate(block, 1000);
  ASSERT_OK(cache_->EmptyCache());
  EXPECT_EQ(Segments(), 1);
  ASSERT_OK(cache_->RetirePool("graph"));
  ASSERT_OK(cache_->EmptyCache());
  EXPECT_EQ(Segments(), 0);
}

TEST_F(PrivatePoolsTest, Errors) {
  EXPECT_THAT(cache_->RetirePool("none"), StatusIs(Code::kNotFound, HasSubstr("\"none\"")));
  EXPECT_THAT(cache_->RetirePool(""), StatusIs(Code::kNotFound, HasSubstr("no private pool")));
  EXPECT_THAT(cache_->TryAllocate(100 * kMiB, kDefaultStream, "graph"),
              StatusIs(Code::kResourceExhausted, HasSubstr("private pool \"graph\"")));
}

TEST_F(PrivatePoolsTest, SnapshotsNameThePool) {
  void* const common = cache_->Allocate(1000);
  ASSERT_OK_AND_ASSIGN(void* const block, cache_->TryAllocate(1000, kDefaultStream, "graph"));
  const MemorySnapshot snapshot = cache_->Snapshot();
  ASSERT_EQ(snapshot.segments.size(), 2U);
  EXPECT_EQ(snapshot.segments[0].pool_id, 0);
  EXPECT_EQ(snapshot.segments[0].pool, "");
  EXPECT_EQ(snapshot.segments[1].pool_id, 1);
  EXPECT_EQ(snapshot.segments[1].pool, "graph");
  EXPECT_THAT(snapshot.ToJson(), HasSubstr("\"segment_pool_id\": [1, 0]"));
  cache_->Deallocate(common, 1000);
  cache_->Deallocate(block, 1000);
}

// Python's pickle.loads gives for these bytes
//   {'segments': [{'device': 1, 'address': 0x7f0000000000, 'total_size': 2097152, 'allocated_size': 512,
//     'active_size': 512, 'stream': 0, 'segment_type': 'small', 'segment_pool_id': (3, 0), 'is_expandable': False,
//     'frames': [], 'blocks': [
//       {'address': 0x7f0000000000, 'size': 512, 'requested_size': 100, 'state': 'active_allocated', 'frames': []},
//       {'address': 0x7f0000000200, 'size': 2096640, 'requested_size': 0, 'state': 'inactive', 'frames': []}]}],
//    'device_traces': [[], []]}
TEST(MemorySnapshotTest, ThePickleIsThatOfTheViewer) {
  MemorySnapshot snapshot;
  snapshot.device_index = 1;
  MemorySegment segment;
  segment.address = 0x7f0000000000;
  segment.bytes = 2097152;
  segment.allocated_bytes = 512;
  segment.active_bytes = 512;
  segment.pool_id = 3;
  segment.blocks = {{0x7f0000000000, 512, 100, MemoryBlock::State::kAllocated},
                    {0x7f0000000200, 2096640, 0, MemoryBlock::State::kInactive}};
  snapshot.segments = {segment};
  EXPECT_EQ(absl::BytesToHexString(snapshot.ToPickle()),
            "80027d58080000007365676d656e74735d7d58060000006465766963654b01735807000000616464726573738a080000"
            "0000007f000073580a000000746f74616c5f73697a654a0000200073580e000000616c6c6f63617465645f73697a654a"
            "0002000073580b0000006163746976655f73697a654a0002000073580600000073747265616d4b0073580c0000007365"
            "676d656e745f747970655805000000736d616c6c73580f0000007365676d656e745f706f6f6c5f69644b034b00867358"
            "0d00000069735f657870616e6461626c65897358060000006672616d65735d735806000000626c6f636b735d7d580700"
            "0000616464726573738a0800000000007f000073580400000073697a654a0002000073580e0000007265717565737465"
            "645f73697a654b64735805000000737461746558100000006163746976655f616c6c6f63617465647358060000006672"
            "616d65735d73617d5807000000616464726573738a0800020000007f000073580400000073697a654a00fe1f0073580e"
            "0000007265717565737465645f73697a654b0073580500000073746174655808000000696e6163746976657358060000"
            "006672616d65735d7361736173580d0000006465766963655f7472616365735d5d615d61732e");
}

}  // namespace
}  // namespace tensorcask
