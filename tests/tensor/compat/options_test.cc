#include "tensorcask/tensor/compat/options.h"

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

static_assert(sizeof(TensorOptions) <= 8);
static_assert(std::is_trivially_copyable_v<TensorOptions>);

constexpr TensorOptions kNothing;
constexpr Device kCuda1 = {DeviceType::kCuda, 1};

TEST(TensorOptions, DefaultsWithoutBeingSet) {
  EXPECT_EQ(kNothing.dtype(), DType::kFloat32);
  EXPECT_EQ(kNothing.device(), Device());
  EXPECT_EQ(kNothing.memory_format(), MemoryFormat::kContiguous);
  EXPECT_FALSE(kNothing.requires_grad());
  EXPECT_FALSE(kNothing.has_dtype() || kNothing.has_device() || kNothing.has_memory_format() ||
               kNothing.has_requires_grad());
  EXPECT_EQ(kNothing.ToString(),
            "dtype float32 (default), device cpu (default), memory_format contiguous (default), requires_grad false "
            "(default)");
}

TEST(TensorOptions, SettersChain) {
  constexpr TensorOptions kAll = TensorOptions()
                                     .WithDType(DType::kBfloat16)
                                     .WithDevice({DeviceType::kRocm, 2147483647})
                                     .WithMemoryFormat(MemoryFormat::kChannelsLast3d)
                                     .WithRequiresGrad(true);
  EXPECT_EQ(kAll.dtype(), DType::kBfloat16);
  EXPECT_EQ(kAll.device(), (Device{DeviceType::kRocm, 2147483647}));
  EXPECT_EQ(kAll.memory_format(), MemoryFormat::kChannelsLast3d);
  EXPECT_TRUE(kAll.requires_grad());
  EXPECT_TRUE(kAll.has_dtype() && kAll.has_device() && kAll.has_memory_format() && kAll.has_requires_grad());
  EXPECT_EQ(kAll.ToString(),
            "dtype bfloat16, device rocm:2147483647, memory_format channels_last_3d, requires_grad true");
}

struct Property {
  const char* name;
  TensorOptions one;
  TensorOptions other;
  bool (TensorOptions::*is_set)() const;
};
class TensorOptionsProperty : public ::testing::TestWithParam<Property> {};

TEST_P(TensorOptionsProperty, IsSetOrUnsetAndTheRightSideWins) {
  const Property& property = GetParam();
  EXPECT_TRUE((property.one.*property.is_set)());
  EXPECT_FALSE((kNothing.*property.is_set)());
  EXPECT_NE(property.one, kNothing);
  EXPECT_NE(property.one, property.other);

  EXPECT_EQ(property.one.MergedWith(property.other), property.other);
  EXPECT_EQ(property.other.MergedWith(property.one), property.one);
  EXPECT_EQ(property.one.MergedWith(kNothing), property.one);  // unset does not override
  EXPECT_EQ(kNothing.MergedWith(property.one), property.one);
}

TEST_P(TensorOptionsProperty, LeavesTheOthersAlone) {
  const TensorOptions base = TensorOptions()
                                 .WithDType(DType::kInt16)
                                 .WithDevice({DeviceType::kMaia, 7})
                                 .WithMemoryFormat(MemoryFormat::kPreserve)
                                 .WithRequiresGrad(true);
  const TensorOptions merged = base.MergedWith(GetParam().one);
  int changed = 0;
  changed += merged.dtype() != base.dtype();
  changed += merged.device() != base.device();
  changed += merged.memory_format() != base.memory_format();
  changed += merged.requires_grad() != base.requires_grad();
  EXPECT_EQ(changed, 1);
}

// The default spelled out is `one`: it must win over another value on the left.
const Property kProperties[] = {
    {"DType", TensorOptions().WithDType(DType::kFloat32), TensorOptions().WithDType(DType::kInt8),
     &TensorOptions::has_dtype},
    {"Device", TensorOptions().WithDevice(Device()), TensorOptions().WithDevice(kCuda1), &TensorOptions::has_device},
    {"MemoryFormat", TensorOptions().WithMemoryFormat(MemoryFormat::kContiguous),
     TensorOptions().WithMemoryFormat(MemoryFormat::kChannelsLast2d), &TensorOptions::has_memory_format},
    {"RequiresGrad", TensorOptions().WithRequiresGrad(false), TensorOptions().WithRequiresGrad(true),
     &TensorOptions::has_requires_grad},
};
INSTANTIATE_TEST_SUITE_P(Each, TensorOptionsProperty, ::testing::ValuesIn(kProperties),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TensorOptions, BecomeMetadata) {
  const TensorMetadata metadata = TensorOptions()
                                      .WithDevice(kCuda1)
                                      .WithMemoryFormat(MemoryFormat::kChannelsLast2d)
                                      .WithRequiresGrad(true)
                                      .ToMetadata();
  EXPECT_EQ(metadata.device, kCuda1);
  EXPECT_EQ(metadata.memory_format, MemoryFormat::kChannelsLast2d);
  EXPECT_TRUE(metadata.requires_grad);
  EXPECT_EQ(metadata.name, "");
  EXPECT_TRUE(kNothing.ToMetadata().IsDefault());
}

TEST(Empty, HonoursDTypeAndMemoryFormat) {
  const TensorShape images({2, 3, 4, 5});
  ASSERT_OK_AND_ASSIGN(const TensorView plain, Empty(images, kNothing));
  EXPECT_EQ(plain.ToString(), "float32 [2,3,4,5] strides [60,20,5,1] offset 0");
  EXPECT_EQ(plain.buffer()->size_bytes(), 480u);

  ASSERT_OK_AND_ASSIGN(
      const TensorView nhwc,
      Empty(images, TensorOptions().WithDType(DType::kFloat16).WithMemoryFormat(MemoryFormat::kChannelsLast2d)));
  EXPECT_EQ(nhwc.ToString(), "float16 [2,3,4,5] strides [60,1,15,3] offset 0");
  EXPECT_EQ(nhwc.buffer()->size_bytes(), 240u);
  EXPECT_TRUE(nhwc.IsContiguous(MemoryFormat::kChannelsLast2d));

  ASSERT_OK_AND_ASSIGN(const TensorView ndhwc, Empty(TensorShape({2, 3, 4, 5, 6}),
                                                     TensorOptions().WithMemoryFormat(MemoryFormat::kChannelsLast3d)));
  EXPECT_THAT(ndhwc.strides(), ElementsAre(360, 1, 90, 18, 3));
}

TEST(Empty, MakesScalarsEmptyTensorsAndStrings) {
  ASSERT_OK_AND_ASSIGN(const TensorView scalar, Empty(TensorShape(), kNothing));
  EXPECT_EQ(scalar.num_elements(), 1);
  ASSERT_OK_AND_ASSIGN(const TensorView none, Empty(TensorShape({0, 3}), kNothing));
  EXPECT_FALSE(none.buffer());
  ASSERT_OK_AND_ASSIGN(const TensorView strings, Empty(TensorShape({2}), TensorOptions().WithDType(DType::kString)));
  EXPECT_EQ(strings.data<std::string>()[1], "");
}

TEST(Empty, ReportsMemoryThatCannotBeHad) {
  const auto allocator = MakeRef<testing::FailingAllocator>(/*fail_at=*/1);
  EXPECT_THAT(Empty(TensorShape({1000}), kNothing, allocator), StatusIs(Code::kResourceExhausted, HasSubstr("4000")));
  ASSERT_OK_AND_ASSIGN(const TensorView view, Empty(TensorShape({1000}), kNothing, allocator));
  EXPECT_EQ(view.buffer()->allocator_name(), "failing");
}

struct RefusedCase {
  const char* name;
  TensorShape shape;
  TensorOptions options;
  Code code;
  const char* says;
};
class EmptyRefuses : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(EmptyRefuses, WithCodeAndMessage) {
  EXPECT_THAT(Empty(GetParam().shape, GetParam().options), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}

const RefusedCase kRefused[] = {
    {"OtherDevice", TensorShape({2}), TensorOptions().WithDevice(kCuda1), Code::kUnimplemented, "device cuda:1"},
    {"SecondCpu", TensorShape({2}), TensorOptions().WithDevice({DeviceType::kCpu, 1}), Code::kUnimplemented, "cpu:1"},
    {"ChannelsLastOfRank2", TensorShape({2, 3}), TensorOptions().WithMemoryFormat(MemoryFormat::kChannelsLast2d),
     Code::kInvalidArgument, "is for rank 4; the rank is 2"},
    {"Preserve", TensorShape({2, 3}), TensorOptions().WithMemoryFormat(MemoryFormat::kPreserve), Code::kInvalidArgument,
     "preserve"},
    {"GradOfInt", TensorShape({2}), TensorOptions().WithDType(DType::kInt8).WithRequiresGrad(true),
     Code::kInvalidArgument, "requires_grad"},
    {"InvalidDType", TensorShape({2}), TensorOptions().WithDType(DType::kInvalid), Code::kInvalidArgument, "invalid"},
    {"BytesOverflow", TensorShape({int64_t{1} << 61, 2}), kNothing, Code::kInvalidArgument, "exceeds 2^63-1"},
};
INSTANTIATE_TEST_SUITE_P(Options, EmptyRefuses, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
