// Every prefix and every one-byte change of a set of messages, through both front ends, strict and lenient: each
// decodes or is refused, cleanly, and the two agree (rows TP-20 and TP-21).

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tests/serialize/wire/encoded_test_util.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::BytesField;
using testing::DecodeBothWays;
using testing::EncodeToString;
using testing::Fixed32Field;
using testing::Fixed64Field;
using testing::FromText;
using testing::ShapeField;
using testing::Tag;
using testing::VarintField;

struct Golden {
  const char* name;
  std::string message;
};

std::string Text(const std::string& text) { return FromText(text).SerializeAsString(); }

std::string WithChecksum(const Tensor& tensor, Representation representation) {
  TensorProto proto;
  EXPECT_OK(EncodeTensor(tensor, {representation, true}, &proto));
  return proto.SerializeAsString();
}

TensorMetadata AttributesOnly() {
  TensorMetadata metadata;
  metadata.attributes = {{"a", "1"}, {"ab", ""}, {"b", "22"}};
  return metadata;
}

TensorMetadata AllMetadata() {
  TensorMetadata metadata = AttributesOnly();
  metadata.name = "w\xff";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.requires_grad = true;
  return metadata;
}

const Golden kGoldens[] = {
    {"FloatContent",
     Text("dtype: DT_FLOAT tensor_shape { dim { size: 2 name: 'b\\xc3\\xa9' } dim { size: 2 } } "
          "tensor_content: '\\x00\\x00\\x80\\x3f\\x00\\x00\\x80\\x7f\\xff\\xff\\xff\\xff\\x00\\x00\\x00\\x80'")},
    {"Int8Values", Text("dtype: DT_INT8 tensor_shape { dim { size: 4 } } int_val: [1, -2, 127]")},
    {"Int32Values", Text("dtype: DT_INT32 tensor_shape { dim { size: 3 } } int_val: [300, -2]")},
    {"ComplexValues", Text("dtype: DT_COMPLEX64 tensor_shape { dim { size: 2 } } scomplex_val: [1, 2]")},
    {"DoubleValues", Text("dtype: DT_DOUBLE tensor_shape { dim { size: 2 } } double_val: [1, 2]")},
    {"BoolContent", Text("dtype: DT_BOOL tensor_shape { dim { size: 3 } } tensor_content: '\\x00\\x01\\x01'")},
    {"HalfValues", Text("dtype: DT_HALF tensor_shape { dim { size: 3 } } half_val: [15360, 65535]")},
    {"StringValues", Text("dtype: DT_STRING tensor_shape { dim { size: 3 } } string_val: ['ab', '']")},
    {"StringContent", Text("dtype: DT_STRING tensor_shape { dim { size: 3 } } tensor_content: '\\x02\\x00\\x01abc'")},
    {"Float8", Text("dtype: DT_FLOAT8_E4M3FN tensor_shape { dim { size: 3 } } float8_val: 'ab'")},
    {"Uint64Values", Text("dtype: DT_UINT64 tensor_shape { dim { size: 2 } } uint64_val: 18446744073709551615")},
    {"Metadata", Text("dtype: DT_INT4 int_val: -8 extension { name: 'w' device: 'cpu' requires_grad: true "
                      "attributes { key: 'k' value: 'v' } }")},
    {"ChecksumOfContent", WithChecksum(Tensor::FromValues<int16_t>({1, -1}), Representation::kContent)},
    {"ChecksumOfValues", WithChecksum(Tensor::FromValues<std::string>({"a", "bc"}), Representation::kValues)},
    {"AllMetadata", EncodeToString(Tensor::FromValues<float>({1}), AllMetadata(), {Representation::kValues, true})},
    {"ExtensionOnly", EncodeToString(*TensorView(Tensor::FromValues<int16_t>({{1, -2}, {300, 4}})).Transpose(0, 1),
                                     AttributesOnly(), {Representation::kContent, true, StoredLayout::kPreserve})},
    {"ExtensionOnlyFlip", EncodeToString(*TensorView(Tensor::FromValues<bool>({true, false, true})).Flip({0}), {},
                                         {Representation::kContent, false, StoredLayout::kPreserve})},
    {"ExtensionOnlyDType", EncodeToString(*Tensor::Zeros(DType::kFloat4E2m1, TensorShape({3})), {})},
    {"ExtensionOnlyMixture", Text("tensor_shape { dim { size: 2 } } tensor_content: 'ab' extension { dtype: 65 "
                                  "strides: [2, 1] storage_offset: 1 memory_format: 1 }")},
    {"Encoded", EncodeToString(*Tensor::Zeros(DType::kInt32, TensorShape({60})), {}, testing::Encoded(true))},
    {"EncodedStrings", EncodeToString(*Tensor::Zeros(DType::kString, TensorShape({200})), {}, testing::Encoded())},
    {"EncodedWithoutPayload", Text("tensor_shape { dim { size: 2 } } extension { dtype: 1 payload: 'abc' }")},
    {"NoElements", Text("dtype: DT_FLOAT tensor_shape { dim { } dim { size: 3 } }")},
    {"Others", Text("dtype: DT_INT32 resource_handle_val { device: 'd' container: 'c' name: 'n' hash_code: 9 "
                    "maybe_type_name: 'm' dtypes_and_shapes { dtype: DT_FLOAT shape { dim { size: 2 name: 'x' } } } } "
                    "variant_val { type_name: 't' metadata: 'm' tensors { dtype: DT_INT8 int_val: 3 } }")},
    {"Unpacked", VarintField(1, 9) + ShapeField({4}) + VarintField(10, 1) + BytesField(10, "\x02\x80\x01") +
                     VarintField(10, ~uint64_t{0})},
    {"Unknown", VarintField(30, 300) + VarintField(1, 1) + Tag(31, 3) + Tag(32, 3) + VarintField(1, 1) + Tag(32, 4) +
                    BytesField(4, "xx") + Tag(31, 4) + Fixed32Field(5, 0x3f800000) + Fixed64Field(40, 1) +
                    BytesField(2, Fixed32Field(9, 1)) + BytesField(50, "abc")},
};

class Mutations : public ::testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(Goldens, Mutations, ::testing::ValuesIn(kGoldens),
                         [](const auto& info) { return std::string(info.param.name); });

// Limits that keep a claim of some bytes from costing time.
DecodeOptions Options(bool lenient) {
  DecodeOptions options;
  options.lenient = lenient;
  options.limits.max_memory_beyond_input = 4096;
  return options;
}

TEST_P(Mutations, EveryPrefix) {
  const std::string& message = GetParam().message;
  for (const bool lenient : {false, true}) {
    for (size_t size = 0; size <= message.size(); ++size) {
      DecodeBothWays(message.substr(0, size), Options(lenient)).IgnoreError();
      ASSERT_FALSE(HasFailure()) << size << " bytes" << (lenient ? ", lenient" : "");
    }
  }
}

TEST_P(Mutations, EveryByteChanged) {
  for (const bool lenient : {false, true}) {
    std::string message = GetParam().message;
    for (size_t at = 0; at < message.size(); ++at) {
      const char original = message[at];
      for (int change = 1; change < 256; ++change) {
        message[at] = static_cast<char>(original ^ change);
        DecodeBothWays(message, Options(lenient)).IgnoreError();
        ASSERT_FALSE(HasFailure()) << "byte " << at << " ^ " << change << (lenient ? ", lenient" : "");
      }
      message[at] = original;
    }
  }
}

TEST_P(Mutations, ManyRandomChanges) {
  std::mt19937_64 random(20);
  for (int round = 0; round < 4000; ++round) {
    std::string message = GetParam().message;
    for (uint64_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % message.size();
      switch (random() % 4) {
        case 0:
          message[at] = static_cast<char>(random());
          break;
        case 1:
          message.insert(at, 1, static_cast<char>(random()));
          break;
        case 2:
          if (message.size() > 1) message.erase(at, 1);
          break;
        default:
          message += message.substr(at, 1 + random() % 8);
      }
    }
    DecodeBothWays(message, Options(random() % 2 == 0)).IgnoreError();
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

TEST(RandomMessages, AgreeOnBothWays) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 50000; ++round) {
    std::string message(random() % 40, '\0');
    for (char& c : message) c = static_cast<char>(random() >> (random() % 60));
    DecodeBothWays(message, Options(random() % 2 == 0)).IgnoreError();
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

}  // namespace
}  // namespace tensorcask
