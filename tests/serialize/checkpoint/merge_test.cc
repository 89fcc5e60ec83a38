#include "tensorcask/serialize/checkpoint/merge.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/merge_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::CheckpointNamedTensor;
using ::tensorcask::testing::ContentOf;
using ::tensorcask::testing::EntryOf;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::HeaderOf;
using ::tensorcask::testing::IndexOf;
using ::tensorcask::testing::Merge;
using ::tensorcask::testing::On;
using ::tensorcask::testing::OpenIn;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::SaveIn;
using ::tensorcask::testing::SaveRows;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// ---- What comes out -------------------------------------------------------------------------------------------------

TEST(MergeTest, BringsTensorsOfAllSourcesTogether) {
  MemoryFileSystem files;
  const std::vector<CheckpointNamedTensor> a = {{"a0", Tensor::FromValues<float>({1, 2}), 0},
                                                {"z", Tensor::FromValues<std::string>({"x", ""}), 1}};
  const std::vector<CheckpointNamedTensor> b = {{"a1", Tensor::Scalar<int64_t>(7), 2},
                                                {"b", Tensor::FromValues<bool>({true})}};
  SaveIn(&files, "/a", a, 2);
  SaveIn(&files, "/b", b, 3);
  const std::vector<std::string> before = files.Paths();
  ASSERT_OK(Merge(&files, {"/a", "/b.index"}));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m"));
  EXPECT_EQ(reader.num_shards(), 4) << "/b.data-00001-of-00003 has nothing";
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  EXPECT_EQ(entries.size(), 4u);
  for (const auto* tensors : {&a, &b}) {
    for (const CheckpointNamedTensor& named : *tensors) {
      ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(named.name));
      EXPECT_TRUE(SameTensor(read, named.tensor)) << named.name;
    }
  }
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                       reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, 4);
  // Sources are as they were, and nothing was copied.
  std::vector<std::string> after = files.Paths();
  after.erase(std::remove_if(after.begin(), after.end(), [](const std::string& p) { return p[1] == 'm'; }),
              after.end());
  EXPECT_EQ(after, before);
}

TEST(MergeTest, OfOneSourceIsThatSourceWithoutItsEmptyFiles) {
  MemoryFileSystem files;
  SaveIn(&files, "/a", testing::SampleTensors(2), 4);
  ASSERT_OK(Merge(&files, {"/a"}));
  EXPECT_EQ(HeaderOf(&files, "/m").num_shards(), 2);
  SaveIn(&files, "/b", testing::SampleTensors(2), 2);
  EXPECT_EQ(BytesOf(files, "/m.index"), BytesOf(files, "/b.index"));
  EXPECT_EQ(BytesOf(files, "/m.data-00001-of-00002"), BytesOf(files, "/b.data-00001-of-00002"));
}

// TensorFlow counts the data files of an empty source, and the result cannot be read.
TEST(MergeTest, SourcesWithoutTensorsAreLeftOut) {
  MemoryFileSystem files;
  SaveIn(&files, "/empty", {});
  SaveIn(&files, "/a", {{"a", Tensor::Scalar<float>(1)}});
  ASSERT_OK(Merge(&files, {"/empty", "/a", "/empty"}));
  EXPECT_EQ(HeaderOf(&files, "/m").num_shards(), 1);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m"));
  ASSERT_OK_AND_ASSIGN(const Tensor a, reader.Read("a"));
  EXPECT_EQ(a.scalar<float>(), 1);
  // Nothing and nothing is what a writer makes of nothing.
  ASSERT_OK(MergeCheckpoints({"/empty", "/empty"}, "/n", On(&files)));
  EXPECT_EQ(BytesOf(files, "/n.index"), BytesOf(files, "/empty.index"));
  EXPECT_EQ(BytesOf(files, "/n.data-00000-of-00001"), "");
}

TEST(MergeTest, PiecesOfATensorComeTogether) {
  MemoryFileSystem files;
  ASSERT_OK(SaveRows(&files, "/c", 10, 7, 3));
  ASSERT_OK(SaveRows(&files, "/a", 10, 0, 4));
  ASSERT_OK(SaveRows(&files, "/b", 10, 4, 3));
  SaveIn(&files, "/d", {{"other", Tensor::Scalar<float>(1)}});
  ASSERT_OK(Merge(&files, {"/c", "/a", "/d", "/b"}));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m"));
  EXPECT_EQ(reader.num_shards(), 4);
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find("w"));
  EXPECT_EQ(entry.form, EntryForm::kSliced);
  ASSERT_EQ(entry.slices.size(), 3u);
  EXPECT_EQ(entry.slices[0].ToString(), "7,3");
  EXPECT_EQ(entry.slices[2].ToString(), "4,3");
  ASSERT_OK_AND_ASSIGN(const Tensor w, reader.Read("w"));
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(w.data<float>()[i], static_cast<float>(i));
  // Part by part as well: what is merged can be merged.
  ASSERT_OK(MergeCheckpoints({"/a", "/b"}, "/ab", On(&files)));
  ASSERT_OK(MergeCheckpoints({"/ab", "/c"}, "/abc", On(&files)));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader again, OpenIn(&files, "/abc"));
  ASSERT_OK_AND_ASSIGN(const Tensor same, again.Read("w"));
  EXPECT_TRUE(SameTensor(w, same));
}

// ---- Values stay as they are ----------------------------------------------------------------------------------------

// A checkpoint of one tensor "NAME" with this entry, in a data file of its own.
void PutForged(MemoryFileSystem* files, const std::string& prefix, const std::string& header,
               const std::map<std::string, std::string>& entries, const std::string& data) {
  std::map<std::string, std::string> content = entries;
  content[""] = header;
  files->Put(prefix + ".index", IndexOf(content));
  files->Put(prefix + ".data-00000-of-00001", data);
}

std::string Header(int num_shards = 1) {
  BundleHeaderProto header;
  header.set_num_shards(num_shards);
  header.mutable_version()->set_producer(1);
  return header.SerializeAsString();
}

TEST(MergeTest, OnlyTheShardOfAnEntryChanges) {
  const std::string data = "0123456789abcdef";
  BundleEntryProto proto = EntryOf(1, {4}, data);
  const std::string plain = proto.SerializeAsString();
  proto.set_shard_id(1);
  const std::string in_shard_1 = proto.SerializeAsString();
  const std::string unknown_low("\xa2\x06\x03xyz", 6);                // field 100
  const std::string unknown_group("\x4b\x08\x01\x4c", 4);             // field 9, a group
  const std::string invalid_utf8("\x82\x80\x02\x03\x0a\x01\xff", 7);  // extension { name: "\xff" }
  struct Row {
    const char* name;
    std::string entry;
    std::string wanted;  // in shard 1
  };
  const Row rows[] = {
      {"Plain", plain, in_shard_1},
      {"UnknownField", plain + unknown_low, in_shard_1 + unknown_low},
      {"UnknownGroup", plain + unknown_group, in_shard_1 + unknown_group},
      {"UnknownFirst", unknown_group + plain, std::string("\x18\x01", 2) + unknown_group + plain},
      {"InvalidUtf8", plain + invalid_utf8, in_shard_1 + invalid_utf8},
      {"ShardTwice", std::string("\x18\x00", 2) + plain + std::string("\x18\x00", 2), in_shard_1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    MemoryFileSystem files;
    SaveIn(&files, "/a", {{"a", Tensor::Scalar<float>(1)}});
    PutForged(&files, "/b", Header(), {{"w", row.entry}}, data);
    ASSERT_OK(Merge(&files, {"/a", "/b"}));
    EXPECT_EQ(ContentOf(&files, "/m")["w"], row.wanted);
    EXPECT_EQ(ContentOf(&files, "/m")["a"], ContentOf(&files, "/a")["a"]);
    ASSERT_OK(MergeCheckpoints({"/b", "/a"}, "/n", On(&files)));
    ASSERT_OK(MergeCheckpoints({"/m"}, "/back", On(&files)));
    EXPECT_EQ(ContentOf(&files, "/back")["w"], row.wanted);
  }
}

TEST(MergeTest, OfSlicedEntriesTheFirstSaysTheRest) {
  MemoryFileSystem files;
  ASSERT_OK(SaveRows(&files, "/a", 10, 0, 4));
  ASSERT_OK(SaveRows(&files, "/b", 10, 4, 6));
  const std::string unknown("\xa2\x06\x03xyz", 6);
  std::map<std::string, std::string> a = ContentOf(&files, "/a");
  std::map<std::string, std::string> b = ContentOf(&files, "/b");
  a["w"] += unknown;
  b["w"] += "\xa2\x06\x03uvw";
  files.Put("/a.index", IndexOf(a));
  files.Put("/b.index", IndexOf(b));
  ASSERT_OK(Merge(&files, {"/a", "/b"}));
  BundleEntryProto wanted;
  BundleEntryProto other;
  ASSERT_TRUE(wanted.ParseFromString(a["w"]) && other.ParseFromString(b["w"]));
  *wanted.add_slices() = other.slices(0);
  EXPECT_EQ(ContentOf(&files, "/m")["w"], wanted.SerializeAsString());
}

TEST(MergeTest, HeadersKeepWhomTheSourcesKeepOut) {
  MemoryFileSystem files;
  const std::string data = "0123456789abcdef";
  const std::string entry = EntryOf(1, {4}, data).SerializeAsString();
  BundleHeaderProto first;
  first.set_num_shards(1);
  first.mutable_version()->set_producer(1);
  first.mutable_version()->add_bad_consumers(5);
  BundleHeaderProto second = first;
  second.mutable_version()->set_producer(3);
  second.mutable_version()->set_min_consumer(1);
  second.mutable_version()->clear_bad_consumers();
  second.mutable_version()->add_bad_consumers(9);
  second.mutable_version()->add_bad_consumers(5);
  const std::string unknown("\xa2\x06\x03xyz", 6);
  PutForged(&files, "/a", first.SerializeAsString() + unknown, {{"a", entry}}, data);
  PutForged(&files, "/b", second.SerializeAsString(), {{"b", entry}}, data);
  ASSERT_OK(Merge(&files, {"/a", "/b"}));
  const BundleHeaderProto merged = HeaderOf(&files, "/m");
  EXPECT_EQ(merged.num_shards(), 2);
  EXPECT_EQ(merged.version().producer(), 3);
  EXPECT_EQ(merged.version().min_consumer(), 1);
  EXPECT_THAT(merged.version().bad_consumers(), ElementsAre(5, 9));
  EXPECT_THAT(ContentOf(&files, "/m")[""], ::testing::EndsWith(unknown));
}

TEST(MergeTest, ExtensionOnlyEntriesKeepTensorFlowOut) {
  MemoryFileSystem files;
  CheckpointWriterOptions options;
  options.file_system = &files;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/g", options));
    ASSERT_OK_AND_ASSIGN(const TensorView view,
                         TensorView(Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}})).Transpose(0, 1));
    CheckpointAddOptions add;
    add.layout = StoredLayout::kPreserve;
    ASSERT_OK(writer.Add("g", view, add));
    ASSERT_OK(writer.Finish());
  }
  SaveIn(&files, "/a", {{"a", Tensor::Scalar<float>(1)}});
  ASSERT_OK(Merge(&files, {"/a", "/g"}));
  EXPECT_EQ(HeaderOf(&files, "/m").version().min_consumer(), 2);
  EXPECT_EQ(HeaderOf(&files, "/m").extension().reader_version(), 2);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader source, OpenIn(&files, "/g"));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader merged, OpenIn(&files, "/m"));
  ASSERT_OK_AND_ASSIGN(const Tensor before, source.Read("g"));
  ASSERT_OK_AND_ASSIGN(const Tensor after, merged.Read("g"));
  EXPECT_TRUE(SameTensor(before, after));
  // Even if the source's header forgot to say so.
  std::map<std::string, std::string> content = ContentOf(&files, "/g");
  content[""] = Header();
  files.Put("/g.index", IndexOf(content));
  ASSERT_OK(MergeCheckpoints({"/g"}, "/n", On(&files)));
  EXPECT_EQ(HeaderOf(&files, "/n").version().min_consumer(), 2);
  EXPECT_EQ(HeaderOf(&files, "/n").extension().reader_version(), 2);
}

// The header of a salvaged checkpoint may ask for version 2 though no entry needs it.
TEST(MergeTest, TheMarkStaysBesideMinConsumer2) {
  MemoryFileSystem files;
  const std::string data = "0123456789abcdef";
  const std::string entry = EntryOf(1, {4}, data).SerializeAsString();
  BundleHeaderProto header;
  header.set_num_shards(1);
  PutForged(&files, "/a", header.SerializeAsString(), {{"a", entry}}, data);
  header.mutable_version()->set_min_consumer(2);
  header.mutable_extension()->set_reader_version(2);
  PutForged(&files, "/b", header.SerializeAsString(), {{"b", entry}}, data);
  ASSERT_OK(Merge(&files, {"/a", "/b"}));
  EXPECT_EQ(HeaderOf(&files, "/m").extension().reader_version(), 2);
  EXPECT_OK(OpenIn(&files, "/m"));
}

// ---- Refused --------------------------------------------------------------------------------------------------------

void PutBigEndian(MemoryFileSystem* files, const std::string& prefix, const std::string& name) {
  BundleHeaderProto header;
  header.set_num_shards(1);
  header.set_endianness(BundleHeaderProto::BIG);
  header.mutable_version()->set_producer(1);
  const std::string data("\x3f\x80\0\0", 4);
  PutForged(files, prefix, header.SerializeAsString(), {{name, EntryOf(1, {1}, data).SerializeAsString()}}, data);
}

TEST(MergeTest, BigEndianSourcesMergeAmongThemselves) {
  MemoryFileSystem files;
  PutBigEndian(&files, "/b1", "x");
  PutBigEndian(&files, "/b2", "y");
  SaveIn(&files, "/a", {{"a", Tensor::Scalar<float>(1)}});
  EXPECT_THAT(Merge(&files, {"/b1", "/a"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("/a: is little-endian, and /b1 is not")));
  EXPECT_THAT(Merge(&files, {"/a", "/b1"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("/b1: is big-endian, and /a is not")));
  ASSERT_OK(Merge(&files, {"/b1", "/b2"}));
  EXPECT_EQ(HeaderOf(&files, "/m").endianness(), BundleHeaderProto::BIG);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m"));
  ASSERT_OK_AND_ASSIGN(const Tensor y, reader.Read("y"));
  EXPECT_EQ(y.data<float>()[0], 1);
}

struct RefusalCase {
  const char* name;
  std::vector<std::string> sources;
  Code code;
  const char* says;
};

class MergeRefuses : public ::testing::TestWithParam<RefusalCase> {};

TEST_P(MergeRefuses, AndLeavesEverythingAsItWas) {
  MemoryFileSystem memory;
  SaveIn(&memory, "/a", {{"w", Tensor::FromValues<float>({1, 2})}, {"x", Tensor::Scalar<float>(1)}});
  SaveIn(&memory, "/b", {{"x", Tensor::Scalar<float>(2)}});
  ASSERT_OK(SaveRows(&memory, "/s1", 10, 0, 4));
  ASSERT_OK(SaveRows(&memory, "/s2", 10, 3, 4));
  ASSERT_OK(SaveRows(&memory, "/s3", 11, 4, 4));
  ASSERT_OK(SaveRows(&memory, "/s4", 10, 4, 4, DType::kInt32));
  SaveIn(&memory, "/cut", {{"c", Tensor::FromValues<float>({1, 2})}});
  memory.Put("/cut.data-00000-of-00001", "1234567");
  SaveIn(&memory, "/gone", {{"c", Tensor::FromValues<float>({1, 2})}});
  memory.Remove("/gone.data-00000-of-00001");
  memory.Put("/bad.index", "not an index");
  SaveIn(&memory, "/m0", {{"c", Tensor::FromValues<float>({1, 2})}});
  std::map<std::string, std::string> content = ContentOf(&memory, "/s1");
  content.erase(std::next(content.begin()));  // its piece
  memory.Put("/nopiece.index", IndexOf(content));
  memory.Put("/nopiece.data-00000-of-00001", "");
  const std::vector<std::string> before = memory.Paths();
  FaultyFileSystem files(&memory);
  CheckpointMergeOptions options = On(&files);
  options.remove_sources = true;
  EXPECT_THAT(MergeCheckpoints(GetParam().sources, "/m", options),
              StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_EQ(memory.Paths(), before);
  EXPECT_EQ(files.operations(FileOperation::kRename), 0) << "nothing was published";
  EXPECT_EQ(files.operations(FileOperation::kLink), 0) << "and nothing copied";
}

const RefusalCase kRefusals[] = {
    {"NoSources", {}, Code::kInvalidArgument, "/m: no checkpoints to merge"},
    {"Twice", {"/a", "/b"}, Code::kAlreadyExists, "tensor \"x\" is in /a and in /b"},
    {"TheSameSource", {"/b", "/b"}, Code::kAlreadyExists, "tensor \"x\" is in /b and in /b"},
    {"PlainAndSliced", {"/s1", "/a"}, Code::kAlreadyExists, "tensor \"w\" is in /a and in slices in /s1"},
    {"SlicedAndPlain", {"/a", "/s1"}, Code::kAlreadyExists, "tensor \"w\" is in /a and in slices in /s1"},
    {"Overlap", {"/s1", "/s2"}, Code::kInvalidArgument, "tensor \"w\" of /s2"},
    {"SameSlice", {"/s1", "/s1"}, Code::kInvalidArgument, "slice \"0,4\" of tensor \"w\" is in /s1 and in /s1"},
    {"OtherShape", {"/s1", "/s3"}, Code::kInvalidArgument, "tensor \"w\" of /s3"},
    {"OtherDType", {"/s1", "/s4"}, Code::kInvalidArgument, "int32"},
    {"Missing", {"/a", "/none"}, Code::kNotFound, "/none.index"},
    {"ShortData", {"/a", "/cut"}, Code::kDataLoss, "/cut.data-00000-of-00001: has 7 bytes; the index names 8"},
    {"NoData", {"/gone", "/a"}, Code::kDataLoss, "/gone.data-00000-of-00001: is missing"},
    {"NoIndex", {"/a", "/bad"}, Code::kDataLoss, "/bad.index"},
    {"NoPiece", {"/nopiece"}, Code::kDataLoss, "/nopiece.index: slice \"0,4\" of tensor \"w\""},
    {"TargetIsASource", {"/a", "/m"}, Code::kInvalidArgument, "/m: is one of the checkpoints to merge"},
    {"EmptyPath", {""}, Code::kInvalidArgument, "names a folder"},
    {"DataFile", {"/a.data-00000-of-00001"}, Code::kInvalidArgument, "data file"},
};
INSTANTIATE_TEST_SUITE_P(All, MergeRefuses, ::testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MergeTest, LimitsOfSourcesHold) {
  MemoryFileSystem files;
  SaveIn(&files, "/a", {{"a", Tensor::Scalar<float>(1)}, {"b", Tensor::Scalar<float>(1)}});
  CheckpointMergeOptions options = On(&files);
  options.limits.max_entries = 1;
  EXPECT_THAT(MergeCheckpoints({"/a"}, "/m", options), StatusIs(Code::kResourceExhausted, HasSubstr("max_entries")));
}

// ---- Options --------------------------------------------------------------------------------------------------------

// No single source has an entry of that size; what readers would refuse is not written.
TEST(MergeTest, AnEntryOfAllPiecesIsBounded) {
  MemoryFileSystem files;
  std::vector<std::string> sources;
  for (int i = 0; i < 20; ++i) {
    sources.push_back(absl::StrCat("/part-", i));
    ASSERT_OK(SaveRows(&files, sources.back(), 20000, int64_t{1000} * i, 1000));
  }
  CheckpointMergeOptions options = On(&files);
  options.limits.max_message_bytes = 200;
  EXPECT_THAT(
      MergeCheckpoints(sources, "/all", options),
      StatusIs(Code::kResourceExhausted, AllOf(HasSubstr("tensor \"w\""), HasSubstr("max_message_bytes is 200"))));
  EXPECT_THAT(OpenIn(&files, "/all"), StatusIs(Code::kNotFound));
  options.limits.max_message_bytes = 400;
  EXPECT_OK(MergeCheckpoints(sources, "/all", options));
}

TEST(MergeTest, TensorFlowsCheckpoints) {
  const std::string data = testing::TestDataFolder("tensorflow");
  if (data.empty()) GTEST_SKIP() << "no test data";
  const TempFolder folder;
  ASSERT_OK(MergeCheckpoints({data + "/tf-mnist-ckpt/model.ckpt-46900", data + "/tf-two-shards/variables"},
                             folder.Path("m")));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader merged, OpenIn(FileSystem::Posix(), folder.Path("m")));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader source, OpenIn(FileSystem::Posix(), data + "/tf-two-shards/variables"));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, source.entries());
  EXPECT_GT(entries.size(), 0u);
  for (const CheckpointEntry& entry : entries) {
    ASSERT_OK_AND_ASSIGN(const Tensor wanted, source.Read(entry.name));
    ASSERT_OK_AND_ASSIGN(const Tensor found, merged.Read(entry.name));
    EXPECT_TRUE(SameTensor(found, wanted)) << entry.name;
  }
  ASSERT_OK(merged.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
}

}  // namespace
}  // namespace tensorcask
