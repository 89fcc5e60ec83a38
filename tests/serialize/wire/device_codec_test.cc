// Tensors of a device as messages and back, on a simulated device: the bytes are those of the host.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/support/simulated_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::OnHost;
using ::tensorcask::testing::SimulatedDevice;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

std::string Encoded(const TensorView& view, const EncodeOptions& options = {}) {
  const absl::StatusOr<uint64_t> size = EncodedSize(view, options);
  EXPECT_OK(size);
  std::string message(*size, '\x55');
  EXPECT_OK(EncodeTensorTo(view, options, absl::MakeSpan(&message[0], message.size())));
  return message;
}

DecodeOptions To(const SimulatedDevice& device) {
  DecodeOptions options;
  options.allocator = device.cache;
  return options;
}

const Tensor kHost = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});

TEST(DeviceCodec, TheBytesAreThoseOfTheHost) {
  const SimulatedDevice device(0);
  const TensorView there = device.Upload(kHost);
  for (const StoredLayout layout : {StoredLayout::kRowMajor, StoredLayout::kPreserve}) {
    EncodeOptions options;
    options.layout = layout;
    options.checksum = layout == StoredLayout::kPreserve;
    EXPECT_EQ(Encoded(there, options), Encoded(kHost, options));
    EXPECT_EQ(Encoded(there.Transpose(0, 1).value(), options),
              Encoded(TensorView(kHost).Transpose(0, 1).value(), options));
    EXPECT_EQ(Encoded(there.Slice(1, 0, 3, 2).value(), options),
              Encoded(TensorView(kHost).Slice(1, 0, 3, 2).value(), options));
  }
  EncodeOptions values;
  values.representation = Representation::kValues;
  EXPECT_EQ(Encoded(there, values), Encoded(kHost, values));
  EXPECT_EQ(std::string(EncodeTensorToCord(there, {}, {}).value()), Encoded(kHost));
}

TEST(DeviceCodec, EachWayToDecodeEndsOnTheDevice) {
  const SimulatedDevice device(3);
  const std::string message = Encoded(kHost);
  std::vector<absl::StatusOr<TensorView>> decoded;
  const auto view_of = [](absl::StatusOr<DecodedTensor> tensor) -> absl::StatusOr<TensorView> {
    if (!tensor.ok()) return tensor.status();
    return tensor->view;
  };
  absl::Cord in_pieces;
  for (const char& byte : message) in_pieces.Append(absl::MakeCordFromExternal({&byte, 1}, [] {}));
  decoded.emplace_back(DecodeSerializedTensor(message, To(device)));
  decoded.push_back(view_of(DecodeSerializedTensorWithMetadata(message, To(device))));
  decoded.push_back(view_of(DecodeTensorInPlace(message, nullptr, To(device))));
  decoded.push_back(view_of(DecodeTensorFromCord(absl::Cord(message), To(device))));
  decoded.push_back(view_of(DecodeTensorFromCord(in_pieces, To(device))));
  for (size_t i = 0; i < decoded.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_OK(decoded[i]);
    EXPECT_EQ(decoded[i]->device(), device.device->device());
    EXPECT_TRUE(Equal(OnHost(*decoded[i]), kHost));
  }
}

TEST(DeviceCodec, DecodesIntoTensorsOfTheDevice) {
  const SimulatedDevice device(3);
  const TensorView whole = device.Upload(Tensor::FromValues<float>({{9, 9}, {9, 9}, {9, 9}, {9, 9}}));
  TensorView out = whole.Narrow(0, 1, 3)->Transpose(0, 1).value();
  ASSERT_OK(DecodeTensorInto(Encoded(kHost), {}, &out));
  EXPECT_TRUE(Equal(OnHost(whole), Tensor::FromValues<float>({{9, 9}, {1, 4}, {2, 5}, {3, 6}})));
}

TEST(DeviceCodec, StridesAreRestoredOnTheDevice) {
  const SimulatedDevice device(3);
  EncodeOptions options;
  options.layout = StoredLayout::kPreserve;
  const TensorView transposed = TensorView(kHost).Transpose(0, 1).value();
  ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded,
                       DecodeSerializedTensorWithMetadata(Encoded(transposed, options), To(device)));
  EXPECT_EQ(decoded.view.strides(), transposed.strides());
  EXPECT_TRUE(Equal(OnHost(decoded.view), transposed));
}

TEST(DeviceCodec, AVariantWithATensorOfADeviceIsRefused) {
  const SimulatedDevice device(0);
  Variant variant;
  variant.type_name = "t";
  variant.tensors.push_back(device.Upload(kHost).ToTensor().value());
  EXPECT_THAT(EncodedSize(Tensor::FromValues<Variant>({variant}), EncodeOptions()),
              StatusIs(Code::kFailedPrecondition, HasSubstr("ext_dev:0")));
}

TEST(DeviceCodec, APartWithoutElementsIsEncoded) {
  const SimulatedDevice device(0);
  EXPECT_EQ(Encoded(device.Upload(kHost).Narrow(0, 1, 0).value()), Encoded(TensorView(kHost).Narrow(0, 1, 0).value()));
}

TEST(DeviceCodec, StringsStayOnTheHost) {
  const SimulatedDevice device(3);
  const Tensor strings = Tensor::FromValues<std::string>({"a", "bc"});
  ASSERT_OK_AND_ASSIGN(const Tensor decoded, DecodeSerializedTensor(Encoded(strings), To(device)));
  EXPECT_EQ(decoded.device(), Device());
  EXPECT_TRUE(Equal(decoded, strings));
}

TEST(DeviceCodec, FailuresOfTheDeviceAreReported) {
  const SimulatedDevice device(0);
  const TensorView there = device.Upload(kHost);
  device.device->FailNext(Call::kCopy, 1);
  EXPECT_THAT(EncodedSize(there, EncodeOptions()), StatusIs(Code::kInternal, HasSubstr("Copy")));
  device.device->FailNext(Call::kCopy, 1);
  EXPECT_THAT(DecodeSerializedTensor(Encoded(kHost), To(device)), StatusIs(Code::kInternal, HasSubstr("Copy")));
  const SimulatedDevice small(1, /*memory_bytes=*/uint64_t{4} << 20);
  const Tensor large = Tensor::Zeros(DType::kFloat32, TensorShape({2 << 20})).value();
  EXPECT_THAT(DecodeSerializedTensor(Encoded(large), To(small)),
              StatusIs(Code::kResourceExhausted, HasSubstr("ext_dev:1")));
}

}  // namespace
}  // namespace tensorcask
