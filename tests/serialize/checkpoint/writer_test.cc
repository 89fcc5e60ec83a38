#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"

#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/stored_variants.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/discarding_file_system.h"
#include "tensorcask/tests/support/hex.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::CheckpointNamedTensor;
using ::tensorcask::testing::DiscardingFileSystem;
using ::tensorcask::testing::EntryOf;
using ::tensorcask::testing::IndexOf;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::SampleTensors;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

CheckpointWriterOptions To(FileSystem* files) {
  CheckpointWriterOptions options;
  options.file_system = files;
  return options;
}

absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, const std::string& path) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  return CheckpointReader::Open(path, options);
}

const Tensor& One() {
  static const auto* one = new Tensor(Tensor::Scalar<float>(1));
  return *one;
}

// The hex dump of FORMAT.md between the lines "```hex NAME" and "```": columns of two digits, text after '|' or '#' is
// for people.
std::string FormatExample(const std::string& name) {
  std::ifstream in("serialize/checkpoint/FORMAT.md");
  std::string line;
  while (std::getline(in, line) && line != "```hex " + name) {
  }
  std::string bytes;
  while (std::getline(in, line) && line != "```") {
    line = line.substr(0, line.find_first_of("#|"));
    for (const absl::string_view digits : absl::StrSplit(line, ' ', absl::SkipWhitespace())) {
      if (digits.size() == 2) bytes += testing::BytesOfHex(digits);
    }
  }
  return bytes;
}

// `tensors`, saved with alignment 1, are the example `prefix` of FORMAT.md section 8, which is read as them.
void ExpectExample(const std::string& prefix, const std::vector<CheckpointNamedTensor>& tensors, PayloadLevel level) {
  const std::string path = "/" + prefix;
  MemoryFileSystem files;
  MemoryFileSystem theirs;
  CheckpointWriterOptions options = To(&files);
  options.alignment = 1;
  options.payload.level = level;
  ASSERT_OK(Save(path, tensors, options));
  for (const std::string suffix : {".index", ".data-00000-of-00001"}) {
    const std::string example = FormatExample(prefix + suffix);
    ASSERT_FALSE(example.empty()) << suffix;
    EXPECT_EQ(absl::BytesToHexString(BytesOf(files, path + suffix)), absl::BytesToHexString(example)) << suffix;
    theirs.Put(path + suffix, example);
  }
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&theirs, path));
  for (const CheckpointNamedTensor& named : tensors) {
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(named.name));
    EXPECT_TRUE(SameTensor(read, named.tensor));
  }
}

TEST(Writer, MakesTheBytesOfFormatMd) {
  const Tensor strings = Tensor::FromValues<std::string>({"ab", ""});
  ExpectExample("model", {{"w", Tensor::FromValues<float>({{1, 2}, {3, 4}})}, {"s", strings}}, PayloadLevel::kStored);
  const std::vector<int16_t> sevens(100, 7);
  ASSERT_OK_AND_ASSIGN(const Tensor encoded, Tensor::FromSpan<int16_t>(TensorShape({100}), sevens));
  ExpectExample("encoded", {{"e", encoded}}, PayloadLevel::kDefault);
}

TEST(Writer, IsDeterministic) {
  for (const uint64_t alignment : {uint64_t{1}, uint64_t{64}}) {
    MemoryFileSystem files;
    CheckpointWriterOptions options = To(&files);
    options.num_shards = 2;
    options.alignment = alignment;
    ASSERT_OK(Save("/a", SampleTensors(2), options));
    ASSERT_OK(Save("/b", SampleTensors(2), options));
    for (const std::string suffix : {".index", ".data-00000-of-00002", ".data-00001-of-00002"}) {
      EXPECT_EQ(BytesOf(files, "/a" + suffix), BytesOf(files, "/b" + suffix)) << suffix;
    }
  }
}

TEST(Writer, AlignsTensors) {
  for (const uint64_t alignment : {1, 42, 64, 8192}) {
    SCOPED_TRACE(alignment);
    MemoryFileSystem files;
    CheckpointWriterOptions options = To(&files);
    options.alignment = alignment;
    ASSERT_OK(Save("/m", SampleTensors(1), options));
    EXPECT_EQ(BytesOf(files, "/m.data-00000-of-00001").size() % alignment, 0u);  // after the last as well
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m"));
    ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
    for (const CheckpointEntry& entry : entries) EXPECT_EQ(entry.offset % alignment, 0u) << entry.name;
  }
}

TEST(Writer, StoresTensorsOfManyChunksWhole) {
  Tensor large = *Tensor::Create(DType::kInt32, TensorShape({700001}));
  for (int32_t i = 0; i < 700001; ++i)
    large.mutable_data<int32_t>()[i] = static_cast<int32_t>(static_cast<uint32_t>(i) * 2654435761u);
  std::vector<std::string> words(30000, "word");
  words[17] = std::string(3 << 20, 'w');
  ASSERT_OK_AND_ASSIGN(const Tensor strings, Tensor::FromSpan<std::string>(TensorShape({3, 10000}), words));
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", {{"large", large}, {"strings", strings}, {"large again", large}}, To(&files)));
  for (const auto strategy : {ReadStrategy::kRead, ReadStrategy::kParallel, ReadStrategy::kMap}) {
    CheckpointReaderOptions options;
    options.read.file_system = &files;
    options.read.strategy = strategy;
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("/m", options));
    for (const auto& [name, wanted] :
         std::vector<std::pair<std::string, Tensor>>{{"large", large}, {"strings", strings}}) {
      ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(name));
      EXPECT_TRUE(SameTensor(read, wanted));
    }
  }
}

// ---- What is refused ------------------------------------------------------------------------------------------------

TEST(Writer, RefusesBadPrefixesAndOptions) {
  MemoryFileSystem files;
  const struct {
    std::string prefix;
    const char* says;
  } cases[] = {{"", "names a folder"},
               {"/models/", "names a folder"},
               {".", "names a folder"},
               {"/models/..", "names a folder"},
               {"/m%s", "pattern of files"},
               {"/m-of-n", "pattern of files"},
               {"/m.data-00000-of-00001", "name of a data file"},
               {"/m.index", "name of an index"},
               {std::string("/m\0x", 4), "NUL"},
               {"/" + std::string(5000, 'm'), ""}};
  for (const auto& test : cases) {
    SCOPED_TRACE(test.prefix.substr(0, 40));
    EXPECT_THAT(CheckpointWriter::Create(test.prefix, To(&files)),
                StatusIs(Code::kInvalidArgument, HasSubstr(test.says)));
  }
  for (const int num_shards : {0, -1, 100000}) {
    CheckpointWriterOptions options = To(&files);
    options.num_shards = num_shards;
    EXPECT_THAT(CheckpointWriter::Create("/m", options), StatusIs(Code::kInvalidArgument, HasSubstr("num_shards")));
  }
  for (const uint64_t alignment : {uint64_t{0}, (uint64_t{1} << 30) + 1}) {
    CheckpointWriterOptions options = To(&files);
    options.alignment = alignment;
    EXPECT_THAT(CheckpointWriter::Create("/m", options), StatusIs(Code::kInvalidArgument, HasSubstr("alignment")));
  }
  EXPECT_THAT(files.Paths(), IsEmpty());
}

struct AddCase {
  const char* name;
  std::string tensor;
  int shard;
  Tensor value;
  Code code;
  const char* says;
};
class AddRejects : public ::testing::TestWithParam<AddCase> {};

// And every call after that gives the same error, and nothing is left behind.
TEST_P(AddRejects, ForGood) {
  MemoryFileSystem files;
  {
    CheckpointWriterOptions options = To(&files);
    options.num_shards = 2;
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
    ASSERT_OK(writer.Add("there", One()));
    CheckpointAddOptions add;
    add.shard = GetParam().shard;
    const absl::Status refused = writer.Add(GetParam().tensor, GetParam().value, add);
    EXPECT_THAT(refused, StatusIs(GetParam().code, HasSubstr(GetParam().says)));
    EXPECT_EQ(writer.Add("good", One()), refused);
    EXPECT_EQ(writer.Finish(), refused);
    EXPECT_EQ(writer.Finish(), refused);
  }
  EXPECT_THAT(files.Paths(), IsEmpty());
  EXPECT_EQ(files.open_handles(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Adds, AddRejects,
    ::testing::Values(
        AddCase{"EmptyName", "", 0, One(), Code::kInvalidArgument, "name is empty"},
        AddCase{"Twice", "there", 1, One(), Code::kAlreadyExists, "tensor \"there\" was added before"},
        AddCase{"NulFirst", std::string("\0a", 2), 0, One(), Code::kInvalidArgument, "starts with a NUL byte"},
        AddCase{"LongName", std::string(65537, 'n'), 0, One(), Code::kInvalidArgument, "longer than 65536"},
        AddCase{"ShardBelow", "w", -1, One(), Code::kInvalidArgument, "is for shard -1 of 2"},
        AddCase{"ShardAbove", "w", 2, One(), Code::kInvalidArgument, "is for shard 2 of 2"},
        AddCase{"Resource", "w", 0, Tensor::Scalar(ResourceHandle()), Code::kUnimplemented,
                "is resource, which checkpoints cannot hold"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Writer, TakesEveryDTypeOfTensorFlow) {
  MemoryFileSystem files;
  std::vector<CheckpointNamedTensor> tensors;
#define CASK_ADD(id, number, T, name) \
  if (number < kFirstOwnDTypeNumber) tensors.push_back({name, *Tensor::Zeros(DType::id, TensorShape({3}))});
  CASK_FIXED_SIZE_DTYPES(CASK_ADD)
#undef CASK_ADD
  ASSERT_OK(Save("/m", tensors, To(&files)));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m"));
  for (const CheckpointNamedTensor& named : tensors) {
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(named.name));
    EXPECT_TRUE(SameTensor(read, named.tensor));
    EXPECT_EQ(DTypeName(read.dtype()), named.name);
  }
}

TEST(Writer, StoresVariantsAsTheirCodecDoes) {
  std::vector<Variant> values(3);
  values[0].type_name = "tensorflow::Tensor";
  values[0].tensors = {Tensor::FromValues<float>({1, 2})};
  values[2].metadata = std::string("\0x", 2);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::FromSpan<Variant>(TensorShape({3}), values));
  std::string stored;
  StringSink sink(&stored);
  uint32_t crc = 0;
  ASSERT_OK(checkpoint::AppendVariants(values, &sink, &crc));
  BundleEntryProto entry = EntryOf(21, {3}, stored);
  entry.set_crc32c(MaskCrc32c(crc));
  for (const bool background : {false, true}) {
    MemoryFileSystem files;
    CheckpointWriterOptions options = To(&files);
    options.alignment = 1;
    options.background = background;
    ASSERT_OK(Save("/m", {{"v", tensor}}, options));
    EXPECT_EQ(BytesOf(files, "/m.data-00000-of-00001"), stored);
    EXPECT_EQ(BytesOf(files, "/m.index"), IndexOf(1, {{"v", entry}}));
  }
}

TEST(Writer, FinishesOnce) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files)));
  EXPECT_THAT(files.Find("/m.index"), ::testing::IsNull());
  ASSERT_OK(writer.Add("w", One()));
  EXPECT_THAT(files.Find("/m.index"), ::testing::IsNull());
  ASSERT_OK(writer.Finish());
  EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("is finished")));
  EXPECT_THAT(writer.Add("v", One()), StatusIs(Code::kFailedPrecondition, HasSubstr("is finished")));
  EXPECT_THAT(files.Paths(), ElementsAre("/m.data-00000-of-00001", "/m.index"));
}

TEST(Writer, LeavesNothingWithoutFinish) {
  MemoryFileSystem files;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files)));
    ASSERT_OK(writer.Add("w", One()));
    CheckpointWriter moved = std::move(writer);
    ASSERT_OK(moved.Add("v", One()));
  }
  EXPECT_THAT(files.Paths(), IsEmpty());
}

// ---- What is there already ------------------------------------------------------------------------------------------

TEST(Writer, ReplacesNothingUnasked) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", {{"w", One()}}, To(&files)));
  const std::string index = BytesOf(files, "/m.index");
  EXPECT_THAT(Save("/m", {{"v", One()}}, To(&files)), StatusIs(Code::kAlreadyExists, HasSubstr("/m.")));
  CheckpointWriterOptions two = To(&files);
  two.num_shards = 2;
  EXPECT_THAT(Save("/m", {{"v", One()}}, two), StatusIs(Code::kAlreadyExists, HasSubstr("/m.index")));
  EXPECT_THAT(files.Paths(), ElementsAre("/m.data-00000-of-00001", "/m.index"));
  EXPECT_EQ(BytesOf(files, "/m.index"), index);
}

TEST(Writer, ReplacesWhenAskedAndLeavesOtherFilesAlone) {
  MemoryFileSystem files;
  for (const std::string folder : {"", "/f"}) {
    if (!folder.empty()) files.MakeFolder(folder);
    const std::string prefix = folder + "/m";
    const std::vector<std::string> others = {prefix + "2.data-00000-of-00003", prefix + ".data-0-of-3",
                                             folder + "/x.m"};
    for (const std::string& other : others) files.Put(other, "x");
    for (const int num_shards : {3, 1, 1, 2}) {
      CheckpointWriterOptions options = To(&files);
      options.num_shards = num_shards;
      options.overwrite = true;
      const Tensor value = Tensor::Scalar<int32_t>(num_shards);
      ASSERT_OK(Save(prefix, {{"w", value, num_shards - 1}}, options));
      ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, prefix));
      ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("w"));
      EXPECT_TRUE(SameTensor(read, value));
    }
    for (const std::string& other : others) EXPECT_NE(files.Find(other), nullptr) << other;
    std::vector<std::string> left;
    for (const std::string& path : files.Paths()) {
      if (path.find(prefix + ".data-000") == 0) left.push_back(path);
    }
    EXPECT_THAT(left, ElementsAre(prefix + ".data-00000-of-00003", prefix + ".data-00001-of-00003",
                                  prefix + ".data-00002-of-00003"))
        << "2 shards and an empty file: the save before had 2 data files (overwrite_test)";
  }
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

// The most memory this process has had, bytes.
int64_t PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

TEST(Writer, NeedsLittleMemoryForMuch) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  DiscardingFileSystem files;
  const Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({16 << 20}));
  ASSERT_OK_AND_ASSIGN(
      const Tensor words,
      Tensor::FromSpan<std::string>(TensorShape({100000}), std::vector<std::string>(100000, std::string(100, 'w'))));
  const int64_t before = PeakMemory();
  CheckpointWriterOptions options = To(&files);
  options.num_shards = 2;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  CheckpointAddOptions add;
  for (int i = 0; i < 128; ++i) {
    add.shard = i % 2;
    ASSERT_OK(writer.Add(absl::StrCat("tensor", i), tensor, add));
    if (i % 16 == 0) {
      ASSERT_OK(writer.Add(absl::StrCat("words", i), words, add));
    }
  }
  ASSERT_OK(writer.Finish());
  EXPECT_GT(files.bytes_written(), uint64_t{8} << 30);
  EXPECT_LT(PeakMemory() - before, 64 << 20);
}

}  // namespace
}  // namespace tensorcask
