// The frame of a message around its content: the bytes of EncodeTensorTo, and content that is found as decoded.

#include "tensorcask/serialize/wire/message/message_frame.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using internal::FindContent;
using internal::MakeMessageFrame;
using internal::MessageFrame;
using internal::StoredContent;
using ::tensorcask::testing::EncodeToString;
using ::tensorcask::testing::RandomTensor;

const DType kDTypes[] = {DType::kFloat32,    DType::kBool,         DType::kInt8,
                         DType::kComplex128, DType::kFloat8E4m3fn, DType::kFloat8E8m0fnu};

TensorMetadata Tagged() {
  TensorMetadata metadata;
  metadata.name = "dense/kernel";
  metadata.attributes["unit"] = "m";
  return metadata;
}

std::optional<StoredContent> Find(absl::string_view message) {
  const std::string file = absl::StrCat("before", message, "after");
  const absl::StatusOr<std::optional<StoredContent>> found =
      FindContent(*MakeMemorySource("m", file), 6, message.size(), {});
  EXPECT_OK(found.status());
  return found.ok() ? *found : std::nullopt;
}

// If content is found, the decoder accepts the message, and gives the same tensor.
void ExpectAsDecoded(const std::string& message) {
  const std::optional<StoredContent> found = Find(message);
  if (!found.has_value()) return;
  ASSERT_GE(found->offset, 6U);
  ASSERT_LE(found->offset - 6 + found->bytes, message.size());
  const absl::StatusOr<DecodedTensor> decoded = DecodeSerializedTensorWithMetadata(message);
  if (found->dtype == DType::kBool && !decoded.ok()) return;  // the values are checked when they are read
  ASSERT_OK(decoded.status());
  EXPECT_EQ(decoded->view.dtype(), found->dtype);
  EXPECT_EQ(decoded->view.shape(), found->shape);
  EXPECT_EQ(decoded->metadata, found->metadata);
  EXPECT_EQ(decoded->view.bytes(), message.substr(found->offset - 6, found->bytes));
}

TEST(MessageFrame, IsTheMessageWithoutItsContent) {
  std::mt19937_64 random(1);
  for (const DType dtype : kDTypes) {
    for (const TensorShape& shape : {TensorShape(), TensorShape({3}), TensorShape({200, 7}), TensorShape({0, 4})}) {
      for (const TensorMetadata& metadata : {TensorMetadata(), Tagged()}) {
        SCOPED_TRACE(absl::StrCat(DTypeName(dtype), shape.ToString(), metadata.name));
        const Tensor tensor = RandomTensor(dtype, shape, &random);
        ASSERT_OK_AND_ASSIGN(const MessageFrame frame, MakeMessageFrame(dtype, shape, metadata));
        const std::string message = EncodeToString(tensor, metadata);
        EXPECT_EQ(absl::StrCat(frame.header, tensor.bytes(), frame.tail), message);
        EXPECT_EQ(frame.total_bytes(), message.size());
        const std::optional<StoredContent> found = Find(message);
        ASSERT_EQ(found.has_value(), shape.num_elements() > 0);
        if (!found.has_value()) continue;
        EXPECT_EQ(found->offset, 6 + frame.header.size());
        EXPECT_EQ(found->bytes, tensor.bytes().size());
        ExpectAsDecoded(message);
      }
    }
  }
}

TEST(MessageFrame, RefusesMetadataOfAnotherTensor) {
  TensorMetadata metadata;
  metadata.requires_grad = true;
  EXPECT_FALSE(MakeMessageFrame(DType::kInt32, TensorShape({2}), metadata).ok());
}

// Other forms are left to the decoder of whole messages.
TEST(MessageFrame, FindsNoOtherForm) {
  const Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({64, 64}));
  const std::string plain = EncodeToString(tensor, {});
  EXPECT_TRUE(Find(plain).has_value());
  EncodeOptions values;
  values.representation = Representation::kValues;
  EXPECT_FALSE(Find(EncodeToString(tensor, {}, values)).has_value());
  EncodeOptions checksum;
  checksum.checksum = true;
  EXPECT_FALSE(Find(EncodeToString(tensor, {}, checksum)).has_value());
  EncodeOptions packed;
  packed.payload.level = PayloadLevel::kDefault;
  EXPECT_FALSE(Find(EncodeToString(tensor, {}, packed)).has_value());
  EXPECT_FALSE(Find(EncodeToString(*Tensor::Create(DType::kString, TensorShape({2})), {})).has_value());
  EXPECT_FALSE(Find(absl::StrCat(plain, plain)).has_value());                       // twice the content
  EXPECT_FALSE(Find(absl::StrCat(plain, std::string(1 << 21, '\0'))).has_value());  // not a message
  std::string many = plain;
  for (int i = 0; i < 2000; ++i) many += std::string("\x98\x3f\x01", 3);  // an unknown field, 2000 times
  EXPECT_FALSE(Find(many).has_value());
  EXPECT_FALSE(Find("").has_value());
}

TEST(MessageFrame, EachPrefixAndEachChangedByteIsFoundAsItIsDecodedOrNotFound) {
  std::mt19937_64 random(2);
  for (const DType dtype : kDTypes) {
    const std::string message = EncodeToString(RandomTensor(dtype, TensorShape({2, 3}), &random), Tagged());
    for (size_t size = 0; size < message.size(); ++size) ExpectAsDecoded(message.substr(0, size));
    for (size_t i = 0; i < message.size(); ++i) {
      for (int value = 0; value < 256; ++value) {
        std::string changed = message;
        changed[i] = static_cast<char>(value);
        SCOPED_TRACE(absl::StrCat("byte ", i, " is ", value));
        ExpectAsDecoded(changed);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
