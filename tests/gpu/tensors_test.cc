// Tensors on a device: copies from and to the host, of all dtypes, strides and sizes, and copy on write.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/gpu/gpu_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Counting;
using ::tensorcask::testing::GpuTest;
using ::tensorcask::testing::kMiB;
using ::tensorcask::testing::Noise;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Values;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

const DType kAllDTypes[] = {
#define CASK_DTYPE(id, number, T, name) DType::id,
    CASK_FIXED_SIZE_DTYPES(CASK_DTYPE)
#undef CASK_DTYPE
};

std::vector<TensorView> ViewsOf(const TensorView& whole) {  // whole: [4,6]
  return {
      whole,
      whole.Transpose(0, 1).value(),
      whole.Flip({0, 1}).value(),
      whole.Slice(1, 1, 6, 2).value(),
      whole.Select(1, 2).value(),
      whole.Narrow(0, 1, 2).value(),
      whole.Narrow(0, 1, 1)->Expand({3, 6}).value(),
  };
}

class TensorsTest : public GpuTest {
 protected:
  void RoundTrip(size_t bytes) {
    SCOPED_TRACE(bytes);
    const Tensor host = Noise(bytes, bytes);
    const TensorView there = Upload(host);
    ASSERT_EQ(there.device(), backend().device());
    EXPECT_TRUE(Equal(OnHost(there), host));
    // In pieces, and by one copy that the caller waits for.
    std::string read;
    ASSERT_OK(there.buffer()->device_memory()->Read(there.buffer()->device_data(), bytes, [&](absl::string_view piece) {
      read.append(piece.data(), piece.size());
      return absl::OkStatus();
    }));
    EXPECT_TRUE(read == host.buffer()->bytes());
    ASSERT_OK_AND_ASSIGN(const RefPtr<PendingRead> pending,
                         there.buffer()->device_memory()->BeginRead(there.buffer()->device_data(), bytes));
    ASSERT_OK(pending->Wait());
    EXPECT_TRUE(pending->buffer()->bytes().substr(0, bytes) == host.buffer()->bytes());
  }
};
CASK_ON_EACH_DEVICE(TensorsTest);

class TensorsLargeTest : public TensorsTest {};
CASK_ON_EACH_DEVICE(TensorsLargeTest);

TEST_P(TensorsTest, AllDTypesAndStrides) {
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(DTypeName(dtype));
    const Tensor host = Counting(dtype, TensorShape({4, 6}));
    const TensorView there = Upload(host);
    EXPECT_EQ(there.device(), backend().device());
    for (const TensorView& view : ViewsOf(host)) {
      SCOPED_TRACE(view.ToString());
      EXPECT_TRUE(Equal(OnHost(Upload(view)), view)) << "a strided view of the host";
      const TensorView part = TensorView::Create(there.buffer(), dtype, view.layout()).value();
      EXPECT_TRUE(Equal(OnHost(part), view)) << "a strided view of the device";
    }
  }
}

TEST_P(TensorsTest, CopiesIntoStridedViews) {
  const Tensor numbers = Counting(TensorShape({4, 6}));
  for (const TensorView& to : ViewsOf(Counting(TensorShape({4, 6})))) {
    if (!to.CheckWritable().ok()) continue;  // two indices name one element
    SCOPED_TRACE(to.ToString());
    const TensorView from = TensorView(numbers).Flip({0}).value();
    std::vector<int64_t> dims(to.dims().begin(), to.dims().end());
    const Tensor values = Counting(TensorShape(TensorShape::Create(dims).value()));
    // From the host to the device.
    const TensorView zeros = Upload(Tensor::Zeros(DType::kInt32, TensorShape({4, 6})).value());
    TensorView there = TensorView::Create(zeros.buffer(), DType::kInt32, to.layout()).value();
    ASSERT_OK(CopyAcross(values, &there));
    ASSERT_OK(backend().Synchronize(kDefaultStream));
    EXPECT_TRUE(Equal(OnHost(there), values));
    int64_t sum = 0;
    for (const int32_t element : Values<int32_t>(OnHost(zeros))) sum += element;
    EXPECT_EQ(sum, values.num_elements() * (values.num_elements() - 1) / 2) << "elements between keep their zeros";
    // From the device to the host.
    Tensor back = Tensor::Zeros(DType::kInt32, TensorShape({4, 6})).value();
    TensorView target = TensorView::Create(back.buffer(), DType::kInt32, to.layout()).value();
    ASSERT_OK(CopyAcross(there, &target));
    ASSERT_OK(backend().Synchronize(kDefaultStream));
    EXPECT_TRUE(Equal(target, values));
  }
}

TEST_P(TensorsTest, SizesAroundThoseOfThePieces) {
  for (const size_t middle : {size_t{1}, kMiB / 4, kMiB / 2, kMiB, 4 * kMiB, 8 * kMiB, 16 * kMiB}) {
    for (const size_t bytes : {middle - 1, middle, middle + 1}) {
      if (bytes > 0) RoundTrip(bytes);
    }
  }
  RoundTrip(4321);
  EXPECT_EQ(cache()->pinned()->counters().used_bytes, 0U);
}

TEST_P(TensorsLargeTest, SizesOfManyPieces) {
  for (const size_t bytes : {33 * kMiB + 12345, 64 * kMiB - 1, 64 * kMiB, 64 * kMiB + 3}) RoundTrip(bytes);
}

TEST_P(TensorsTest, WritesInPiecesThatTheCallerFills) {
  const Tensor host = Noise(9 * kMiB + 77);
  const Tensor there = Tensor::Create(DType::kUint8, host.shape(), cache()).value();
  absl::string_view rest = host.buffer()->bytes();
  ASSERT_OK(there.buffer()->device_memory()->Write(there.buffer()->MutableDeviceData().value(), rest.size(),
                                                   [&](absl::Span<char> piece) {
                                                     std::memcpy(piece.data(), rest.data(), piece.size());
                                                     rest.remove_prefix(piece.size());
                                                     return absl::OkStatus();
                                                   }));
  EXPECT_TRUE(rest.empty());
  EXPECT_TRUE(Equal(OnHost(there), host));
}

TEST_P(TensorsTest, AnErrorOfTheCallerEndsACopy) {
  const TensorView there = Upload(Noise(9 * kMiB));
  int pieces = 0;
  EXPECT_THAT(there.buffer()->device_memory()->Read(
                  there.buffer()->device_data(), 9 * kMiB,
                  [&](absl::string_view) { return ++pieces == 3 ? absl::AbortedError("enough") : absl::OkStatus(); }),
              StatusIs(Code::kAborted, HasSubstr("enough")));
  EXPECT_EQ(pieces, 3);
  EXPECT_TRUE(Equal(OnHost(there), Noise(9 * kMiB)));
}

TEST_P(TensorsTest, ZerosAndSlices) {
  const Tensor tensor = Tensor::Zeros(DType::kInt16, TensorShape({100, 33}), cache()).value();
  EXPECT_THAT(Values<int16_t>(OnHost(tensor)), Each(0));
  const TensorView numbers = Upload(Counting(DType::kInt16, TensorShape({100, 33})));
  const Tensor rows = numbers.ToTensor()->Slice(7, 9).value();
  EXPECT_EQ(rows.device(), backend().device());
  EXPECT_TRUE(Equal(OnHost(rows), Counting(DType::kInt16, TensorShape({100, 33})).Slice(7, 9).value()));
}

TEST_P(TensorsTest, LazyClonesAreCopiedAtTheFirstWrite) {
  const Tensor host = Counting(DType::kUint8, TensorShape({100}));
  const Tensor tensor = Upload(host).ToTensor().value();
  const Tensor clone = tensor.LazyClone().value();
  EXPECT_EQ(clone.buffer()->device_data(), tensor.buffer()->device_data());
  EXPECT_FALSE(clone.buffer()->IsWritableInPlace());
  ASSERT_OK_AND_ASSIGN(void* const written, clone.buffer()->MutableDeviceData());
  EXPECT_NE(written, tensor.buffer()->device_data());
  ASSERT_OK(backend().Fill(written, 9, 50, kDefaultStream));
  EXPECT_TRUE(Equal(OnHost(tensor), host));
  const Tensor changed = OnHost(clone);
  EXPECT_THAT(Values<uint8_t>(*changed.Slice(0, 50)), Each(9));
  EXPECT_TRUE(Equal(changed.Slice(50, 100).value(), host.Slice(50, 100).value()));
  EXPECT_EQ(tensor.buffer()->MutableDeviceData().value(), tensor.buffer()->device_data()) << "the last one";
}

TEST_P(TensorsTest, CopyAcrossIsWorkOfTheStream) {
  const StreamId stream = NewStream();
  const Tensor host = Tensor::Create(DType::kUint8, TensorShape({1000}), cache()->pinned()).value();
  const Tensor back = Tensor::Create(DType::kUint8, TensorShape({1000}), cache()->pinned()).value();
  std::memset(host.buffer()->mutable_data(), 4, 1000);
  std::memset(back.buffer()->mutable_data(), 0, 1000);
  TensorView there = Tensor::Create(DType::kUint8, TensorShape({1000}), cache()).value();
  TensorView target = back;
  Hold(stream);
  ASSERT_OK(CopyAcross(host, &there, stream));
  ASSERT_OK(CopyAcross(there, &target, stream));
  EXPECT_EQ(back.data<uint8_t>()[999], 0) << "not yet copied";
  Release(stream);
  EXPECT_THAT(Values<uint8_t>(back), Each(4));
}

// Memory of the host stays until copies from it and to it are done, though the tensors are gone.
TEST_P(TensorsTest, TensorsOfTheHostMayBeDestroyedBeforeTheCopyIsDone) {
  const StreamId stream = NewStream();
  const RefPtr<PinnedAllocator>& pinned = cache()->pinned();
  const auto make = [&] { return Tensor::Create(DType::kUint8, TensorShape({5000}), pinned).value(); };
  TensorView there = Tensor::Create(DType::kUint8, TensorShape({5000}), cache()).value();
  const void* source = nullptr;
  const void* target_address = nullptr;
  {
    // Blocks for all, so that nothing is pinned while the stream is held.
    std::vector<Tensor> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(make());
    Tensor from = make();
    Tensor to = make();
    std::memset(from.mutable_data<uint8_t>(), 6, 5000);
    source = from.data<uint8_t>();
    target_address = to.data<uint8_t>();
    TensorView target = to;
    Hold(stream);
    ASSERT_OK(CopyAcross(from, &there, stream));
    ASSERT_OK(CopyAcross(there, &target, stream));
  }
  EXPECT_EQ(pinned->counters().used_bytes, 2 * 8192U) << "those of both copies";
  std::vector<Tensor> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(make());
    EXPECT_NE(others.back().data<uint8_t>(), source);
    EXPECT_NE(others.back().data<uint8_t>(), target_address);
    std::memset(others.back().mutable_data<uint8_t>(), 1, 5000);
  }
  Release(stream);
  EXPECT_THAT(Bytes(there.buffer()->device_data(), 5000), Each(6));
  for (const Tensor& other : others) EXPECT_THAT(Values<uint8_t>(other), Each(1)) << "the late copy wrote elsewhere";
}

TEST_P(TensorsTest, ExternalMemoryOfTheHostIsReleasedAfterTheCopy) {
  const StreamId stream = NewStream();
  ASSERT_OK_AND_ASSIGN(void* const block, backend().AllocateHost(4096));
  std::memset(block, 3, 4096);
  bool released = false;
  TensorView there = Tensor::Create(DType::kUint8, TensorShape({4096}), cache()).value();
  Hold(stream);
  {
    TensorBuffer::External external;
    external.data = block;
    external.size_bytes = 4096;
    external.release = [&] { released = true; };
    const Tensor host =
        Tensor::FromBuffer(DType::kUint8, TensorShape({4096}), TensorBuffer::WrapExternal(std::move(external))).value();
    ASSERT_OK(CopyAcross(host, &there, stream));
  }
  EXPECT_FALSE(released);
  Release(stream);
  EXPECT_THAT(Bytes(there.buffer()->device_data(), 4096), Each(3));
  EXPECT_OK(To(Tensor::FromValues<uint8_t>({1}), cache())) << "the next copy finds that it is done";
  EXPECT_TRUE(released);
  ASSERT_OK(backend().FreeHost(block, 4096));
}

TEST_P(TensorsTest, BetweenTwoBackendsOfADevice) {
  const RefPtr<CachingAllocator> other = CachingAllocator::Make(OtherBackend());
  const Tensor host = Counting(TensorShape({300, 700}));
  const TensorView here = Upload(host);
  ASSERT_OK_AND_ASSIGN(const TensorView there, To(here.Transpose(0, 1).value(), other));
  EXPECT_EQ(there.device(), backend().device());
  EXPECT_TRUE(Equal(OnHost(there), TensorView(host).Transpose(0, 1).value()));
}

TEST_P(TensorsTest, WithinADevice) {
  const TensorView from = Upload(Counting(TensorShape({1000, 1000})));
  TensorView to = Tensor::Create(DType::kInt32, TensorShape({1000, 1000}), cache()).value();
  const StreamId stream = NewStream();
  ASSERT_OK(CopyAcross(from, &to, stream));
  ASSERT_OK(backend().Synchronize(stream));
  EXPECT_TRUE(Equal(OnHost(to), Counting(TensorShape({1000, 1000}))));
  TensorView late = from.Narrow(0, 1, 999).value();
  EXPECT_THAT(CopyAcross(from.Narrow(0, 0, 999).value(), &late),
              StatusIs(Code::kInvalidArgument, HasSubstr("overlap")));
}

TEST_P(TensorsTest, TheHostIsRefusedItsData) {
  const Tensor tensor = Tensor::Create(DType::kFloat32, TensorShape({2, 3}), cache()).value();
  const std::string name = backend().device().ToString();
  EXPECT_THAT(tensor.buffer()->CheckReadable(), StatusIs(Code::kFailedPrecondition, HasSubstr(name)));
  EXPECT_THAT(tensor.Clone(), StatusIs(Code::kFailedPrecondition, HasSubstr(name)));
  EXPECT_THAT(To(Tensor::FromValues<std::string>({"a"}), cache()),
              StatusIs(Code::kInvalidArgument, HasSubstr("objects")));
}

TEST_P(TensorsTest, ThreadsWithStreamsOfTheirOwn) {
  std::vector<std::thread> threads;
  std::vector<StreamId> streams;
  for (int t = 0; t < 4; ++t) streams.push_back(NewStream());
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const RefPtr<Allocator> allocator = CachingAllocator::OnStream(cache(), streams[static_cast<size_t>(t)]);
      for (int i = 0; i < 15; ++i) {
        const Tensor host =
            Noise(kMiB / 8 * static_cast<size_t>(1 + (i * 7 + t) % 16) + 3, static_cast<uint64_t>(100 * t + i + 1));
        const absl::StatusOr<TensorView> there = To(host, allocator);
        ASSERT_OK(there);
        const absl::StatusOr<TensorView> back = To(*there, CpuAllocator::Default());
        ASSERT_OK(back);
        EXPECT_TRUE(Equal(*back, host));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tensorcask
