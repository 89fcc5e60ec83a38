// What is refused of the encoded form: hostile payloads, limits, and both inside variants.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/serialize/wire/encoded_test_util.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::BytesField;
using testing::CompressibleTensor;
using testing::DecodeBothWays;
using testing::Difference;
using testing::Encoded;
using testing::EncodedProto;
using testing::EncodeToString;
using ::testing::HasSubstr;
using testing::Lenient;
using testing::StatusIs;
using testing::VarintField;
using Code = absl::StatusCode;

// ---- Messages whose fields disagree ---------------------------------------------------------------------------------

struct RejectCase {
  const char* name;
  std::function<void(TensorProto*)> change;  // changes an encoded int16 [20,30]
  Code code;
  const char* says;
};
class EncodedRejects : public ::testing::TestWithParam<RejectCase> {};
TEST_P(EncodedRejects, WithCodeAndMessage) {
  TensorProto proto = EncodedProto(CompressibleTensor(DType::kInt16, TensorShape({20, 30})));
  ASSERT_OK(DecodeTensor(proto));
  GetParam().change(&proto);
  const std::string message = proto.SerializeAsString();
  EXPECT_THAT(DecodeBothWays(message), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_THAT(DecodeBothWays(message, Lenient()), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}

std::string* Payload(TensorProto* proto) { return proto->mutable_extension()->mutable_payload(); }
// A payload that says it has `num_elements` of `dtype`, and nothing behind its header.
std::string Claim(DType dtype, uint64_t num_elements, uint64_t characters = 0) {
  PayloadHeader header;
  header.dtype = dtype;
  header.num_elements = num_elements;
  header.characters = characters;
  return header.Encode();
}
std::string PayloadOf(DType dtype, const TensorShape& shape) {
  return EncodedProto(CompressibleTensor(dtype, shape)).extension().payload();
}

constexpr Code kInvalid = Code::kInvalidArgument;
const RejectCase kCases[] = {
    {"WithDType", [](TensorProto* p) { p->set_dtype(DT_INT16); }, kInvalid, "as in the plain form"},
    {"WithContent", [](TensorProto* p) { p->set_tensor_content("a"); }, kInvalid,
     "neither the extension-only nor the encoded"},
    {"WithValues", [](TensorProto* p) { p->add_int_val(1); }, kInvalid, "neither the extension-only nor the encoded"},
    {"WithOtherValues", [](TensorProto* p) { p->add_string_val(""); }, kInvalid,
     "neither the extension-only nor the encoded"},
    {"WithStrides",
     [](TensorProto* p) {
       p->mutable_extension()->add_strides(30);
       p->mutable_extension()->add_strides(1);
     },
     kInvalid, "neither the extension-only nor the encoded"},
    {"WithOffset", [](TensorProto* p) { p->mutable_extension()->set_storage_offset(1); }, kInvalid,
     "neither the extension-only nor the encoded"},
    {"NoDType", [](TensorProto* p) { p->mutable_extension()->set_dtype(0); }, kInvalid, "dtype is 0"},
    {"NegativeDType", [](TensorProto* p) { p->mutable_extension()->set_dtype(-5); }, kInvalid, "dtype is -5"},
    {"Reference", [](TensorProto* p) { p->mutable_extension()->set_dtype(105); }, kInvalid, "dtype is 105"},
    {"NewDType", [](TensorProto* p) { p->mutable_extension()->set_dtype(70); }, Code::kUnimplemented, "dtype is 70"},
    {"Resource", [](TensorProto* p) { p->mutable_extension()->set_dtype(20); }, kInvalid,
     "dtype is 20; the encoded form holds elements of a fixed size, and strings"},
    {"Variant", [](TensorProto* p) { p->mutable_extension()->set_dtype(21); }, kInvalid, "dtype is 21"},
    {"OtherDType", [](TensorProto* p) { p->mutable_extension()->set_dtype(17); }, kInvalid,
     "payload: it has 600 elements of int16; the message says uint16 [20,30]"},
    {"String", [](TensorProto* p) { p->mutable_extension()->set_dtype(7); }, kInvalid, "says string [20,30]"},
    {"OtherShape", [](TensorProto* p) { p->mutable_tensor_shape()->mutable_dim(0)->set_size(21); }, kInvalid,
     "payload: it has 600 elements of int16; the message says int16 [21,30]"},
    {"NoElements", [](TensorProto* p) { p->mutable_tensor_shape()->mutable_dim(0)->set_size(0); }, kInvalid,
     "the message says int16 [0,30]"},
    {"NoShape", [](TensorProto* p) { p->clear_tensor_shape(); }, kInvalid, "the message says int16 []"},
    {"BadShape", [](TensorProto* p) { p->mutable_tensor_shape()->mutable_dim(0)->set_size(-1); }, kInvalid, "dim 0"},
    {"PayloadOfOtherDType", [](TensorProto* p) { *Payload(p) = PayloadOf(DType::kFloat32, TensorShape({600})); },
     kInvalid, "payload: it has 600 elements of float32; the message says int16 [20,30]"},
    {"PayloadOfFewer", [](TensorProto* p) { *Payload(p) = PayloadOf(DType::kInt16, TensorShape({599})); }, kInvalid,
     "payload: it has 599 elements"},
    {"OneByte", [](TensorProto* p) { *Payload(p) = "x"; }, kInvalid, "payload: "},
    {"NoMagic", [](TensorProto* p) { (*Payload(p))[0] = 'x'; }, kInvalid, "payload: "},
    {"NewVersion", [](TensorProto* p) { (*Payload(p))[7] = 2; }, Code::kUnimplemented, "payload: "},
    {"HeadAlone", [](TensorProto* p) { *Payload(p) = Claim(DType::kInt16, 600); }, kInvalid, "payload: "},
    {"OneByteMore", [](TensorProto* p) { *Payload(p) += 'x'; }, Code::kDataLoss, "payload: "},
    {"WrongChecksum", [](TensorProto* p) { p->mutable_extension()->set_crc32c(12345); }, Code::kDataLoss,
     "the elements of int16 [20,30] have the masked crc32c"},
};
INSTANTIATE_TEST_SUITE_P(Cases, EncodedRejects, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Encoded, AWrongChecksumIsFoundInStridedMemory) {
  for (const DType dtype : {DType::kFloat32, DType::kString}) {
    TensorProto proto = EncodedProto(CompressibleTensor(dtype, TensorShape({20, 30})), Encoded(true));
    TensorView columns = *TensorView(*Tensor::Zeros(dtype, TensorShape({30, 20}))).Transpose(0, 1);
    EXPECT_OK(DecodeTensorInto(proto.SerializeAsString(), {}, &columns));
    proto.mutable_extension()->set_crc32c(proto.extension().crc32c() + 1);
    EXPECT_THAT(DecodeTensorInto(proto.SerializeAsString(), {}, &columns),
                StatusIs(Code::kDataLoss, HasSubstr("masked crc32c")));
  }
}

TEST(Encoded, ADamagedChunkIsNamed) {
  TensorProto proto = EncodedProto(CompressibleTensor(DType::kInt16, TensorShape({20, 30})));
  (*Payload(&proto))[kPayloadHeaderBytes + 9] ^= 1;
  EXPECT_THAT(DecodeBothWays(proto.SerializeAsString()), StatusIs(Code::kDataLoss, HasSubstr("payload: ")));
}

// ---- Every byte -----------------------------------------------------------------------------------------------------

class EveryByte : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Some, EveryByte, ::testing::Values(DType::kFloat32, DType::kBool, DType::kString),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST_P(EveryByte, PayloadCut) {
  const TensorProto whole = EncodedProto(CompressibleTensor(GetParam(), TensorShape({2000})));
  for (size_t size = 0; size < whole.extension().payload().size(); ++size) {
    TensorProto proto = whole;
    Payload(&proto)->resize(size);
    EXPECT_FALSE(DecodeBothWays(proto.SerializeAsString()).ok()) << size << " bytes";
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(EveryByte, PayloadChanged) {
  const Tensor tensor = CompressibleTensor(GetParam(), TensorShape({2000}));
  const TensorProto whole = EncodedProto(tensor);
  for (size_t at = 0; at < whole.extension().payload().size(); ++at) {
    TensorProto proto = whole;
    for (const int change : {1, 0x80, 0xff}) {
      (*Payload(&proto))[at] = static_cast<char>(whole.extension().payload()[at] ^ change);
      const absl::StatusOr<Tensor> read = DecodeBothWays(proto.SerializeAsString());
      ASSERT_FALSE(HasFailure()) << "byte " << at << " ^ " << change;
      if (read.ok()) {  // a gap between chunks
        ASSERT_EQ(Difference(*read, tensor), "") << "byte " << at << " ^ " << change;
      }
    }
  }
}

// ---- Limits ---------------------------------------------------------------------------------------------------------

TEST(EncodedLimits, MaxMessageBytes) {
  const Tensor numbers = CompressibleTensor(DType::kInt32, TensorShape({1000}));
  const Tensor strings = CompressibleTensor(DType::kString, TensorShape({1000}));
  int64_t string_bytes = 0;
  for (const std::string& text : strings.flat<std::string>()) string_bytes += 32 + static_cast<int64_t>(text.size());
  const std::pair<Tensor, int64_t> cases[] = {{numbers, 4000}, {strings, string_bytes}};
  for (const auto& [tensor, bytes] : cases) {
    const std::string message = EncodeToString(tensor, {}, Encoded());
    DecodeOptions options;
    options.limits.max_message_bytes = bytes;
    EXPECT_OK(DecodeBothWays(message, options));
    options.limits.max_message_bytes = bytes - 1;
    EXPECT_THAT(DecodeBothWays(message, options),
                StatusIs(Code::kResourceExhausted, HasSubstr("the limit max_message_bytes is")));
  }
}

TEST(EncodedLimits, MaxExpansion) {
  const Tensor zeros = *Tensor::Zeros(DType::kFloat32, TensorShape({1 << 20}));
  const std::string message = EncodeToString(zeros, {}, Encoded());
  EXPECT_LT(message.size(), 16 << 10);
  EXPECT_OK(DecodeBothWays(message));  // any payload that we write is within the limits that we have
  DecodeOptions options;
  options.limits.max_memory_beyond_input = 0;
  EXPECT_OK(DecodeBothWays(message, options));
  options.limits.max_expansion = 2;
  EXPECT_THAT(DecodeBothWays(message, options), StatusIs(Code::kResourceExhausted, HasSubstr("max_expansion")));
  options.limits.max_expansion = -1;
  EXPECT_THAT(DecodeBothWays(message, options), StatusIs(Code::kResourceExhausted));
}

TEST(EncodedLimits, ManyEmptyStringsAreReadByDefault) {
  const Tensor strings = *Tensor::Zeros(DType::kString, TensorShape({3'000'000}));
  const std::string message = EncodeToString(strings, {}, Encoded());
  EXPECT_LT(message.size(), 100'000);
  ASSERT_OK_AND_ASSIGN(const Tensor read, DecodeSerializedTensor(message));
  EXPECT_EQ(read.num_elements(), 3'000'000);
}

TEST(EncodedLimits, AClaimTakesNoMemory) {
  for (const uint64_t num_elements : {uint64_t{1} << 20, uint64_t{1} << 40, uint64_t{1} << 60}) {
    SCOPED_TRACE(num_elements);
    TensorProto proto;
    proto.mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(num_elements));
    proto.mutable_extension()->set_dtype(DTypeNumber(DType::kFloat32));
    *Payload(&proto) = Claim(DType::kFloat32, num_elements);
    EXPECT_FALSE(DecodeBothWays(proto.SerializeAsString()).ok());
    proto.mutable_extension()->set_dtype(DTypeNumber(DType::kString));
    *Payload(&proto) = Claim(DType::kString, num_elements / 2, 12345);
    EXPECT_FALSE(DecodeBothWays(proto.SerializeAsString()).ok());
  }
}

// ---- In variants ----------------------------------------------------------------------------------------------------

// A variant with these messages as its tensors.
std::string VariantOf(const std::vector<std::string>& tensors) {
  std::string variant = BytesField(1, "type");
  for (const std::string& tensor : tensors) variant += BytesField(3, tensor);
  return VarintField(1, 21) + BytesField(15, variant);
}

TEST(EncodedInVariants, ComesBack) {
  const Tensor numbers = CompressibleTensor(DType::kFloat32, TensorShape({20, 30}));
  const Tensor words = CompressibleTensor(DType::kString, TensorShape({600}));
  ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      DecodeBothWays(VariantOf({EncodeToString(numbers, {}, Encoded(true)), EncodeToString(words, {}, Encoded())})));
  const Variant& variant = tensor.scalar<Variant>();
  ASSERT_EQ(variant.tensors.size(), 2);
  EXPECT_EQ(Difference(variant.tensors[0], numbers), "");
  EXPECT_EQ(Difference(variant.tensors[1], words), "");
  // Written again the tensors are values.
  TensorProto proto;
  ASSERT_OK(EncodeTensor(tensor, Encoded(), &proto));
  EXPECT_EQ(proto.dtype(), DT_VARIANT);
}

TEST(EncodedInVariants, ErrorsNameThePlace) {
  TensorProto inner = EncodedProto(CompressibleTensor(DType::kInt16, TensorShape({20, 30})));
  const std::string good = inner.SerializeAsString();
  inner.mutable_tensor_shape()->mutable_dim(0)->set_size(21);
  EXPECT_THAT(DecodeBothWays(VariantOf({good, inner.SerializeAsString()})),
              StatusIs(kInvalid, HasSubstr("variant 0: tensors[1]: payload: it has 600 elements")));
  inner.mutable_tensor_shape()->mutable_dim(0)->set_size(20);
  (*Payload(&inner))[kPayloadHeaderBytes + 9] ^= 1;
  EXPECT_THAT(DecodeBothWays(VariantOf({good, inner.SerializeAsString()})),
              StatusIs(Code::kDataLoss, HasSubstr("variant 0: tensors[1]: payload: ")));
}

TEST(EncodedInVariants, TheyShareOneBudget) {
  const Tensor zeros = *Tensor::Zeros(DType::kUint8, TensorShape({1 << 20}));
  const std::string inner = EncodeToString(zeros, {}, Encoded());
  const std::string message = VariantOf({inner, inner, inner});
  DecodeOptions options;
  options.limits.max_message_bytes = (3 << 20) + 10'000;
  EXPECT_OK(DecodeBothWays(message, options));
  options.limits.max_message_bytes = 3 << 20;
  EXPECT_THAT(DecodeBothWays(message, options),
              StatusIs(Code::kResourceExhausted, HasSubstr("variant 0: tensors[2]: uint8 [1048576]: decodes to")));
  // What the expansion does not allow for is filled in, and no message may fill in more than that in total.
  options = DecodeOptions();
  options.limits.max_expansion = 0;
  options.limits.max_memory_beyond_input = 3 << 20;
  EXPECT_OK(DecodeBothWays(message, options));
  options.limits.max_memory_beyond_input = (3 << 20) - 1;
  EXPECT_THAT(DecodeBothWays(message, options),
              StatusIs(Code::kResourceExhausted, HasSubstr("variant 0: tensors[2]: uint8 [1048576]: decodes to")));
}

// A length of 8 bytes becomes a string of 32.
TEST(EncodedStrings, CountAsWhatTheyBecome) {
  const Tensor empty = *Tensor::Create(DType::kString, TensorShape({10'000}));
  const std::string message = EncodeToString(empty, {}, Encoded());
  DecodeOptions options;
  EXPECT_OK(DecodeBothWays(message, options));
  options.limits.max_expansion = 0;
  options.limits.max_memory_beyond_input = 320'000;
  EXPECT_OK(DecodeBothWays(message, options));
  options.limits.max_memory_beyond_input = 320'000 - 1;
  EXPECT_THAT(DecodeBothWays(message, options), StatusIs(Code::kResourceExhausted, HasSubstr("string [10000]")));
}

TEST(EncodedInVariants, Depth) {
  const Tensor numbers = CompressibleTensor(DType::kInt16, TensorShape({600}));
  std::string message = EncodeToString(numbers, {}, Encoded());
  for (int level = 0; level < 5; ++level) message = VariantOf({message});
  DecodeOptions options;
  options.limits.max_depth = 12;  // two a level, and the shape of the innermost with its dim
  EXPECT_OK(DecodeBothWays(message, options));
  options.limits.max_depth = 11;
  EXPECT_THAT(DecodeBothWays(message, options), StatusIs(Code::kResourceExhausted));
}

}  // namespace
}  // namespace tensorcask
