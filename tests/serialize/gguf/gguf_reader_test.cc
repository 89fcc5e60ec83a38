#include "tensorcask/serialize/gguf/gguf_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/gguf/block_types.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/gguf/gguf_testing.h"
#include "tensorcask/tests/support/hex.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace): kGguf...
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

Value At(const GgufReader& reader, absl::string_view key) {
  return *FindValue(reader.values(), absl::StrCat("[", JsonQuoted(key), "]"));
}

TEST(GgufReader, ReadsValuesWithTheirWidths) {
  for (const bool big_endian : {false, true}) {
    SCOPED_TRACE(big_endian);
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(SmallGguf(big_endian).Build()));
    EXPECT_EQ(reader.big_endian(), big_endian);
    EXPECT_EQ(reader.version(), 3u);
    ASSERT_OK_AND_ASSIGN(const std::string json, ValueToJson(reader.values()));
    EXPECT_EQ(json,
              R"({"general.architecture":"test","k.u8":255,"k.i8":-1,"k.u16":65535,"k.i16":-2,"k.u32":4294967295,)"
              R"("k.i32":-3,"k.f32":0.5,"k.bool":true,"k.u64":18446744073709551615,"k.i64":-9223372036854775808,)"
              R"("k.f64":0.25,"k.numbers":[7,-8],"k.texts":["x","yz"]})");
    EXPECT_EQ(At(reader, "k.u8").bits(), 8);
    EXPECT_EQ(At(reader, "k.i16").bits(), 16);
    EXPECT_EQ(At(reader, "k.f32").bits(), 32);
    EXPECT_EQ(At(reader, "k.f64").bits(), 64);
    EXPECT_EQ(At(reader, "k.numbers").item(1).bits(), 16);
  }
}

TEST(GgufReader, ReadsTensors) {
  GgufFile file = SmallGguf();
  for (const uint32_t version : {2, 3}) {
    file.version = version;
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(file.Build()));
    ASSERT_EQ(reader.entries().size(), 2u);
    const GgufEntry& blocks = reader.entries()[0];
    EXPECT_EQ(blocks.name, "blocks");
    EXPECT_EQ(blocks.type, "q8_0");
    EXPECT_TRUE(blocks.is_block);
    EXPECT_EQ(blocks.dtype, DType::kFloat32);
    EXPECT_EQ(blocks.shape, TensorShape({2, 32}));
    EXPECT_EQ(blocks.stored_bytes, 68u);
    const GgufEntry& plain = reader.entries()[1];
    EXPECT_EQ(plain.type, "f32");
    EXPECT_FALSE(plain.is_block);
    EXPECT_EQ(plain.shape, TensorShape({2, 3}));
    ASSERT_OK_AND_ASSIGN(const Tensor numbers, reader.Read("plain"));
    EXPECT_THAT(absl::MakeConstSpan(numbers.data<float>(), 6), ElementsAre(0, 1, 2, 3, 4, 5));
    ASSERT_OK_AND_ASSIGN(const Tensor decoded, reader.Read("blocks"));
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(decoded.data<float>()[i], 0.5f * static_cast<float>(i + 1));
      EXPECT_EQ(decoded.data<float>()[32 + i], 2.0f * static_cast<float>(i + 1));
    }
    EXPECT_THAT(reader.notes(), IsEmpty());
    EXPECT_THAT(reader.Read("none"), StatusIs(Code::kNotFound, HasSubstr("m.gguf: no tensor \"none\"")));
  }
}

TEST(GgufReader, ReadsPlainTensorsOfEitherByteOrder) {
  struct Row {
    uint32_t id;
    DType dtype;
    std::string (*item)(const GgufFile&);
  };
  const Row kRows[] = {
      {1, DType::kFloat16, [](const GgufFile& f) { return f.Number<uint16_t>(0x3e00); }},
      {24, DType::kInt8, [](const GgufFile& f) { return f.Number<int8_t>(-5); }},
      {25, DType::kInt16, [](const GgufFile& f) { return f.Number<int16_t>(-500); }},
      {26, DType::kInt32, [](const GgufFile& f) { return f.Number<int32_t>(-70000); }},
      {27, DType::kInt64, [](const GgufFile& f) { return f.Number<int64_t>(INT64_MIN); }},
      {28, DType::kFloat64, [](const GgufFile& f) { return f.Number(2.5); }},
      {30, DType::kBFloat16, [](const GgufFile& f) { return f.Number<uint16_t>(0x3fc0); }},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.id);
    GgufFile little;
    GgufFile big;
    big.big_endian = true;
    for (GgufFile* file : {&little, &big}) file->AddTensor("w", {1}, row.id, row.item(*file));
    ASSERT_OK_AND_ASSIGN(const GgufReader a, OpenGguf(little.Build()));
    ASSERT_OK_AND_ASSIGN(const GgufReader b, OpenGguf(big.Build()));
    EXPECT_EQ(a.entries()[0].dtype, row.dtype);
    ASSERT_OK_AND_ASSIGN(const Tensor from_little, a.Read("w"));
    ASSERT_OK_AND_ASSIGN(const Tensor from_big, b.Read("w"));
    EXPECT_EQ(from_little.bytes(), row.item(little));
    EXPECT_EQ(from_big.bytes(), from_little.bytes());
  }
}

TEST(GgufReader, ListsSomeBlocksOfABigEndianFile) {
  GgufFile file;
  file.big_endian = true;
  file.AddTensor("w", {32}, 6, std::string(22, '\0'));
  ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(file.Build()));
  EXPECT_THAT(reader.entries()[0].read_status, StatusIs(Code::kUnimplemented));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kUnimplemented, HasSubstr("blocks of q5_0 in a big-endian file")));
}

// The numbers of two bytes and more are reversed, and nothing else is.
TEST(GgufReader, ReadsBlocksOfABigEndianFile) {
  struct Row {
    uint32_t id;
    uint64_t elements;
    std::vector<std::pair<size_t, size_t>> reversed;  // offset in a block and bytes of each number
  };
  const Row kRows[] = {
      {8, 32, {{0, 2}}},                                // q8_0: a scale
      {12, 256, {{0, 2}, {2, 2}}},                      // q4_k: two scales
      {14, 256, {{208, 2}}},                            // q6_k: a scale after the codes
      {15, 256, {{0, 4}, {260, 2}, {290, 2}}},          // q8_k: a float32, and sums
      {29, 256, {{48, 2}, {50, 2}, {52, 2}, {54, 2}}},  // iq1_m: four uint16
      {39, 32, {}},                                     // mxfp4: bytes alone
      {19, 256, {{0, 2}, {34, 2}, {36, 2}, {38, 2}, {40, 2}, {42, 2}, {44, 2}, {46, 2}, {48, 2}}},  // iq1_s
  };
  for (const Row& row : kRows) {
    const gguf::ElementType& type = *gguf::FindElementType(row.id);
    SCOPED_TRACE(std::string(type.name));
    std::string little = CountingBytes(3 * type.bytes);
    for (char& byte : little) byte = static_cast<char>(byte & 0x3b);  // no NaN
    std::string big = little;
    for (size_t block = 0; block < 3; ++block) {
      for (const auto& [offset, bytes] : row.reversed) {
        const auto begin = big.begin() + static_cast<std::ptrdiff_t>(block * type.bytes + offset);
        std::reverse(begin, begin + static_cast<std::ptrdiff_t>(bytes));
      }
    }
    GgufFile a;
    a.AddTensor("w", {row.elements, 3}, row.id, little);
    GgufFile b;
    b.big_endian = true;
    b.AddTensor("w", {row.elements, 3}, row.id, big);
    ASSERT_OK_AND_ASSIGN(const GgufReader from_little, OpenGguf(a.Build()));
    ASSERT_OK_AND_ASSIGN(const GgufReader from_big, OpenGguf(b.Build()));
    ASSERT_OK_AND_ASSIGN(const Tensor wanted, from_little.Read("w"));
    ASSERT_OK_AND_ASSIGN(const Tensor found, from_big.Read("w"));
    EXPECT_EQ(found.bytes(), wanted.bytes());
    ASSERT_OK_AND_ASSIGN(const Tensor part, from_big.ReadSlice("w", *TensorSlice::Parse("1,1:5,3")));
    EXPECT_EQ(part.bytes(), wanted.bytes().substr((row.elements + 5) * 4, 12));
  }
}

// Every slice along each axis, of rows of several blocks.
TEST(GgufReader, ReadsSlicesOfBlocks) {
  GgufFile file;
  std::string bytes;
  for (int i = 0; i < 3 * 2 * 4; ++i) {
    bytes += std::string("\x00\x3c", 2);  // the scale 1
    for (int j = 0; j < 32; ++j) bytes += static_cast<char>(i * 5 + j);
  }
  file.AddTensor("w", {128, 2, 3}, 8, bytes);
  ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(file.Build()));
  ASSERT_OK_AND_ASSIGN(const Tensor whole, reader.Read("w"));
  for (const char* text : {"-:-:-", "1,1:-:-", "-:1,1:-", "0,2:-:0,32", "-:-:32,64", "-:-:31,2", "-:0,1:5,100",
                           "2,1:1,1:127,1", "1,2:0,1:3,29", "-:-:96,32"}) {
    SCOPED_TRACE(text);
    ASSERT_OK_AND_ASSIGN(const TensorSlice slice, TensorSlice::Parse(text));
    ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("w", slice));
    ASSERT_OK_AND_ASSIGN(const TensorView wanted, TensorView(whole).Slice(slice));
    EXPECT_TRUE(Equal(part, wanted));
    // Into a view with other strides.
    ASSERT_OK_AND_ASSIGN(Tensor turned,
                         Tensor::Create(DType::kFloat32, TensorShape({part.dim(2), part.dim(1), part.dim(0)})));
    ASSERT_OK_AND_ASSIGN(TensorView view, TensorView(turned).Permute({2, 1, 0}));
    ASSERT_OK(reader.ReadSliceInto("w", slice, &view));
    EXPECT_TRUE(Equal(view, wanted));
  }
  EXPECT_THAT(reader.ReadSlice("w", *TensorSlice::Parse("-:-:128,1")), StatusIs(Code::kOutOfRange));
  EXPECT_THAT(reader.ReadSlice("w", *TensorSlice::Parse("-:-")), StatusIs(Code::kInvalidArgument));
}

TEST(GgufReader, DecodesLargeTensorsOnSeveralThreads) {
  GgufFile file;
  std::string bytes;
  constexpr int kBlocks = 140'000;  // 4.5 million elements
  for (int i = 0; i < kBlocks; ++i) {
    bytes += std::string("\x00\x3c", 2);
    for (int j = 0; j < 32; ++j) bytes += static_cast<char>((i >> (j % 3 * 8)) + j);
  }
  file.AddTensor("w", {32, kBlocks}, 8, bytes);
  const std::string built = file.Build();
  GgufReaderOptions options;
  ASSERT_OK_AND_ASSIGN(const GgufReader one, OpenGguf(built, options));
  options.read.strategy = ReadStrategy::kParallel;
  ASSERT_OK_AND_ASSIGN(const GgufReader many, OpenGguf(built, options));
  ASSERT_OK_AND_ASSIGN(const Tensor a, one.Read("w"));
  ASSERT_OK_AND_ASSIGN(const Tensor b, many.Read("w"));
  EXPECT_EQ(a.data<float>()[32 * 70'000 + 3], static_cast<int8_t>(70'000 + 3));
  EXPECT_TRUE(Equal(a, b));
  options.limits.max_file_decoded_bytes = 1 << 20;
  ASSERT_OK_AND_ASSIGN(const GgufReader limited, OpenGguf(built, options));
  EXPECT_THAT(limited.Read("w"), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes")));
  EXPECT_OK(limited.ReadSlice("w", *TensorSlice::Parse("0,10:-")));
}

TEST(GgufReader, GivesBlocksAsBytes) {
  GgufReaderOptions options;
  options.blocks_as_bytes = true;
  ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(SmallGguf().Build(), options));
  const GgufEntry& entry = *reader.FindEntry("blocks");
  EXPECT_EQ(entry.dtype, DType::kUint8);
  EXPECT_EQ(entry.shape, TensorShape({2, 34}));
  ASSERT_OK_AND_ASSIGN(const Tensor bytes, reader.Read("blocks"));
  EXPECT_EQ(bytes.bytes().substr(2, 32), CountingBytes(32));
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("blocks", *TensorSlice::Parse("1,1:0,3")));
  EXPECT_EQ(part.bytes(), absl::string_view("\x00\x40\x01", 3));
  GgufFile file;
  file.big_endian = true;
  file.AddTensor("w", {32}, 8, CountingBytes(34));
  ASSERT_OK_AND_ASSIGN(const GgufReader big, OpenGguf(file.Build(), options));
  ASSERT_OK_AND_ASSIGN(const Tensor as_stored, big.Read("w"));
  EXPECT_EQ(as_stored.bytes(), CountingBytes(34));
}

TEST(GgufReader, LeavesLongArraysInTheFile) {
  for (const bool big_endian : {false, true}) {
    GgufFile file;
    file.big_endian = big_endian;
    std::string texts;
    std::string numbers;
    for (int i = 0; i < 100'000; ++i) {
      texts += file.Text(absl::StrCat("token", i));
      numbers += file.Number(static_cast<int32_t>(i - 5));
    }
    file.AddKey("texts", kGgufArray, file.Array(kGgufText, 100'000, texts));
    file.AddKey("numbers", kGgufArray, file.Array(kGgufInt32, 100'000, numbers));
    file.AddKey("bools", kGgufArray, file.Array(kGgufBool, 65, std::string(64, '\1') + std::string(1, '\0')));
    file.AddKey("short", kGgufArray, file.Array(kGgufUint8, 64, CountingBytes(64)));
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(file.Build()));
    ASSERT_EQ(At(reader, "texts").kind(), ValueKind::kFileArray);
    EXPECT_EQ(At(reader, "texts").file_array().count, 100'000u);
    ASSERT_OK_AND_ASSIGN(const ValueTree tokens, reader.ReadArray(At(reader, "texts").file_array()));
    EXPECT_EQ(tokens.root().size(), 100'000u);
    EXPECT_EQ(tokens.root().item(99'999).text(), "token99999");
    ASSERT_OK_AND_ASSIGN(const ValueTree integers, reader.ReadArray(At(reader, "numbers").file_array()));
    EXPECT_EQ(integers.root().item(0).int_value(), -5);
    EXPECT_EQ(integers.root().item(0).bits(), 32);
    ASSERT_OK_AND_ASSIGN(const ValueTree bools, reader.ReadArray(At(reader, "bools").file_array()));
    EXPECT_TRUE(bools.root().item(63).bool_value());
    EXPECT_FALSE(bools.root().item(64).bool_value());
    EXPECT_EQ(At(reader, "short").kind(), ValueKind::kList);
    EXPECT_EQ(At(reader, "short").size(), 64u);
  }
}

// Small elements take much memory as a list.
TEST(GgufReader, BoundsTheListsOfLongArrays) {
  GgufFile file;
  file.AddKey("bytes", kGgufArray, file.Array(kGgufUint8, 100'000, CountingBytes(100'000)));
  GgufReaderOptions options;
  for (const int64_t limit : {64 << 20, 1 << 20}) {
    options.limits.max_memory_beyond_input = limit;
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(file.Build(), options));
    const FileArray& array = At(reader, "bytes").file_array();
    ASSERT_OK_AND_ASSIGN(const std::string bytes, reader.ReadArrayBytes(array));
    EXPECT_EQ(bytes, CountingBytes(100'000));
    const absl::StatusOr<ValueTree> list = reader.ReadArray(array);
    if (limit > 1 << 20) {
      EXPECT_OK(list);
    } else {
      EXPECT_THAT(list, StatusIs(Code::kResourceExhausted, HasSubstr("m.gguf: an array of 100000 elements takes too")));
    }
  }
}

TEST(GgufReader, NotesWhatIsUnusual) {
  GgufFile file;
  file.AddTensor("w", {1}, 0, CountingBytes(4));
  const std::string good = file.Build();
  file.last_padding = false;
  ASSERT_OK_AND_ASSIGN(const GgufReader unpadded, OpenGguf(file.Build()));
  EXPECT_THAT(unpadded.notes(), ElementsAre("m.gguf: the padding behind the last tensor is absent"));
  EXPECT_OK(unpadded.Read("w"));
  ASSERT_OK_AND_ASSIGN(const GgufReader longer, OpenGguf(good + "abc"));
  EXPECT_THAT(longer.notes(), ElementsAre("m.gguf: 3 bytes are behind the last tensor"));
  std::string changed = good;
  changed[good.size() - 33] = 'x';
  ASSERT_OK_AND_ASSIGN(const GgufReader odd, OpenGguf(changed));
  EXPECT_THAT(odd.notes(), ElementsAre("m.gguf: the padding behind the header is not zero"));
  bool zero_padding = false;
  EXPECT_OK(odd.Verify("w", &zero_padding));
  EXPECT_TRUE(zero_padding);
  changed = good;
  changed.back() = 'x';
  ASSERT_OK_AND_ASSIGN(const GgufReader behind, OpenGguf(changed));
  EXPECT_OK(behind.Verify("w", &zero_padding));
  EXPECT_FALSE(zero_padding);
  GgufFile named;
  named.AddTensor(std::string(64, 'n'), {1}, 0, CountingBytes(4));
  ASSERT_OK_AND_ASSIGN(const GgufReader long_name, OpenGguf(named.Build()));
  EXPECT_THAT(long_name.notes(), ElementsAre(HasSubstr("1 name has 64 bytes and more")));
  EXPECT_OK(long_name.Read(std::string(64, 'n')));
}

TEST(GgufReader, ScalarsAndEmptyTensors) {
  GgufFile file;
  file.AddTensor("empty", {0, 3}, 0, "");
  file.AddTensor("no blocks", {0}, 8, "");
  file.AddTensor("scalar", {}, 26, std::string("\x07\0\0\0", 4));
  ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(file.Build()));
  EXPECT_EQ(reader.FindEntry("empty")->shape, TensorShape({3, 0}));
  EXPECT_OK(reader.Read("empty"));
  EXPECT_OK(reader.Read("no blocks"));
  ASSERT_OK_AND_ASSIGN(const Tensor scalar, reader.Read("scalar"));
  EXPECT_EQ(scalar.shape(), TensorShape());
  EXPECT_EQ(scalar.data<int32_t>()[0], 7);
}

TEST(GgufReader, AlignmentIsThatOfItsKey) {
  for (const uint64_t alignment : {1, 2, 64, 4096, 1 << 20}) {
    GgufFile file;
    file.alignment = alignment;
    file.AddKey("general.alignment", kGgufUint32, file.Number(static_cast<uint32_t>(alignment)));
    file.AddTensor("a", {3}, 24, "abc");
    file.AddTensor("b", {2}, 24, "de");
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(file.Build()));
    EXPECT_EQ(reader.FindEntry("b")->offset % alignment, 0u);
    ASSERT_OK_AND_ASSIGN(const Tensor b, reader.Read("b"));
    EXPECT_EQ(b.bytes(), "de");
  }
}

// The block of FORMAT.md.
std::string Example() {
  std::ifstream in("serialize/gguf/FORMAT.md");
  EXPECT_TRUE(in.good());
  std::string line;
  while (std::getline(in, line) && line != "```hex") {
  }
  std::string bytes;
  while (std::getline(in, line) && line != "```") {
    for (const absl::string_view digits : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      bytes += testing::BytesOfHex(digits);
    }
  }
  return bytes;
}

TEST(GgufFormat, ExampleIsWhatIsRead) {
  GgufFile file;
  file.AddKey("k", kGgufUint8, "\x07");
  file.AddTensor("w", {32}, 8, std::string("\x00\x38", 2) + CountingBytes(32));
  EXPECT_EQ(absl::BytesToHexString(file.Build()), absl::BytesToHexString(Example()));
  ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(Example()));
  EXPECT_EQ(At(reader, "k").uint_value(), 7u);
  ASSERT_OK_AND_ASSIGN(const Tensor w, reader.Read("w"));
  EXPECT_EQ(w.data<float>()[31], 16);
}

// ---- Models of several files ----------------------------------------------------------------------------------------

class SplitGguf : public ::testing::Test {
 protected:
  struct Part {
    uint16_t number;
    uint16_t count;
    int32_t tensors;
    std::vector<std::string> names;
    std::string key = "";  // not empty: a key of this part, with the value 7
  };

  std::string PathOf(int number, int count) const {
    return folder_.Path(absl::StrFormat("m-%05d-of-%05d.gguf", number, count));
  }
  void Write(const std::string& path, const Part& part) const {
    GgufFile file;
    file.AddKey("split.no", kGgufUint16, file.Number(part.number));
    file.AddKey("split.count", kGgufUint16, file.Number(part.count));
    file.AddKey("split.tensors.count", kGgufInt32, file.Number(part.tensors));
    if (part.number == 0) file.AddKey("general.name", kGgufText, file.Text("split"));
    if (!part.key.empty()) file.AddKey(part.key, kGgufUint8, "\x07");
    for (const std::string& name : part.names) {
      file.AddTensor(name, {2}, 24, absl::StrCat(name, "!").substr(0, 2));
    }
    const std::string built = file.Build();
    std::ofstream(path, std::ios::binary) << built;
  }
  void Write(const Part& part) const { Write(PathOf(part.number + 1, part.count), part); }

  const TempFolder folder_;
};

TEST_F(SplitGguf, OpensByAnyPart) {
  Write({0, 3, 3, {}});
  Write({1, 3, 3, {"b", "a"}});
  Write({2, 3, 3, {"c"}});
  for (int number = 1; number <= 3; ++number) {
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, GgufReader::Open(PathOf(number, 3)));
    EXPECT_EQ(reader.path(), PathOf(number, 3));
    ASSERT_EQ(reader.num_shards(), 3);
    EXPECT_EQ(reader.ShardPath(2), PathOf(3, 3));
    ASSERT_EQ(reader.entries().size(), 3u);
    EXPECT_EQ(reader.FindEntry("a")->shard, 1);
    ASSERT_OK_AND_ASSIGN(const Tensor c, reader.Read("c"));
    EXPECT_EQ(c.bytes(), "c!");
    EXPECT_EQ(At(reader, "general.name").text(), "split");
  }
}

TEST_F(SplitGguf, RefusesPartsThatDoNotFit) {
  Write({0, 2, 1, {}});
  EXPECT_THAT(GgufReader::Open(PathOf(1, 2)),
              StatusIs(Code::kNotFound, AllOf(HasSubstr(PathOf(2, 2)), HasSubstr("it is part 2 of 2 of the model"))));
  const auto says = [&](const Part& second, absl::string_view text) {
    Write(PathOf(2, 2), second);
    EXPECT_THAT(GgufReader::Open(PathOf(1, 2)), StatusIs(Code::kDataLoss, HasSubstr(text)));
  };
  says({0, 2, 1, {"a"}}, "m-00002-of-00002.gguf: is part 1 of 2 with 1 tensors in all; wanted part 2 of 2");
  says({1, 3, 1, {"a"}}, "m-00002-of-00002.gguf: is part 2 of 3");
  says({1, 2, 2, {"a"}}, "m-00002-of-00002.gguf: is part 2 of 2 with 2 tensors in all");
  says({1, 2, 1, {"a", "b"}}, "split.tensors.count is 1; the 2 parts have 2 tensors");
  says({1, 2, 1, {"a"}, "k"}, "m-00002-of-00002.gguf: key \"k\" is not as in the first part");
  Write({0, 2, 1, {"a"}});
  says({1, 2, 1, {"a"}}, "m-00002-of-00002.gguf: tensor \"a\" is in the part");
  Write({0, 2, 1, {}, "k"});
  Write({1, 2, 1, {"a"}, "k"});
  EXPECT_OK(GgufReader::Open(PathOf(1, 2)));
}

TEST_F(SplitGguf, RefusesAPartWithAnotherName) {
  const std::string path = folder_.Path("renamed.gguf");
  Write(path, {1, 2, 1, {"a"}});
  EXPECT_THAT(GgufReader::Open(path), StatusIs(Code::kFailedPrecondition,
                                               HasSubstr("is part 2 of 2 of a model; the others are found only if its "
                                                         "name ends in -00002-of-00002.gguf")));
}

// ---- Damage ---------------------------------------------------------------------------------------------------------

// What a file lists and holds, or "" if it is refused.
std::string Contents(const std::string& bytes) {
  const absl::StatusOr<GgufReader> reader = OpenGguf(bytes);
  if (!reader.ok()) return "";
  std::string all = *ValueToJson(reader->values());
  for (const GgufEntry& entry : reader->entries()) {
    const absl::StatusOr<Tensor> tensor = reader->Read(entry.name);
    absl::StrAppend(&all, entry.name, entry.type, entry.shape.ToString(),
                    tensor.ok() ? tensor->bytes() : tensor.status().message());
  }
  return all;
}

std::vector<std::string> SmallFiles() {
  GgufFile split;
  split.AddKey("split.no", kGgufUint16, split.Number<uint16_t>(0));
  split.AddKey("split.count", kGgufUint16, split.Number<uint16_t>(1));
  split.AddKey("tokens", kGgufArray, split.Array(kGgufText, 70, [&] {
    std::string texts;
    for (int i = 0; i < 70; ++i) texts += split.Text(absl::StrCat(i));
    return texts;
  }()));
  split.AddTensor("w", {256}, 12, CountingBytes(144));
  return {SmallGguf().Build(), SmallGguf(/*big_endian=*/true).Build(), split.Build()};
}

TEST(GgufDamage, EachCutIsRefusedOrHarmless) {
  for (const std::string& good : SmallFiles()) {
    const std::string wanted = Contents(good);
    ASSERT_NE(wanted, "");
    for (size_t size = 0; size < good.size(); ++size) {
      const std::string contents = Contents(good.substr(0, size));
      if (contents.empty()) continue;
      EXPECT_EQ(contents, wanted) << size;  // only the last padding is missing
      EXPECT_GT(size + 32, good.size()) << size;
    }
  }
}

TEST(GgufDamage, EachChangedByteIsRefusedOrReadWithoutHarm) {
  for (const std::string& good : SmallFiles()) {
    for (size_t at = 0; at < good.size(); ++at) {
      for (const int change : {1, 0x80, 0xff}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ change);
        Contents(bad);
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
