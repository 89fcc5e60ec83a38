// Message classes of other projects: the bytes are those of our own, and each side reads the other's.

#include "tensorcask/serialize/wire/tensor_message.h"

#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tests/serialize/wire/foreign_tensor.pb.h"
#include "tensorcask/tests/serialize/wire/quiet_protobuf.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::Difference;
using testing::EncodeToString;
using testing::FromText;
using ::testing::HasSubstr;
using testing::OwnDTypes;
using testing::PlainDTypes;
using testing::RandomShape;
using testing::RandomTensor;
using testing::StatusIs;
using Code = absl::StatusCode;
using Foreign = testing::foreign::TensorProto;

TensorMetadata SomeMetadata() {
  TensorMetadata metadata;
  metadata.name = "w\xff";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.attributes = {{"a", "1"}, {"b", ""}};
  return metadata;
}

class MessageOfEveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Plain, MessageOfEveryDType, ::testing::ValuesIn(PlainDTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });
INSTANTIATE_TEST_SUITE_P(Own, MessageOfEveryDType, ::testing::ValuesIn(OwnDTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST_P(MessageOfEveryDType, RoundTripsWithTheSameBytes) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  for (int round = 0; round < 40; ++round) {
    const Tensor tensor = RandomTensor(GetParam(), RandomShape(&random), &random);
    const TensorView whole(tensor);
    const TensorView view = tensor.rank() >= 2 ? *whole.Transpose(0, 1) : whole;
    EncodeOptions options;
    options.representation = random() % 2 == 0 ? Representation::kContent : Representation::kValues;
    options.checksum = random() % 2 == 0;
    options.layout = random() % 2 == 0 ? StoredLayout::kRowMajor : StoredLayout::kPreserve;
    const TensorMetadata metadata = random() % 2 == 0 ? SomeMetadata() : TensorMetadata();
    SCOPED_TRACE(absl::StrCat(view.ToString(), " ", metadata.ToString()));
    Foreign foreign;
    ASSERT_OK(EncodeTensor(view, metadata, options, &foreign));
    TensorProto ours;
    ASSERT_OK(EncodeTensor(view, metadata, options, &ours));
    ASSERT_EQ(foreign.SerializeAsString(), ours.SerializeAsString());
    Foreign parsed;
    ASSERT_TRUE(parsed.ParseFromString(ours.SerializeAsString()));
    for (const Foreign& message : {foreign, parsed}) {
      ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeTensorWithMetadata(message));
      EXPECT_EQ(decoded.metadata, metadata);
      EXPECT_EQ(decoded.view.layout(), DecodeTensorWithMetadata(ours)->view.layout());
      EXPECT_EQ(Difference(*decoded.view.ToTensor(), *view.ToTensor()), "");
      ASSERT_OK_AND_ASSIGN(const Tensor elements, DecodeTensor(message));
      EXPECT_EQ(Difference(elements, *view.ToTensor()), "");
    }
  }
}

TEST(TensorMessage, WithoutMetadata) {
  Foreign foreign;
  foreign.set_version_number(3);
  ASSERT_OK(EncodeTensor(Tensor::FromValues<float>({1, 2}), {}, &foreign));
  // Not the text of the message, which newer versions of protobuf begin with a word of their own.
  EXPECT_EQ(foreign.SerializeAsString(), testing::VarintField(1, DT_FLOAT) + testing::ShapeField({2}) +
                                             testing::BytesField(4, std::string("\0\0\x80?\0\0\0@", 8)));
}

TEST(TensorMessage, IsEmptyAfterAnError) {
  TensorMetadata metadata;
  metadata.requires_grad = true;
  Foreign foreign;
  foreign.set_version_number(3);
  EXPECT_THAT(EncodeTensor(Tensor::FromValues<int>({1}), metadata, {}, &foreign),
              StatusIs(Code::kInvalidArgument, HasSubstr("requires_grad")));
  EXPECT_EQ(foreign.ByteSizeLong(), 0);
}

// Every one-byte change gives the same code through both classes, or is no message to protobuf where ours has a text
// (the device) that is not UTF-8, which the other class does not know: then it is refused as well.
TEST(TensorMessage, HostileBytes) {
  const testing::QuietProtobuf quiet;
  const Tensor numbers = Tensor::FromValues<int16_t>({{1, -2}, {300, 4}});
  const std::string goldens[] = {
      EncodeToString(*TensorView(numbers).Transpose(0, 1), SomeMetadata(),
                     {Representation::kContent, true, StoredLayout::kPreserve}),
      EncodeToString(numbers, SomeMetadata(), {Representation::kValues, true}),
      EncodeToString(numbers, SomeMetadata()) + EncodeToString(numbers, SomeMetadata()),
      FromText("dtype: DT_INT32 variant_val { tensors { dtype: DT_INT8 extension { name: 'x' strides: 1 } } }")
          .SerializeAsString(),
  };
  for (const std::string& golden : goldens) {
    for (size_t at = 0; at < golden.size(); ++at) {
      std::string message = golden;
      for (int change = 1; change < 256; ++change) {
        message[at] = static_cast<char>(golden[at] ^ change);
        Foreign foreign;
        TensorProto ours;
        const bool parsed = ours.ParseFromString(message);
        if (!foreign.ParseFromString(message)) {
          EXPECT_FALSE(parsed);
          continue;
        }
        const absl::StatusOr<DecodedTensor> found = DecodeTensorWithMetadata(foreign);
        const absl::StatusOr<Tensor> elements = DecodeTensor(foreign);
        if (!parsed) {
          EXPECT_THAT(elements, StatusIs(Code::kInvalidArgument)) << "byte " << at << " ^ " << change;
          continue;
        }
        const absl::StatusOr<DecodedTensor> wanted = DecodeTensorWithMetadata(ours);
        ASSERT_EQ(found.status().code(), wanted.status().code())
            << "byte " << at << " ^ " << change << ": " << found.status() << " and " << wanted.status();
        ASSERT_EQ(elements.status().code(), DecodeTensor(ours).status().code());
        if (found.ok()) {
          EXPECT_EQ(found->metadata, wanted->metadata);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
