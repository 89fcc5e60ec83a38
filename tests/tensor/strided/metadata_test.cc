#include "tensorcask/tensor/strided/metadata.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::StatusIs;
using Code = absl::StatusCode;

TensorMetadata Full() {
  TensorMetadata metadata;
  metadata.name = "encoder.weight";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.memory_format = MemoryFormat::kChannelsLast2d;
  metadata.requires_grad = true;
  metadata.attributes = {{"unit", "m/s"}, {"axis", std::string("\0\xff", 2)}};
  return metadata;
}

TEST(TensorMetadata, SaysNothingByDefault) {
  const TensorMetadata metadata;
  EXPECT_TRUE(metadata.IsDefault());
  EXPECT_EQ(metadata.device, Device());
  EXPECT_EQ(metadata.memory_format, MemoryFormat::kContiguous);
  EXPECT_FALSE(metadata.requires_grad);
  EXPECT_OK(metadata.Validate(DType::kInt8));
  EXPECT_EQ(metadata.ToString(), "name \"\", device cpu, memory_format contiguous, requires_grad false, attributes {}");
}

struct Change {
  const char* name;
  void (*apply)(TensorMetadata& metadata);
};
class TensorMetadataFields : public ::testing::TestWithParam<Change> {};

TEST_P(TensorMetadataFields, TakePartInEquality) {
  TensorMetadata changed = Full();
  EXPECT_EQ(changed, Full());
  GetParam().apply(changed);
  EXPECT_NE(changed, Full());
  EXPECT_NE(changed.ToString(), Full().ToString());

  TensorMetadata single;
  GetParam().apply(single);
  EXPECT_FALSE(single.IsDefault());
}

INSTANTIATE_TEST_SUITE_P(
    One, TensorMetadataFields,
    ::testing::Values(Change{"Name", [](TensorMetadata& m) { m.name = "w"; }},
                      Change{"DeviceType", [](TensorMetadata& m) { m.device.type = DeviceType::kRocm; }},
                      Change{"DeviceIndex", [](TensorMetadata& m) { m.device.index = 2; }},
                      Change{"Format", [](TensorMetadata& m) { m.memory_format = MemoryFormat::kChannelsLast3d; }},
                      Change{"RequiresGrad", [](TensorMetadata& m) { m.requires_grad = !m.requires_grad; }},
                      Change{"Value", [](TensorMetadata& m) { m.attributes["unit"] = "km/h"; }},
                      Change{"Key", [](TensorMetadata& m) { m.attributes["more"] = ""; }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(TensorMetadata, AttributesAreWalkedByKeyAsUnsignedBytesHoweverTheyCame) {
  TensorMetadata forwards;
  TensorMetadata backwards;
  const std::vector<std::string> keys = {"", "\x01", "A", "a", "aa", "b", "\x80", "\xff"};
  for (size_t i = 0; i < keys.size(); ++i) forwards.attributes[keys[i]] = "v";
  for (size_t i = keys.size(); i-- > 0;) backwards.attributes[keys[i]] = "v";
  EXPECT_EQ(forwards, backwards);
  for (const TensorMetadata* metadata : {&forwards, &backwards}) {
    std::vector<std::string> walked;
    for (const auto& [key, value] : metadata->attributes) walked.push_back(key);
    EXPECT_EQ(walked, keys);
  }
  forwards.attributes["a"] = "new";  // unique: replaced, not repeated
  EXPECT_THAT(forwards.attributes, SizeIs(keys.size()));
}

struct ValidateCase {
  const char* name;
  void (*apply)(TensorMetadata& metadata);
  DType dtype;
  const char* says;  // null: accepted
};
class TensorMetadataValidate : public ::testing::TestWithParam<ValidateCase> {};

TEST_P(TensorMetadataValidate, AcceptsOrNamesTheField) {
  TensorMetadata metadata;
  metadata.name = "w";
  GetParam().apply(metadata);
  if (GetParam().says == nullptr) {
    EXPECT_OK(metadata.Validate(GetParam().dtype));
  } else {
    EXPECT_THAT(metadata.Validate(GetParam().dtype), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  }
}

void NeedGrad(TensorMetadata& metadata) { metadata.requires_grad = true; }

const ValidateCase kValidateCases[] = {
    {"GradOfFloat32", NeedGrad, DType::kFloat32, nullptr},
    {"GradOfBfloat16", NeedGrad, DType::kBfloat16, nullptr},
    {"GradOfFloat8", NeedGrad, DType::kFloat8E5m2, nullptr},
    {"GradOfComplex128", NeedGrad, DType::kComplex128, nullptr},
    {"GradOfInt64", NeedGrad, DType::kInt64, "tensor \"w\": requires_grad is for floating and complex dtypes"},
    {"GradOfBool", NeedGrad, DType::kBool, "the dtype is bool"},
    {"GradOfQint8", NeedGrad, DType::kQint8, "the dtype is qint8"},
    {"GradOfString", NeedGrad, DType::kString, "the dtype is string"},
    {"LongestName", [](TensorMetadata& m) { m.name.assign(65536, 'n'); }, DType::kInt8, nullptr},
    {"NameTooLong", [](TensorMetadata& m) { m.name.assign(65537, 'n'); }, DType::kInt8,
     "the name has 65537 bytes; at most 65536"},
    {"AnyBytesInName", [](TensorMetadata& m) { m.name = std::string("\0\xff/..", 5); }, DType::kInt8, nullptr},
    {"EmptyKey", [](TensorMetadata& m) { m.attributes[""] = "v"; }, DType::kInt8, "an attribute has an empty key"},
    {"EmptyValue", [](TensorMetadata& m) { m.attributes["k"] = ""; }, DType::kInt8, nullptr},
    {"KeyTooLong", [](TensorMetadata& m) { m.attributes[std::string(65537, 'k')] = "v"; }, DType::kInt8,
     "has 65537 bytes; at most 65536"},
    {"MostAttributes",
     [](TensorMetadata& m) {
       for (int i = 0; i < 10240; ++i) m.attributes[std::to_string(i)] = "";
     },
     DType::kInt8, nullptr},
    {"TooManyAttributes",
     [](TensorMetadata& m) {
       for (int i = 0; i < 10241; ++i) m.attributes[std::to_string(i)] = "";
     },
     DType::kInt8, "10241 attributes; at most 10240"},
    {"MostAttributeBytes", [](TensorMetadata& m) { m.attributes["key"].assign((16 << 20) - 3, 'v'); }, DType::kInt8,
     nullptr},
    {"TooManyAttributeBytes", [](TensorMetadata& m) { m.attributes["key"].assign((16 << 20) - 2, 'v'); }, DType::kInt8,
     "its attributes have 16777217 bytes; at most 16777216"},
    {"DeviceTypeUnknown", [](TensorMetadata& m) { m.device.type = static_cast<DeviceType>(99); }, DType::kInt8,
     "device 99:0 does not exist"},
    {"DeviceIndexNegative", [](TensorMetadata& m) { m.device.index = -1; }, DType::kInt8, "device 1:-1"},
    {"FormatPreserve", [](TensorMetadata& m) { m.memory_format = MemoryFormat::kPreserve; }, DType::kInt8,
     "memory format preserve is not an order of axes"},
    {"FormatUnknown", [](TensorMetadata& m) { m.memory_format = static_cast<MemoryFormat>(200); }, DType::kInt8,
     "memory format unknown"},
};
INSTANTIATE_TEST_SUITE_P(Rules, TensorMetadataValidate, ::testing::ValuesIn(kValidateCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TensorMetadata, TextIsPrintableAndBounded) {
  EXPECT_EQ(Full().ToString(),
            "name \"encoder.weight\", device cuda:1, memory_format channels_last_2d, requires_grad true, attributes "
            "{\"axis\": \"\\x00\\xff\", \"unit\": \"m/s\"}");
  TensorMetadata huge;
  huge.name.assign(1 << 20, '\x1b');
  for (int i = 0; i < 5000; ++i) huge.attributes[std::to_string(i)].assign(1000, '\x80');
  const std::string text = huge.ToString();
  EXPECT_LT(text.size(), 5000u);
  EXPECT_THAT(text, HasSubstr("... (5000 attributes)}"));
  for (const char c : text) EXPECT_TRUE(c >= ' ' && c <= '~');
}

}  // namespace
}  // namespace tensorcask
