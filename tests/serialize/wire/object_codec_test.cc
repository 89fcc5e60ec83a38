// Resources and variants as messages: bytes equal to protobuf's, both representations, what absent values mean, and
// every row of the catalogue that is about them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/serialize/wire/tensor_message.h"
#include "tensorcask/serialize/wire/variant_codec.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/partial_shape.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/serialize/wire/foreign_tensor.pb.h"
#include "tensorcask/tests/serialize/wire/quiet_protobuf.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::BytesField;
using testing::DecodeBothWays;
using testing::Difference;
using testing::EncodeToString;
using testing::FromText;
using ::testing::HasSubstr;
using testing::ShapeField;
using testing::StatusIs;
using testing::VarintField;
using Code = absl::StatusCode;

ResourceHandle SomeHandle() {
  ResourceHandle handle;
  handle.device = "/device:CPU:0";
  handle.container = "localhost";
  handle.name = "v";
  handle.hash_code = 0xfedcba9876543210;
  handle.maybe_type_name = "tensorflow::Var";
  handle.dtypes_and_shapes = {{DType::kFloat32, PartialTensorShape({-1, 0, 300})},
                              {DType::kInvalid, PartialTensorShape()},
                              {DType::kVariant, PartialTensorShape(std::initializer_list<int64_t>{})}};
  return handle;
}
ResourceHandle OtherHandle() {
  ResourceHandle handle;
  handle.name = "w";
  handle.dtypes_and_shapes = {{DType::kUint2, PartialTensorShape({7})}};
  return handle;
}
Variant SomeVariant(int levels) {
  Variant variant;
  variant.type_name = "tensorflow::TensorList";
  variant.metadata = std::string("\0\xff\x80", 3);
  variant.tensors = {Tensor::FromValues<int8_t>({{-1, 2}, {3, -4}}), Tensor::FromValues<std::string>({"a", ""}),
                     *Tensor::Zeros(DType::kFloat64, TensorShape({0, 3})), Tensor::Scalar(SomeHandle()),
                     Tensor::Scalar(static_cast<bfloat16>(1.5f))};
  if (levels > 0) variant.tensors.push_back(Tensor::FromValues<Variant>({SomeVariant(levels - 1), Variant()}));
  return variant;
}

std::vector<Tensor> SomeTensors() {
  return {Tensor::FromValues<ResourceHandle>({SomeHandle(), ResourceHandle(), OtherHandle()}),
          Tensor::Scalar(OtherHandle()),
          *Tensor::Create(DType::kResource, TensorShape({2, 2})),
          *Tensor::Create(DType::kResource, TensorShape({0, 2})),
          Tensor::FromValues<Variant>({SomeVariant(0), Variant(), SomeVariant(3)}),
          Tensor::Scalar(SomeVariant(1)),
          *Tensor::Create(DType::kVariant, TensorShape({3})),
          *Tensor::Create(DType::kVariant, TensorShape({0}))};
}
const EncodeOptions kAllOptions[] = {{Representation::kContent, false},
                                     {Representation::kValues, false},
                                     {Representation::kContent, true},
                                     {Representation::kValues, true}};

TEST(ObjectCodec, BytesAreThoseOfProtobuf) {
  for (const Tensor& tensor : SomeTensors()) {
    for (const EncodeOptions& options : kAllOptions) {
      SCOPED_TRACE(tensor.ToString());
      const std::string bytes = EncodeToString(tensor, TensorMetadata(), options);
      TensorProto proto;
      ASSERT_OK(EncodeTensor(tensor, options, &proto));
      EXPECT_EQ(proto.SerializeAsString(), bytes);
      TensorProto parsed;
      ASSERT_TRUE(parsed.ParseFromString(bytes));
      EXPECT_EQ(parsed.SerializeAsString(), bytes);
      ASSERT_OK_AND_ASSIGN(const Tensor same, DecodeBothWays(bytes));
      EXPECT_EQ(Difference(tensor, same), "");
      // Another project's class.
      testing::foreign::TensorProto foreign;
      ASSERT_OK(EncodeTensor(tensor, options, &foreign));
      EXPECT_EQ(foreign.SerializeAsString(), bytes);
      ASSERT_OK_AND_ASSIGN(const Tensor from_foreign, DecodeTensor(foreign));
      EXPECT_EQ(Difference(tensor, from_foreign), "");
      // In pieces and cords, and from views that are not contiguous.
      ASSERT_OK_AND_ASSIGN(const absl::Cord cord, EncodeTensorToCord(tensor, TensorMetadata(), options));
      EXPECT_EQ(std::string(cord), bytes);
      ASSERT_OK_AND_ASSIGN(const DecodedTensor from_cord, DecodeTensorFromCord(cord));
      EXPECT_EQ(Difference(tensor, *from_cord.view.ToTensor()), "");
      if (tensor.rank() != 1) continue;
      ASSERT_OK_AND_ASSIGN(const TensorView flipped, TensorView(tensor).Flip({0}));
      EXPECT_EQ(EncodeToString(flipped, TensorMetadata(), options),
                EncodeToString(*flipped.Contiguous(), TensorMetadata(), options));
    }
  }
}

// What TensorFlow's encoders make of them, written by hand from its sources.
TEST(ObjectCodec, BytesAreThoseOfTensorFlow) {
  const Tensor handles = Tensor::FromValues<ResourceHandle>({SomeHandle(), ResourceHandle(), OtherHandle()});
  const std::string kFirst =
      "device: '/device:CPU:0' container: 'localhost' name: 'v' hash_code: 0xfedcba9876543210 "
      "maybe_type_name: 'tensorflow::Var' "
      "dtypes_and_shapes { dtype: DT_FLOAT shape { dim { size: -1 } dim {} dim { size: 300 } } } "
      "dtypes_and_shapes { shape { unknown_rank: true } } dtypes_and_shapes { dtype: DT_VARIANT shape {} } ";
  const std::string kThird = "name: 'w' dtypes_and_shapes { dtype: DT_UINT2 shape { dim { size: 7 } } }";
  const TensorProto values = FromText("dtype: DT_RESOURCE tensor_shape { dim { size: 3 } } resource_handle_val { " +
                                      kFirst + "} resource_handle_val {} resource_handle_val { " + kThird + "}");
  EXPECT_EQ(EncodeToString(handles, TensorMetadata(), {Representation::kValues}), values.SerializeAsString());
  // The list form. TensorFlow's EncodeResourceHandleList would add the shapes of the first element to the third.
  std::string content;
  for (const auto& handle : values.resource_handle_val()) content += testing::Varint(handle.ByteSizeLong());
  for (const auto& handle : values.resource_handle_val()) content += handle.SerializeAsString();
  EXPECT_EQ(EncodeToString(handles, TensorMetadata(), {Representation::kContent}),
            VarintField(1, 20) + ShapeField({3}) + BytesField(4, content));

  Variant variant;
  variant.type_name = "tensorflow::Tensor";
  variant.metadata = std::string(1, '\0');
  variant.tensors = {Tensor::FromValues<int16_t>({1, -2})};
  const TensorProto message = FromText(
      "dtype: DT_VARIANT tensor_shape {} variant_val { type_name: 'tensorflow::Tensor' metadata: '\\x00' "
      "tensors { dtype: DT_INT16 tensor_shape { dim { size: 2 } } int_val: [1, -2] } }");
  EXPECT_EQ(EncodeToString(Tensor::Scalar(variant), TensorMetadata(), {Representation::kValues}),
            message.SerializeAsString());
  const std::string inner = message.variant_val(0).SerializeAsString();
  EXPECT_EQ(EncodeToString(Tensor::Scalar(variant), TensorMetadata(), {Representation::kContent}),
            VarintField(1, 21) + BytesField(2, "") + BytesField(4, testing::Varint(inner.size()) + inner));
}

TEST(ObjectCodec, AbsentValuesAreEmptyAndDoNotRepeat) {
  ASSERT_OK_AND_ASSIGN(const Tensor handles,
                       DecodeBothWays(FromText("dtype: DT_RESOURCE tensor_shape { dim { size: 3 } } "
                                               "resource_handle_val { name: 'x' }")
                                          .SerializeAsString()));
  EXPECT_EQ(handles.ToString(), "resource [3]: [<resource \"x\"> <resource \"\"> <resource \"\">]");
  ASSERT_OK_AND_ASSIGN(const Tensor variants,
                       DecodeBothWays(FromText("dtype: DT_VARIANT tensor_shape { dim { size: 2 } } "
                                               "variant_val { type_name: 'x' }")
                                          .SerializeAsString()));
  EXPECT_EQ(variants.ToString(), "variant [2]: [<variant \"x\", 0 bytes, 0 tensors> <variant>]");
  ASSERT_OK_AND_ASSIGN(const Tensor none, DecodeBothWays(VarintField(1, 21) + ShapeField({2})));
  EXPECT_EQ(none.ToString(), "variant [2]: [<variant> <variant>]");
}

// Tensors inside may have any form of a tensor message, and fields may be split, as protobuf merges them.
TEST(ObjectCodec, FormsInside) {
  const Tensor matrix = Tensor::FromValues<int16_t>({{1, 2, 3}, {4, 5, 6}});
  const EncodeOptions extension_only = {Representation::kContent, true, StoredLayout::kPreserve};
  const TensorView columns = *TensorView(matrix).Transpose(0, 1);
  const std::string message =
      VarintField(1, 21) +
      BytesField(15, BytesField(1, "old") + BytesField(3, VarintField(1, 3)) + BytesField(1, "new") +
                         BytesField(3, EncodeToString(columns, TensorMetadata(), extension_only)) +
                         BytesField(9, "unknown"));
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, DecodeBothWays(message));
  const Variant& variant = tensor.scalar<Variant>();
  EXPECT_EQ(variant.type_name, "new");
  ASSERT_EQ(variant.tensors.size(), 2u);
  EXPECT_EQ(variant.tensors[0].ToString(), "int32 []: 0");
  EXPECT_EQ(variant.tensors[1].ToString(), "int16 [3,2]: [[1 4] [2 5] [3 6]]");
  std::string damaged = message;
  damaged[damaged.rfind('\6')] = 7;
  EXPECT_THAT(DecodeSerializedTensor(damaged),
              StatusIs(Code::kDataLoss, HasSubstr("variant 0: tensors[1]: the elements")));
}

TEST(ObjectCodec, ChecksumOfTheListForm) {
  for (const EncodeOptions& options : {kAllOptions[2], kAllOptions[3]}) {
    std::string bytes = EncodeToString(Tensor::Scalar(OtherHandle()), TensorMetadata(), options);
    ASSERT_OK(DecodeBothWays(bytes));
    const size_t at = bytes.rfind('w');
    bytes[at] = 'x';
    EXPECT_THAT(DecodeBothWays(bytes), StatusIs(Code::kDataLoss, HasSubstr("masked crc32c")));
  }
}

struct RejectCase {
  const char* name;
  std::string message;
  Code code;
  const char* says;
};
class ObjectRejects : public ::testing::TestWithParam<RejectCase> {};
TEST_P(ObjectRejects, WithCodeAndMessage) {
  EXPECT_THAT(DecodeBothWays(GetParam().message), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}
std::string Text(const char* text) { return FromText(text).SerializeAsString(); }
std::string VariantContent(const std::string& content) { return VarintField(1, 21) + BytesField(4, content); }
const RejectCase kRejects[] = {
    {"TP06_MoreHandles", Text("dtype: DT_RESOURCE resource_handle_val {} resource_handle_val {}"),
     Code::kInvalidArgument, "resource_handle_val has 2 values; resource [] has room for 1"},
    {"TP12_OtherField", Text("dtype: DT_VARIANT resource_handle_val {}"), Code::kInvalidArgument,
     "resource_handle_val has 1 values; the values of variant belong in variant_val"},
    {"TP13_ContentWins", Text("dtype: DT_VARIANT variant_val {} tensor_content: 'x'"), Code::kInvalidArgument,
     "0 bytes after the lengths of variant []"},
    {"TP16_LengthPastTheEnd",
     VariantContent("\x05"
                    "abc"),
     Code::kInvalidArgument, "at least 5"},
    {"TP16_LengthOf33Bits", VariantContent("\xff\xff\xff\xff\x1f"), Code::kInvalidArgument,
     "the length of variant 0 is cut short or does not fit 32 bits"},
    {"TP16_TrailingBytes", VariantContent(std::string("\0x", 2)), Code::kInvalidArgument, "the lengths sum to 0"},
    {"TP04_ContentIsNoMessage", VariantContent("\x02\x0a\x05"), Code::kInvalidArgument, "variant 0: a length of 5"},
    {"TP29_InContent", VariantContent(std::string("\x02\x08\x01", 3)), Code::kInvalidArgument,
     "variant 0: type_name at byte 0 is a varint"},
    {"NotUtf8InContent", VariantContent("\x03\x0a\x01\xff"), Code::kInvalidArgument,
     "type_name at byte 0 is not UTF-8"},
    {"InnerDType", Text("dtype: DT_VARIANT variant_val { tensors { } }"), Code::kInvalidArgument,
     "variant 0: tensors[0]: dtype is 0"},
    {"SH01_Inside",
     Text("dtype: DT_VARIANT variant_val { tensors { dtype: DT_INT8 tensor_shape { dim { size: -3 } } } }"),
     Code::kInvalidArgument, "variant 0: tensors[0]: tensor_shape: dim 0 is -3"},
    {"SecondTensorInside",
     Text("dtype: DT_VARIANT tensor_shape { dim { size: 2 } } variant_val {} variant_val { tensors { dtype: DT_INT8 } "
          "tensors { dtype: DT_INT8 int_val: 300 } }"),
     Code::kInvalidArgument, "variant 1: tensors[1]: int_val[0] is 300"},
    {"TP07_FillBombInside",
     Text("dtype: DT_VARIANT variant_val { tensors { dtype: DT_FLOAT float_val: 1 "
          "tensor_shape { dim { size: 274877906944 } } } }"),
     Code::kResourceExhausted, "float32 [274877906944]: decodes to 1099511627776 bytes, after"},
    {"EmptyVariantsPastTheLimit", Text("dtype: DT_VARIANT tensor_shape { dim { size: 1000000 } }"),
     Code::kResourceExhausted, "variant [1000000]: decodes to 88000000 unbacked bytes"},
    {"EmptyVariantsInVariants",
     Text("dtype: DT_VARIANT variant_val { tensors { dtype: DT_VARIANT tensor_shape { dim { size: 1000000 } } } }"),
     Code::kResourceExhausted, "variant 0: tensors[0]: variant [1000000]: decodes to"},
    {"HandleDType", Text("dtype: DT_RESOURCE resource_handle_val { dtypes_and_shapes { dtype: 101 } }"),
     Code::kInvalidArgument, "resource 0: dtypes_and_shapes[0]: dtype is 101; wanted one of TensorFlow's"},
    {"HandleDTypeOfOurs", Text("dtype: DT_RESOURCE resource_handle_val { dtypes_and_shapes { dtype: 64 } }"),
     Code::kInvalidArgument, "dtype is 64"},
    {"CVE_2022_23564_HandleShape",
     Text("dtype: DT_RESOURCE resource_handle_val { dtypes_and_shapes { } dtypes_and_shapes { dtype: DT_FLOAT "
          "shape { dim { size: -2 } } } }"),
     Code::kInvalidArgument, "resource 0: dtypes_and_shapes[1]: shape: "},
    {"HandleShapeOverflows",
     Text("dtype: DT_RESOURCE resource_handle_val { dtypes_and_shapes { shape { dim { size: 4294967296 } "
          "dim { size: 4294967296 } } } }"),
     Code::kInvalidArgument, "dtypes_and_shapes[0]: shape: "},
    {"SH08_HandleRank", VarintField(1, 20) + BytesField(14, BytesField(6, ShapeField(std::vector<int64_t>(255, 1)))),
     Code::kInvalidArgument, "shape has 255 dims"},
    {"SH09_HandleUnknownRankWithDims",
     Text("dtype: DT_RESOURCE resource_handle_val { dtypes_and_shapes { shape { unknown_rank: true dim { size: 1 } } } "
          "}"),
     Code::kInvalidArgument, "shape says unknown_rank and has 1 dims"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, ObjectRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

// The list form hides messages in bytes: their depth counts all the same.
TEST(ObjectLimits, TP31_NestedInContent) {
  const auto nested = [](int depth) {
    std::string message = VarintField(1, 4);
    for (int i = 0; i < depth; ++i) {
      const std::string variant = BytesField(3, message);
      message = VariantContent(testing::Varint(variant.size()) + variant);
    }
    return message;
  };
  EXPECT_OK(DecodeBothWays(nested(32)));
  for (const int depth : {33, 65, 200, 2000}) {
    EXPECT_THAT(DecodeBothWays(nested(depth)), StatusIs(Code::kResourceExhausted, HasSubstr("max_depth"))) << depth;
  }
}

TEST(ObjectLimits, DepthToTheMessage) {
  // Both front ends count alike, whatever the message ends in.
  const std::string ends[] = {VarintField(1, 4), VarintField(1, 4) + BytesField(2, ""),
                              VarintField(1, 4) + ShapeField({1}),
                              VarintField(1, 4) + BytesField(4096, VarintField(7, 0)),
                              VarintField(1, 20) + BytesField(14, BytesField(6, ShapeField({1})))};
  for (size_t i = 0; i < 5; ++i) {
    const std::string message = VarintField(1, 21) + BytesField(15, BytesField(3, ends[i]));
    const int needed[] = {2, 3, 4, 3, 6};
    for (int max_depth = 0; max_depth < 8; ++max_depth) {
      DecodeOptions options;
      options.limits.max_depth = max_depth;
      EXPECT_EQ(DecodeBothWays(message, options).ok(), max_depth >= needed[i]) << i << " " << max_depth;
    }
  }
}

TEST(ObjectLimits, WritersStopWhereReadersDo) {
  Variant variant;
  variant.tensors = {Tensor::FromValues<int8_t>({1})};
  const auto wrapped = [](const Variant& inner) {
    Variant outer;
    outer.tensors = {Tensor::Scalar(inner)};
    return outer;
  };
  for (int levels = 1; levels < 31; ++levels) variant = wrapped(variant);
  ASSERT_OK(DecodeBothWays(EncodeToString(Tensor::Scalar(variant), TensorMetadata())));
  variant = wrapped(variant);
  EXPECT_THAT(EncodedSize(Tensor::Scalar(variant), {}),
              StatusIs(Code::kInvalidArgument, HasSubstr("nested deeper than the 64 levels")));
  TensorProto proto;
  EXPECT_THAT(EncodeTensor(Tensor::Scalar(variant), {}, &proto), StatusIs(Code::kInvalidArgument));
}

// A reader that allows more depth may not abort where its result is checked or written again.
TEST(ObjectLimits, DeeperThanWritersGo) {
  DecodeOptions options;
  options.limits.max_depth = 1000;
  std::string message = VarintField(1, 4);
  for (int i = 0; i < 90; ++i) message = VarintField(1, 21) + BytesField(15, BytesField(3, message));
  message += BytesField(4096, testing::Fixed32Field(8, 1));
  EXPECT_THAT(DecodeSerializedTensor(message, options), StatusIs(Code::kDataLoss));
}

TEST(ObjectEncoding, RefusesWhatMessagesDoNotHold) {
  const auto refused = [](const Tensor& tensor, Code code, const char* says) {
    TensorProto proto;
    EXPECT_THAT(EncodeTensor(tensor, {}, &proto), StatusIs(code, HasSubstr(says)));
    EXPECT_THAT(EncodedSize(tensor, {Representation::kValues}), StatusIs(code, HasSubstr(says)));
    EXPECT_EQ(proto.ByteSizeLong(), 0u);
  };
  ResourceHandle handle;
  handle.container = "\xc0\x80";
  refused(Tensor::FromValues<ResourceHandle>({ResourceHandle(), handle}), Code::kInvalidArgument,
          "resource 1: container is not UTF-8");
  handle = ResourceHandle();
  handle.dtypes_and_shapes = {{DType::kFloat4E2m1, {}}};
  refused(Tensor::Scalar(handle), Code::kInvalidArgument, "dtypes_and_shapes[0] has dtype float4_e2m1");
  Variant variant;
  variant.type_name = "\xff";
  refused(Tensor::Scalar(variant), Code::kInvalidArgument, "variant 0: type_name is not UTF-8");
  variant.type_name = "";
  variant.tensors = {*Tensor::FromBuffer(DType::kInt8, TensorShape(), TensorBuffer::MakeWithoutData(1, "lost"))};
  refused(Tensor::Scalar(variant), Code::kFailedPrecondition, "tensors[0]: no data: lost");
}

// A message that was built in memory may have text that a parser would refuse.
TEST(ObjectDecoding, TextThatIsNotUtf8) {
  TensorProto proto;
  proto.set_dtype(DT_VARIANT);
  proto.add_variant_val()->set_type_name("\xff");
  EXPECT_THAT(DecodeTensor(proto), StatusIs(Code::kInvalidArgument, HasSubstr("type_name is not UTF-8")));
  proto.set_dtype(DT_RESOURCE);
  proto.clear_variant_val();
  proto.add_resource_handle_val()->set_device("\xff");
  EXPECT_THAT(DecodeTensor(proto), StatusIs(Code::kInvalidArgument, HasSubstr("device is not UTF-8")));
}

// Every cut and every changed byte: both front ends agree, and nothing crashes.
TEST(ObjectDecoding, MutatedMessages) {
  const testing::QuietProtobuf quiet;
  Variant variant = SomeVariant(0);
  variant.tensors[0] = Tensor::Scalar(Variant());
  for (const EncodeOptions& options : {kAllOptions[0], kAllOptions[1]}) {
    const std::string golden =
        EncodeToString(Tensor::FromValues<Variant>({variant, Variant()}), TensorMetadata(), options);
    for (size_t size = 0; size < golden.size(); ++size) DecodeBothWays(golden.substr(0, size)).IgnoreError();
    for (size_t at = 0; at < golden.size(); ++at) {
      for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
        std::string changed = golden;
        changed[at] = static_cast<char>(changed[at] ^ change);
        DecodeBothWays(changed).IgnoreError();
      }
    }
  }
}

TEST(VariantCodec, AlonePassesBothWays) {
  const Variant variant = SomeVariant(2);
  VariantTensorDataProto proto;
  ASSERT_OK(EncodeVariant(variant, &proto));
  ASSERT_OK_AND_ASSIGN(const uint64_t bytes, EncodedVariantBytes(variant));
  std::string message(bytes, '\0');
  ASSERT_OK(EncodeVariantTo(variant, absl::MakeSpan(&message[0], bytes)));
  EXPECT_EQ(proto.SerializeAsString(), message);
  ASSERT_OK_AND_ASSIGN(const Variant from_proto, DecodeVariant(proto));
  ASSERT_OK_AND_ASSIGN(const Variant from_bytes, DecodeVariantBytes(message));
  EXPECT_EQ(from_proto, variant);
  EXPECT_EQ(from_bytes, variant);
  ASSERT_OK_AND_ASSIGN(const Variant empty, DecodeVariantBytes(""));
  EXPECT_EQ(empty, Variant());
}

TEST(VariantCodec, Rejects) {
  Variant variant;
  variant.type_name = "\xff";
  VariantTensorDataProto proto;
  proto.set_metadata("old");
  EXPECT_THAT(EncodeVariant(variant, &proto), StatusIs(Code::kInvalidArgument, HasSubstr("type_name is not UTF-8")));
  EXPECT_EQ(proto.ByteSizeLong(), 0u);
  EXPECT_THAT(DecodeVariantBytes("\x1a"), StatusIs(Code::kInvalidArgument));
  proto.add_tensors()->set_dtype(DT_FLOAT);
  proto.mutable_tensors(0)->mutable_tensor_shape()->add_dim()->set_size(int64_t{1} << 40);
  EXPECT_THAT(DecodeVariant(proto), StatusIs(Code::kResourceExhausted, HasSubstr("tensors[0]: float32")));
  DecodeOptions options;
  options.limits.max_depth = 1;
  EXPECT_THAT(DecodeVariant(proto, options), StatusIs(Code::kResourceExhausted, HasSubstr("max_depth")));
}

}  // namespace
}  // namespace tensorcask
