// Tensors of a device as messages and through channels. The bytes are those of the host, and what arrives has the
// values that were sent.

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/gpu/gpu_device.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Counting;
using ::tensorcask::testing::GpuTest;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::kMiB;
using ::tensorcask::testing::MakePair;
using ::tensorcask::testing::Noise;
using ::tensorcask::testing::Pair;
using ::tensorcask::testing::Shared;

std::string Encoded(const TensorView& view, const EncodeOptions& options = {}) {
  const absl::StatusOr<uint64_t> size = EncodedSize(view, options);
  EXPECT_OK(size);
  std::string message(size.value_or(0), '\x55');
  EXPECT_OK(EncodeTensorTo(view, options, absl::MakeSpan(&message[0], message.size())));
  return message;
}

// Whole tensors and views of them: small, of several pieces, with gaps, in another order.
std::vector<TensorView> Views() {
  const Tensor small = Counting(DType::kFloat32, TensorShape({3, 4}));
  const Tensor large = Counting(DType::kInt32, TensorShape({1200, 1000}));
  return {small,
          TensorView(small).Transpose(0, 1).value(),
          TensorView(small).Slice(1, 0, 4, 2).value(),
          large,
          TensorView(large).Transpose(0, 1).value(),
          TensorView(large).Slice(1, 0, 1000, 3).value(),
          TensorView(large).Narrow(0, 100, 1000).value(),
          Counting(DType::kBool, TensorShape({1000})),
          Counting(DType::kBfloat16, TensorShape({0, 5})),
          Noise(5 * kMiB + 1)};
}

class MessagesTest : public GpuTest {
 protected:
  // The view on the device that has the strides of `host`.
  TensorView SameOnDevice(const TensorView& host) const {
    if (host.num_elements() == 0) return host;
    const auto elements = static_cast<int64_t>(host.buffer()->size_bytes() / host.element_size());
    const TensorView dense =
        TensorView::Create(host.buffer(), host.dtype(), Layout::RowMajor(TensorShape({elements}))).value();
    return TensorView::Create(Upload(dense).buffer(), host.dtype(), host.layout()).value();
  }
  DecodeOptions ToDevice() const {
    DecodeOptions options;
    options.allocator = cache();
    return options;
  }
  void ExpectOnDevice(const TensorView& found, const TensorView& wanted) const {
    EXPECT_EQ(found.device(), wanted.num_elements() == 0 ? Device() : backend().device());
    EXPECT_TRUE(Equal(OnHost(found), wanted));
  }
};
CASK_ON_EACH_DEVICE(MessagesTest);

TEST_P(MessagesTest, TheBytesAreThoseOfTheHostAndComeBack) {
  for (const TensorView& host : Views()) {
    SCOPED_TRACE(host.ToString());
    const TensorView there = SameOnDevice(host);
    for (const bool preserve : {false, true}) {
      EncodeOptions options;
      options.layout = preserve ? StoredLayout::kPreserve : StoredLayout::kRowMajor;
      options.checksum = preserve;
      const std::string message = Encoded(there, options);
      EXPECT_TRUE(message == Encoded(host, options));
      ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeSerializedTensorWithMetadata(message, ToDevice()));
      ExpectOnDevice(decoded.view, host);
      if (preserve) continue;
      ASSERT_OK_AND_ASSIGN(const Tensor plain, DecodeSerializedTensor(message, ToDevice()));
      ExpectOnDevice(plain, host);
      ASSERT_OK_AND_ASSIGN(const DecodedTensor cord, DecodeTensorFromCord(absl::Cord(message), ToDevice()));
      ExpectOnDevice(cord.view, host);
    }
  }
}

TEST_P(MessagesTest, CompressedPayloads) {
  const Tensor large = Counting(DType::kInt32, TensorShape({1500, 1000}));
  for (const TensorView& host : {TensorView(large), TensorView(large).Slice(0, 3, 1400, 7).value()}) {
    const TensorView there = SameOnDevice(host);
    for (const int threads : {1, 3}) {
      EncodeOptions options;
      options.payload.level = PayloadLevel::kDefault;
      options.num_threads = threads;
      const std::string message = Encoded(there, options);
      EXPECT_LT(message.size(), static_cast<size_t>(host.num_elements()) * 2);
      EXPECT_TRUE(message == Encoded(host, options));
      DecodeOptions decode = ToDevice();
      decode.num_threads = threads;
      ASSERT_OK_AND_ASSIGN(const Tensor decoded, DecodeSerializedTensor(message, decode));
      ExpectOnDevice(decoded, host);
    }
  }
}

TEST_P(MessagesTest, DecodesIntoAViewOfTheDevice) {
  const Tensor host = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  const TensorView whole = Upload(Tensor::FromValues<float>({{9, 9}, {9, 9}, {9, 9}, {9, 9}}));
  TensorView out = whole.Narrow(0, 1, 3)->Transpose(0, 1).value();
  ASSERT_OK(DecodeTensorInto(Encoded(host), {}, &out));
  EXPECT_TRUE(Equal(OnHost(whole), Tensor::FromValues<float>({{9, 9}, {1, 4}, {2, 5}, {3, 6}})));
}

// The encoder reads what the device's stream writes before it.
TEST_P(MessagesTest, PendingWorkIsInTheMessage) {
  const Tensor tensor = Tensor::Create(DType::kUint8, TensorShape({int64_t{8} << 20}), cache()).value();
  void* const data = tensor.buffer()->MutableDeviceData().value();
  for (const uint8_t value : {uint8_t{1}, uint8_t{2}, uint8_t{3}}) {
    ASSERT_OK(backend().Fill(data, value, 8 * kMiB, kDefaultStream));
    ASSERT_OK_AND_ASSIGN(const Tensor decoded, DecodeSerializedTensor(Encoded(tensor)));
    EXPECT_EQ(decoded.data<uint8_t>()[0], value);
    EXPECT_EQ(decoded.data<uint8_t>()[8 * kMiB - 1], value);
  }
}

TEST_P(MessagesTest, ChannelsFromDeviceToDevice) {
  ChannelOptions options;
  options.decode.allocator = cache();
  for (const bool checksum : {false, true}) {
    options.checksum = checksum;
    Pair pair = MakePair(options);
    for (const TensorView& host : Views()) {
      SCOPED_TRACE(host.ToString());
      TensorMetadata metadata;
      metadata.name = "w";
      const TensorView there = SameOnDevice(host);
      // In a thread: with checksums the elements travel through the socket, which holds less.
      std::thread sender([&] { EXPECT_OK(pair.a.SendTensor(there, metadata, kLong)); });
      const absl::StatusOr<DecodedTensor> arrived = pair.b.ReceiveTensor(kLong);
      sender.join();
      ASSERT_OK(arrived);
      const DecodedTensor& received = *arrived;
      EXPECT_EQ(received.metadata.name, "w");
      ExpectOnDevice(received.view, host);
    }
  }
}

TEST_P(MessagesTest, SharedMemoryArrivesOnTheDeviceAndTheDeviceInTheHost) {
  ChannelOptions options;
  options.decode.allocator = cache();
  Pair to_device = MakePair(options);
  const Tensor host = Counting(TensorShape({1000, 300}), Shared());
  ASSERT_OK(to_device.a.SendTensor(host, {}, kLong));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor received, to_device.b.ReceiveTensor(kLong));
  ExpectOnDevice(received.view, host);
  Pair to_host = MakePair();
  ASSERT_OK(to_host.a.SendTensor(received.view, {}, kLong));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor back, to_host.b.ReceiveTensor(kLong));
  EXPECT_EQ(back.view.device(), Device());
  EXPECT_TRUE(Equal(back.view, host));
}

}  // namespace
}  // namespace tensorcask
