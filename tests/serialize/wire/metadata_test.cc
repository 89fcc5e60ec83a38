// What travels beside a tensor: written as protobuf writes it, read back whole, and refused where it makes no sense.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::DecodeBothWays;
using testing::Difference;
using testing::EncodeToString;
using testing::FromText;
using ::testing::HasSubstr;
using testing::PlainDTypes;
using testing::RandomShape;
using testing::RandomTensor;
using testing::StatusIs;
using Code = absl::StatusCode;

std::string RandomBytes(std::mt19937_64* random, size_t max_bytes) {
  std::string text((*random)() % (max_bytes + 1), '\0');
  for (char& c : text) c = static_cast<char>((*random)());
  return text;
}

// Anything that a tensor of this dtype and rank may have; default fields as often as not.
TensorMetadata RandomMetadata(DType dtype, int rank, std::mt19937_64* random) {
  TensorMetadata metadata;
  if ((*random)() % 2 == 0) metadata.name = RandomBytes(random, 300);
  if ((*random)() % 2 == 0) metadata.device = {DeviceType::kCuda, static_cast<int32_t>((*random)() >> 33)};
  if ((*random)() % 2 == 0 && rank == 4) metadata.memory_format = MemoryFormat::kChannelsLast2d;
  if ((*random)() % 2 == 0 && rank == 5) metadata.memory_format = MemoryFormat::kChannelsLast3d;
  metadata.requires_grad = (*random)() % 2 == 0 && (IsFloating(dtype) || IsComplex(dtype));
  for (uint64_t n = (*random)() % 4; n > 0; --n) {
    metadata.attributes["k" + RandomBytes(random, 3)] = RandomBytes(random, 200);
  }
  return metadata;
}

class MetadataOfEveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, MetadataOfEveryDType, ::testing::ValuesIn(PlainDTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST_P(MetadataOfEveryDType, RoundTripsWithTheBytesOfProtobuf) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  for (int round = 0; round < 60; ++round) {
    const Tensor tensor = RandomTensor(GetParam(), RandomShape(&random), &random);
    const TensorMetadata metadata = RandomMetadata(GetParam(), tensor.rank(), &random);
    EncodeOptions options;
    options.representation = random() % 2 == 0 ? Representation::kContent : Representation::kValues;
    options.checksum = random() % 2 == 0;
    SCOPED_TRACE(absl::StrCat(tensor.ToString(), " ", metadata.ToString()));
    TensorProto proto;
    ASSERT_OK(EncodeTensor(tensor, metadata, options, &proto));
    const std::string message = EncodeToString(tensor, metadata, options);
    ASSERT_EQ(message, proto.SerializeAsString());
    EXPECT_EQ(message, EncodeToString(*tensor.Clone(), TensorMetadata(metadata), options)) << "equal is equal";
    EXPECT_EQ(proto.has_extension(), options.checksum || !metadata.IsDefault()) << "only if it says something";
    ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeSerializedTensorWithMetadata(message));
    EXPECT_EQ(decoded.metadata, metadata);
    ASSERT_OK_AND_ASSIGN(const Tensor elements, DecodeBothWays(message));
    EXPECT_EQ(Difference(elements, tensor), "");
    EXPECT_EQ(Difference(*decoded.view.ToTensor(), tensor), "");
    if (metadata.IsDefault()) {
      std::string without(*EncodedSize(tensor, options), '\0');
      ASSERT_OK(EncodeTensorTo(tensor, options, absl::MakeSpan(&without[0], without.size())));
      EXPECT_EQ(message, without);
    }
  }
}

TEST(Metadata, StandsInTheExtension) {
  TensorMetadata metadata;
  metadata.name = "encoder.weight";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.memory_format = MemoryFormat::kChannelsLast2d;
  metadata.requires_grad = true;
  metadata.attributes = {{"b", "2"}, {"a", "1"}, {"\xff", ""}};
  TensorProto proto;
  ASSERT_OK(EncodeTensor(*Tensor::Zeros(DType::kFloat32, TensorShape({1, 2, 1, 1})), metadata, {}, &proto));
  EXPECT_EQ(
      proto.extension().SerializeAsString(),
      FromText("extension { name: 'encoder.weight' device: 'cuda:1' memory_format: 1 requires_grad: true "
               "attributes { key: 'a' value: '1' } attributes { key: 'b' value: '2' } attributes { key: '\\xff' } }")
          .extension()
          .SerializeAsString());
}

TEST(Metadata, ExtensionsMerge) {
  // protobuf's rule for a message that comes twice: fields win or go on one by one.
  const std::string message =
      FromText(
          "dtype: DT_FLOAT extension { name: 'a' requires_grad: true "
          "attributes { key: 'a' } }")
          .SerializeAsString() +
      FromText("extension { name: 'b' attributes { key: 'b' value: 'c' } }").SerializeAsString();
  ASSERT_OK(DecodeBothWays(message));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeSerializedTensorWithMetadata(message));
  EXPECT_EQ(
      decoded.metadata.ToString(),
      "name \"b\", device cpu, memory_format contiguous, requires_grad true, attributes {\"a\": \"\", \"b\": \"c\"}");
}

// ---- What is refused on writing -------------------------------------------------------------------------------------

struct EncodeCase {
  const char* name;
  DType dtype;
  void (*set)(TensorMetadata* metadata);
  const char* says;
};
class EncodeRefuses : public ::testing::TestWithParam<EncodeCase> {};
TEST_P(EncodeRefuses, NamingTheField) {
  const Tensor tensor = *Tensor::Zeros(GetParam().dtype, TensorShape({2, 3}));
  TensorMetadata metadata;
  GetParam().set(&metadata);
  TensorProto proto = FromText("dtype: DT_INT8");
  EXPECT_THAT(EncodeTensor(tensor, metadata, {}, &proto), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_EQ(proto.ByteSizeLong(), 0) << "on error the message is empty";
  EXPECT_THAT(EncodedSize(tensor, metadata, {}), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_THAT(EncodeTensorTo(tensor, metadata, {}, {}), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
const EncodeCase kEncodeCases[] = {
    {"LongName", DType::kFloat32, [](TensorMetadata* m) { m->name.assign((64 << 10) + 1, 'x'); }, "the name has 65537"},
    {"NoDevice", DType::kFloat32, [](TensorMetadata* m) { m->device.index = -1; }, "device 1:-1 does not exist"},
    {"GradOfInts", DType::kInt32, [](TensorMetadata* m) { m->requires_grad = true; }, "requires_grad"},
    {"Preserve", DType::kFloat32, [](TensorMetadata* m) { m->memory_format = MemoryFormat::kPreserve; },
     "memory format preserve"},
    {"FormatOfRank4", DType::kFloat32, [](TensorMetadata* m) { m->memory_format = MemoryFormat::kChannelsLast2d; },
     "memory_format is channels_last_2d, which is for rank 4; the tensor is [2,3]"},
    {"EmptyKey", DType::kFloat32, [](TensorMetadata* m) { m->attributes[""] = "x"; }, "empty key"},
};
INSTANTIATE_TEST_SUITE_P(All, EncodeRefuses, ::testing::ValuesIn(kEncodeCases),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- What is refused on reading -------------------------------------------------------------------------------------

// The metadata does not hold; without it the tensor is read. No memory is taken for elements before the refusal.
struct DecodeCase {
  const char* name;
  std::string text;
  Code code;
  const char* says;
};
class DecodeRefuses : public ::testing::TestWithParam<DecodeCase> {};
TEST_P(DecodeRefuses, NamingTheField) {
  class CountingAllocator final : public Allocator {
   public:
    absl::string_view name() const override { return "counting"; }
    void* Allocate(size_t bytes) override {
      ++calls;
      return CpuAllocator::Default()->Allocate(bytes);
    }
    void Deallocate(void* block, size_t bytes) override { CpuAllocator::Default()->Deallocate(block, bytes); }
    int calls = 0;
  };
  const TensorProto proto = FromText(GetParam().text);
  const std::string message = proto.SerializeAsString();
  EXPECT_OK(DecodeBothWays(message));
  DecodeOptions skip;
  skip.unreadable_metadata = UnreadableMetadata::kSkip;
  ASSERT_OK_AND_ASSIGN(const DecodedTensor bare, DecodeTensorWithMetadata(proto, skip));
  EXPECT_THAT(bare.metadata_status, StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_TRUE(bare.metadata.IsDefault());
  for (const bool lenient : {false, true}) {
    DecodeOptions options;
    options.lenient = lenient;
    const RefPtr<CountingAllocator> allocator = MakeRef<CountingAllocator>();
    options.allocator = allocator;
    EXPECT_THAT(DecodeTensorWithMetadata(proto, options), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
    EXPECT_THAT(DecodeSerializedTensorWithMetadata(message, options),
                StatusIs(GetParam().code, HasSubstr(GetParam().says)));
    EXPECT_EQ(allocator->calls, 0);
  }
}
#define BIG_SHAPE " tensor_shape { dim { size: 4096 } } "
const DecodeCase kDecodeCases[] = {
    {"Duplicate",
     "dtype: DT_FLOAT" BIG_SHAPE "extension { attributes { key: 'a' } attributes { key: 'a' value: 'x' } }",
     Code::kInvalidArgument, "attributes has the key \"a\" after \"a\""},
    {"Unsorted", "dtype: DT_FLOAT" BIG_SHAPE "extension { attributes { key: 'b' } attributes { key: 'a' } }",
     Code::kInvalidArgument, "attributes has the key \"a\" after \"b\""},
    {"UnsignedOrder", "dtype: DT_FLOAT extension { attributes { key: '\\xff' } attributes { key: 'a' } }",
     Code::kInvalidArgument, "attributes has the key \"a\""},
    {"EmptyKey", "dtype: DT_FLOAT extension { attributes { value: 'x' } }", Code::kInvalidArgument,
     "attributes has an empty key"},
    {"LongName", absl::StrCat("dtype: DT_FLOAT extension { name: '", std::string((64 << 10) + 1, 'n'), "' }"),
     Code::kResourceExhausted, "name has 65537 bytes; the limit max_name_bytes is 65536"},
    {"LongKey",
     absl::StrCat("dtype: DT_FLOAT extension { attributes { key: '", std::string((64 << 10) + 1, 'n'), "' } }"),
     Code::kResourceExhausted, "the key of an attribute has 65537 bytes"},
    {"UnknownDevice", "dtype: DT_FLOAT" BIG_SHAPE "extension { device: 'tpu:0' }", Code::kInvalidArgument,
     "device \"tpu:0\": unknown type; DeviceMap::Add(\"tpu:0\", ...) would say what becomes of it"},
    {"OtherSpelling", "dtype: DT_FLOAT extension { device: 'cuda:01' }", Code::kInvalidArgument,
     "device \"cuda:01\": written as"},
    {"GradOfInts", "dtype: DT_INT32" BIG_SHAPE "extension { requires_grad: true }", Code::kInvalidArgument,
     "requires_grad is set for int32; only tensors of floating and complex dtypes have it"},
    {"GradOfStrings", "dtype: DT_STRING extension { requires_grad: true }", Code::kInvalidArgument, "requires_grad"},
    {"NoFormat", "dtype: DT_FLOAT extension { memory_format: 3 }", Code::kInvalidArgument, "memory_format is 3"},
    {"NegativeFormat", "dtype: DT_FLOAT extension { memory_format: -1 }", Code::kInvalidArgument,
     "memory_format is -1"},
    {"FormatOfRank4", "dtype: DT_FLOAT" BIG_SHAPE "extension { memory_format: 1 }", Code::kInvalidArgument,
     "memory_format is channels_last_2d, which is for rank 4; the tensor has rank 1"},
    {"FormatOfRank5", "dtype: DT_FLOAT" BIG_SHAPE "extension { memory_format: 2 }", Code::kInvalidArgument,
     "memory_format is channels_last_3d, which is for rank 5"},
};
INSTANTIATE_TEST_SUITE_P(All, DecodeRefuses, ::testing::ValuesIn(kDecodeCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Metadata, BoundsOnAttributes) {
  TensorProto proto = FromText("dtype: DT_FLOAT");
  for (size_t i = 0; i < TensorMetadata::kMaxAttributes; ++i) {
    proto.mutable_extension()->add_attributes()->set_key(absl::StrCat(100000 + i));
  }
  EXPECT_OK(DecodeTensorWithMetadata(proto));
  proto.mutable_extension()->add_attributes()->set_key("x");
  EXPECT_THAT(DecodeTensorWithMetadata(proto),
              StatusIs(Code::kInvalidArgument, HasSubstr("more than 10240 attributes")));
  proto.mutable_extension()->clear_attributes();
  auto* attribute = proto.mutable_extension()->add_attributes();
  attribute->set_key("k");
  attribute->mutable_value()->assign(TensorMetadata::kMaxAttributeBytes - 1, 'x');
  EXPECT_OK(DecodeTensorWithMetadata(proto));
  attribute->mutable_value()->push_back('x');
  EXPECT_THAT(DecodeTensorWithMetadata(proto), StatusIs(Code::kInvalidArgument, HasSubstr("16777216 bytes")));
}

TEST(Metadata, LimitOnNames) {
  const TensorProto proto = FromText("dtype: DT_FLOAT extension { name: 'four' }");
  DecodeOptions options;
  options.limits.max_name_bytes = 4;
  EXPECT_OK(DecodeTensorWithMetadata(proto, options));
  options.limits.max_name_bytes = 3;
  EXPECT_THAT(DecodeTensorWithMetadata(proto, options), StatusIs(Code::kResourceExhausted, HasSubstr("name has 4")));
  // A higher limit does not widen what a tensor may have.
  const TensorProto long_name =
      FromText(absl::StrCat("dtype: DT_FLOAT extension { name: '", std::string(70000, 'n'), "' }"));
  options.limits.max_name_bytes = 1 << 20;
  EXPECT_THAT(DecodeTensorWithMetadata(long_name, options),
              StatusIs(Code::kInvalidArgument, HasSubstr("the name has 70000 bytes")));
}

TEST(Metadata, OnlyWhatCannotBeReadIsSkipped) {
  const TensorProto proto = FromText(
      "dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: [1, 2] extension { name: 'w' device: 'tpu:0' "
      "memory_format: 7 requires_grad: true attributes { key: 'a' value: 'x' } }");
  const std::string message = proto.SerializeAsString();
  DecodeOptions options;
  options.unreadable_metadata = UnreadableMetadata::kSkip;
  for (const absl::StatusOr<DecodedTensor>& decoded :
       {DecodeTensorWithMetadata(proto, options), DecodeSerializedTensorWithMetadata(message, options),
        DecodeTensorFromCord(absl::Cord(message), options)}) {
    ASSERT_OK(decoded);
    EXPECT_THAT(decoded->metadata_status, StatusIs(Code::kInvalidArgument, HasSubstr("device \"tpu:0\"")));
    EXPECT_EQ(decoded->metadata.name, "w");
    EXPECT_EQ(decoded->metadata.device, Device());
    EXPECT_EQ(decoded->metadata.memory_format, MemoryFormat::kContiguous);
    EXPECT_TRUE(decoded->metadata.requires_grad);
    EXPECT_EQ(decoded->metadata.attributes.size(), 1U);
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, decoded->view.ToTensor());
    EXPECT_EQ(Difference(tensor, Tensor::FromValues<float>({1, 2})), "");
  }
  ASSERT_OK_AND_ASSIGN(const DecodedTensor whole, DecodeTensorWithMetadata(FromText("dtype: DT_FLOAT"), options));
  EXPECT_OK(whole.metadata_status);
}

// ---- Devices --------------------------------------------------------------------------------------------------------

TEST(Devices, AreMapped) {
  const TensorProto proto = FromText("dtype: DT_FLOAT extension { device: 'cuda:1' }");
  ASSERT_OK_AND_ASSIGN(const DecodedTensor kept, DecodeTensorWithMetadata(proto));
  EXPECT_EQ(kept.metadata.device.ToString(), "cuda:1");
  DecodeOptions options;
  options.device_map = DeviceMap::AllTo(Device());
  ASSERT_OK_AND_ASSIGN(const DecodedTensor host, DecodeTensorWithMetadata(proto, options));
  EXPECT_EQ(host.metadata.device, Device());
  options.device_map = DeviceMap::RefuseOthers();
  EXPECT_THAT(DecodeTensorWithMetadata(proto, options),
              StatusIs(Code::kInvalidArgument, HasSubstr("device \"cuda:1\" is not in the device map; "
                                                         "DeviceMap::Add(\"cuda:1\", ...)")));
  options.device_map.Add("cuda:1", {DeviceType::kRocm, 3});
  ASSERT_OK_AND_ASSIGN(const DecodedTensor moved, DecodeTensorWithMetadata(proto, options));
  EXPECT_EQ(moved.metadata.device.ToString(), "rocm:3");
  EXPECT_OK(DecodeTensor(proto, options));
}

}  // namespace
}  // namespace tensorcask
