// The extension-only form: tensors that are not row-major, or of dtypes that TensorFlow lacks.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::DecodeBothWays;
using testing::Difference;
using testing::EncodeToString;
using testing::FromText;
using ::testing::HasSubstr;
using testing::OwnDTypes;
using testing::PlainDTypes;
using testing::RandomTensor;
using testing::StatusIs;
using Code = absl::StatusCode;

EncodeOptions Preserve(Representation representation = Representation::kContent, bool checksum = false) {
  return {representation, checksum, StoredLayout::kPreserve};
}

std::vector<DType> FixedSizeDTypes() {
  std::vector<DType> dtypes = OwnDTypes();
  for (const DType dtype : PlainDTypes()) {
    if (dtype != DType::kString) dtypes.push_back(dtype);
  }
  return dtypes;
}

// A view of [3,4,5], and the geometry in which it comes back when its order is kept.
struct ViewCase {
  TensorView view;
  const char* kept;  // null: without elements
  bool row_major;    // then dtypes of TensorFlow take the plain form
};
std::vector<ViewCase> ViewsOf(const Tensor& tensor) {
  const TensorView whole(tensor);
  return {
      {whole, "[3,4,5] strides [20,5,1] offset 0", true},
      {*whole.Permute({2, 0, 1}), "[5,3,4] strides [1,20,5] offset 0", false},
      {*whole.Flip({1}), "[3,4,5] strides [20,-5,1] offset 15", false},
      {*whole.Permute({2, 1, 0})->Flip({0, 2}), "[5,4,3] strides [-1,5,-20] offset 44", false},
      {*whole.Narrow(0, 1, 2)->Transpose(1, 2), "[2,5,4] strides [20,1,5] offset 0", false},
      // Gaps go, the order of the axes stays.
      {*whole.Slice(2, 0, 5, 3), "[3,4,2] strides [8,2,1] offset 0", true},
      {*whole.Slice(2, 0, 5, 3)->Transpose(0, 2), "[2,4,3] strides [1,2,8] offset 0", false},
      {*whole.Select(0, 1)->Transpose(0, 1)->Slice(1, 0, 4, 2), "[5,2] strides [1,5] offset 0", false},
      {*whole.Narrow(0, 1, 0)->Transpose(1, 2), nullptr, true},  // no elements, no order
      {*whole.Select(0, 2)->Select(0, 3)->Select(0, 4), "[] strides [] offset 0", true},
  };
}

class ExtensionOnlyOfEveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, ExtensionOnlyOfEveryDType, ::testing::ValuesIn(FixedSizeDTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST_P(ExtensionOnlyOfEveryDType, KeepsOrderWithTheBytesOfProtobuf) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const bool own_dtype = DTypeNumber(GetParam()) >= kFirstOwnDTypeNumber;
  const Tensor tensor = RandomTensor(GetParam(), TensorShape({3, 4, 5}), &random);
  TensorMetadata metadata;
  metadata.name = "w";
  metadata.attributes["k"] = "v";
  for (const ViewCase& row : ViewsOf(tensor)) {
    for (const EncodeOptions& options :
         {Preserve(), Preserve(Representation::kContent, true), Preserve(Representation::kValues, true)}) {
      SCOPED_TRACE(absl::StrCat(row.view.ToString(), options.checksum ? ", with checksum" : ""));
      TensorProto proto;
      ASSERT_OK(EncodeTensor(row.view, metadata, options, &proto));
      const std::string message = EncodeToString(row.view, metadata, options);
      ASSERT_EQ(message, proto.SerializeAsString());
      EXPECT_EQ(proto.dtype() == 0, own_dtype || !row.row_major);
      EXPECT_EQ(proto.extension().strides_size(), row.row_major ? 0 : row.view.rank());
      if (proto.dtype() == 0) {
        EXPECT_EQ(proto.extension().dtype(), DTypeNumber(GetParam()));
        EXPECT_EQ(proto.tensor_content().size(),
                  static_cast<size_t>(row.view.num_elements()) * row.view.element_size());
      }
      ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeSerializedTensorWithMetadata(message));
      EXPECT_EQ(decoded.metadata, metadata);
      if (row.kept != nullptr) {
        EXPECT_EQ(decoded.view.layout().ToString(), row.kept);
      }
      ASSERT_OK_AND_ASSIGN(const Tensor dense, row.view.ToTensor());
      ASSERT_OK_AND_ASSIGN(const Tensor read, decoded.view.ToTensor());
      EXPECT_EQ(Difference(read, dense), "");
      ASSERT_OK_AND_ASSIGN(const Tensor without_metadata, DecodeBothWays(message));
      EXPECT_EQ(Difference(without_metadata, dense), "");
      // Read and written again it is the same.
      EXPECT_EQ(EncodeToString(decoded.view, decoded.metadata, options), message);
    }
  }
}

TEST_P(ExtensionOnlyOfEveryDType, RowMajorByDefault) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const bool own_dtype = DTypeNumber(GetParam()) >= kFirstOwnDTypeNumber;
  const Tensor tensor = RandomTensor(GetParam(), TensorShape({3, 4, 5}), &random);
  for (const ViewCase& row : ViewsOf(tensor)) {
    SCOPED_TRACE(row.view.ToString());
    TensorProto proto;
    ASSERT_OK(EncodeTensor(row.view, {}, &proto));
    EXPECT_EQ(proto.dtype() == 0, own_dtype);
    EXPECT_EQ(proto.extension().strides_size(), 0);
    EXPECT_EQ(proto.SerializeAsString(), EncodeToString(*row.view.ToTensor(), {}));
    ASSERT_OK_AND_ASSIGN(const Tensor read, DecodeBothWays(proto.SerializeAsString()));
    EXPECT_EQ(Difference(read, *row.view.ToTensor()), "");
  }
}

TEST_P(ExtensionOnlyOfEveryDType, DecodesIntoTensorsAndViews) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const Tensor tensor = RandomTensor(GetParam(), TensorShape({3, 4, 5}), &random);
  const TensorView source = *TensorView(tensor).Permute({2, 0, 1});
  const std::string message = EncodeToString(source, {}, Preserve());
  Tensor row_major = *Tensor::Zeros(GetParam(), source.shape());
  ASSERT_OK(DecodeTensorInto(message, {}, &row_major));
  EXPECT_EQ(Difference(row_major, *source.ToTensor()), "");
  const Tensor target = *Tensor::Zeros(GetParam(), TensorShape({3, 5, 4}));
  TensorView strided = *TensorView(target).Transpose(0, 1);
  ASSERT_OK(DecodeTensorInto(message, {}, &strided));
  EXPECT_EQ(Difference(*strided.ToTensor(), *source.ToTensor()), "");
}

TEST(ExtensionOnly, ChannelsLast) {
  std::mt19937_64 random(3);
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({2, 3, 4, 5}), &random);
  ASSERT_OK_AND_ASSIGN(const TensorView nhwc, TensorView(tensor).Contiguous(MemoryFormat::kChannelsLast2d));
  TensorMetadata metadata;
  metadata.memory_format = MemoryFormat::kChannelsLast2d;
  const std::string message = EncodeToString(nhwc, metadata, Preserve());
  ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeSerializedTensorWithMetadata(message));
  EXPECT_TRUE(decoded.view.IsContiguous(MemoryFormat::kChannelsLast2d)) << decoded.view.ToString();
  EXPECT_EQ(decoded.metadata.memory_format, MemoryFormat::kChannelsLast2d);
  EXPECT_EQ(Difference(*decoded.view.ToTensor(), tensor), "");
  // One image of one pixel is row-major, too: the plain form, and only the metadata tells.
  const Tensor pixel = *Tensor::Zeros(DType::kFloat32, TensorShape({1, 3, 1, 1}));
  TensorProto proto;
  ASSERT_OK(EncodeTensor(pixel, metadata, Preserve(), &proto));
  EXPECT_EQ(proto.dtype(), DT_FLOAT);
  EXPECT_EQ(proto.extension().memory_format(), 1);
}

TEST(ExtensionOnly, OffsetsIntoTheBufferDoNotShow) {
  std::mt19937_64 random(4);
  const Tensor tensor = RandomTensor(DType::kInt32, TensorShape({4, 4}), &random);
  const TensorView lower = *TensorView(tensor).Narrow(0, 2, 2)->Transpose(0, 1);
  const TensorView copied = *TensorView(*TensorView(tensor).Narrow(0, 2, 2)->Clone()).Transpose(0, 1);
  EXPECT_EQ(EncodeToString(lower, {}, Preserve()), EncodeToString(copied, {}, Preserve()));
}

TEST(ExtensionOnly, StringsAreRowMajor) {
  const Tensor tensor = Tensor::FromValues<std::string>({{"a", "bc"}, {"", "d"}});
  const TensorView columns = *TensorView(tensor).Transpose(0, 1);
  EXPECT_EQ(EncodeToString(columns, {}, Preserve()), EncodeToString(*columns.ToTensor(), {}));
}

TEST(ExtensionOnly, RepeatedElementsAreWrittenOut) {
  const Tensor tensor = Tensor::FromValues<int16_t>({1, 2, 3});
  const TensorView rows = *TensorView(tensor).Expand({2, 3});
  const TensorView columns = *rows.Transpose(0, 1);
  ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded,
                       DecodeSerializedTensorWithMetadata(EncodeToString(columns, {}, Preserve())));
  EXPECT_EQ(Difference(*decoded.view.ToTensor(), *columns.ToTensor()), "");
}

// ---- What is refused ------------------------------------------------------------------------------------------------

struct Case {
  const char* name;
  const char* text;
  Code code;
  const char* says;
};
class ExtensionOnlyRejects : public ::testing::TestWithParam<Case> {};
TEST_P(ExtensionOnlyRejects, WithCodeAndMessage) {
  const std::string message = FromText(GetParam().text).SerializeAsString();
  EXPECT_THAT(DecodeBothWays(message), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_THAT(DecodeBothWays(message, testing::Lenient()), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}
#define SHAPE22 " tensor_shape { dim { size: 2 } dim { size: 2 } } "
#define ABCD " tensor_content: 'abcd' "
constexpr Code kInvalid = Code::kInvalidArgument;
const Case kCases[] = {
    {"Gap", SHAPE22 ABCD "extension { dtype: 4 strides: [1, 3] }", kInvalid,
     "do not give each of 4 elements a position"},
    {"Overlap", SHAPE22 ABCD "extension { dtype: 4 strides: [1, 1] }", kInvalid, "do not give each of 4"},
    {"Broadcast", SHAPE22 "tensor_content: 'ab' extension { dtype: 4 strides: [0, 1] }", kInvalid, "do not give each"},
    {"OverlapInRange",
     "tensor_shape { dim { size: 2 } dim { size: 2 } dim { size: 2 } } tensor_content: 'abcdefgh' "
     "extension { dtype: 4 strides: [4, 2, 2] }",
     kInvalid, "do not give each of 8"},
    {"OffsetPastTheEnd", SHAPE22 ABCD "extension { dtype: 4 strides: [1, 2] storage_offset: 1 }", kInvalid,
     "offset 1, do not give each of 4"},
    {"NegativeOffset", SHAPE22 ABCD "extension { dtype: 4 strides: [1, 2] storage_offset: -1 }", kInvalid, "strides: "},
    {"FlipWithoutOffset", SHAPE22 ABCD "extension { dtype: 4 strides: [-1, 2] }", kInvalid, "strides: "},
    {"FewerStrides", SHAPE22 ABCD "extension { dtype: 4 strides: [1] }", kInvalid,
     "strides has 1 numbers; the shape is"},
    {"MoreStrides", SHAPE22 ABCD "extension { dtype: 4 strides: [1, 2, 4] }", kInvalid, "strides has 3 numbers"},
    {"StridesOfAScalar", "tensor_content: 'a' extension { dtype: 4 strides: 1 }", kInvalid, "strides has 1 numbers"},
    {"StridesWrap", SHAPE22 ABCD "extension { dtype: 4 strides: [9223372036854775807, 9223372036854775807] }", kInvalid,
     "strides: "},
    {"StridesWrapDown", SHAPE22 ABCD "extension { dtype: 4 strides: [-9223372036854775808, 1] }", kInvalid,
     "strides: "},
    {"OffsetWithoutElements", "tensor_shape { dim { size: 0 } } extension { dtype: 4 strides: 1 storage_offset: 9 }",
     kInvalid, "storage_offset is 9 in a tensor without elements"},
    {"NoContent", SHAPE22 "extension { dtype: 4 strides: [1, 2] }", kInvalid,
     "tensor_content has 0 bytes; uint8 [2,2]"},
    {"NoContentOwnDType", SHAPE22 "extension { dtype: 65 }", kInvalid, "tensor_content has 0 bytes; float4_e2m1 [2,2]"},
    {"ContentShort", SHAPE22 "tensor_content: 'abc' extension { dtype: 4 strides: [1, 2] }", kInvalid,
     "tensor_content has 3 bytes"},
    {"ContentWithoutElements", "tensor_shape { dim { } } tensor_content: 'a' extension { dtype: 65 }", kInvalid,
     "tensor_content has 1 bytes"},
    {"BoolOf2",
     "tensor_shape { dim { size: 2 } } tensor_content: '\\001\\002' "
     "extension { dtype: 10 strides: -1 storage_offset: 1 }",
     kInvalid, "tensor_content: byte 1 is 2; a bool is 0 or 1"},
    {"Strings", "tensor_shape { dim { size: 1 } } tensor_content: '\\000' extension { dtype: 7 strides: 1 }", kInvalid,
     "extension: dtype is 7; the extension-only form holds elements of a fixed size"},
    {"Variants", "tensor_shape { dim { size: 1 } } tensor_content: 'a' extension { dtype: 21 strides: 1 }", kInvalid,
     "extension: dtype is 21"},
    {"Reference", "tensor_shape { dim { size: 1 } } tensor_content: 'abcd' extension { dtype: 101 strides: 1 }",
     kInvalid, "dtype is 101"},
    {"Unassigned", "tensor_shape { dim { size: 1 } } tensor_content: 'a' extension { dtype: 40 strides: 1 }", kInvalid,
     "extension: dtype is 40"},
    {"Newer", "tensor_content: 'a' extension { dtype: 900 }", Code::kUnimplemented,
     "dtype is 900, which this build does not know"},
    {"HugeShape",
     "tensor_shape { dim { size: 4611686018427387904 } } tensor_content: 'a' "
     "extension { dtype: 3 strides: 1 }",
     kInvalid, "tensor_content has 1 bytes"},
    {"Checksum", SHAPE22 ABCD "extension { dtype: 4 strides: [1, 2] crc32c: 1 }", Code::kDataLoss, "masked crc32c"},
};
INSTANTIATE_TEST_SUITE_P(All, ExtensionOnlyRejects, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ExtensionOnly, StridesMayStandOneByOne) {
  std::string strides = testing::VarintField(4, 1) + testing::VarintField(4, 2);
  const std::string message = testing::ShapeField({2, 2}) + testing::BytesField(4, "abcd") +
                              testing::BytesField(4096, testing::VarintField(3, 4) + strides);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, DecodeBothWays(message));
  EXPECT_EQ(tensor.bytes(), "acbd");
}

TEST(ExtensionOnly, RowMajorStridesAreTaken) {  // which no writer of ours writes
  ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      DecodeBothWays(FromText(SHAPE22 ABCD "extension { dtype: 4 strides: [2, 1] }").SerializeAsString()));
  EXPECT_EQ(tensor.bytes(), "abcd");
}

}  // namespace
}  // namespace tensorcask
