// Tensors of a device through channels, on simulated devices.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/support/simulated_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Counting;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::MakePair;
using ::tensorcask::testing::OnHost;
using ::tensorcask::testing::Pair;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::SimulatedDevice;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

// Receives into memory of `device`.
ChannelOptions To(const SimulatedDevice& device) {
  ChannelOptions options;
  options.decode.allocator = device.cache;
  return options;
}

// Small: in the message. Large: through shared memory of the channel, as it is and gathered from a view with gaps.
std::vector<TensorView> AllWays() {
  const Tensor large = Counting(TensorShape({200, 1000}), CpuAllocator::Default());
  return {Counting(TensorShape({3, 4}), CpuAllocator::Default()), large, TensorView(large).Slice(1, 0, 1000, 3).value(),
          TensorView(large).Transpose(0, 1).value(), Tensor::FromValues<bool>({true, false, true})};
}

TEST(ChannelDevice, TensorsGoFromOneDeviceToAnother) {
  const SimulatedDevice from(0);
  const SimulatedDevice to(1);
  Pair pair = MakePair(To(to));
  for (const TensorView& host : AllWays()) {
    SCOPED_TRACE(host.ToString());
    // Views on the device keep the strides of those on the host.
    const TensorView dense =
        TensorView::Create(
            host.buffer(), host.dtype(),
            Layout::RowMajor(TensorShape({static_cast<int64_t>(host.buffer()->size_bytes() / host.element_size())})))
            .value();
    const TensorView sent = TensorView::Create(from.Upload(dense).buffer(), host.dtype(), host.layout()).value();
    TensorMetadata metadata;
    metadata.name = "w";
    ASSERT_OK(pair.a.SendTensor(sent, metadata, kLong));
    ASSERT_OK_AND_ASSIGN(const DecodedTensor received, pair.b.ReceiveTensor(kLong));
    EXPECT_EQ(received.view.device(), to.device->device());
    EXPECT_EQ(received.metadata.name, "w");
    EXPECT_TRUE(Equal(OnHost(received.view), host));
  }
}

TEST(ChannelDevice, SharedMemoryArrivesOnTheDevice) {
  const SimulatedDevice device(1);
  for (const bool copy_unsealed : {false, true}) {
    ChannelOptions options = To(device);
    options.copy_unsealed = copy_unsealed;
    Pair pair = MakePair(options);
    const Tensor host = Counting(TensorShape({100, 3}), Shared());
    ASSERT_OK(pair.a.SendTensor(host, {}, kLong));
    ASSERT_OK_AND_ASSIGN(const DecodedTensor received, pair.b.ReceiveTensor(kLong));
    EXPECT_EQ(received.view.device(), device.device->device());
    EXPECT_TRUE(Equal(OnHost(received.view), host));
  }
}

TEST(ChannelDevice, ChecksumsAreCheckedOnTheWay) {
  const SimulatedDevice device(1);
  ChannelOptions options = To(device);
  options.checksum = true;
  Pair pair = MakePair(options);
  const Tensor host = Counting(TensorShape({100, 100}), CpuAllocator::Default());
  ASSERT_OK(pair.a.SendTensor(device.Upload(host), {}, kLong));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor received, pair.b.ReceiveTensor(kLong));
  EXPECT_TRUE(Equal(OnHost(received.view), host));
}

TEST(ChannelDevice, StringsStayOnTheHost) {
  const SimulatedDevice device(1);
  Pair pair = MakePair(To(device));
  const Tensor host = Tensor::FromValues<std::string>({"a", "b"});
  ASSERT_OK(pair.a.SendTensor(host, {}, kLong));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor received, pair.b.ReceiveTensor(kLong));
  EXPECT_EQ(received.view.device(), Device());
  EXPECT_TRUE(Equal(received.view, host));
}

TEST(ChannelDevice, AFullDeviceIsAnErrorWithItsNumbers) {
  const SimulatedDevice device(1, /*memory_bytes=*/uint64_t{4} << 20);
  Pair pair = MakePair(To(device));
  ASSERT_OK(pair.a.SendTensor(Counting(TensorShape({3 << 20}), CpuAllocator::Default()), {}, kLong));
  EXPECT_THAT(pair.b.ReceiveTensor(kLong),
              StatusIs(Code::kResourceExhausted, AllOf(HasSubstr("tensor 0"), HasSubstr("ext_dev:1"))));
  EXPECT_EQ(device.cache->statistics().allocations.all.current, 0);
}

TEST(ChannelDevice, AFailedCopyFromTheDeviceIsReported) {
  const SimulatedDevice device(0);
  Pair pair = MakePair();
  const TensorView sent = device.Upload(Counting(TensorShape({200, 1000}), CpuAllocator::Default()));
  device.device->FailNext(Call::kCopy, 1);
  EXPECT_THAT(pair.a.SendTensor(sent, {}, kLong), StatusIs(Code::kInternal, HasSubstr("Copy")));
  ASSERT_OK(pair.a.SendTensor(sent, {}, kLong));
  EXPECT_OK(pair.b.ReceiveTensor(kLong));
}

}  // namespace
}  // namespace tensorcask
