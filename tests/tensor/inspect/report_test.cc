#include "tensorcask/tensor/inspect/tensor_report.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/compat/handle.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;
using Code = absl::StatusCode;
using Json = nlohmann::json;

// Null where `text` is no JSON (parsing without exceptions).
Json Parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? Json() : json;
}

Tensor Sample() { return *Tensor::Zeros(DType::kFloat32, TensorShape({256, 3})); }

TEST(TensorReport, TextOfATensor) {
  EXPECT_EQ("\n" + MakeReport(Sample()).ToText(), R"(
float32 [256,3] strides [3,1] offset 0
  elements  768 of 4 bytes, 3072 bytes together
  storage   3072 bytes, 1 x the elements
  order     dense, contiguous; suggests contiguous
  overlap   none
  buffer    bytes from allocator "cpu", bytes 0 to 3072 of its root; version 1
  counts    buffer 1, root 1; exclusive
  writing   in place
  metadata  name "", device cpu, memory_format contiguous, requires_grad false, attributes {})");
}

TEST(TensorReport, TextOfAFrozenHandleOnAPart) {
  const Tensor tensor = Sample();
  TensorMetadata metadata;
  metadata.name = "w\x1b[2J";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.requires_grad = true;
  const TensorView row = *TensorView(*tensor.Slice(2, 10)).Slice(0, 1, 8, 2);
  TensorHandle handle = *TensorHandle::Create(row, metadata);
  const TensorHandle same = handle;
  const WeakTensorHandle weak(handle);
  ASSERT_OK(handle.Freeze());
  ASSERT_OK_AND_ASSIGN(const TensorReport report, CreateReport(handle));
  EXPECT_EQ("\n" + report.ToText(), R"(
float32 [4,3] strides [6,1] offset 3
  elements  12 of 4 bytes, 48 bytes together
  storage   3072 bytes, 64 x the elements
  order     not dense, not contiguous; suggests contiguous
  overlap   none
  buffer    bytes from allocator "cpu", bytes 24 to 120 of its root; version 1
  counts    buffer 2, root 2; shared
  writing   in place
  object    2 strong, 2 weak; frozen
  metadata  name "w\x1b[2J", device cuda:1, memory_format contiguous, requires_grad true, attributes {})");
}

TEST(TensorReport, TextOfWhatHasNoBuffer) {
  EXPECT_EQ("\n" + MakeReport(Tensor()).ToText(), R"(
float32 [0] strides [1] offset 0
  elements  0 of 4 bytes, 0 bytes together
  order     dense, contiguous; suggests contiguous
  overlap   none
  buffer    none
  metadata  name "", device cpu, memory_format contiguous, requires_grad false, attributes {})");
}

TEST(TensorReport, MakingOneTakesNoReference) {
  const Tensor tensor = Sample();
  EXPECT_EQ(MakeReport(tensor).buffer->use_count, 1);
  const TensorView view = tensor;
  EXPECT_EQ(MakeReport(view).buffer->use_count, 2);
  const TensorHandle handle(view);
  ASSERT_OK_AND_ASSIGN(const TensorReport report, CreateReport(handle));
  EXPECT_EQ(report.buffer->use_count, 3);
  EXPECT_EQ(report.object->use_count, 1);
  EXPECT_EQ(report.object->weak_use_count, 1);
}

TEST(TensorReport, OfAnUndefinedHandleIsAnError) {
  EXPECT_THAT(CreateReport(TensorHandle()), StatusIs(Code::kFailedPrecondition, HasSubstr("undefined")));
}

TEST(TensorReport, OrdersAndOverlap) {
  const Tensor memory = *Tensor::Zeros(DType::kFloat32, TensorShape({2, 3, 4, 5}));
  const auto report = [&](const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
    return MakeReport(*TensorView::Create(memory.buffer(), DType::kFloat32, *Layout::Create(dims, strides)));
  };
  const TensorReport nhwc = report({2, 3, 4, 5}, {60, 1, 15, 3});
  EXPECT_FALSE(nhwc.contiguous);
  EXPECT_TRUE(nhwc.channels_last_2d && nhwc.dense && !nhwc.channels_last_3d && !nhwc.overlaps);
  EXPECT_EQ(nhwc.suggested_format, MemoryFormat::kChannelsLast2d);
  EXPECT_THAT(nhwc.ToText(), HasSubstr("dense, not contiguous, channels_last_2d; suggests channels_last_2d"));

  const TensorReport ndhwc = report({1, 2, 3, 4, 5}, {120, 1, 40, 10, 2});
  EXPECT_TRUE(ndhwc.channels_last_3d && ndhwc.dense);

  const TensorReport repeated = report({4, 3}, {0, 1});
  EXPECT_TRUE(repeated.overlaps && !repeated.dense && !repeated.contiguous);
  EXPECT_THAT(repeated.ToText(), HasSubstr("some elements have several indices"));
  EXPECT_EQ(*repeated.waste_ratio(), 10);  // 480 bytes for 12 elements
}

TEST(TensorReport, CopyOnWriteKindsAndVersions) {
  const Tensor tensor = Sample();
  TensorView view = tensor;
  ASSERT_OK_AND_ASSIGN(TensorView clone, view.LazyClone());
  EXPECT_FALSE(MakeReport(clone).buffer->writable_in_place);
  EXPECT_FALSE(MakeReport(clone).buffer->exclusive);
  EXPECT_THAT(MakeReport(clone).ToText(), HasSubstr("writing   to a copy"));
  const uint64_t version = MakeReport(clone).buffer->version;
  clone.mutable_data<float>()[0] = 1;
  EXPECT_TRUE(MakeReport(clone).buffer->writable_in_place);
  EXPECT_TRUE(MakeReport(clone).buffer->exclusive);
  EXPECT_EQ(MakeReport(clone).buffer->version, version + 1);

  float memory[2] = {};
  TensorBuffer::External external;
  external.data = memory;
  external.size_bytes = sizeof(memory);
  external.writable = false;
  external.kind = TensorBuffer::Kind::kMapped;
  const Tensor mapped = *Tensor::FromBuffer(DType::kFloat32, TensorShape({2}), TensorBuffer::WrapExternal(external));
  EXPECT_THAT(MakeReport(mapped).ToText(), HasSubstr("buffer    mapped, bytes 0 to 8 of its root; version 0"));
  EXPECT_FALSE(MakeReport(mapped).buffer->writable_in_place);
}

struct KindCase {
  TensorBuffer::Kind kind;
  const char* name;
};
TEST(BufferKindName, NamesThemAll) {
  const KindCase cases[] = {{TensorBuffer::Kind::kBytes, "bytes"},   {TensorBuffer::Kind::kElements, "elements"},
                            {TensorBuffer::Kind::kScalar, "scalar"}, {TensorBuffer::Kind::kExternal, "external"},
                            {TensorBuffer::Kind::kMapped, "mapped"}, {TensorBuffer::Kind::kNoData, "no_data"}};
  for (const KindCase& one : cases) EXPECT_EQ(BufferKindName(one.kind), one.name);
  EXPECT_EQ(MakeReport(Tensor::FromValues<std::string>({"a"})).buffer->kind, TensorBuffer::Kind::kElements);
  EXPECT_EQ(MakeReport(Tensor::Scalar<float>(1)).buffer->kind, TensorBuffer::Kind::kScalar);
}

TEST(TensorReport, OfABufferWithoutData) {
  const TensorView nowhere = *TensorView::Create(TensorBuffer::MakeWithoutData(8, "elsewhere"), DType::kFloat32,
                                                 Layout::RowMajor(TensorShape({2})));
  const TensorReport report = MakeReport(nowhere);
  EXPECT_EQ(report.buffer->address, nullptr);
  EXPECT_THAT(report.ToText(), HasSubstr("no_data"));
  EXPECT_EQ(Parsed(report.ToJson())["buffer"]["kind"], "no_data");
}

TEST(TensorReport, OfMoreBytesThanANumberHolds) {
  const TensorView one = Tensor::Scalar<float>(1);
  const TensorReport report = MakeReport(*one.Expand({int64_t{1} << 62}));
  EXPECT_EQ(report.num_elements, int64_t{1} << 62);
  EXPECT_FALSE(report.tensor_bytes);
  EXPECT_FALSE(report.waste_ratio());
  EXPECT_THAT(report.ToText(), HasSubstr("over 2^63 bytes together\n  storage   4 bytes\n"));
  const Json json = Parsed(report.ToJson());
  EXPECT_TRUE(json["tensor_bytes"].is_null());
  EXPECT_TRUE(json["waste_ratio"].is_null());
  EXPECT_EQ(json["num_elements"], int64_t{1} << 62);
}

TEST(TensorReport, AddressesOnlyWhereAskedFor) {
  const Tensor tensor = Sample();
  const TensorReport report = MakeReport(tensor);
  const std::string address = absl::StrFormat("0x%x", reinterpret_cast<uintptr_t>(tensor.data<float>()));
  EXPECT_THAT(report.ToText(), Not(HasSubstr("0x")));
  EXPECT_THAT(report.ToJson(), Not(HasSubstr("address")));
  EXPECT_THAT(report.ToText(TensorReport::Addresses::kShow), HasSubstr(absl::StrCat("\n  address   ", address, "\n")));
  EXPECT_EQ(Parsed(report.ToJson(TensorReport::Addresses::kShow))["buffer"]["address"], address);
}

TEST(TensorReport, JsonHoldsEveryField) {
  const Tensor tensor = Sample();
  TensorMetadata metadata;
  metadata.name = "w";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.requires_grad = true;
  metadata.attributes = {{"a", "1"}, {"b", "2"}};
  const TensorHandle handle = *TensorHandle::Create(*TensorView(tensor).Slice(0, 1, 3), metadata);
  const std::string text = CreateReport(handle)->ToJson();
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(Parsed(text), Parsed(R"({
    "dtype": "float32", "dims": [2, 3], "strides": [3, 1], "offset": 3, "num_elements": 6, "element_bytes": 4,
    "tensor_bytes": 24, "waste_ratio": 128.0, "contiguous": true, "channels_last_2d": false,
    "channels_last_3d": false, "dense": true, "overlaps": false, "suggested_format": "contiguous",
    "buffer": {"kind": "bytes", "allocator": "cpu", "size_bytes": 3072, "offset_bytes": 0, "root_bytes": 3072,
               "use_count": 2, "root_use_count": 2, "version": 1, "exclusive": false, "writable_in_place": true},
    "object": {"use_count": 1, "weak_use_count": 1, "frozen": false},
    "metadata": {"name": "w", "device": "cuda:1", "memory_format": "contiguous", "requires_grad": true,
                 "attributes": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]}})"));
  const Json empty = Parsed(MakeReport(Tensor()).ToJson());
  EXPECT_TRUE(empty["buffer"].is_null());
  EXPECT_TRUE(empty["object"].is_null());
  EXPECT_EQ(empty["metadata"]["attributes"], Json::array());
}

struct TextCase {
  const char* name;
  std::string bytes;
  std::string expected;  // what JSON gives back
};
class JsonTextOf : public ::testing::TestWithParam<TextCase> {};

TEST_P(JsonTextOf, IsEscapedOrReplaced) {
  TensorReport report;
  report.metadata.name = GetParam().bytes;
  report.metadata.attributes["k" + GetParam().bytes] = GetParam().bytes;
  const std::string text = report.ToJson();
  const Json metadata = Parsed(text)["metadata"];
  ASSERT_TRUE(metadata.is_object()) << text;
  EXPECT_EQ(metadata["name"], GetParam().expected);
  EXPECT_EQ(metadata["attributes"][0]["key"], "k" + GetParam().expected);
  EXPECT_EQ(metadata["attributes"][0]["value"], GetParam().expected);
  const bool exact = GetParam().bytes == GetParam().expected;
  for (const char* const field : {"key_hex", "value_hex"}) {
    EXPECT_EQ(metadata["attributes"][0].contains(field), !exact) << text;
  }
  ASSERT_EQ(metadata.contains("name_hex"), !exact) << text;
  if (exact) return;
  std::string hex;
  for (const char c : GetParam().bytes) absl::StrAppendFormat(&hex, "%02x", static_cast<unsigned char>(c));
  EXPECT_EQ(metadata["name_hex"], hex);
}

#define REPLACED "\xef\xbf\xbd"
const TextCase kTexts[] = {
    {"Plain", "encoder/layer.0:w", "encoder/layer.0:w"},
    {"QuotesAndBackslashes", "a\"b\\c\\\"", "a\"b\\c\\\""},
    {"Controls", std::string("\0\x01\b\t\n\r\x1b\x1f\x7f", 9), std::string("\0\x01\b\t\n\r\x1b\x1f\x7f", 9)},
    {"TwoToFourBytes", "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
     "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
    {"LoneContinuation", "a\x80z", "a" REPLACED "z"},
    {"Overlong", "\xc0\x80", REPLACED REPLACED},
    {"OverlongOfThree", "\xe0\x9f\xbf", REPLACED REPLACED REPLACED},
    {"Surrogate", "\xed\xa0\x80", REPLACED REPLACED REPLACED},
    {"OverlongOfFour", "\xf0\x8f\xbf\xbf", REPLACED REPLACED REPLACED REPLACED},
    {"PastUnicode", "\xf4\x90\x80\x80", REPLACED REPLACED REPLACED REPLACED},
    {"NeverALead", "\xf5\xff", REPLACED REPLACED},
    {"CutOff", "ok\xe2\x82", "ok" REPLACED REPLACED},
    {"CutOffOfFour", "\xf0\x9f\x98", REPLACED REPLACED REPLACED},
    {"ValidBesideWrong", "\xe2\x82\xac\xff", "\xe2\x82\xac" REPLACED},
};
#undef REPLACED
INSTANTIATE_TEST_SUITE_P(Texts, JsonTextOf, ::testing::ValuesIn(kTexts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
