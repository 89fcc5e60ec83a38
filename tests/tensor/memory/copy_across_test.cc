// Copies between devices and the host, on simulated devices.

#include "tensorcask/tensor/memory/copy_across.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/simulated_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::OnHost;
using ::tensorcask::testing::SimulatedDevice;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

RefPtr<SimulatedBackend> NewDevice(int32_t index) {
  SimulatedBackend::Options options;
  options.device = {DeviceType::kExtension, index};
  return SimulatedBackend::Create(options).value();
}

// 0, 1, 2, ...
Tensor Counting(const TensorShape& shape) {
  Tensor tensor = Tensor::Create(DType::kInt32, shape).value();
  std::iota(tensor.mutable_data<int32_t>(), tensor.mutable_data<int32_t>() + tensor.num_elements(), 0);
  return tensor;
}

class CopyAcrossTest : public ::testing::Test {
 protected:
  TensorView OnDevice(const TensorView& host) { return simulated_.Upload(host); }

  SimulatedDevice simulated_{0};
  const RefPtr<SimulatedBackend>& device_ = simulated_.device;
  RefPtr<CachingAllocator>& cache_ = simulated_.cache;
};

TEST_F(CopyAcrossTest, RoundTripsOfAllSizes) {
  // Pieces are 4 MiB: less than one, one, and several with a rest.
  for (const int64_t elements : {int64_t{1}, int64_t{1000}, int64_t{1} << 20, (int64_t{5} << 20) + 3}) {
    SCOPED_TRACE(elements);
    const Tensor host = Counting(TensorShape({elements}));
    const TensorView there = OnDevice(host);
    EXPECT_EQ(there.device(), device_->device());
    EXPECT_TRUE(Equal(OnHost(there), host));
  }
  EXPECT_EQ(cache_->pinned()->counters().used_bytes, 0U);
  EXPECT_LE(cache_->pinned()->counters().cached_bytes, uint64_t{16} << 20) << "two blocks of each size";
}

TEST_F(CopyAcrossTest, PiecesGrowAndShrink) {
  constexpr size_t kKiB = 1024;
  const auto pieces_of = [&](int64_t elements) {
    const TensorView view = OnDevice(Counting(TensorShape({elements})));
    std::vector<size_t> pieces;
    const int64_t before = device_->calls(Call::kCopy);
    EXPECT_OK(view.buffer()->device_memory()->Read(view.buffer()->device_data(), static_cast<size_t>(elements) * 4,
                                                   [&](absl::string_view piece) {
                                                     pieces.push_back(piece.size());
                                                     return absl::OkStatus();
                                                   }));
    EXPECT_EQ(device_->calls(Call::kCopy), before + static_cast<int64_t>(pieces.size()));
    return pieces;
  };
  EXPECT_THAT(pieces_of(10), ElementsAre(40));
  EXPECT_THAT(pieces_of(128 * kKiB), ElementsAre(256 * kKiB, 256 * kKiB));
  EXPECT_THAT(pieces_of(2048 * kKiB + 1),
              ElementsAre(256 * kKiB, 256 * kKiB, 512 * kKiB, 1024 * kKiB, 2048 * kKiB, 2048 * kKiB, 1024 * kKiB,
                          512 * kKiB, 256 * kKiB, 256 * kKiB + 4));
  EXPECT_THAT(pieces_of(5120 * kKiB), Contains(4096 * kKiB));
  EXPECT_THAT(pieces_of(5120 * kKiB), Each(Le(4096 * kKiB)));
}

TEST_F(CopyAcrossTest, ViewsOfAnyStrides) {
  const Tensor host = Counting(TensorShape({4, 6}));
  const std::vector<TensorView> views = {
      TensorView(host).Transpose(0, 1).value(), TensorView(host).Slice(1, 1, 6, 2).value(),
      TensorView(host).Flip({0, 1}).value(),    TensorView(host).Select(1, 2).value(),
      TensorView(host).Narrow(0, 1, 2).value(), TensorView(host).Narrow(0, 1, 1)->Expand({3, 6}).value(),
  };
  for (const TensorView& view : views) {
    SCOPED_TRACE(view.ToString());
    // From a strided view of the host.
    EXPECT_TRUE(Equal(OnHost(OnDevice(view)), view));
    // From a strided view of the device.
    const TensorView whole = OnDevice(host);
    const TensorView part = TensorView::Create(whole.buffer(), whole.dtype(), view.layout()).value();
    EXPECT_TRUE(Equal(OnHost(part), view));
  }
}

TEST_F(CopyAcrossTest, ElementsBetweenThoseOfTheTargetKeepTheirValues) {
  const TensorView whole = OnDevice(Counting(TensorShape({2, 3})));
  TensorView column = whole.Select(1, 1).value();
  ASSERT_OK(CopyAcross(Tensor::FromValues<int32_t>({70, 80}), &column));
  EXPECT_TRUE(Equal(OnHost(whole), Tensor::FromValues<int32_t>({{0, 70, 2}, {3, 80, 5}})));
}

TEST_F(CopyAcrossTest, ContiguousCopiesAreWorkOfTheStream) {
  const StreamId stream = device_->CreateStream().value();
  Tensor host = Tensor::FromValues<uint8_t>({1, 2, 3, 4});
  const Tensor there = Tensor::Zeros(DType::kUint8, TensorShape({4}), cache_).value();
  ASSERT_OK(device_->Synchronize(kDefaultStream));
  TensorView target = there;
  ASSERT_OK(CopyAcross(host, &target, stream));
  EXPECT_GT(device_->pending(stream), 0);
  EXPECT_EQ(device_->Peek(there.buffer()->device_data()), 0);
  device_->Complete(stream);
  EXPECT_EQ(device_->Peek(there.buffer()->device_data()), 1);
  ASSERT_OK(device_->DestroyStream(stream));
}

TEST_F(CopyAcrossTest, MemoryOfBothSidesLivesUntilTheCopyHasFinished) {
  const StreamId stream = device_->CreateStream().value();
  bool released = false;
  std::vector<uint8_t> bytes = {5, 6, 7, 8};
  const void* address = nullptr;
  {
    const Tensor there = Tensor::Create(DType::kUint8, TensorShape({4}), cache_).value();
    address = there.buffer()->device_data();
    const Tensor host =
        Tensor::FromExternal(DType::kUint8, TensorShape({4}), bytes.data(), 4, [&] { released = true; }).value();
    TensorView target = there;
    ASSERT_OK(CopyAcross(host, &target, stream));
  }
  EXPECT_FALSE(released);
  EXPECT_NE(Tensor::Create(DType::kUint8, TensorShape({4}), cache_)->buffer()->device_data(), address);
  device_->Complete(stream);
  // The next copy finds out.
  EXPECT_OK(To(Tensor::FromValues<uint8_t>({1}), cache_));
  EXPECT_TRUE(released);
  ASSERT_OK(device_->DestroyStream(stream));
}

TEST_F(CopyAcrossTest, OtherCopiesWaitForWorkOfTheStream) {
  const StreamId stream = device_->CreateStream().value();
  const TensorView there = OnDevice(Counting(TensorShape({2, 2})));
  ASSERT_OK(device_->Fill(there.buffer()->MutableDeviceData().value(), 0, 8, stream));
  Tensor out = Tensor::Create(DType::kInt32, TensorShape({2, 2})).value();
  TensorView target = out;
  ASSERT_OK(CopyAcross(there.Transpose(0, 1).value(), &target, stream));
  EXPECT_TRUE(Equal(out, Tensor::FromValues<int32_t>({{0, 2}, {0, 3}})));
  ASSERT_OK(device_->DestroyStream(stream));
}

TEST_F(CopyAcrossTest, WithinADevice) {
  const TensorView from = OnDevice(Counting(TensorShape({3})));
  TensorView to = OnDevice(Tensor::Zeros(DType::kInt32, TensorShape({3})).value());
  ASSERT_OK(CopyAcross(from, &to));
  EXPECT_TRUE(Equal(OnHost(to), Counting(TensorShape({3}))));
  const TensorView whole = OnDevice(Counting(TensorShape({4})));
  TensorView late = whole.Narrow(0, 1, 3).value();
  EXPECT_THAT(CopyAcross(whole.Narrow(0, 0, 3).value(), &late), StatusIs(Code::kInvalidArgument, HasSubstr("overlap")));
}

TEST_F(CopyAcrossTest, BetweenDevices) {
  const RefPtr<SimulatedBackend> other = NewDevice(1);
  const RefPtr<CachingAllocator> other_cache = CachingAllocator::Make(other);
  const TensorView here = OnDevice(Counting(TensorShape({2, 3})));
  const TensorView there = To(here, other_cache).value();
  EXPECT_EQ(there.device(), other->device());
  EXPECT_TRUE(Equal(OnHost(there), Counting(TensorShape({2, 3}))));
  TensorView back = here;
  ASSERT_OK(CopyAcross(OnDevice(Tensor::Zeros(DType::kInt32, TensorShape({2, 3})).value()), &back));
  ASSERT_OK(CopyAcross(there, &back));
  EXPECT_TRUE(Equal(OnHost(here), Counting(TensorShape({2, 3}))));
}

TEST_F(CopyAcrossTest, WhatIsThereAlreadyIsNotCopied) {
  const Tensor host = Counting(TensorShape({3}));
  EXPECT_TRUE(To(host, CpuAllocator::Default())->SharesBufferWith(host));
  const TensorView there = OnDevice(host);
  EXPECT_TRUE(To(there, CachingAllocator::OnStream(cache_, kDefaultStream))->SharesBufferWith(there));
  EXPECT_OK(To(Tensor::Create(DType::kFloat32, TensorShape({0})).value(), cache_));
}

TEST_F(CopyAcrossTest, Refusals) {
  const TensorView there = OnDevice(Counting(TensorShape({3})));
  Tensor wrong_dims = Counting(TensorShape({4}));
  TensorView target = wrong_dims;
  EXPECT_THAT(CopyAcross(there, &target), StatusIs(Code::kInvalidArgument, HasSubstr("int32 [4]")));
  Tensor host = Counting(TensorShape({1}));
  TensorView repeated = TensorView(host).Expand({3}).value();
  EXPECT_THAT(CopyAcross(there, &repeated), StatusIs(Code::kInvalidArgument, HasSubstr("several indices")));
  TensorView repeated_there = OnDevice(host).Expand({3}).value();
  const int64_t copies = device_->calls(Call::kCopy);
  EXPECT_THAT(CopyAcross(there, &repeated_there), StatusIs(Code::kInvalidArgument, HasSubstr("several indices")));
  EXPECT_EQ(device_->calls(Call::kCopy), copies) << "refused before anything is copied";
  Tensor right = Counting(TensorShape({3}));
  target = right;
  EXPECT_THAT(CopyAcross(there, &target, /*stream=*/77), StatusIs(Code::kInvalidArgument, HasSubstr("stream 77")));
  EXPECT_THAT(To(Tensor::FromValues<std::string>({"a"}), cache_),
              StatusIs(Code::kInvalidArgument, HasSubstr("objects")));
}

TEST_F(CopyAcrossTest, FailuresOfTheDeviceAreReported) {
  const Tensor host = Counting(TensorShape({3 << 20}));  // three pieces
  for (int64_t skip = 0; skip < 3; ++skip) {
    SCOPED_TRACE(skip);
    device_->FailNext(Call::kCopy, 1, skip, Code::kUnavailable);
    EXPECT_THAT(To(host, cache_), StatusIs(Code::kUnavailable, HasSubstr("Copy")));
    device_->FailNext(Call::kSynchronize, 1, skip, Code::kUnavailable);
    EXPECT_THAT(To(host, cache_), StatusIs(Code::kUnavailable, HasSubstr("Synchronize")));
    device_->FailNext(Call::kRecordEvent, 1, skip, Code::kUnavailable);
    EXPECT_THAT(To(host, cache_), StatusIs(Code::kUnavailable, HasSubstr("RecordEvent")));
  }
  device_->FailNext(Call::kAllocateHost, 2, 0, Code::kResourceExhausted);
  ASSERT_OK(cache_->pinned()->EmptyCache());
  EXPECT_THAT(To(host, cache_), StatusIs(Code::kResourceExhausted, HasSubstr("AllocateHost")));
  const TensorView there = OnDevice(host);
  for (const Call call : {Call::kCopy, Call::kSynchronize, Call::kRecordEvent}) {
    for (int64_t skip = 0; skip < 3; ++skip) {
      device_->FailNext(call, 1, skip, Code::kUnavailable);
      EXPECT_THAT(To(there, CpuAllocator::Default()), StatusIs(Code::kUnavailable, HasSubstr("simulated")));
    }
  }
  EXPECT_TRUE(Equal(OnHost(there), host));
}

TEST_F(CopyAcrossTest, ThreadsShareADevice) {
  std::vector<std::thread> threads;
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int32_t i = 0; i < 20; ++i) {
        const Tensor host = Counting(TensorShape({1000 + 100 * t + i}));
        EXPECT_TRUE(Equal(OnHost(OnDevice(host)), host));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tensorcask
