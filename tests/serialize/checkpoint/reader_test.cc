#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "snappy.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/serialize/checkpoint/reader_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::CheckpointNamedTensor;
using ::tensorcask::testing::EntryOf;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::ForgeBlock;
using ::tensorcask::testing::ForgedEntry;
using ::tensorcask::testing::IndexOf;
using ::tensorcask::testing::IsOk;
using ::tensorcask::testing::kData;
using ::tensorcask::testing::kFloat;
using ::tensorcask::testing::OpenIn;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::SampleTensors;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TableForge;
using ::tensorcask::testing::TempFolder;
using ::tensorcask::testing::WriteTo;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

// ---- What was saved -------------------------------------------------------------------------------------------------

struct StrategyCase {
  const char* name;
  ReadStrategy strategy;
  Verify verify;
};
class ReaderOf : public ::testing::TestWithParam<StrategyCase> {};

TEST_P(ReaderOf, EveryWayGivesTheTensors) {
  for (const int num_shards : {1, 2}) {
    for (const uint64_t alignment : {uint64_t{1}, uint64_t{64}, uint64_t{42}}) {
      SCOPED_TRACE(absl::StrCat(num_shards, " shards, alignment ", alignment));
      MemoryFileSystem files;
      CheckpointWriterOptions write = WriteTo(&files, num_shards);
      write.alignment = alignment;
      const std::vector<CheckpointNamedTensor> tensors = SampleTensors(num_shards);
      ASSERT_OK(Save("/m", tensors, write));
      CheckpointReaderOptions options;
      options.read.strategy = GetParam().strategy;
      options.verify = GetParam().verify;
      ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m", options));
      EXPECT_EQ(reader.num_shards(), num_shards);
      for (int round = 0; round < 2; ++round) {
        for (const CheckpointNamedTensor& named : tensors) {
          SCOPED_TRACE(named.name);
          ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(named.name));
          EXPECT_TRUE(SameTensor(read, named.tensor));
          ASSERT_OK_AND_ASSIGN(Tensor mapped, reader.Map(named.name));
          EXPECT_TRUE(SameTensor(mapped, named.tensor));
          ASSERT_OK_AND_ASSIGN(Tensor out, Tensor::Create(named.tensor.dtype(), named.tensor.shape()));
          ASSERT_OK(reader.ReadInto(named.name, &out));
          EXPECT_TRUE(SameTensor(out, named.tensor));
        }
      }
      EXPECT_THAT(reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }), IsOk());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, ReaderOf,
                         ::testing::Values(StrategyCase{"Read", ReadStrategy::kRead, Verify::kOnRead},
                                           StrategyCase{"Parallel", ReadStrategy::kParallel, Verify::kOnRead},
                                           StrategyCase{"Mapped", ReadStrategy::kMap, Verify::kOnRead},
                                           StrategyCase{"ReadUnverified", ReadStrategy::kRead, Verify::kNever},
                                           StrategyCase{"MappedUnverified", ReadStrategy::kMap, Verify::kNever}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Reader, WithoutMappingsItReads) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK(Save("/m", SampleTensors(1), WriteTo(&memory)));
  CheckpointReaderOptions options;
  options.read.strategy = ReadStrategy::kMap;
  files.FailAt(1, ENODEV, FaultyFileSystem::kForEver, FileOperation::kMap);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m", options));
  for (const CheckpointNamedTensor& named : SampleTensors(1)) {
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(named.name));
    EXPECT_TRUE(SameTensor(read, named.tensor));
  }
  EXPECT_GT(files.faults(), 0);
}

TEST(Reader, TakesThePrefixOrTheIndex) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", SampleTensors(1), WriteTo(&files)));
  for (const std::string path : {"/m", "/m.index"}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, path));
    EXPECT_EQ(reader.prefix(), "/m");
    EXPECT_EQ(reader.DataPath(0), kData);
  }
  EXPECT_THAT(OpenIn(&files, "/other"), StatusIs(Code::kNotFound, HasSubstr("/other.index")));
}

TEST(Reader, ListsEntriesInOrderWithoutTouchingData) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK(Save("/m", SampleTensors(2), WriteTo(&memory, 2)));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  ASSERT_EQ(entries.size(), SampleTensors(2).size());
  for (size_t i = 1; i < entries.size(); ++i) EXPECT_LT(entries[i - 1].name, entries[i].name);
  for (const CheckpointEntry& entry : entries) {
    EXPECT_EQ(entry.form, EntryForm::kPlain);
    EXPECT_EQ(entry.offset % 64, 0u);
    ASSERT_OK_AND_ASSIGN(const CheckpointEntry found, reader.Find(entry.name));
    EXPECT_EQ(found.offset, entry.offset);
    EXPECT_EQ(found.dtype, entry.dtype);
    EXPECT_EQ(found.shape, entry.shape);
  }
  EXPECT_EQ(files.operations(FileOperation::kOpenToRead), 1) << files.LogText();
  EXPECT_THAT(files.LogText(), ::testing::Not(HasSubstr(".data-")));
  ASSERT_OK(reader.Read("step"));
  EXPECT_EQ(files.operations(FileOperation::kOpenToRead), 2) << "one data file, and only the one that is needed";
}

TEST(Reader, SaysWhatIsNotThere) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", SampleTensors(1), WriteTo(&files)));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  for (const std::string name : {"", "dense", "dense/kernel2", "zzz"}) {
    EXPECT_THAT(reader.Find(name), StatusIs(Code::kNotFound, AllOf(HasSubstr("/m.index"), HasSubstr("no tensor"))));
    EXPECT_THAT(reader.Read(name), StatusIs(Code::kNotFound, HasSubstr(absl::StrCat("\"", name, "\""))));
  }
}

TEST(Reader, FillsOnlyATensorOfTheSameKind) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", SampleTensors(1), WriteTo(&files)));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  Tensor wrong_shape = *Tensor::Create(DType::kFloat32, TensorShape({3, 2}));
  EXPECT_THAT(reader.ReadInto("dense/kernel", &wrong_shape),
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("float32 [2,3]"), HasSubstr("float32 [3,2]"))));
  Tensor wrong_dtype = *Tensor::Create(DType::kInt32, TensorShape({2, 3}));
  EXPECT_THAT(reader.ReadInto("dense/kernel", &wrong_dtype),
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("float32 [2,3]"), HasSubstr("int32 [2,3]"))));
}

TEST(Reader, MapsWithoutCopyingWhereAlignmentAllows) {
  const TempFolder folder;
  const std::string prefix = folder.Path("m");
  ASSERT_OK(Save(prefix, {{"c", Tensor::Scalar<int8_t>(1)}, {"w", Tensor::FromValues<float>({1, 2})}}, {}));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(prefix));
  ASSERT_OK_AND_ASSIGN(Tensor mapped, reader.Map("w"));
  EXPECT_EQ(mapped.buffer()->kind(), TensorBuffer::Kind::kMapped);
  mapped.mutable_flat<float>()[0] = 7;  // copies first
  ASSERT_OK_AND_ASSIGN(const Tensor again, reader.Map("w"));
  EXPECT_EQ(again.flat<float>()[0], 1);

  CheckpointWriterOptions dense;
  dense.alignment = 1;
  ASSERT_OK(Save(prefix + "1", {{"c", Tensor::Scalar<int8_t>(1)}, {"w", Tensor::FromValues<float>({1, 2})}}, dense));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader dense_reader, CheckpointReader::Open(prefix + "1"));
  ASSERT_OK_AND_ASSIGN(const Tensor copied, dense_reader.Map("w"));
  EXPECT_EQ(copied.buffer()->kind(), TensorBuffer::Kind::kBytes);
  EXPECT_EQ(copied.flat<float>()[1], 2);
}

TEST(Reader, VerifiesEachTensorOnce) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", SampleTensors(1), WriteTo(&files)));
  std::string data = BytesOf(files, kData);
  data[0] ^= 1;  // a byte of dense/kernel
  ASSERT_OK_AND_ASSIGN(const CheckpointReader before, OpenIn(&files));
  ASSERT_OK(before.Read("dense/kernel"));
  files.Put(kData, data);
  for (const bool mapped : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
    for (int i = 0; i < 2; ++i) {  // a failure is not remembered as a success
      EXPECT_THAT(
          mapped ? reader.Map("dense/kernel") : reader.Read("dense/kernel"),
          StatusIs(Code::kDataLoss, AllOf(HasSubstr(kData), HasSubstr("tensor \"dense/kernel\" at offset 0, 24 bytes"),
                                          HasSubstr("checksum is"))));
    }
    EXPECT_OK(reader.Read("step"));
  }
  CheckpointReaderOptions never;
  never.verify = Verify::kNever;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m", never));
  EXPECT_OK(reader.Read("dense/kernel"));
  EXPECT_OK(reader.Map("dense/kernel"));
  std::vector<std::string> damaged;
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts, reader.VerifyAll([&](const CheckpointDamage& damage) {
    damaged.push_back(absl::StrCat(damage.tensor, " ", damage.file, " ", damage.offset));
  }));
  EXPECT_EQ(counts.whole, static_cast<int64_t>(SampleTensors(1).size()) - 1);
  EXPECT_THAT(damaged, ElementsAre("dense/kernel /m.data-00000-of-00001 0"));
}

TEST(Reader, MayBeSharedByThreads) {
  MemoryFileSystem files;
  std::vector<CheckpointNamedTensor> tensors;
  for (int i = 0; i < 200; ++i) {
    tensors.push_back({absl::StrCat("t", i), Tensor::FromValues<int32_t>({i, i + 1, i + 2}), i % 4});
    tensors.push_back({absl::StrCat("s", i), Tensor::FromValues<std::string>({absl::StrCat(i)}), i % 4});
  }
  CheckpointWriterOptions write = WriteTo(&files, 4);
  write.index_block_bytes = 200;
  ASSERT_OK(Save("/m", tensors, write));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < tensors.size(); ++i) {
        const CheckpointNamedTensor& named = tensors[(i * 7 + t * 101) % tensors.size()];
        const absl::StatusOr<Tensor> read = i % 3 == 0 ? reader.Map(named.name) : reader.Read(named.name);
        ASSERT_OK(read);
        EXPECT_TRUE(SameTensor(*read, named.tensor));
      }
      ASSERT_OK_AND_ASSIGN(const auto entries, reader.entries());
      EXPECT_EQ(entries.size(), tensors.size());
      EXPECT_THAT(reader.VerifyAll([](const CheckpointDamage&) { FAIL(); }), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- Forms that are listed only -------------------------------------------------------------------------------------

TEST(Reader, ListsFormsItDoesNotRead) {
  const std::string bytes(8, '\1');
  std::map<std::string, BundleEntryProto> entries;
  entries["plain"] = EntryOf(kFloat, {2}, bytes);
  entries["encoded"] = EntryOf(0, {100}, bytes, 32);
  entries["encoded"].mutable_extension()->set_dtype(1);
  entries["encoded"].mutable_extension()->set_payload(std::string("\x89"
                                                                  "CASKPL\2",
                                                                  8) +
                                                      std::string(56, '\0'));
  entries["newer"] = EntryOf(57, {100}, bytes, 40);
  entries["own number"] = EntryOf(64, {8}, bytes, 48);  // not where TensorFlow reads it
  entries["reference"] = EntryOf(101, {2}, bytes, 56);
  entries["resource"] = EntryOf(20, {}, bytes, 64);
  entries["tagged"] = EntryOf(kFloat, {2}, bytes, 72);
  entries["tagged"].mutable_extension()->set_device("cuda:0");
  MemoryFileSystem files;
  files.Put("/m.index", IndexOf(1, entries));
  std::string data;
  for (int i = 0; i < 10; ++i) data += bytes;
  files.Put(kData, data);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> listed, reader.entries());
  std::vector<std::string> forms;
  for (const CheckpointEntry& entry : listed) {
    forms.push_back(absl::StrCat(entry.name, " ", EntryFormName(entry.form), " ", DTypeName(entry.dtype)));
  }
  EXPECT_THAT(forms, ElementsAre("encoded encoded float32", "newer unknown invalid", "own number unknown invalid",
                                 "plain plain float32", "reference unknown invalid", "resource plain resource",
                                 "tagged plain float32"));
  for (const CheckpointEntry& entry : listed) {
    SCOPED_TRACE(entry.name);
    const bool readable = entry.name == "plain" || entry.name == "tagged";
    EXPECT_THAT(reader.Read(entry.name).status().code(), readable ? Code::kOk : Code::kUnimplemented);
    EXPECT_THAT(reader.Map(entry.name).status().code(), readable ? Code::kOk : Code::kUnimplemented);
    Tensor out = *Tensor::Create(DType::kFloat32, TensorShape({2}));
    EXPECT_THAT(reader.ReadInto(entry.name, &out).code(), readable ? Code::kOk : Code::kUnimplemented);
  }
  for (const CheckpointEntry& entry : listed) EXPECT_EQ(entry.has_metadata, entry.name == "tagged") << entry.name;
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                       reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, 2);  // plain and tagged
  EXPECT_EQ(counts.not_checked, 5);
  EXPECT_THAT(reader.Read("newer"), StatusIs(Code::kUnimplemented, HasSubstr("dtype number 57")));
  EXPECT_THAT(reader.Read("own number"), StatusIs(Code::kUnimplemented, HasSubstr("dtype number 64")));
  EXPECT_THAT(reader.Read("encoded"), StatusIs(Code::kUnimplemented, HasSubstr("stored encoded")));
  EXPECT_THAT(reader.Read("resource"), StatusIs(Code::kUnimplemented, HasSubstr("dtype resource")));
}

// Fields of a newer writer are passed over.
TEST(Reader, PassesOverUnknownFields) {
  const std::string bytes(8, '\1');
  BundleHeaderProto header;
  header.set_num_shards(1);
  header.mutable_version()->set_producer(1);
  header.mutable_version()->set_min_consumer(2);
  header.mutable_extension()->set_reader_version(2);
  const std::string unknown = "\xa2\x06\x03xyz";  // field 100
  MemoryFileSystem files;
  files.Put("/m.index", IndexOf({{"", header.SerializeAsString() + unknown},
                                 {"w", EntryOf(kFloat, {2}, bytes).SerializeAsString() + unknown}}));
  files.Put(kData, bytes);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  EXPECT_OK(reader.Read("w"));
}

// Compressed, entries that are alike take no room in the file, and as much as others in memory.
TEST(Reader, BoundsTheEntriesOfACompressedIndex) {
  constexpr int kEntries = 4000;
  const std::string value = EntryOf(kFloat, {0}, "").SerializeAsString();
  BundleHeaderProto header;
  header.set_num_shards(1);
  std::vector<ForgedEntry> entries = {{0, "", header.SerializeAsString()}};
  for (int i = 0; i < kEntries; ++i) {
    const char digits[] = {static_cast<char>('a' + i / 256), static_cast<char>(i % 256)};
    entries.push_back({0, std::string(digits, 2), value});
  }
  const std::string content = ForgeBlock(entries);
  std::string compressed;
  snappy::Compress(content.data(), content.size(), &compressed);
  TableForge forge;
  const checkpoint::BlockHandle block = forge.Block(compressed, /*type=*/1);
  MemoryFileSystem files;
  files.Put("/m.index", forge.Finish({{entries.back().suffix, block}}));
  ASSERT_LT(BytesOf(files, "/m.index").size(), kEntries * 8u);
  CheckpointReaderOptions options;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader all, OpenIn(&files, "/m", options));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> listed, all.entries());
  EXPECT_EQ(listed.size(), static_cast<size_t>(kEntries));
  options.limits.max_memory_beyond_input = 100'000;  // enough to decompress the block
  ASSERT_OK_AND_ASSIGN(const CheckpointReader bounded, OpenIn(&files, "/m", options));
  EXPECT_THAT(bounded.entries(), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input is 100000")));
  options.limits.max_memory_beyond_input = 0;
  EXPECT_THAT(OpenIn(&files, "/m", options),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input is 0")));
}

// Bytes after the last tensor that are not padding are mentioned, and are not damage.
TEST(Reader, VerifyMentionsBytesBehindTheLastTensor) {
  const std::string bytes(8, '\1');
  BundleEntryProto second = EntryOf(kFloat, {2}, bytes);
  const auto notes = [&](uint64_t offset, const std::string& behind) {
    second.set_offset(static_cast<int64_t>(offset));
    MemoryFileSystem files;
    files.Put("/m.index", IndexOf(1, {{"v", EntryOf(kFloat, {2}, bytes)}, {"w", second}}));
    files.Put(kData, bytes + std::string(offset - 8, '\0') + bytes + behind);
    const absl::StatusOr<CheckpointReader> reader = OpenIn(&files);
    EXPECT_OK(reader.status());
    const absl::StatusOr<CheckpointCounts> counts =
        reader->VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; });
    EXPECT_OK(counts.status());
    EXPECT_EQ(counts->whole, 2);
    return counts->notes;
  };
  EXPECT_THAT(notes(8, ""), IsEmpty());
  EXPECT_THAT(notes(64, std::string(56, '\0')), IsEmpty());  // to a multiple of 64
  EXPECT_THAT(notes(8, "x"), ElementsAre(absl::StrCat(kData,
                                                      ": 1 byte behind the last tensor, from offset 16 on, "
                                                      "belongs to no tensor")));
  EXPECT_THAT(notes(8, std::string(64, '\0')), ElementsAre(HasSubstr("64 bytes behind the last tensor")));
  EXPECT_THAT(notes(64, std::string(55, '\0') + "x"), ElementsAre(HasSubstr("56 bytes behind the last tensor")));
}

// A range that a million entries share is not read a million times.
TEST(Reader, VerifyReadsOverlappingRangesOnce) {
  const std::string bytes(4096, '\0');
  MemoryFileSystem memory;
  std::map<std::string, BundleEntryProto> entries;
  for (int i = 0; i < 200; ++i) entries[absl::StrCat("t", i)] = EntryOf(kFloat, {1024}, bytes);
  memory.Put("/m.index", IndexOf(1, entries));
  memory.Put(kData, bytes);
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  int damages = 0;
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts, reader.VerifyAll([&](const CheckpointDamage&) { ++damages; }));
  EXPECT_EQ(counts.whole, 1);
  EXPECT_EQ(damages, 199);
  EXPECT_LT(files.operations(FileOperation::kReadAt), 20);
}

}  // namespace
}  // namespace tensorcask
