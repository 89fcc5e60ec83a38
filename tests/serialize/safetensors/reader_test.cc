// Reading: what unusual files give, slices, mapping, aliases, limits, models in several files.

#include "tensorcask/serialize/safetensors/safetensors_reader.h"

#include <cerrno>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/safetensors/safetensors_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Bytes;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::kGood;
using ::tensorcask::testing::LengthOnly;
using ::tensorcask::testing::MakeFile;
using ::tensorcask::testing::OneTensor;
using ::tensorcask::testing::OpenBytes;
using ::tensorcask::testing::RandomTensor;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TwoTensors;
using ::tensorcask::testing::WithShape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Code = absl::StatusCode;

// ---- Files that are accepted ---------------------------------------------------------------------------------------

TEST(SafetensorsReader, HeaderOrderNeedNotBeDataOrder) {
  const std::string file = TwoTensors("[8,16]", "[0,8]", 16);
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file));
  ASSERT_EQ(reader.entries().size(), 2u);
  EXPECT_EQ(reader.entries()[0].name, "b");
  ASSERT_OK_AND_ASSIGN(const Tensor a, reader.Read("a"));
  EXPECT_EQ(a.bytes(), Bytes(16).substr(8));
}

TEST(SafetensorsReader, TensorsAtOddAddressesAreRead) {
  const std::string file = MakeFile(
      R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F64","shape":[],"data_offsets":[3,11]}} )",
      Bytes(11));
  MemoryFileSystem files;
  files.Put("m", file);
  SafetensorsReaderOptions options;
  options.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("m", options));
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("b"));
  ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map("b"));
  EXPECT_EQ(read.bytes(), Bytes(11).substr(3));
  EXPECT_EQ(mapped.bytes(), read.bytes());
  EXPECT_EQ(mapped.buffer()->kind(), TensorBuffer::Kind::kBytes);
}

TEST(SafetensorsReader, ManyEmptyTensorsAreRead) {
  std::string header = "{";
  for (int i = 0; i < 20'000; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"", i, R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})");
  }
  const std::string file = MakeFile(header + "}");
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file));
  EXPECT_EQ(reader.entries().size(), 20'000u);
  ASSERT_OK_AND_ASSIGN(const auto all, reader.ReadAll());
  EXPECT_EQ(all.size(), 20'000u);
}

TEST(SafetensorsReader, UnknownFieldsAreIgnoredAndNoted) {
  const std::string file = OneTensor("\"x\":{\"y\":[1,{\"z\":null}]}," + kGood + ",\"q\":1.5");
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file));
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("tensor \"a\" has the unknown field \"x\""),
                                          HasSubstr("has the unknown field \"q\"")));
  EXPECT_OK(reader.Read("a"));
}

TEST(SafetensorsReader, MetadataIsText) {
  const std::string file = MakeFile(R"({"__metadata__":{"format":"pt","k\u00e9":"v\n"}})");
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file));
  EXPECT_THAT(reader.metadata(), ElementsAre(Pair("format", "pt"), Pair("k\xc3\xa9", "v\n")));
  const std::string none = MakeFile(R"({"__metadata__":null}  )");
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader empty, OpenBytes(none));
  EXPECT_THAT(empty.metadata(), IsEmpty());
  EXPECT_THAT(empty.notes(), IsEmpty());
}

TEST(SafetensorsReader, TellsItsFormatByContent) {
  EXPECT_TRUE(SafetensorsReader::LooksLikeSafetensors(MakeFile("{}"), 10));
  EXPECT_FALSE(SafetensorsReader::LooksLikeSafetensors(MakeFile("{}"), 9));
  EXPECT_FALSE(SafetensorsReader::LooksLikeSafetensors(MakeFile("[]"), 10));
  EXPECT_FALSE(SafetensorsReader::LooksLikeSafetensors("{}", 2));
  EXPECT_FALSE(SafetensorsReader::LooksLikeSafetensors(LengthOnly(3), 10));
  for (const char* header : {"{\"w\":{\"dtype\"", "{ \"w\" : {", "{\"a\\\"b\":{", "{\"cut", "{\"w\"", "{\"w\":", "{\n",
                             "{\"__metadata__\":null}"}) {
    EXPECT_TRUE(SafetensorsReader::LooksLikeSafetensors(MakeFile(header), 100)) << header;
  }
  for (const char* header : {"{w:{}}", "{\"w\" {", "{\"w\":1}", "{\"w\":[]}", "{\"w\n\":{}}", "{\x01}", "{]"}) {
    EXPECT_FALSE(SafetensorsReader::LooksLikeSafetensors(MakeFile(header), 100)) << header;
  }
}

// ---- Lenient -------------------------------------------------------------------------------------------------------

struct LenientCase {
  const char* name;
  std::string file;
  const char* note;
};
class SafetensorsLenient : public ::testing::TestWithParam<LenientCase> {};

TEST_P(SafetensorsLenient, ReadsWhatIsRefusedOtherwise) {
  EXPECT_THAT(OpenBytes(GetParam().file), StatusIs(Code::kDataLoss));
  SafetensorsReaderOptions options;
  options.lenient = true;
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(GetParam().file, options));
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr(GetParam().note)));
  ASSERT_OK_AND_ASSIGN(const Tensor a, reader.Read("a"));
  EXPECT_EQ(a.bytes(), Bytes(8));
}

const LenientCase kLenient[] = {
    {"BytesBehind", OneTensor(kGood) + "1234", "4 bytes behind the last tensor"},
    {"BytesBetween", TwoTensors("[0,8]", "[9,17]", 17), "data bytes 8 to 9, before tensor \"b\", belong to no tensor"},
    {"SpaceBefore", MakeFile(" {\"a\":{" + kGood + "}}", Bytes(8)), "white space before the header"},
    {"NulPadding", MakeFile("{\"a\":{" + kGood + "}}" + std::string(3, '\0'), Bytes(8)), "NUL bytes pad the header"},
    {"MetadataNumber", MakeFile("{\"__metadata__\":{\"k\":1.5},\"a\":{" + kGood + "}}", Bytes(8)),
     "the value of \"k\" in the metadata is not a string"},
    {"MetadataNested", MakeFile("{\"__metadata__\":{\"k\":[{\"k\":[]}]},\"a\":{" + kGood + "}}", Bytes(8)),
     "the value of \"k\" in the metadata is an array; it is left out"},
};
INSTANTIATE_TEST_SUITE_P(All, SafetensorsLenient, ::testing::ValuesIn(kLenient),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SafetensorsLenientTest, BoolsOtherThanZeroAndOneAreTrue) {
  const std::string file =
      MakeFile(R"({"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}}  )", absl::string_view("\0\1\2\xff", 4));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader strict, OpenBytes(file));
  EXPECT_THAT(strict.Read("a"),
              StatusIs(Code::kDataLoss, HasSubstr("a bool is neither 0 nor 1 (lenient accepts this)")));
  EXPECT_THAT(strict.Map("a"), StatusIs(Code::kDataLoss));
  EXPECT_THAT(strict.ReadSlice("a", *TensorSlice::Parse("1,2")), StatusIs(Code::kDataLoss));
  EXPECT_OK(strict.ReadSlice("a", *TensorSlice::Parse("0,2")));
  SafetensorsReaderOptions options;
  options.lenient = true;
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader lenient, OpenBytes(file, options));
  ASSERT_OK_AND_ASSIGN(const Tensor a, lenient.Map("a"));
  EXPECT_EQ(a.bytes(), absl::string_view("\0\1\1\1", 4));
}

TEST(SafetensorsLenientTest, DuplicatesAndOverlapsAreRefusedAllTheSame) {
  SafetensorsReaderOptions options;
  options.lenient = true;
  EXPECT_THAT(OpenBytes(TwoTensors("[0,8]", "[8,16]", 16, "aa"), options), StatusIs(Code::kDataLoss));
  EXPECT_THAT(OpenBytes(TwoTensors("[0,8]", "[4,12]", 12), options), StatusIs(Code::kDataLoss));
  EXPECT_THAT(OpenBytes(WithShape("[3]"), options), StatusIs(Code::kDataLoss));
}

// ---- Elements ------------------------------------------------------------------------------------------------------

TEST(SafetensorsReader, EveryWayOfReadingGivesTheSameElements) {
  for (const bool checksums : {false, true}) {
    MemoryFileSystem files;
    SafetensorsWriterOptions write;
    write.file_system = &files;
    write.checksums = checksums;
    ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", write));
    const DType dtypes[] = {DType::kFloat32,    DType::kBool,       DType::kComplex64,
                            DType::kFloat4E2m1, DType::kFloat6E2m3, DType::kBfloat16};
    std::map<std::string, Tensor> tensors;
    for (const DType dtype : dtypes) {
      tensors.emplace(DTypeName(dtype), RandomTensor(dtype, TensorShape({6, 5, 8}), 7));
    }
    tensors.emplace("large", RandomTensor(DType::kUint8, TensorShape({3, 1000, 1001}), 8));
    for (const auto& [name, tensor] : tensors) ASSERT_OK(writer.Add(name, tensor));
    ASSERT_OK(writer.Finish());
    SafetensorsReaderOptions options;
    options.read.file_system = &files;
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("m", options));
    ASSERT_OK_AND_ASSIGN(const auto all, reader.ReadAll(/*num_threads=*/3));
    EXPECT_EQ(all.size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
      SCOPED_TRACE(name);
      EXPECT_TRUE(Equal(all.at(name), tensor));
      ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map(name));
      EXPECT_TRUE(Equal(mapped, tensor));
      EXPECT_EQ(mapped.buffer()->kind() == TensorBuffer::Kind::kMapped, SafetensorsDTypeBits(tensor.dtype()) >= 8);
      Tensor into = *Tensor::Zeros(tensor.dtype(), tensor.shape());
      ASSERT_OK(reader.ReadInto(name, &into));
      EXPECT_TRUE(Equal(into, tensor));
      Tensor turned = *Tensor::Zeros(tensor.dtype(), TensorShape({tensor.dim(2), tensor.dim(1), tensor.dim(0)}));
      TensorView view = *TensorView(turned).Transpose(0, 2);
      ASSERT_OK(reader.ReadInto(name, &view));
      EXPECT_TRUE(Equal(view, tensor));
      for (const char* text : {"-:-:-", "1,2:-:-", "1,2:2,1:-", "0,6:1,3:2,5", "5,1:4,1:7,1", "-:-:3,1"}) {
        SCOPED_TRACE(text);
        const TensorSlice slice = *TensorSlice::Parse(text);
        if (!slice.Apply(tensor.shape()).ok()) continue;  // "large" has other sizes
        ASSERT_OK_AND_ASSIGN(const TensorView wanted, TensorView(tensor).Slice(slice));
        ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice(name, slice, /*verify_whole=*/true));
        EXPECT_TRUE(Equal(part, wanted));
        Tensor target = *Tensor::Zeros(tensor.dtype(), wanted.shape());
        TensorView target_view(target);
        ASSERT_OK(reader.ReadSliceInto(name, slice, &target_view));
        EXPECT_TRUE(Equal(target, wanted));
      }
    }
    ASSERT_OK_AND_ASSIGN(const SafetensorsCounts counts, reader.VerifyAll([](const SafetensorsDamage&) { FAIL(); }));
    EXPECT_EQ(counts.verified + counts.without_checksum, static_cast<int64_t>(tensors.size()));
    EXPECT_EQ(counts.without_checksum == 0, checksums);
  }
}

TEST(SafetensorsReader, AChecksumIsComparedOnce) {
  MemoryFileSystem files;
  SafetensorsWriterOptions write;
  write.file_system = &files;
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", write));
  ASSERT_OK(writer.Add("w", Tensor::FromValues<int32_t>({1, 2, 0x01020304})));
  ASSERT_OK(writer.Finish());
  std::string bytes = *files.Find("m");
  const TensorSlice first = *TensorSlice::Parse("0,1");
  for (const bool is_read_before : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::OpenSource(MakeMemorySource("m", bytes)));
    if (is_read_before) {
      EXPECT_OK(reader.Read("w"));
    }
    const size_t at = bytes.rfind("\4\3\2\1");
    bytes[at] = 5;
    if (is_read_before) {
      EXPECT_OK(reader.ReadSlice("w", first, /*verify_whole=*/true));
    } else {
      EXPECT_THAT(reader.ReadSlice("w", first, /*verify_whole=*/true),
                  StatusIs(Code::kDataLoss, HasSubstr("its checksum is")));
    }
    bytes[at] = 4;
  }
}

TEST(SafetensorsReader, LargeTensorsAreReadAndVerifiedOnThreads) {
  MemoryFileSystem files;
  SafetensorsWriterOptions write;
  write.file_system = &files;
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", write));
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({5 << 20}), 1);
  ASSERT_OK(writer.Add("w", tensor));
  ASSERT_OK(writer.Finish());
  SafetensorsReaderOptions options;
  options.read.file_system = &files;
  options.read.strategy = ReadStrategy::kParallel;
  {
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("m", options));
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("w"));
    EXPECT_TRUE(Equal(read, tensor));
  }
  std::string bytes = *files.Find("m");
  bytes[bytes.size() - 9'000'000] ^= 1;
  files.Put("m", bytes);
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader damaged, SafetensorsReader::Open("m", options));
  EXPECT_THAT(damaged.Read("w"), StatusIs(Code::kDataLoss, HasSubstr("its checksum is")));
}

TEST(SafetensorsReader, CallersMistakesAreNamed) {
  const std::string file = OneTensor(kGood);
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file));
  EXPECT_THAT(reader.Read("b"), StatusIs(Code::kNotFound, HasSubstr("m.safetensors: no tensor \"b\"")));
  EXPECT_THAT(reader.Find("b"), StatusIs(Code::kNotFound));
  EXPECT_EQ(reader.FindEntry("b"), nullptr);
  EXPECT_THAT(reader.ReadMany({"a", "b"}), StatusIs(Code::kNotFound));
  EXPECT_THAT(reader.ReadSlice("a", *TensorSlice::Parse("1,2")),
              StatusIs(Code::kOutOfRange, HasSubstr("tensor \"a\"")));
  EXPECT_THAT(reader.ReadSlice("a", TensorSlice::Full(2)), StatusIs(Code::kInvalidArgument));
  Tensor wrong = *Tensor::Zeros(DType::kInt32, TensorShape({2}));
  EXPECT_THAT(reader.ReadInto("a", &wrong),
              StatusIs(Code::kInvalidArgument, HasSubstr("is float32 [2]; the tensor to fill is int32 [2]")));
  TensorView wrong_view(wrong);
  EXPECT_THAT(reader.ReadSliceInto("a", TensorSlice::Full(1), &wrong_view), StatusIs(Code::kInvalidArgument));
}

// The reader gives elements to the host. An allocator of a device is an error that says so.
TEST(SafetensorsReader, RefusesAnAllocatorOfADevice) {
  SafetensorsReaderOptions options;
  options.allocator = CachingAllocator::Make(SimulatedBackend::Create({}).value());
  const std::string file = MakeFile(R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", Bytes(8));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file, options));
  EXPECT_THAT(reader.Read("w"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("which the host cannot access")));
}

TEST(SafetensorsReader, LimitsHold) {
  const std::string file = TwoTensors("[0,8]", "[8,16]", 16);
  SafetensorsReaderOptions options;
  options.limits.max_file_decoded_bytes = 12;
  {
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file, options));
    EXPECT_OK(reader.Read("a"));
    EXPECT_THAT(reader.ReadAll(), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes")));
  }
  options.limits.max_file_decoded_bytes = 7;
  {
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file, options));
    EXPECT_THAT(reader.Read("a"), StatusIs(Code::kResourceExhausted, HasSubstr("tensor \"a\"")));
    EXPECT_OK(reader.ReadSlice("a", *TensorSlice::Parse("0,1")));
  }
  options = {};
  options.limits.max_entries = 1;
  EXPECT_THAT(OpenBytes(file, options), StatusIs(Code::kResourceExhausted, HasSubstr("max_entries")));
  EXPECT_THAT(OpenBytes(MakeFile(R"({"__metadata__":{"a":"","b":""}})"), options),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_entries")));
  options = {};
  options.limits.max_memory_beyond_input = 100;  // besides the bytes of the header
  EXPECT_THAT(OpenBytes(file, options), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  EXPECT_THAT(OpenBytes(MakeFile(R"({"__metadata__":{"a":"","b":""}})"), options),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  EXPECT_OK(OpenBytes(MakeFile("{}"), options));
  options = {};
  options.max_header_bytes = 10;
  EXPECT_THAT(OpenBytes(file, options), StatusIs(Code::kResourceExhausted, HasSubstr("max_header_bytes is 10")));
}

// ---- Aliases -------------------------------------------------------------------------------------------------------

TEST(SafetensorsReader, TiedTensorsAreAliases) {
  const std::string file = MakeFile(
      "{\"__metadata__\":{\"__metadata__\":\"a\",\"format\":\"pt\",\"head\":\"a\",\"b\":\"a\",\"note\":\"nothing\"},"
      "\"a\":{" +
          kGood + "}}",
      Bytes(8));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file));
  ASSERT_EQ(reader.entries().size(), 3u);
  EXPECT_EQ(reader.entries()[1].name, "b");
  EXPECT_EQ(reader.entries()[2].name, "head");
  EXPECT_EQ(reader.entries()[2].alias_of, "a");
  EXPECT_EQ(reader.entries()[2].shape, TensorShape({2}));
  EXPECT_THAT(reader.metadata(), ElementsAre(Pair("__metadata__", "a"), Pair("format", "pt"), Pair("note", "nothing")));
  ASSERT_OK_AND_ASSIGN(const auto all, reader.ReadAll());
  EXPECT_EQ(all.size(), 3u);
  EXPECT_TRUE(all.at("head").SharesBufferWith(all.at("a")));
  ASSERT_OK_AND_ASSIGN(const Tensor head, reader.Read("head"));
  EXPECT_EQ(head.bytes(), Bytes(8));
  SafetensorsReaderOptions options;
  options.restore_aliases = false;
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader plain, OpenBytes(file, options));
  EXPECT_EQ(plain.entries().size(), 1u);
  EXPECT_EQ(plain.metadata().size(), 5u);
}

// Only a file that says so has aliases: other values may be names of tensors by chance.
TEST(SafetensorsReader, MetadataThatNamesATensorIsMetadata) {
  struct Row {
    const char* metadata;
    std::vector<std::string> aliases;
  };
  const Row rows[] = {
      {R"({"target":"a"})", {}},
      {R"({"format":"np","target":"a"})", {}},
      {R"({"format":"a","target":"a"})", {}},
      {R"({"format":"pt","target":"a"})", {"target"}},
      {R"({"format":"pt","target":"a","tied":"a","tensorcask.aliases":"[\"tied\"]"})", {"tied"}},
      {R"({"target":"a","tied":"a","tensorcask.aliases":"[\"tied\",\"gone\",\"format\",\"a\"]"})", {"tied"}},
      {R"({"format":"pt","target":"a","tensorcask.aliases":"[]"})", {}},
      {R"({"format":"pt","target":"a","tensorcask.aliases":"[[\"target\"]]"})", {}},
      {R"({"format":"pt","target":"a","tensorcask.aliases":"no list"})", {}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.metadata);
    const std::string file =
        MakeFile(absl::StrCat("{\"__metadata__\":", row.metadata, ",\"a\":{", kGood, "}}"), Bytes(8));
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file));
    std::vector<std::string> aliases;
    for (const SafetensorsEntry& entry : reader.entries()) {
      if (!entry.alias_of.empty()) aliases.push_back(entry.name);
    }
    EXPECT_EQ(aliases, row.aliases);
    const bool is_metadata = row.aliases.empty() || row.aliases[0] != "target";
    EXPECT_EQ(reader.metadata().count("target"), is_metadata ? 1U : 0U);
    EXPECT_EQ(reader.metadata().count("tensorcask.aliases"), 0U);
  }
}

// ---- Models in several files ---------------------------------------------------------------------------------------

class ShardedModel : public ::testing::Test {
 protected:
  ShardedModel() {
    EXPECT_EQ(files_.MakeFolder("d"), 0);
    files_.Put("d/m-1.safetensors", MakeFile("{\"__metadata__\":{\"format\":\"pt\"},\"a\":{" + kGood + "}}", Bytes(8)));
    files_.Put("d/m-2.safetensors", MakeFile("{\"b\":{" + kGood + "}}", Bytes(8)));
    options_.read.file_system = &files_;
  }
  absl::StatusOr<SafetensorsReader> Open(const std::string& index) {
    files_.Put("d/m.safetensors.index.json", index);
    return SafetensorsReader::Open("d/m.safetensors", options_);
  }

  MemoryFileSystem files_;
  SafetensorsReaderOptions options_;
};

TEST_F(ShardedModel, IsOneModel) {
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader,
                       Open(R"({"metadata":{"total_size":16,"tied":"b","x":1.5,"y":[{}]},)"
                            R"("weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"},"other":{"k":[1]}})"));
  EXPECT_EQ(reader.path(), "d/m.safetensors.index.json");
  EXPECT_EQ(reader.num_shards(), 2);
  EXPECT_EQ(reader.ShardPath(1), "d/m-2.safetensors");
  ASSERT_EQ(reader.entries().size(), 3u);
  EXPECT_EQ(reader.FindEntry("b")->shard, 1);
  EXPECT_EQ(reader.FindEntry("tied")->alias_of, "b");
  EXPECT_THAT(reader.metadata(), ElementsAre(Pair("format", "pt")));
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("the index has the unknown key \"other\"")));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> both, reader.ReadMany({"tied", "a", "b"}, 2));
  EXPECT_EQ(both[1].bytes(), Bytes(8));
  EXPECT_TRUE(both[0].SharesBufferWith(both[2]));
}

TEST_F(ShardedModel, AWrongTotalSizeIsNoted) {
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader,
                       Open(R"({"metadata":{"total_size":17},"weight_map":{"b":"m-2.safetensors"}})"));
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("all tensors have 17 bytes; they have 8")));
}

TEST_F(ShardedModel, FilesOutsideTheFolderAreRefused) {
  for (const char* name : {"../m-1.safetensors", "/d/m-1.safetensors", "./m-1.safetensors", "x/../m-1.safetensors",
                           "..", ".", "", "a\\\\b", "m\\u0000"}) {
    EXPECT_THAT(Open(absl::StrCat(R"({"weight_map":{"a":")", name, R"("}})")),
                StatusIs(Code::kDataLoss, HasSubstr("must be the name of a file in the folder of the index")))
        << name;
  }
}

TEST_F(ShardedModel, WhatDoesNotFitTogetherIsRefused) {
  const auto rejects = [&](const std::string& index, Code code, const std::string& says) {
    EXPECT_THAT(Open(index), StatusIs(code, HasSubstr(says))) << index;
  };
  rejects(R"({"weight_map":{"a":"m-1.safetensors","a":"m-1.safetensors"}})", Code::kDataLoss, "duplicate key");
  rejects(R"({"weight_map":{},"weight_map":{}})", Code::kDataLoss, "duplicate key");
  rejects(R"({"weight_map":{"a":1}})", Code::kDataLoss, "the file of tensor \"a\" is 1");
  rejects(R"({"weight_map":[]})", Code::kDataLoss, "weight_map is an array");
  rejects(R"({"metadata":{}})", Code::kDataLoss, "no weight_map");
  rejects("[]", Code::kDataLoss, "must be an object");
  rejects("", Code::kDataLoss, "this is an empty file");
  options_.limits.max_memory_beyond_input = 50;
  rejects(R"({"weight_map":{"a":"m-1.safetensors"}})", Code::kResourceExhausted, "max_memory_beyond_input");
  options_.max_header_bytes = 3;
  rejects(R"({"weight_map":{}})", Code::kResourceExhausted, "max_header_bytes");
}

TEST_F(ShardedModel, TensorsThatTheIndexDoesNotListAreReadAndNoted) {
  const std::string two = MakeFile(R"({"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                                   R"("c":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})",
                                   Bytes(16));
  files_.Put("d/m-2.safetensors", two);
  files_.Put("d/m-3.safetensors", two);
  for (const bool lenient : {false, true}) {
    options_.lenient = lenient;
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader,
                         Open(R"({"weight_map":{"a":"m-2.safetensors","b":"m-3.safetensors","d":"m-1.safetensors"}})"));
    std::vector<std::string> places;
    for (const SafetensorsEntry& entry : reader.entries()) {
      places.push_back(
          absl::StrCat(entry.name, " ", reader.ShardPath(entry.shard), entry.read_status.ok() ? "" : " no"));
      EXPECT_EQ(reader.FindEntry(entry.name), &entry);
    }
    EXPECT_THAT(places, ElementsAre("a d/m-1.safetensors", "d d/m-1.safetensors no", "c d/m-2.safetensors",
                                    "b d/m-3.safetensors"));
    ASSERT_OK_AND_ASSIGN(const Tensor a, reader.Read("a"));
    EXPECT_EQ(a.bytes(), Bytes(8));
    ASSERT_OK_AND_ASSIGN(const Tensor c, reader.Read("c"));
    EXPECT_EQ(c.bytes(), Bytes(16).substr(8));
    std::vector<std::string> damage;
    ASSERT_OK_AND_ASSIGN(const SafetensorsCounts counts, reader.VerifyAll([&](const SafetensorsDamage& one) {
      EXPECT_THAT(one.status, StatusIs(Code::kDataLoss, HasSubstr(one.file)));
      damage.push_back(absl::StrCat(one.file, " ", one.tensor));
    }));
    EXPECT_THAT(damage,
                ElementsAre("d/m-1.safetensors ", "d/m-2.safetensors ", "d/m-3.safetensors ", "d/m-1.safetensors d"));
    EXPECT_EQ(counts.without_checksum, 3);
    EXPECT_THAT(
        reader.notes(),
        ElementsAre("d/m-1.safetensors: has 1 tensor that d/m.safetensors.index.json does not list there: \"a\"",
                    HasSubstr("has 2 tensors"), HasSubstr("; the tensor of this name is that of another file")));
  }
}

TEST_F(ShardedModel, ATensorThatItsFileDoesNotHaveIsListed) {
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, Open(R"({"weight_map":{"x":"m-1.safetensors"}})"));
  EXPECT_EQ(reader.entries().size(), 2u);
  EXPECT_THAT(reader.Read("x"), StatusIs(Code::kDataLoss, HasSubstr("d/m-1.safetensors, which does not have it")));
}

TEST_F(ShardedModel, AFolderInPlaceOfAFileHidesOnlyItsTensors) {
  EXPECT_EQ(files_.MakeFolder("d/m-3.safetensors"), 0);
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader,
                       Open(R"({"weight_map":{"a":"m-1.safetensors","x":"m-3.safetensors"}})"));
  EXPECT_OK(reader.Read("a").status());
  EXPECT_THAT(reader.Read("x"), StatusIs(Code::kDataLoss, HasSubstr("d/m-3.safetensors: cannot open: is a folder")));
}

TEST_F(ShardedModel, AMissingOrDamagedFileHidesOnlyItsTensors) {
  files_.Put("d/m-4.safetensors", Bytes(16));
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsReader reader,
      Open(R"({"metadata":{"total_size":99},"weight_map":{"a":"m-1.safetensors","c":"m-1.safetensors",)"
           R"("d":"m-3.safetensors","e":"m-3.safetensors","f":"m-4.safetensors","g":"m-5.safetensors"}})"));
  ASSERT_EQ(reader.entries().size(), 6u);
  EXPECT_EQ(reader.num_shards(), 4);
  EXPECT_OK(reader.Read("a").status());
  const std::pair<const char*, const char*> lost[] = {
      {"c", "which does not have it"}, {"d", "d/m-3.safetensors: is missing"}, {"f", "d/m-4.safetensors: "}};
  for (const auto& [name, says] : lost) {
    EXPECT_THAT(reader.Read(name), StatusIs(Code::kDataLoss, HasSubstr(says))) << name;
    EXPECT_THAT(reader.ReadAll(), StatusIs(Code::kDataLoss));
  }
  EXPECT_THAT(reader.notes(),
              ElementsAre(HasSubstr("d/m-4.safetensors"),
                          "2 of the 4 files that it lists are missing: m-3.safetensors, m-5.safetensors"));
  std::vector<std::string> damage;
  ASSERT_OK_AND_ASSIGN(const SafetensorsCounts counts, reader.VerifyAll([&](const SafetensorsDamage& one) {
    damage.push_back(one.tensor.empty() ? one.file : one.tensor);
  }));
  EXPECT_THAT(damage, ElementsAre("d/m-3.safetensors", "d/m-4.safetensors", "d/m-5.safetensors", "c"));
  EXPECT_EQ(counts.lost, 4);
  EXPECT_EQ(counts.without_checksum, 1);
}

// ---- Files that fail -----------------------------------------------------------------------------------------------

TEST(SafetensorsReader, EveryFailingOperationIsAnErrorAndLeaksNothing) {
  MemoryFileSystem memory;
  memory.Put("m", TwoTensors("[0,8]", "[8,16]", 16));
  for (int64_t n = 1;; ++n) {
    ASSERT_LT(n, 100);
    FaultyFileSystem files(&memory);
    files.FailAt(n, EIO);
    SafetensorsReaderOptions options;
    options.read.file_system = &files;
    const auto run = [&]() -> absl::Status {
      absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open("m", options);
      if (!reader.ok()) return reader.status();
      absl::StatusOr<Tensor> tensor = reader->Read("b");
      if (!tensor.ok()) return tensor.status();
      tensor = reader->Map("a");
      return tensor.status();
    };
    const absl::Status status = run();
    EXPECT_EQ(files.open_handles(), 0u) << n;
    if (files.faults() == 0) break;
    if (!status.ok()) {
      EXPECT_THAT(status, StatusIs(absl::ErrnoToStatusCode(EIO), HasSubstr("m: "))) << n;
    }
  }
}

TEST(SafetensorsReader, AMissingFileIsNotFound) {
  MemoryFileSystem files;
  SafetensorsReaderOptions options;
  options.read.file_system = &files;
  EXPECT_THAT(SafetensorsReader::Open("x.safetensors", options), StatusIs(Code::kNotFound, HasSubstr("x.safetensors")));
  EXPECT_THAT(SafetensorsReader::Open("", options), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(SafetensorsReader::Open(".", options), StatusIs(Code::kFailedPrecondition));
}

}  // namespace
}  // namespace tensorcask
