// A device without memory: requests fail with numbers, and everything stays usable.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/gpu/gpu_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AllAre;
using ::tensorcask::testing::Counting;
using ::tensorcask::testing::GpuTest;
using ::tensorcask::testing::kMiB;
using ::tensorcask::testing::Noise;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class OutOfMemoryLargeTest : public GpuTest {
 protected:
  void TearDown() override {
    FreeAll();
    GpuTest::TearDown();
  }

  // Takes memory of the device, in few blocks, until `rest` bytes are left, or less than the smallest block.
  void TakeAllBut(size_t rest) {
    constexpr size_t kLeast = 2 * kMiB;
    size_t bytes = size_t{16} << 30;
    while (bytes >= kLeast) {
      const uint64_t free_bytes = FreeBytes();
      if (free_bytes < rest + kLeast) break;
      bytes = std::min(bytes, (free_bytes - rest) / kLeast * kLeast);
      const absl::StatusOr<void*> block = backend().Allocate(bytes);
      if (block.ok()) {
        taken_.emplace_back(*block, bytes);
        continue;
      }
      ASSERT_THAT(block, StatusIs(Code::kResourceExhausted, HasSubstr(std::to_string(bytes))));
      bytes /= 2;  // the free bytes do not lie together
    }
    ASSERT_FALSE(taken_.empty());
  }
  void FreeAll() {
    for (const auto& [block, bytes] : taken_) EXPECT_OK(backend().Free(block, bytes));
    taken_.clear();
  }
  // Copies, streams and the cache work.
  void ExpectUsable(size_t bytes) {
    const Tensor host = Noise(bytes, bytes);
    ASSERT_OK_AND_ASSIGN(const TensorView there, To(host, cache()));
    EXPECT_TRUE(Equal(OnHost(there), host));
    DLPackImportOptions import;
    import.allocator = cache();
    ASSERT_OK_AND_ASSIGN(DLPackPtr exported, ToDLPack(there));
    ASSERT_OK_AND_ASSIGN(const TensorView again, FromDLPack(exported.release(), import));
    EXPECT_TRUE(Equal(OnHost(again), host));
  }

 private:
  std::vector<std::pair<void*, size_t>> taken_;
};
CASK_ON_EACH_DEVICE(OutOfMemoryLargeTest);

TEST_P(OutOfMemoryLargeTest, NearTheLimitARequestFailsAndEverythingStaysUsable) {
  // 96 MiB in tensors of 24 MiB.
  const Tensor host = Counting(TensorShape({int64_t{6} << 20}));
  MemoryFileSystem files;
  CheckpointWriterOptions writing;
  writing.file_system = &files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("m", writing));
  for (const char* const name : {"a", "b", "c", "d"}) ASSERT_OK(writer.Add(name, host));
  ASSERT_OK(writer.Finish());
  CheckpointReaderOptions reading;
  reading.read.file_system = &files;
  reading.allocator = cache();
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("m", reading));

  ASSERT_NO_FATAL_FAILURE(TakeAllBut(64 * kMiB));
  ASSERT_OK_AND_ASSIGN(const DeviceMemoryInfo info, backend().MemoryInfo());
  ASSERT_LE(info.free_bytes, 68 * kMiB);
  EXPECT_THAT(cache()->TryAllocate(200 * kMiB),
              StatusIs(Code::kResourceExhausted,
                       AllOf(HasSubstr(backend().device().ToString() + ": no memory for 209715200 bytes"),
                             HasSubstr("of " + std::to_string(info.total_bytes) + " bytes of the device are free"),
                             HasSubstr("this allocator has reserved 0"))));
  EXPECT_EQ(cache()->statistics().ooms, 1);
  ExpectUsable(10 * kMiB);

  // A load that does not fit gives back what it had taken.
  EXPECT_THAT(reader.ReadAll(),
              StatusIs(Code::kResourceExhausted, AllOf(HasSubstr("tensor \""), HasSubstr("no memory for 25165824"),
                                                       HasSubstr("bytes of the device are free"))));
  EXPECT_EQ(cache()->statistics().allocations.all.current, 0);
  ASSERT_OK(cache()->EmptyCache());
  {
    ASSERT_OK_AND_ASSIGN(const Tensor loaded, reader.Read("d"));
    EXPECT_EQ(loaded.device(), backend().device());
    EXPECT_TRUE(Equal(OnHost(loaded), host));
    ExpectUsable(8 * kMiB);
  }
  ASSERT_OK(cache()->EmptyCache());
  ExpectUsable(16 * kMiB);

  FreeAll();
  EXPECT_EQ(reader.ReadAll()->size(), 4U);
  ASSERT_OK_AND_ASSIGN(void* const block, cache()->TryAllocate(200 * kMiB));
  cache()->Deallocate(block, 200 * kMiB);
}

TEST_P(OutOfMemoryLargeTest, CachedMemoryIsReleasedBeforeARequestFails) {
  ASSERT_NO_FATAL_FAILURE(TakeAllBut(64 * kMiB));
  char* const held = static_cast<char*>(cache()->TryAllocate(1000).value());
  ASSERT_OK(backend().Fill(held, 5, 1000, kDefaultStream));
  // 2 + 20 + 20 MiB are cached then; 50 MiB are only free without them.
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(cache()->TryAllocate(9 * kMiB).value());
  for (void* const block : blocks) cache()->Deallocate(block, 9 * kMiB);
  ASSERT_OK_AND_ASSIGN(void* const large, cache()->TryAllocate(44 * kMiB));
  EXPECT_GT(cache()->statistics().alloc_retries, 0);
  EXPECT_THAT(Bytes(held, 1000), Each(5));
  cache()->Deallocate(large, 44 * kMiB);
  cache()->Deallocate(held, 1000);
}

// The driver needs some memory itself: it may refuse streams, events and copies then.
TEST_P(OutOfMemoryLargeTest, WithoutAnyMemoryCallsFailOrWorkButDoNotBreak) {
  const Tensor host = Noise(5 * kMiB);
  const TensorView there = Upload(host);
  ASSERT_NO_FATAL_FAILURE(TakeAllBut(0));
  EXPECT_THAT(cache()->TryAllocate(40 * kMiB), StatusIs(Code::kResourceExhausted));
  for (int i = 0; i < 20; ++i) {
    const absl::StatusOr<StreamId> stream = backend().CreateStream();
    if (!stream.ok()) {
      EXPECT_THAT(stream, StatusIs(Code::kResourceExhausted));
      continue;
    }
    const absl::StatusOr<EventId> event = backend().RecordEvent(*stream);
    if (event.ok()) backend().DestroyEvent(*event);
    EXPECT_OK(backend().DestroyStream(*stream));
  }
  const absl::StatusOr<TensorView> back = To(there, CpuAllocator::Default());
  if (back.ok()) {
    EXPECT_TRUE(Equal(*back, host));
  } else {
    EXPECT_THAT(back, StatusIs(Code::kResourceExhausted));
  }
  FreeAll();
  EXPECT_TRUE(Equal(OnHost(there), host));
  TensorView target = there;
  ASSERT_OK(CopyAcross(Noise(5 * kMiB, 2), &target));
  EXPECT_TRUE(Equal(OnHost(there), Noise(5 * kMiB, 2)));
  ExpectUsable(100 * kMiB);
}

TEST_P(OutOfMemoryLargeTest, AnExpandableSegmentKeepsWhatWasMapped) {
  if (backend().MappingGranularity() == 0) GTEST_SKIP() << "the device has no virtual memory";
  const RefPtr<CachingAllocator> segments =
      CachingAllocator::Make(device(), CachingOptions::Parse("expandable_segments:True").value());
  char* const held = static_cast<char*>(segments->TryAllocate(8 * kMiB).value());
  ASSERT_OK(backend().Fill(held, 5, 8 * kMiB, kDefaultStream));
  ASSERT_NO_FATAL_FAILURE(TakeAllBut(64 * kMiB));
  EXPECT_THAT(segments->TryAllocate(200 * kMiB),
              StatusIs(Code::kResourceExhausted, HasSubstr("no memory for 209715200 bytes")));
  EXPECT_TRUE(AllAre(Bytes(held, 8 * kMiB), 5));
  ASSERT_OK_AND_ASSIGN(void* const block, segments->TryAllocate(45 * kMiB));
  EXPECT_EQ(block, held + 8 * kMiB);
  ASSERT_OK(backend().Fill(block, 6, 45 * kMiB, kDefaultStream));
  EXPECT_THAT(Bytes(held + 8 * kMiB - 10, 10), Each(5));
  EXPECT_THAT(Bytes(held + 53 * kMiB - 10, 10), Each(6));
  segments->Deallocate(block, 45 * kMiB);
  ASSERT_OK(segments->EmptyCache());
  EXPECT_EQ(segments->statistics().reserved_bytes.all.current, static_cast<int64_t>(20 * kMiB));
  FreeAll();
  ASSERT_OK_AND_ASSIGN(void* const large, segments->TryAllocate(200 * kMiB));
  segments->Deallocate(large, 200 * kMiB);
  segments->Deallocate(held, 8 * kMiB);
}

}  // namespace
}  // namespace tensorcask
