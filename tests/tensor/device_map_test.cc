#include "tensorcask/tensor/device_map.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

const Device kCuda1 = {DeviceType::kCuda, 1};

TEST(DeviceMap, KeepsByDefault) {
  const DeviceMap map;
  EXPECT_EQ(*map.Apply(""), Device());
  EXPECT_EQ(*map.Apply("cpu"), Device());
  EXPECT_EQ(*map.Apply("cuda:1"), kCuda1);
  EXPECT_THAT(map.Apply("tpu:0"), StatusIs(Code::kInvalidArgument, HasSubstr("DeviceMap::Add(\"tpu:0\", ...)")));
  EXPECT_THAT(map.Apply("cuda"), StatusIs(Code::kInvalidArgument, HasSubstr("DeviceMap::Add(\"cuda\", ...)")));
}

TEST(DeviceMap, AllToTakesAnyText) {
  const DeviceMap map = DeviceMap::AllTo(kCuda1);
  for (const char* text : {"", "cpu", "cuda:7", "tpu:0", "\xff"}) EXPECT_EQ(*map.Apply(text), kCuda1) << text;
}

TEST(DeviceMap, OnlyTakesTheHostAndWhatWasAdded) {
  DeviceMap map = DeviceMap::RefuseOthers();
  EXPECT_EQ(*map.Apply("cpu"), Device());
  EXPECT_EQ(*map.Apply(""), Device());
  EXPECT_THAT(map.Apply("cuda:1"), StatusIs(Code::kInvalidArgument, HasSubstr("\"cuda:1\" is not in the device map")));
  map.Add("cuda:1", Device());
  map.Add("tpu:0", kCuda1);
  EXPECT_EQ(*map.Apply("cuda:1"), Device());
  EXPECT_EQ(*map.Apply("tpu:0"), kCuda1);
  EXPECT_THAT(map.Apply("cuda:2"), StatusIs(Code::kInvalidArgument, HasSubstr("cuda:2")));
}

TEST(DeviceMap, TheLastAddCountsAndTheHostCanBeMoved) {
  DeviceMap map = DeviceMap::AllTo(Device());
  map.Add("cuda:1", Device());
  map.Add("cuda:1", kCuda1);
  map.Add("cpu", {DeviceType::kCudaHost, 0});
  EXPECT_EQ(*map.Apply("cuda:1"), kCuda1);
  EXPECT_EQ(map.Apply("")->type, DeviceType::kCudaHost);
  EXPECT_EQ(*map.Apply("cuda:2"), Device());
}

}  // namespace
}  // namespace tensorcask
