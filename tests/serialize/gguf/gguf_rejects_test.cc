// GGUF files that break a rule.

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/gguf/gguf_reader.h"
#include "tensorcask/tests/serialize/gguf/gguf_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CountingBytes;
using ::tensorcask::testing::GgufFile;
using ::tensorcask::testing::OpenGguf;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace): kGguf...

struct RejectCase {
  const char* name;
  std::string file;
  const char* says;
  Code code = Code::kDataLoss;
};

class GgufRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(GgufRejects, WithCodeAndMessage) {
  const RejectCase& row = GetParam();
  EXPECT_THAT(OpenGguf(row.file), StatusIs(row.code, AllOf(HasSubstr("m.gguf: "), HasSubstr(row.says))));
}

std::string Versioned(uint32_t version, bool big_endian = false) {
  GgufFile file;
  file.version = version;
  file.big_endian = big_endian;
  return file.Build();
}

std::string Counted(uint64_t num_tensors, uint64_t num_keys) {
  GgufFile file;
  file.num_tensors = num_tensors;
  file.num_keys = num_keys;
  return file.Build();
}

std::string WithKey(absl::string_view name, uint32_t type, absl::string_view value) {
  GgufFile file;
  file.AddKey(name, type, value);
  return file.Build();
}

std::string WithAlignment(uint64_t alignment) {
  return WithKey("general.alignment", kGgufUint32, GgufFile().Number(static_cast<uint32_t>(alignment)));
}

std::string WithTensor(const std::vector<uint64_t>& sizes, uint32_t type, size_t bytes) {
  GgufFile file;
  file.AddTensor("w", sizes, type, std::string(bytes, '\0'));
  return file.Build();
}

std::string WithoutPadding(const std::vector<uint64_t>& sizes, uint32_t type, size_t bytes) {
  GgufFile file;
  file.last_padding = false;
  file.AddTensor("w", sizes, type, std::string(bytes, '\0'));
  return file.Build();
}

std::string TwoTensors(absl::string_view second, uint64_t offset) {
  GgufFile file;
  file.AddTensor("a", {2}, 0, CountingBytes(8));
  file.AddTensorAt(offset, second, {2}, 0, CountingBytes(8));
  return file.Build();
}

std::string TwoKeys(absl::string_view second) {
  GgufFile file;
  file.AddKey("a", kGgufUint8, "\x01");
  file.AddKey(second, kGgufUint8, "\x01");
  return file.Build();
}

std::string Split(uint16_t number, uint16_t count, uint32_t type_of_count = kGgufUint16) {
  GgufFile file;
  file.AddKey("split.no", kGgufUint16, file.Number(number));
  file.AddKey("split.count", type_of_count, file.Number(count) + std::string(type_of_count == kGgufUint16 ? 0 : 2, 0));
  return file.Build();
}

const RejectCase kStarts[] = {
    {"Empty", "", "this is an empty file"},
    {"FourBytes", "GGUF", "not a GGUF file"},
    {"OtherMagic", "GGML" + Versioned(3).substr(4), "not a GGUF file"},
    {"Version0", Versioned(0), "GGUF of version 0; wanted version 2 or 3"},
    {"Version1", Versioned(1), "GGUF of version 1; wanted version 2 or 3"},
    {"Version4", Versioned(4), "GGUF of version 4, which is newer", Code::kUnimplemented},
    {"BigEndianVersion4", Versioned(4, true), "GGUF of version 4, which is newer", Code::kUnimplemented},
    {"NoCounts", Versioned(3).substr(0, 20), "the file ends inside the header"},
    {"TooManyKeys", Counted(0, 1), "announces 1 keys; the 0 bytes behind it hold at most 0"},
    {"TooManyTensors", Counted(UINT64_MAX, 0), "announces 18446744073709551615 tensors"},
};

const RejectCase kKeys[] = {
    {"EmptyName", WithKey("", kGgufUint8, "\x01"), "key 0 has an empty name"},
    {"LongName", WithKey(std::string(65536, 'k'), kGgufUint8, "\x01"),
     "name of key 0: a text of 65536 bytes; at most 65535"},
    {"TwoOfOneName", TwoKeys("a"), "two keys have the name \"a\""},
    {"UnknownType", WithKey("k", 13, "\x01"), "key \"k\": the value has the type 13; the format has 0 to 12"},
    {"Bool2", WithKey("k", kGgufBool, "\x02"), "key \"k\": a bool has the byte 2, not 0 or 1"},
    {"Bool2InArray", WithKey("k", kGgufArray, GgufFile().Array(kGgufBool, 2, "\x01\x02")), "a bool has the byte 2"},
    {"Bool2InLongArray", WithKey("k", kGgufArray, GgufFile().Array(kGgufBool, 100, std::string(99, '\1') + '\3')),
     "a bool has the byte 3"},
    {"NestedArray", WithKey("k", kGgufArray, GgufFile().Array(kGgufArray, 0, "")),
     "key \"k\": the value is an array of arrays"},
    {"LongText", WithKey("k", kGgufText, GgufFile().Number(UINT64_MAX)),
     "key \"k\": the file ends inside the header: 18446744073709551615 bytes"},
    {"LongArray", WithKey("k", kGgufArray, GgufFile().Array(kGgufUint64, UINT64_MAX / 8 + 1, "")),
     "announces 2305843009213693952 elements of at least 8 bytes; 0 bytes"},
    {"LongTextInArray",
     WithKey("k", kGgufArray, GgufFile().Array(kGgufText, 100, std::string(792, '\0') + GgufFile().Number(UINT64_MAX))),
     "the file ends inside the header"},
    {"Alignment0", WithAlignment(0), "general.alignment is 0; wanted a power of two"},
    {"Alignment48", WithAlignment(48), "general.alignment is 48"},
    {"Alignment2MiB", WithAlignment(2 << 20), "general.alignment is 2097152"},
    {"AlignmentOfAnotherType", WithKey("general.alignment", kGgufInt32, GgufFile().Number<int32_t>(32)),
     "general.alignment is not a uint32"},
    {"PartOfNone", Split(0, 0), "is part 1 of a model of 0 parts"},
    {"PartPastTheLast", Split(2, 2), "is part 3 of a model of 2 parts"},
    {"CountOfAnotherType", Split(0, 2, kGgufUint32), "split.count is not of the type uint16"},
    {"PartInMemory", Split(1, 2), "its name ends in -00002-of-00002.gguf", Code::kFailedPrecondition},
};

const RejectCase kTensors[] = {
    {"FiveDimensions", WithTensor({1, 1, 1, 1, 1}, 0, 4), "tensor \"w\": has 5 dimensions; the format has at most 4"},
    {"NegativeSize", WithTensor({UINT64_MAX}, 0, 4), "tensor \"w\": shape: dim 0 is -1"},
    {"ProductOf0", WithTensor({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 4), "tensor \"w\": shape: "},
    {"TooManyBytes", WithTensor({uint64_t{1} << 62}, 0, 4), "has too many bytes"},
    {"RowOfTooManyBytes", WithTensor({(uint64_t{1} << 63) - 32, 0}, 8, 0), "has too many bytes"},
    {"BlocksOfTooManyBytes", WithTensor({uint64_t{1} << 62}, 8, 34), "pass the end of the file"},
    {"RowsOfHalfABlock", WithTensor({33}, 8, 34),
     "has rows of 33 elements; wanted a multiple of 32, which a block of q8_0"},
    {"ScalarOfBlocks", WithTensor({}, 8, 34), "has rows of 1 elements"},
    {"UnknownType", WithTensor({32}, 99, 34), "tensor \"w\": has the type 99, which is of a fork (ik_llama.cpp)",
     Code::kUnimplemented},
    {"RemovedType", WithTensor({32}, 5, 34), "(q4_3), which was removed", Code::kUnimplemented},
    {"TwoOfOneName", TwoTensors("a", 32), "two tensors have the name \"a\""},
    {"Gap", TwoTensors("b", 64), "tensor \"b\": its data begins at 64 of the data; the tensors before it end at 32"},
    {"Overlap", TwoTensors("b", 0), "tensor \"b\": its data begins at 0"},
    {"Unaligned", TwoTensors("b", 8), "tensor \"b\": its data begins at 8"},
    {"DataCut", WithoutPadding({9}, 0, 35), "tensor \"w\": its 36 bytes at 0 of the data"},
    {"LongName",
     [] {
       GgufFile file;
       file.AddTensor(std::string(70000, 'n'), {1}, 0, CountingBytes(4));
       return file.Build();
     }(),
     "name of tensor 0: a text of 70000 bytes; at most 65536"},
};

const auto kNameOf = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Starts, GgufRejects, ::testing::ValuesIn(kStarts), kNameOf);
INSTANTIATE_TEST_SUITE_P(Keys, GgufRejects, ::testing::ValuesIn(kKeys), kNameOf);
INSTANTIATE_TEST_SUITE_P(Tensors, GgufRejects, ::testing::ValuesIn(kTensors), kNameOf);

// Small input does not make a large tree: arrays of few elements, which are kept in memory.
TEST(GgufLimits, ValuesAreChargedToTheBudget) {
  GgufFile file;
  for (int i = 0; i < 5000; ++i) {
    file.AddKey(std::to_string(i), kGgufArray, file.Array(kGgufUint8, 60, CountingBytes(60)));
  }
  EXPECT_OK(OpenGguf(file.Build()));
  GgufReaderOptions options;
  options.limits.max_memory_beyond_input = 1 << 20;
  EXPECT_THAT(OpenGguf(file.Build(), options),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  options = GgufReaderOptions();
  options.limits.max_entries = 4999;
  EXPECT_THAT(OpenGguf(file.Build(), options), StatusIs(Code::kResourceExhausted, HasSubstr("max_entries")));
}

}  // namespace
}  // namespace tensorcask
