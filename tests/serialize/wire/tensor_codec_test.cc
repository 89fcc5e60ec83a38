// Encoding against protobuf's own classes, and back.

#include "tensorcask/serialize/wire/tensor_codec.h"

#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::DecodeBothWays;
using testing::Difference;
using ::testing::ElementsAre;
using testing::FromText;
using ::testing::HasSubstr;
using testing::PlainDTypes;
using testing::RandomShape;
using testing::RandomTensor;
using testing::StatusIs;
using Code = absl::StatusCode;

std::string EncodeToString(const Tensor& tensor, const EncodeOptions& options) {
  const absl::StatusOr<uint64_t> size = EncodedSize(tensor, options);
  EXPECT_OK(size);
  std::string message(*size, '\x55');
  EXPECT_OK(EncodeTensorTo(tensor, options, absl::MakeSpan(&message[0], message.size())));
  return message;
}

class TensorOfEveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, TensorOfEveryDType, ::testing::ValuesIn(PlainDTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

// Bytes equal to protobuf's, each side reads the other's, and decoding gives every bit back.
TEST_P(TensorOfEveryDType, RoundTripsWithTheBytesOfProtobuf) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  for (int seed = 0; seed < 60; ++seed) {
    const TensorShape shape = seed == 0 ? TensorShape() : seed == 1 ? TensorShape({0}) : RandomShape(&random);
    const Tensor tensor = RandomTensor(GetParam(), shape, &random);
    for (const Representation representation : {Representation::kContent, Representation::kValues}) {
      for (const bool checksum : {false, true}) {
        SCOPED_TRACE(absl::StrCat(tensor.ToString(),
                                  representation == Representation::kContent ? " content" : " values",
                                  checksum ? ", with checksum" : ""));
        const EncodeOptions options{representation, checksum};
        TensorProto proto;
        ASSERT_OK(EncodeTensor(tensor, options, &proto));
        const std::string message = EncodeToString(tensor, options);
        ASSERT_EQ(message, proto.SerializeAsString());
        ASSERT_OK_AND_ASSIGN(const Tensor decoded, DecodeBothWays(message));
        ASSERT_EQ(Difference(decoded, tensor), "");
        EXPECT_EQ(proto.has_extension(), checksum);
      }
    }
  }
}

// The message built by hand, as TensorFlow's Tensor::AsProtoTensorContent does.
TEST_P(TensorOfEveryDType, ContentIsTheBytesOfTheElements) {
  std::mt19937_64 random(7);
  const Tensor tensor = RandomTensor(GetParam(), TensorShape({2, 0x81, 3}), &random);
  TensorProto proto;
  ASSERT_OK(EncodeTensor(tensor, {}, &proto));
  EXPECT_EQ(static_cast<int>(proto.dtype()), DTypeNumber(GetParam()));
  EXPECT_EQ(proto.tensor_shape().dim(1).size(), 0x81);
  if (GetParam() == DType::kString) {
    std::string lengths;
    std::string characters;
    for (const std::string& text : tensor.flat<std::string>()) {
      lengths += testing::Varint(text.size());
      characters += text;
    }
    EXPECT_EQ(proto.tensor_content(), lengths + characters);
    return;
  }
  std::string wanted(tensor.bytes());
  for (char& byte : wanted) {  // TensorFlow's types under a byte have zeros in the bits above
    if (GetParam() == DType::kInt4) byte &= 15;
    if (GetParam() == DType::kInt2) byte &= 3;
  }
  EXPECT_EQ(proto.tensor_content(), wanted);
}

TEST_P(TensorOfEveryDType, FailsCleanlyWithoutMemory) {
  class FailingAllocator final : public Allocator {
   public:
    explicit FailingAllocator(int fail_at) : fail_at_(fail_at) {}
    absl::string_view name() const override { return "failing"; }
    void* Allocate(size_t bytes) override {
      return ++calls_ == fail_at_ ? nullptr : CpuAllocator::Default()->Allocate(bytes);
    }
    void Deallocate(void* block, size_t bytes) override { CpuAllocator::Default()->Deallocate(block, bytes); }
    bool failed() const { return calls_ >= fail_at_; }

   private:
    const int fail_at_;
    int calls_ = 0;
  };
  std::mt19937_64 random(1);
  const Tensor tensor = RandomTensor(GetParam(), TensorShape({3, 4}), &random);
  for (const Representation representation : {Representation::kContent, Representation::kValues}) {
    const std::string message = EncodeToString(tensor, {representation, true});
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 10);
      DecodeOptions options;
      const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>(n);
      options.allocator = allocator;
      const absl::StatusOr<Tensor> decoded = DecodeSerializedTensor(message, options);
      if (!allocator->failed()) {
        ASSERT_OK(decoded);
        EXPECT_EQ(Difference(*decoded, tensor), "");
        EXPECT_GT(n, 1) << "nothing was allocated through the allocator";
        break;
      }
      EXPECT_THAT(decoded, StatusIs(Code::kResourceExhausted));
    }
  }
}

TEST(EncodeTensor, WritesTheValuesOfEachField) {
  const auto encode = [](const Tensor& tensor) {
    TensorProto proto;
    EXPECT_OK(EncodeTensor(tensor, {Representation::kValues, false}, &proto));
    return proto;
  };
  EXPECT_THAT(encode(Tensor::FromValues<float>({1.5f, -2.0f})).float_val(), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(encode(Tensor::FromValues<double>({1.5})).double_val(), ElementsAre(1.5));
  EXPECT_THAT(encode(Tensor::FromValues<int8_t>({-1, 127})).int_val(), ElementsAre(-1, 127));
  EXPECT_THAT(encode(Tensor::FromValues<uint16_t>({65535})).int_val(), ElementsAre(65535));
  EXPECT_THAT(encode(Tensor::FromValues<int4>({int4(-8), int4(7)})).int_val(), ElementsAre(-8, 7));
  EXPECT_THAT(encode(Tensor::FromValues<quint8>({quint8(255)})).int_val(), ElementsAre(255));
  EXPECT_THAT(encode(Tensor::FromValues<int64_t>({-5})).int64_val(), ElementsAre(-5));
  EXPECT_THAT(encode(Tensor::FromValues<bool>({true, false})).bool_val(), ElementsAre(true, false));
  EXPECT_THAT(encode(Tensor::FromValues<uint32_t>({4000000000U})).uint32_val(), ElementsAre(4000000000U));
  EXPECT_THAT(encode(Tensor::FromValues<uint64_t>({~uint64_t{0}})).uint64_val(), ElementsAre(~uint64_t{0}));
  EXPECT_THAT(encode(Tensor::Scalar(std::complex<float>(1, 2))).scomplex_val(), ElementsAre(1, 2));
  EXPECT_THAT(encode(Tensor::Scalar(std::complex<double>(1, 2))).dcomplex_val(), ElementsAre(1, 2));
  EXPECT_THAT(encode(Tensor::FromValues<float16>({float16(1.0f)})).half_val(), ElementsAre(0x3c00));
  EXPECT_THAT(encode(Tensor::FromValues<bfloat16>({bfloat16(-1.0f)})).half_val(), ElementsAre(0xbf80));
  EXPECT_EQ(encode(Tensor::FromValues<float8_e5m2>({float8_e5m2::FromBits(0x7c)})).float8_val(), "\x7c");
  EXPECT_THAT(encode(Tensor::FromValues<std::string>({"a", ""})).string_val(), ElementsAre("a", ""));
}

TEST(EncodeTensor, ClearsWhatWasThere) {
  TensorProto proto = FromText("dtype: DT_INT32 int_val: 3 version_number: 7 extension { name: 'x' }");
  ASSERT_OK(EncodeTensor(Tensor::FromValues<float>({1}), {}, &proto));
  TensorProto fresh;
  ASSERT_OK(EncodeTensor(Tensor::FromValues<float>({1}), {}, &fresh));
  EXPECT_EQ(proto.SerializeAsString(), fresh.SerializeAsString());
}

// 2 GiB that are never touched: the message is refused when it is measured (row TP-33).
TEST(EncodeTensor, RefusesMoreThanProtobufHolds) {
  static char byte;
  const int64_t elements = int64_t{1} << 31;
  const absl::StatusOr<Tensor> tensor =
      Tensor::FromExternal(DType::kUint8, TensorShape({elements}), &byte, static_cast<size_t>(elements), [] {});
  ASSERT_OK(tensor);
  TensorProto proto;
  EXPECT_THAT(EncodeTensor(*tensor, {}, &proto),
              StatusIs(Code::kInvalidArgument, HasSubstr("a protobuf message holds 2147483647: use EncodeTensorTo")));
  EXPECT_EQ(proto.ByteSizeLong(), 0);
  ASSERT_OK_AND_ASSIGN(const uint64_t size, EncodedSize(*tensor, {}));
  EXPECT_EQ(size, (uint64_t{1} << 31) + 18);  // 2 dtype, 2 + 2 + 6 shape, 6 tag and length
}

TEST(EncodeTensorTo, WrongSizeIsABug) {
  std::string message(3, '\0');
  EXPECT_DEATH({ EncodeTensorTo(Tensor::Scalar<float>(1), {}, absl::MakeSpan(&message[0], 3)).IgnoreError(); },
               "EncodedSize");
}

TEST(DecodeTensor, KeepsEveryBitOfFloats) {
  const uint32_t floats[] = {0x7fa00001, 0xffa00001, 0x7fc12345, 0xffffffff, 0x80000000, 0x00000001, 0x807fffff};
  const uint64_t doubles[] = {0x7ff4000000000001, 0xfff4000000000001, 0x7ff8123456789abc, 0x8000000000000000, 1};
  Tensor single = *Tensor::Create(DType::kFloat32, TensorShape({7}));
  std::memcpy(single.mutable_bytes().data(), floats, sizeof(floats));
  Tensor twice = *Tensor::Create(DType::kFloat64, TensorShape({5}));
  std::memcpy(twice.mutable_bytes().data(), doubles, sizeof(doubles));
  for (const Representation representation : {Representation::kContent, Representation::kValues}) {
    for (const Tensor& tensor : {single, twice}) {
      ASSERT_OK_AND_ASSIGN(const Tensor decoded, DecodeBothWays(EncodeToString(tensor, {representation, true})));
      EXPECT_EQ(Difference(decoded, tensor), "");
    }
  }
  // One by one, each in a field of its own.
  std::string message = testing::VarintField(1, 1) + testing::ShapeField({7});
  for (const uint32_t bits : floats) message += testing::Fixed32Field(5, bits);
  ASSERT_OK_AND_ASSIGN(const Tensor decoded, DecodeBothWays(message));
  EXPECT_EQ(Difference(decoded, single), "");
}

// The bits of a byte above the value of an element under a byte (FORMAT.md section 2.1).
struct SubByteCase {
  DType dtype;
  uint8_t value_bits;
};
class SubByte : public ::testing::TestWithParam<SubByteCase> {};
INSTANTIATE_TEST_SUITE_P(All, SubByte,
                         ::testing::Values(SubByteCase{DType::kInt4, 0x0f}, SubByteCase{DType::kUint4, 0x0f},
                                           SubByteCase{DType::kInt2, 0x03}, SubByteCase{DType::kUint2, 0x03},
                                           SubByteCase{DType::kFloat4E2m1, 0x0f}, SubByteCase{DType::kFloat6E2m3, 0x3f},
                                           SubByteCase{DType::kFloat6E3m2, 0x3f}),
                         [](const auto& info) { return std::string(DTypeName(info.param.dtype)); });

TEST_P(SubByte, BitsAboveTheValueAreKeptAndChecked) {
  const auto [dtype, value_bits] = GetParam();
  const bool is_own = DTypeNumber(dtype) >= kFirstOwnDTypeNumber;
  std::string bytes(256, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  TensorProto proto;
  proto.mutable_tensor_shape()->add_dim()->set_size(256);
  proto.set_tensor_content(bytes);
  proto.mutable_extension()->set_crc32c(MaskCrc32c(Crc32c(bytes)));
  if (is_own) {
    proto.mutable_extension()->set_dtype(DTypeNumber(dtype));
  } else {
    proto.set_dtype(static_cast<DataType>(DTypeNumber(dtype)));
  }
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, DecodeBothWays(proto.SerializeAsString()));
  EXPECT_EQ(tensor.bytes(), bytes);

  // Written again as content and as a payload: the same bytes. As values: the bits of the value alone.
  TensorProto again;
  ASSERT_OK(EncodeTensor(tensor, {Representation::kContent, true}, &again));
  EXPECT_EQ(again.SerializeAsString(), proto.SerializeAsString());
  EncodeOptions compressed;
  compressed.payload.level = PayloadLevel::kDefault;
  ASSERT_OK_AND_ASSIGN(const Tensor large, Tensor::Create(dtype, TensorShape({1 << 16})));
  Tensor filled = large;
  ASSERT_OK(filled.EnsureMutable());
  std::memset(filled.mutable_bytes().data(), 0xff, size_t{1} << 16);
  ASSERT_OK(EncodeTensor(filled, compressed, &again));
  ASSERT_TRUE(again.extension().payload().size() > 0);
  ASSERT_OK_AND_ASSIGN(const Tensor unpacked, DecodeTensor(again));
  EXPECT_EQ(unpacked.bytes(), filled.bytes());
  std::string values_alone = bytes;
  for (char& byte : values_alone) byte = static_cast<char>(byte & value_bits);
  if (!is_own) {
    ASSERT_OK(EncodeTensor(tensor, {Representation::kValues, false}, &again));
    ASSERT_OK_AND_ASSIGN(const Tensor from_values, DecodeTensor(again));
    EXPECT_EQ(from_values.bytes(), values_alone);
  }
  // The checksum covers whole bytes.
  proto.mutable_extension()->set_crc32c(MaskCrc32c(Crc32c(values_alone)));
  EXPECT_THAT(DecodeBothWays(proto.SerializeAsString()), StatusIs(Code::kDataLoss, HasSubstr("crc32c")));
}

TEST(DecodeTensor, HasAlignedMemoryOfItsOwn) {
  std::string message = " " + EncodeToString(Tensor::FromValues<float>({{1, 2}, {3, 4}}), {});
  ASSERT_OK_AND_ASSIGN(const Tensor decoded, DecodeSerializedTensor(absl::string_view(message).substr(1)));
  message.assign(message.size(), 'x');
  EXPECT_TRUE(decoded.IsAligned());
  EXPECT_EQ(Difference(decoded, Tensor::FromValues<float>({{1, 2}, {3, 4}})), "");
}

TEST(DecodeTensorInto, WantsTheSameTensor) {
  const std::string message = EncodeToString(Tensor::FromValues<float>({1, 2}), {});
  Tensor other = *Tensor::Zeros(DType::kFloat32, TensorShape({2, 1}));
  EXPECT_THAT(DecodeTensorInto(message, {}, &other),
              StatusIs(Code::kInvalidArgument, HasSubstr("holds float32 [2]; the tensor to fill is float32 [2,1]")));
  other = *Tensor::Zeros(DType::kInt32, TensorShape({2}));
  EXPECT_THAT(DecodeTensorInto(message, {}, &other),
              StatusIs(Code::kInvalidArgument, HasSubstr("holds float32 [2]; the tensor to fill is int32 [2]")));
  other = *Tensor::Zeros(DType::kFloat32, TensorShape({2}));
  const void* data = other.data<float>();
  ASSERT_OK(DecodeTensorInto(message, {}, &other));
  EXPECT_EQ(other.data<float>(), data);
  EXPECT_EQ(other.flat<float>()[1], 2);
}

TEST(Checksum, IsVerifiedInEveryRepresentation) {
  std::mt19937_64 random(3);
  for (const DType dtype : PlainDTypes()) {
    for (const Representation representation : {Representation::kContent, Representation::kValues}) {
      SCOPED_TRACE(DTypeName(dtype));
      TensorProto proto;
      ASSERT_OK(EncodeTensor(RandomTensor(dtype, TensorShape({3, 5}), &random), {representation, true}, &proto));
      EXPECT_NE(proto.extension().crc32c(), 0);
      proto.mutable_extension()->set_crc32c(proto.extension().crc32c() ^ 0x100);
      EXPECT_THAT(
          DecodeBothWays(proto.SerializeAsString()),
          StatusIs(Code::kDataLoss, HasSubstr(absl::StrCat(DTypeName(dtype), " [3,5] have the masked crc32c"))));
      proto.mutable_extension()->set_crc32c(0);  // not given
      EXPECT_OK(DecodeBothWays(proto.SerializeAsString()));
    }
  }
}

TEST(Checksum, IsThatOfTheDecodedBytes) {
  TensorProto proto;
  ASSERT_OK(EncodeTensor(Tensor::FromValues<int16_t>({1, -2}), {Representation::kValues, true}, &proto));
  EXPECT_EQ(proto.extension().crc32c(), MaskCrc32c(Crc32c(absl::string_view("\x01\x00\xfe\xff", 4))));
  ASSERT_OK(EncodeTensor(Tensor::FromValues<int4>({int4(-1), int4(7)}), {Representation::kContent, true}, &proto));
  EXPECT_EQ(proto.extension().crc32c(), MaskCrc32c(Crc32c("\x0f\x07")));
  ASSERT_OK(EncodeTensor(Tensor::FromValues<std::string>({"ab", ""}), {Representation::kValues, true}, &proto));
  EXPECT_EQ(proto.extension().crc32c(), MaskCrc32c(Crc32c(absl::string_view("\x02\x00"
                                                                            "ab",
                                                                            4))));
  ASSERT_OK(EncodeTensor(*Tensor::Zeros(DType::kFloat32, TensorShape({0})), {Representation::kContent, true}, &proto));
  EXPECT_EQ(proto.extension().crc32c(), MaskCrc32c(0));
}

// A tensor that shares its memory is given a private copy before it is written; without memory that is an error.
TEST(DecodeTensorInto, ALazyCloneWithoutMemoryIsAnError) {
  std::mt19937_64 random(4);
  for (const DType dtype : {DType::kFloat32, DType::kBool, DType::kString}) {
    for (const Representation representation : {Representation::kContent, Representation::kValues}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", static_cast<int>(representation)));
      const Tensor source = RandomTensor(dtype, TensorShape({30}), &random);
      if (dtype == DType::kString && representation == Representation::kContent) continue;
      const std::string message = EncodeToString(source, {representation, false});
      const auto allocator = MakeRef<testing::FailingAllocator>(/*fail_at=*/2, /*for_good=*/true);
      ASSERT_OK_AND_ASSIGN(const Tensor original, Tensor::Create(dtype, TensorShape({30}), allocator));
      ASSERT_OK_AND_ASSIGN(Tensor clone, original.LazyClone());
      EXPECT_THAT(DecodeTensorInto(message, {}, &clone), StatusIs(Code::kResourceExhausted));
    }
  }
}

}  // namespace
}  // namespace tensorcask
