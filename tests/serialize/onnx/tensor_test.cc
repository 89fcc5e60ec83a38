// One TensorProto: every data type in every form, packings of every length, and what is refused.

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/onnx/dtypes.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/onnx/onnx_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using Code = absl::StatusCode;
using ::tensorcask::testing::Fix32;
using ::tensorcask::testing::Fix64;
using ::tensorcask::testing::Head;
using ::tensorcask::testing::LittleEndian;
using ::tensorcask::testing::Num;
using ::tensorcask::testing::Packed;
using ::tensorcask::testing::RawTensor;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Sub;
using ::testing::HasSubstr;

absl::StatusOr<Tensor> ReadOnly(const std::string& bytes) {
  CASK_ASSIGN_OR_RETURN(const OnnxReader reader, OnnxReader::OpenSource(MakeMemorySource("t.pb", bytes)));
  EXPECT_EQ(reader.entries().size(), 1u);
  CASK_ASSIGN_OR_RETURN(Tensor tensor, reader.Read(reader.entries()[0].name));
  EXPECT_EQ(tensor.shape(), reader.entries()[0].shape);
  EXPECT_EQ(tensor.dtype(), reader.entries()[0].dtype);
  const auto counts = reader.VerifyAll([](const OnnxDamage& damage) { ADD_FAILURE() << damage.status; });
  EXPECT_TRUE(counts.ok() && counts->without_checksum == 1) << counts.status();
  return tensor;
}

std::string BytesOf(const std::string& message) {
  const absl::StatusOr<Tensor> tensor = ReadOnly(message);
  return tensor.ok() ? std::string(tensor->bytes()) : tensor.status().ToString();
}

// The field of the values and the largest value that one element can have there.
struct TypeCase {
  int number;
  uint32_t field;
  int bits;
};

constexpr TypeCase kIntegers[] = {{2, 5, 8},    {4, 5, 16},  {7, 7, 64}, {10, 5, 16}, {12, 11, 32},
                                  {13, 11, 64}, {16, 5, 16}, {17, 5, 8}, {18, 5, 8},  {19, 5, 8},
                                  {20, 5, 8},   {24, 5, 8},  {27, 5, 6}, {28, 5, 6}};

TEST(OnnxTensor, ReadsIntegersOfTypedFieldsPackedAndOneByOne) {
  std::mt19937_64 random(1);
  for (const TypeCase& type : kIntegers) {
    SCOPED_TRACE(OnnxTypeName(type.number));
    const size_t bytes = ElementSize(OnnxDType(type.number));
    std::string wanted;
    std::string one_by_one;
    std::vector<uint64_t> values;
    for (int i = 0; i < 6; ++i) {
      const uint64_t value = type.bits == 64 ? random() : random() & ((uint64_t{1} << type.bits) - 1);
      values.push_back(value);
      one_by_one += Num(type.field, value);
      wanted += LittleEndian(value, bytes);
    }
    EXPECT_EQ(BytesOf(Head(type.number, {2, 3}) + Packed(type.field, values)), wanted);
    EXPECT_EQ(BytesOf(Head(type.number, {2, 3}) + one_by_one), wanted);
    // In two packed fields, before the fields that say what they are.
    EXPECT_EQ(BytesOf(Packed(type.field, {values[0], values[1]}) + Head(type.number, {2, 3}) +
                      Packed(type.field, {values.begin() + 2, values.end()})),
              wanted);
  }
}

TEST(OnnxTensor, ReadsSignedIntegersOfInt32Data) {
  const auto minus = [](int64_t value) { return static_cast<uint64_t>(value); };
  EXPECT_EQ(BytesOf(Head(3, {3}) + Packed(5, {minus(-128), 127, minus(-1)})), std::string("\x80\x7f\xff"));
  EXPECT_EQ(BytesOf(Head(5, {2}) + Packed(5, {minus(-32768), 32767})), std::string("\x00\x80\xff\x7f", 4));
  EXPECT_EQ(BytesOf(Head(6, {2}) + Packed(5, {minus(-2147483648LL), 2147483647})),
            std::string("\x00\x00\x00\x80\xff\xff\xff\x7f", 8));
  // Writers that do not extend the sign to 64 bits.
  EXPECT_EQ(BytesOf(Head(6, {1}) + Num(5, 0xffff'fffe)), std::string("\xfe\xff\xff\xff"));
  EXPECT_EQ(BytesOf(Head(7, {1}) + Num(7, minus(-2))), std::string("\xfe\xff\xff\xff\xff\xff\xff\xff"));
  EXPECT_EQ(BytesOf(Head(9, {2}) + Packed(5, {1, 0})), std::string("\x01\x00", 2));
}

TEST(OnnxTensor, ReadsFloatsAndComplexNumbers) {
  const std::string floats = LittleEndian(0x3f800000, 4) + LittleEndian(0xc0000000, 4);
  const std::string doubles = LittleEndian(0x3ff0000000000000, 8) + LittleEndian(0xc000000000000000, 8);
  const std::string single = Fix32(4, 0x3f800000) + Fix32(4, 0xc0000000);
  EXPECT_EQ(BytesOf(Head(1, {2}) + Sub(4, floats)), floats);
  EXPECT_EQ(BytesOf(Head(1, {2}) + single), floats);
  EXPECT_EQ(BytesOf(Head(14, {1}) + Sub(4, floats)), floats);
  EXPECT_EQ(BytesOf(Head(14, {1}) + single), floats);
  EXPECT_EQ(BytesOf(Head(11, {2}) + Sub(10, doubles)), doubles);
  EXPECT_EQ(BytesOf(Head(15, {1}) + Fix64(10, 0x3ff0000000000000) + Fix64(10, 0xc000000000000000)), doubles);
  EXPECT_EQ(BytesOf(Head(1, {2}) + Sub(4, floats.substr(0, 4)) + Sub(4, floats.substr(4))), floats);
}

TEST(OnnxTensor, ReadsStrings) {
  const std::string nul("a\0b", 3);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, ReadOnly(Head(8, {2, 2}) + Sub(6, "x") + Sub(6, "") + Sub(6, nul) +
                                                     Sub(6, std::string(10000, 'y'))));
  const std::string* const strings = tensor.data<std::string>();
  EXPECT_EQ(strings[0], "x");
  EXPECT_EQ(strings[1], "");
  EXPECT_EQ(strings[2], nul);
  EXPECT_EQ(strings[3], std::string(10000, 'y'));
  ASSERT_OK_AND_ASSIGN(const Tensor none, ReadOnly(Head(8, {2, 0})));
  EXPECT_EQ(none.num_elements(), 0);
}

TEST(OnnxTensor, ReadsRawBytesOfEveryType) {
  std::mt19937 random(2);
  for (int number = 1; number <= 28; ++number) {
    if (number == 8) continue;
    SCOPED_TRACE(OnnxTypeName(number));
    const int bits = OnnxTypeBits(number);
    if (bits < 8) continue;
    std::string raw(static_cast<size_t>(6 * bits / 8), '\0');
    for (char& byte : raw) byte = static_cast<char>(number == 9 ? random() & 1 : random());
    EXPECT_EQ(BytesOf(RawTensor(number, {3, 2}, raw)), raw);
    EXPECT_EQ(BytesOf(RawTensor(number, {0, 2}, "")), "");
    EXPECT_EQ(BytesOf(Head(number, {0, 2})), "");
  }
}

// The elements by arithmetic on a large number of bits: element i begins at bit i * bits.
std::string PackBits(const std::vector<int>& elements, int bits) {
  std::vector<bool> all;
  for (const int element : elements) {
    for (int bit = 0; bit < bits; ++bit) all.push_back((element >> bit & 1) != 0);
  }
  while (all.size() % 8 != 0) all.push_back(false);
  std::string bytes;
  for (size_t i = 0; i < all.size(); i += 8) {
    int byte = 0;
    for (size_t bit = 0; bit < 8; ++bit) byte |= all[i + bit] ? 1 << bit : 0;
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

TEST(OnnxTensor, UnpacksEveryLength) {
  std::mt19937 random(3);
  for (const int number : {21, 22, 23, 25, 26, 27, 28}) {
    const int bits = OnnxTypeBits(number);
    for (int length = 0; length <= 65; ++length) {
      SCOPED_TRACE(absl::StrCat(OnnxTypeName(number), " [", length, "]"));
      std::vector<int> elements;
      std::string wanted;
      for (int i = 0; i < length; ++i) {
        elements.push_back(static_cast<int>(random() & ((1U << bits) - 1)));
        wanted.push_back(static_cast<char>(elements.back()));
      }
      const std::string raw = PackBits(elements, bits);
      EXPECT_EQ(BytesOf(RawTensor(number, {length}, raw)), wanted);
      // In int32_data a value is a byte of raw_data; with 6 bits it is an element.
      const std::string values = bits == 6 ? wanted : raw;
      std::vector<uint64_t> typed;
      for (const char value : values) typed.push_back(static_cast<uint8_t>(value));
      EXPECT_EQ(BytesOf(Head(number, {length}) + Packed(5, typed)), wanted);
      if (length < 3) continue;
      const std::string bytes = RawTensor(number, {length}, raw);
      ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::OpenSource(MakeMemorySource("t.pb", bytes)));
      ASSERT_OK_AND_ASSIGN(const TensorSlice slice, TensorSlice::Parse(absl::StrCat("1,", length - 2)));
      ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("t", slice));
      EXPECT_EQ(part.bytes(), wanted.substr(1, wanted.size() - 2));
    }
  }
}

// FORMAT.md section 9.
TEST(OnnxTensor, ReadsTheExampleOfThePage) {
  const std::string bytes("\x08\x03\x10\x15\x42\x01\x74\x4a\x02\x21\x03");
  EXPECT_EQ(bytes, RawTensor(21, {3}, "\x21\x03"));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::OpenSource(MakeMemorySource("t.pb", bytes)));
  EXPECT_EQ(reader.kind(), OnnxReader::Kind::kTensor);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader.Read("t"));
  EXPECT_EQ(tensor.dtype(), DType::kUint4);
  EXPECT_EQ(tensor.bytes(), "\x01\x02\x03");
}

TEST(OnnxTensor, NotesUnusedBitsOfTheLastByte) {
  const std::string bytes = RawTensor(21, {3}, "\x21\xf3");
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::OpenSource(MakeMemorySource("t.pb", bytes)));
  EXPECT_THAT(reader.notes(), ::testing::ElementsAre(HasSubstr("bits behind the last element")));
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader.Read("t"));
  EXPECT_EQ(tensor.bytes(), "\x01\x02\x03");
}

TEST(OnnxTensor, ListsTypesThatItDoesNotKnow) {
  const std::string bytes = RawTensor(29, {2}, "abc");
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::OpenSource(MakeMemorySource("t.pb", bytes)));
  EXPECT_EQ(reader.entries()[0].dtype, DType::kInvalid);
  EXPECT_THAT(reader.Read("t"), StatusIs(Code::kUnimplemented, HasSubstr("data type is 29")));
}

struct RejectCase {
  const char* name;
  std::string bytes;
  Code code;
  const char* says;
};

class OnnxTensorRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(OnnxTensorRejects, WithCodeAndMessage) {
  const RejectCase& c = GetParam();
  EXPECT_THAT(OnnxReader::OpenSource(MakeMemorySource("t.pb", c.bytes)).status(), StatusIs(c.code, HasSubstr(c.says)));
  EXPECT_THAT(OnnxReader::OpenSource(MakeMemorySource("t.pb", c.bytes)).status(),
              StatusIs(c.code, HasSubstr("t.pb: ")));
}

const std::string kFour(4, '\0');

const RejectCase kRejects[] = {
    {"RawAndTyped", RawTensor(1, {1}, kFour) + Sub(4, kFour), Code::kDataLoss, "in raw_data and in float_data"},
    {"EmptyRawAndTyped", RawTensor(1, {1}, "") + Sub(4, kFour), Code::kDataLoss, "in raw_data and in float_data"},
    {"TwoTyped", Head(1, {1}) + Sub(4, kFour) + Packed(5, {1}), Code::kDataLoss, "in float_data and in int32_data"},
    {"OtherTyped", Head(2, {1}) + Sub(4, kFour), Code::kDataLoss, "those of UINT8 are in int32_data"},
    {"RawTooShort", RawTensor(1, {2}, kFour), Code::kDataLoss, "stores 4 bytes; FLOAT [2] needs 8"},
    {"RawTooLong", RawTensor(1, {1}, kFour + "x"), Code::kDataLoss, "stores 5 bytes; FLOAT [1] needs 4"},
    {"NoValues", Head(1, {1}), Code::kDataLoss, "stores 0 bytes; FLOAT [1] needs 4"},
    {"ValuesTooFew", Head(2, {3}) + Packed(5, {1, 2}), Code::kDataLoss,
     "has 2 values in int32_data; UINT8 [3] needs 3"},
    {"ValuesTooMany", Head(2, {1}) + Packed(5, {1, 2}), Code::kDataLoss, "has 2 values"},
    {"StringsTooFew", Head(8, {2}) + Sub(6, "a"), Code::kDataLoss, "has 1 strings"},
    {"StringsRaw", RawTensor(8, {1}, "a"), Code::kDataLoss, "strings in raw_data"},
    {"DataOfEmpty", RawTensor(1, {0}, kFour), Code::kDataLoss, "stores 4 bytes"},
    {"ValueTooLarge", Head(2, {1}) + Num(5, 256), Code::kDataLoss, "has the value 256 in int32_data"},
    {"ValueNegative", Head(4, {1}) + Num(5, ~uint64_t{0}), Code::kDataLoss, "has the value -1"},
    {"Int8TooLarge", Head(3, {1}) + Num(5, 128), Code::kDataLoss, "INT8 has -128 to 127"},
    {"Int32TooLarge", Head(6, {1}) + Num(5, uint64_t{1} << 33), Code::kDataLoss, "INT32 has"},
    {"Uint32TooLarge", Head(12, {1}) + Num(11, uint64_t{1} << 32), Code::kDataLoss, "UINT32 has"},
    {"Bool", Head(9, {1}) + Num(5, 2), Code::kDataLoss, "BOOL has 0 to 1"},
    {"FourBitsEntry", Head(21, {2}) + Num(5, 256), Code::kDataLoss, "UINT4 has 0 to 255"},
    {"FourBitsUnused", Head(21, {1}) + Num(5, 0x11), Code::kDataLoss, "bits behind its last element"},
    {"TwoBitsUnused", Head(25, {3}) + Num(5, 0x40), Code::kDataLoss, "bits behind its last element"},
    {"SixBitsEntry", Head(27, {1}) + Num(5, 0x40), Code::kDataLoss, "FLOAT6E2M3 has 0 to 63"},
    {"FourBitsTooFew", Head(22, {3}) + Num(5, 1), Code::kDataLoss, "needs 2"},
    {"Segment", Head(1, {1}) + Sub(3, Num(1, 0)), Code::kDataLoss, "segment"},
    {"NegativeDim", RawTensor(1, {-1}, kFour), Code::kDataLoss, "dims"},
    {"OverflowingDims", RawTensor(1, {int64_t{1} << 40, int64_t{1} << 40}, kFour), Code::kDataLoss, "dims"},
    {"HugeDims", RawTensor(15, {int64_t{1} << 62}, kFour), Code::kDataLoss, "more than 2^64"},
    {"TooManyDims", Head(1, std::vector<int64_t>(255, 1)) + Sub(9, kFour), Code::kDataLoss, "axes"},
    {"NoType", Num(1, 1) + Num(2, 0) + Sub(8, "t") + Sub(9, kFour), Code::kDataLoss, "no data_type"},
    {"TwoNames", RawTensor(1, {1}, kFour) + Sub(8, "u"), Code::kDataLoss, "occurs twice"},
    {"TwoRaw", RawTensor(1, {1}, kFour) + Sub(9, kFour), Code::kDataLoss, "occurs twice"},
    {"OtherLocation", RawTensor(1, {1}, kFour) + Num(14, 2), Code::kDataLoss, "data_location 2"},
    {"RawAndSideFile", RawTensor(1, {1}, kFour) + ::tensorcask::testing::Entry("location", "x") + Num(14, 1),
     Code::kDataLoss, "beside those in a side file"},
    {"FloatsCut", Head(1, {1}) + Sub(4, "abc"), Code::kDataLoss, "stores 3 bytes"},
    {"VarintCut", Head(2, {1}) + Sub(5, "\x80"), Code::kDataLoss, "varint"},
};

INSTANTIATE_TEST_SUITE_P(Tensors, OnnxTensorRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

// Each cut and each changed byte of the file opens to tensors that can be read, or is refused.
void ExpectNoHarm(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::vector<std::string> others = {bytes.substr(0, at)};
    for (const int change : {0x01, 0x80, 0xff}) {
      others.push_back(bytes);
      others.back()[at] = static_cast<char>(others.back()[at] ^ change);
    }
    for (const std::string& other : others) {
      const absl::StatusOr<OnnxReader> reader = OnnxReader::OpenSource(MakeMemorySource("t.pb", other));
      if (!reader.ok()) {
        EXPECT_THAT(reader.status().message(), HasSubstr("t.pb"));
        continue;
      }
      for (const OnnxEntry& entry : reader->entries()) {
        const absl::StatusOr<Tensor> tensor = reader->Read(entry.name);
        EXPECT_TRUE(!tensor.ok() || tensor->shape() == entry.shape) << entry.name;
      }
      EXPECT_TRUE(reader->VerifyAll([](const OnnxDamage&) {}).ok());
    }
  }
}

TEST(OnnxTensor, NoCutAndNoChangedByteDoesHarm) {
  ExpectNoHarm(RawTensor(16, {2, 3}, std::string(12, 'x')));
  ExpectNoHarm(Head(3, {3}) + Packed(5, {static_cast<uint64_t>(-5), 2, 3}));
  ExpectNoHarm(Head(8, {2}) + Sub(6, "abc") + Sub(6, "de"));
}

TEST(OnnxTensor, NoCutAndNoChangedByteOfAModelOrSequenceDoesHarm) {
  using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
  const std::string inner = Initializer(RawTensor(1, {1}, kFour, "w"));
  const std::string sparse =
      Sub(15, Sub(1, RawTensor(1, {1}, kFour, "s")) + Sub(2, RawTensor(7, {1}, std::string(8, '\0'), "")) + Num(3, 4));
  ExpectNoHarm(Model(NodeWithGraph("n", "then_branch", inner) + inner + sparse, Sub(14, Sub(1, "k") + Sub(2, "v"))));
  ExpectNoHarm(Sub(1, "s") + Num(2, 1) + Sub(3, RawTensor(1, {1}, kFour, "")) + Sub(3, RawTensor(2, {1}, "a", "")));
}

}  // namespace
}  // namespace tensorcask
