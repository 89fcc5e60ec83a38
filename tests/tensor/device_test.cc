#include "tensorcask/tensor/device.h"

#include <cstdint>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr DeviceType kAllTypes[] = {
    DeviceType::kCpu,         DeviceType::kCuda,   DeviceType::kCudaHost, DeviceType::kOpenCl,   DeviceType::kVulkan,
    DeviceType::kMetal,       DeviceType::kVpi,    DeviceType::kRocm,     DeviceType::kRocmHost, DeviceType::kExtension,
    DeviceType::kCudaManaged, DeviceType::kOneApi, DeviceType::kWebGpu,   DeviceType::kHexagon,  DeviceType::kMaia};

struct TextCase {
  Device device;
  const char* text;
};

TEST(Device, PrintsAndParses) {
  const TextCase cases[] = {{{}, "cpu"},
                            {{DeviceType::kCpu, 1}, "cpu:1"},
                            {{DeviceType::kCuda, 0}, "cuda:0"},
                            {{DeviceType::kCuda, 2147483647}, "cuda:2147483647"},
                            {{DeviceType::kCudaHost, 0}, "cuda_host:0"},
                            {{DeviceType::kExtension, 12}, "ext_dev:12"}};
  for (const TextCase& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_EQ(c.device.ToString(), c.text);
    ASSERT_OK_AND_ASSIGN(const Device device, Device::Parse(c.text));
    EXPECT_EQ(device, c.device);
  }
}

TEST(Device, EveryTypeAndIndexComesBack) {
  std::mt19937 random(1);
  for (const DeviceType type : kAllTypes) {
    EXPECT_NE(DeviceTypeName(type), "unknown");
    for (int i = 0; i < 100; ++i) {
      const Device device = {type, static_cast<int32_t>((random() & 0x7fffffff) >> (random() % 31))};
      SCOPED_TRACE(device.ToString());
      ASSERT_OK_AND_ASSIGN(const Device parsed, Device::Parse(device.ToString()));
      EXPECT_EQ(parsed, device);
    }
  }
}

TEST(Device, NumbersOutsideTheListHaveNoName) {
  EXPECT_EQ(DeviceTypeName(static_cast<DeviceType>(0)), "unknown");
  EXPECT_EQ(DeviceTypeName(static_cast<DeviceType>(5)), "unknown");
  EXPECT_THAT(Device::Parse("unknown"), StatusIs(Code::kInvalidArgument));
}

struct RejectCase {
  const char* name;
  std::string text;
  const char* says;
};

class DeviceRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(DeviceRejects, WithCodeAndMessage) {
  EXPECT_THAT(Device::Parse(GetParam().text), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}

const RejectCase kMalformed[] = {
    {"Empty", "", "device \"\": unknown type"},
    {"Unknown", "tpu:0", "device \"tpu:0\": unknown type"},
    {"Capitals", "CUDA:0", "unknown type"},
    {"Space", " cpu", "unknown type"},
    {"SpaceBehind", "cuda:0 ", "not a decimal number"},
    {"Newline", "cpu\n", "device \"cpu\\n\": unknown type"},
    {"Prefix", "cud:0", "unknown type"},
    {"Longer", "cudax:0", "unknown type"},
    {"NoType", ":0", "unknown type"},
    {"NoIndex", "cuda", "written as \"cuda:0\""},
    {"SuperfluousIndex", "cpu:0", "written as \"cpu\""},
    {"EmptyIndex", "cuda:", "not a decimal number"},
    {"LeadingZero", "cuda:01", "written as \"cuda:1\""},
    {"Plus", "cuda:+1", "not a decimal number"},
    {"Minus", "cuda:-1", "not a decimal number"},
    {"Hex", "cuda:0x1", "not a decimal number"},
    {"Colons", "cuda:1:2", "not a decimal number"},
    {"Fraction", "cuda:1.0", "not a decimal number"},
    {"TooLarge", "cuda:2147483648", "below 2^31"},
    {"TooLong", "cuda:99999999999999999999", "below 2^31"},
    {"Nul", std::string("cpu\0", 4), "\"cpu\\x00\""},
    {"ForeignDigits", "cuda:\xd9\xa1", "not a decimal number"},
    {"Megabytes", "cuda:" + std::string(10 << 20, '1'), "(10485765 bytes)"},
};

INSTANTIATE_TEST_SUITE_P(Malformed, DeviceRejects, ::testing::ValuesIn(kMalformed),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
