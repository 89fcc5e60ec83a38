// Variants as bytes of a data file: the bytes themselves, what comes back, and what is refused.

#include "tensorcask/serialize/checkpoint/format/stored_variants.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

Variant Named(const std::string& type_name, std::vector<Tensor> tensors = {}) {
  Variant variant;
  variant.type_name = type_name;
  variant.tensors = std::move(tensors);
  return variant;
}

struct Stored {
  std::string bytes;
  uint32_t crc = 0;
};
Stored StoredOf(const std::vector<Variant>& values) {
  Stored stored;
  StringSink sink(&stored.bytes);
  EXPECT_OK(AppendVariants(values, &sink, &stored.crc));
  return stored;
}

// An element as TensorFlow's WriteVariantTensor puts it, step by step.
void AppendElement(const std::string& message, uint32_t* crc, std::string* out) {
  ASSERT_LT(message.size(), 128u);
  out->push_back(static_cast<char>(message.size()));
  std::string length(8, '\0');
  length[0] = static_cast<char>(message.size());
  *crc = ExtendCrc32c(*crc, length);
  out->append(message);
  *crc = ExtendCrc32c(*crc, message);
  const uint32_t masked = MaskCrc32c(*crc);
  std::string checksum;
  for (int shift = 0; shift < 32; shift += 8) checksum.push_back(static_cast<char>(masked >> shift));
  out->append(checksum);
  *crc = ExtendCrc32c(*crc, checksum);
}

absl::StatusOr<std::vector<Variant>> Decoded(absl::string_view stored, uint64_t count,
                                             const DecodeOptions& options = {}) {
  absl::StatusOr<StoredVariants> variants = ParseVariants(stored, count, /*verify=*/true);
  if (!variants.ok()) return variants.status();
  std::vector<Variant> out(count);
  DecodeQuota decoded = DecodeQuota::ForFile(options.limits);
  const absl::Status status = DecodeVariants(*variants, options, &decoded, out.data());
  if (!status.ok()) return status;
  return out;
}

TEST(VariantCodec, WritesTensorFlowsBytes) {
  const std::vector<Variant> values = {Named("t", {Tensor::Scalar(2.0f)}), Variant(), Named("u")};
  std::string wanted;
  uint32_t crc = 0;
  VariantTensorDataProto first;
  first.set_type_name("t");
  TensorProto* tensor = first.add_tensors();
  tensor->set_dtype(DT_FLOAT);
  tensor->mutable_tensor_shape();
  tensor->add_float_val(2.0f);
  VariantTensorDataProto third;
  third.set_type_name("u");
  for (const std::string& message : {first.SerializeAsString(), std::string(), third.SerializeAsString()}) {
    AppendElement(message, &crc, &wanted);
  }
  const Stored stored = StoredOf(values);
  EXPECT_EQ(stored.bytes, wanted);
  EXPECT_EQ(stored.crc, crc);
  ASSERT_OK_AND_ASSIGN(const StoredVariants parsed, ParseVariants(stored.bytes, 3, /*verify=*/true));
  EXPECT_EQ(parsed.crc, crc);
  ASSERT_OK_AND_ASSIGN(const std::vector<Variant> back, Decoded(stored.bytes, 3));
  EXPECT_EQ(back, values);
  ASSERT_OK_AND_ASSIGN(const StoredVariants unverified, ParseVariants(stored.bytes, 3, /*verify=*/false));
  EXPECT_EQ(unverified.crc, 0u);
}

TEST(VariantCodec, NoElements) {
  const Stored stored = StoredOf({});
  EXPECT_EQ(stored.bytes, "");
  EXPECT_EQ(stored.crc, 0u);
  EXPECT_OK(Decoded("", 0));
}

TEST(VariantCodec, LargeElementsAndNestedOnes) {
  const Variant inner = Named("inner", {*Tensor::Zeros(DType::kFloat64, TensorShape({40, 50}))});
  const std::vector<Variant> values = {Named(std::string(300, 'n'), {Tensor::FromValues<Variant>({inner, Variant()})}),
                                       Named("big", {*Tensor::Zeros(DType::kUint8, TensorShape({100000}))})};
  const Stored stored = StoredOf(values);
  ASSERT_OK_AND_ASSIGN(const std::vector<Variant> back, Decoded(stored.bytes, 2));
  EXPECT_EQ(back, values);
}

TEST(VariantCodec, EveryCutAndEveryChangedByteIsSeen) {
  const std::string golden = StoredOf({Named("t", {Tensor::Scalar(2.0f)}), Named("u")}).bytes;
  for (size_t size = 0; size < golden.size(); ++size) {
    EXPECT_THAT(ParseVariants(absl::string_view(golden).substr(0, size), 2, true), StatusIs(Code::kDataLoss)) << size;
  }
  for (size_t at = 0; at < golden.size(); ++at) {
    for (int change = 1; change < 256; ++change) {
      std::string changed = golden;
      changed[at] = static_cast<char>(changed[at] ^ change);
      EXPECT_THAT(ParseVariants(changed, 2, true), StatusIs(Code::kDataLoss)) << at;
      // Without the checksums it may be anything, but not a crash.
      const absl::StatusOr<StoredVariants> parsed = ParseVariants(changed, 2, false);
      std::vector<Variant> out(2);
      DecodeQuota decoded = DecodeQuota::ForFile(DecodeLimits());
      if (parsed.ok()) DecodeVariants(*parsed, {}, &decoded, out.data()).IgnoreError();
    }
  }
}

// What is in them is taken from the limit of the call before it is decoded.
TEST(VariantCodec, TakesFromWhatTheCallMayDecode) {
  const Stored stored = StoredOf({Named("t", {*Tensor::Zeros(DType::kInt64, TensorShape({1000}))})});
  ASSERT_OK_AND_ASSIGN(const StoredVariants variants, ParseVariants(stored.bytes, 1, /*verify=*/true));
  DecodeLimits limits;
  limits.max_file_decoded_bytes = 20000;
  DecodeQuota decoded = DecodeQuota::ForFile(limits);
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    Variant out;
    const absl::Status status = DecodeVariants(variants, {}, &decoded, &out);
    if (i < 2) {
      EXPECT_OK(status);
      EXPECT_EQ(out.tensors.size(), 1u);
    } else {
      EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 20000")));
      EXPECT_TRUE(out.tensors.empty());
    }
  }
}

struct RejectCase {
  const char* name;
  std::string stored;
  uint64_t count;
  const char* says;
};
class VariantCodecRejects : public ::testing::TestWithParam<RejectCase> {};
TEST_P(VariantCodecRejects, WithDataLoss) {
  EXPECT_THAT(Decoded(GetParam().stored, GetParam().count), StatusIs(Code::kDataLoss, HasSubstr(GetParam().says)));
}
std::string Element(const std::string& message) {
  std::string stored;
  uint32_t crc = 0;
  AppendElement(message, &crc, &stored);
  return stored;
}
INSTANTIATE_TEST_SUITE_P(
    Malformed, VariantCodecRejects,
    ::testing::Values(
        RejectCase{"CountOfTwoToTheFortieth", Element("") + Element(""), uint64_t{1} << 40, "variant 1: its checksum"},
        RejectCase{"ManyElementsInNoBytes", "", uint64_t{1} << 60, "variant 0: its length is cut short"},
        RejectCase{"LengthOfAllBits", std::string(9, '\xff') + "\x01", 1, "its length is 18446744073709551615"},
        RejectCase{"LengthPastTheEnd", std::string("\x05") + "abcdefgh", 1,
                   "variant 0: its length is 5, and a checksum"},
        RejectCase{"NoRoomForTheChecksum", std::string("\0abc", 4), 1, "3 bytes are left"},
        RejectCase{"Surplus", Element("") + "x", 1, "1 bytes are left after the last of its 1 variants"},
        RejectCase{"NoMessage", Element("\xff"), 1, "variant 0: a tag that is cut short"},
        RejectCase{"WrongWireType", Element(std::string("\x18\x01", 2)), 1, "tensors at byte 0 is a varint"},
        RejectCase{"TypeNameNotUtf8", Element("\x0a\x01\xff"), 1, "type_name at byte 0 is not UTF-8"},
        RejectCase{"TensorWithoutDType", Element(std::string("\x1a\x00", 2)), 1, "tensors[0]: dtype is 0"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(VariantCodec, LimitsHoldForAllElementsTogether) {
  std::string stored;
  uint32_t crc = 0;
  // float32 [8388608], 32 MiB of zeros each
  for (int i = 0; i < 3; ++i) {
    AppendElement(std::string("\x1a\x0b\x08\x01\x12\x07\x12\x05\x08\x80\x80\x80\x04", 13), &crc, &stored);
  }
  EXPECT_THAT(Decoded(stored, 3), StatusIs(Code::kResourceExhausted, HasSubstr("variant 2: tensors[0]: float32")));
  DecodeOptions options;
  options.limits.max_message_bytes = 1000;
  const Stored many = StoredOf(std::vector<Variant>(12));
  EXPECT_THAT(Decoded(many.bytes, 12, options),
              StatusIs(Code::kResourceExhausted, HasSubstr("a tensor of 12 variants: decodes to 1056 bytes")));
  options.limits.max_message_bytes = 1056;
  EXPECT_OK(Decoded(many.bytes, 12, options));
}

TEST(VariantCodec, RefusesWhatNoMessageHolds) {
  std::string bytes;
  StringSink sink(&bytes);
  uint32_t crc = 0;
  const auto refused = [](const char* says) { return StatusIs(Code::kInvalidArgument, HasSubstr(says)); };
  EXPECT_THAT(AppendVariants({Variant(), Named("\xff")}, &sink, &crc), refused("variant 1: type_name is not UTF-8"));
  Variant nested = Named("n");
  for (int i = 0; i < 40; ++i) nested = Named("n", {Tensor::Scalar(nested)});
  EXPECT_THAT(AppendVariants({nested}, &sink, &crc), refused("nested deeper than the 64"));
  EXPECT_EQ(bytes, "");  // before the first is written
  // A tensor that lost its data.
  const Tensor lost = *Tensor::FromBuffer(DType::kInt8, TensorShape(), TensorBuffer::MakeWithoutData(1, "lost"));
  EXPECT_THAT(AppendVariants({Named("n", {lost})}, &sink, &crc),
              StatusIs(Code::kFailedPrecondition, HasSubstr("lost")));
}

}  // namespace
}  // namespace tensorcask::checkpoint
