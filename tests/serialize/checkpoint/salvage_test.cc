// Salvage, one thing at a time: names, slices, cut indexes, what cannot be true. (salvage_damage_test.cc damages at
// random.)

#include "tensorcask/serialize/checkpoint/salvage.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "snappy.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/serialize/checkpoint/salvage_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::EntryOf;
using ::tensorcask::testing::Files;
using ::tensorcask::testing::IndexOf;
using ::tensorcask::testing::kPrefix;
using ::tensorcask::testing::Own;
using ::tensorcask::testing::Salvage;
using ::tensorcask::testing::Salvaged;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::SampleTensors;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Varied;
using ::tensorcask::testing::WriteTo;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

// ---- One thing at a time --------------------------------------------------------------------------------------------

class SalvageOne : public ::testing::Test {
 protected:
  void Put(const Files& files) {
    for (const auto& [path, bytes] : files) files_.Put(path, bytes);
  }
  std::vector<std::string> Messages(const SalvageReport& report) {
    std::vector<std::string> messages;
    for (const CheckpointDamage& lost : report.lost) messages.emplace_back(lost.status.message());
    return messages;
  }
  CheckpointReaderOptions Reading() {
    CheckpointReaderOptions options;
    options.read.file_system = &files_;
    return options;
  }

  MemoryFileSystem files_;
};

TEST_F(SalvageOne, MetadataAndLayoutComeAlong) {
  CheckpointWriterOptions options = WriteTo(&files_);
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create(kPrefix, options));
  const Tensor tensor = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  CheckpointAddOptions add;
  add.metadata.attributes["unit"] = "m";
  add.metadata.device = {DeviceType::kCuda, 1};
  add.layout = StoredLayout::kPreserve;
  ASSERT_OK_AND_ASSIGN(const TensorView flipped, TensorView(tensor).Transpose(0, 1));
  ASSERT_OK(writer.Add("w", flipped, add));
  ASSERT_OK(writer.Add("x", tensor));
  ASSERT_OK(writer.Finish());
  std::string data = BytesOf(files_, "/m.data-00000-of-00001");
  data.back() = static_cast<char>(data.back() ^ 1);  // padding
  data[64] = static_cast<char>(data[64] ^ 1);        // "x"
  files_.Put("/m.data-00000-of-00001", data);

  ASSERT_OK_AND_ASSIGN(const SalvageReport report, SalvageCheckpoint(kPrefix, "/n", Reading(), options));
  EXPECT_EQ(report.saved, 1);
  ASSERT_THAT(report.lost, SizeIs(1));
  EXPECT_EQ(report.lost[0].tensor, "x");
  EXPECT_EQ(report.lost[0].file, "/m.data-00000-of-00001");
  EXPECT_EQ(report.lost[0].offset, 64u);
  EXPECT_THAT(report.lost[0].status, StatusIs(Code::kDataLoss, HasSubstr("tensor \"x\" at offset 64")));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("/n", Reading()));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor saved, reader.ReadWithMetadata("w"));
  EXPECT_EQ(saved.metadata, add.metadata);
  EXPECT_EQ(saved.view.strides(), flipped.strides());
  ASSERT_OK_AND_ASSIGN(const Tensor dense, saved.view.ToTensor());
  EXPECT_TRUE(SameTensor(dense, *flipped.ToTensor()));
  EXPECT_THAT(reader.Find("x"), StatusIs(Code::kNotFound));
}

TEST_F(SalvageOne, ASlicedTensorIsSavedInOnePieceOrNamedOnce) {
  Put(Varied());
  ASSERT_OK_AND_ASSIGN(const SalvageReport report, SalvageCheckpoint(kPrefix, "/n", Reading(), WriteTo(&files_)));
  EXPECT_EQ(report.saved, 120);
  EXPECT_THAT(report.lost, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const CheckpointReader from, CheckpointReader::Open(kPrefix, Reading()));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader to, CheckpointReader::Open("/n", Reading()));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry before, from.Find("sliced5"));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry after, to.Find("sliced5"));
  EXPECT_EQ(before.form, EntryForm::kSliced);
  EXPECT_EQ(after.form, EntryForm::kPlain);
  EXPECT_TRUE(SameTensor(*from.Read("sliced5"), *to.Read("sliced5")));
  EXPECT_EQ(from.Metadata("sliced10")->attributes.size(), 1u);
  EXPECT_EQ(*from.Metadata("sliced10"), *to.Metadata("sliced10"));
  // Without the last data file each sliced tensor has lost a piece.
  ASSERT_EQ(files_.Remove("/m.data-00002-of-00003"), 0);
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&files_));
  EXPECT_EQ(salvaged.tensors.count("layer0/kernel"), 1u);
  for (const CheckpointDamage& lost : salvaged.report.lost) {
    EXPECT_THAT(std::string(lost.status.message()), HasSubstr("/m.data-00002-of-00003"));
  }
}

TEST_F(SalvageOne, WithoutAHeaderTheFilesTellHowManyThereAre) {
  Put(Own(2, 1, 1));
  std::string index = BytesOf(files_, "/m.index");
  index[3] = static_cast<char>(index[3] ^ 0x10);  // in the header, which has a block of its own
  files_.Put("/m.index", index);
  ASSERT_OK_AND_ASSIGN(Salvaged salvaged, Salvage(&files_));
  EXPECT_EQ(salvaged.tensors.size(), SampleTensors(2).size());
  EXPECT_THAT(salvaged.report.lost, SizeIs(1));
  // Files of a checkpoint of the same name that had three.
  files_.Put("/m.data-00002-of-00003", "x");
  ASSERT_OK_AND_ASSIGN(salvaged, Salvage(&files_));
  EXPECT_EQ(salvaged.tensors.size(), 0u);
  EXPECT_THAT(Messages(salvaged.report), ::testing::Contains(HasSubstr("some say 2, some 3")));
  EXPECT_GE(salvaged.report.lost.size(), SampleTensors(2).size());
}

TEST_F(SalvageOne, WhatNamesTheSameBytesIsReadOnce) {
  const std::string bytes(4096, 'x');
  std::map<std::string, BundleEntryProto> entries;
  for (int i = 0; i < 200; ++i) entries[absl::StrCat("t", i)] = EntryOf(4, {4096}, bytes);
  files_.Put("/m.index", IndexOf(1, entries));
  files_.Put("/m.data-00000-of-00001", bytes);
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&files_));
  EXPECT_EQ(salvaged.tensors.size(), 1u);
  EXPECT_THAT(salvaged.report.lost, SizeIs(199));
  EXPECT_THAT(Messages(salvaged.report), ::testing::Each(HasSubstr("begin inside those of \"t0\"")));
}

TEST_F(SalvageOne, EntriesThatCannotBeTrueAreNamed) {
  BundleEntryProto entry = EntryOf(1, {2}, "12345678");
  BundleEntryProto other = entry;
  other.set_size(9);
  files_.Put("/m.index", IndexOf(1, {{"good", entry}, {"bad\n", other}}));
  files_.Put("/m.data-00000-of-00001", "12345678");
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&files_));
  EXPECT_EQ(salvaged.tensors.size(), 1u);
  ASSERT_THAT(salvaged.report.lost, SizeIs(1));
  EXPECT_EQ(salvaged.report.lost[0].tensor, "bad\n");
  EXPECT_THAT(salvaged.report.lost[0].status, StatusIs(Code::kDataLoss, HasSubstr("tensor \"bad\\n\"")));
}

// Names that share all but their ends: some bytes each in the file, and a kilobyte in memory.
TEST_F(SalvageOne, NamesOfNoMemoryInTheFile) {
  BundleHeaderProto header;
  header.set_num_shards(1);
  const std::string value = EntryOf(4, {0}, "").SerializeAsString();
  const std::string stem(1024, 'n');
  std::vector<testing::ForgedEntry> entries = {{0, "", header.SerializeAsString()},
                                               {0, absl::StrCat(stem, 1000), value}};
  for (int i = 1001; i < 4000; ++i) entries.push_back({stem.size(), absl::StrCat(i), value});
  testing::TableForge forge;
  const checkpoint::BlockHandle block = forge.Block(testing::ForgeBlock(entries));
  files_.Put("/m.index", forge.Finish({{absl::StrCat(stem, 3999), block}}));
  files_.Put("/m.data-00000-of-00001", "");
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&files_));
  EXPECT_EQ(salvaged.tensors.size(), 3000u);
  CheckpointReaderOptions options = Reading();
  options.limits.max_memory_beyond_input = 1 << 20;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(kPrefix, options));
  EXPECT_THAT(reader.entries(), StatusIs(Code::kResourceExhausted, HasSubstr("the list of 3000 tensors")));
  EXPECT_THAT(
      SalvageTensors(kPrefix, options, [](absl::string_view, const DecodedTensor&) { return absl::OkStatus(); }),
      StatusIs(Code::kResourceExhausted, HasSubstr("the names of")));
}

TEST_F(SalvageOne, NothingIsWhole) {
  Put(Own(1, 1, 0));
  files_.Put("/m.index", std::string(1000, 'x'));
  ASSERT_OK_AND_ASSIGN(const SalvageReport report, SalvageCheckpoint(kPrefix, "/n", Reading(), WriteTo(&files_)));
  EXPECT_EQ(report.saved, 0);
  EXPECT_THAT(report.lost, SizeIs(1));
  EXPECT_EQ(files_.Find("/n.index"), nullptr);
  EXPECT_EQ(files_.Paths().size(), 2u) << "no file is left behind";
  files_.Put("/m.index", "");
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&files_));
  EXPECT_EQ(salvaged.report.saved, 0);
  EXPECT_THAT(salvaged.report.lost, SizeIs(1));
}

// An index of one block was cut off: its front is there, and no checksum confirms anything in it.
TEST_F(SalvageOne, TensorsOfACutIndexWhoseDataIsWhole) {
  Put(Own(2, 1, 0));
  const std::string index = BytesOf(files_, "/m.index");
  files_.Put("/m.index", index.substr(0, index.size() / 2));
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&files_));
  ASSERT_GT(salvaged.tensors.size(), SampleTensors(2).size() / 4);
  EXPECT_THAT(salvaged.report.unverified, SizeIs(salvaged.tensors.size()));
  EXPECT_THAT(Messages(salvaged.report), ::testing::Contains(HasSubstr("bytes 0 to ")));
  Put(Own(2, 1, 0));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(kPrefix, Reading()));
  for (const auto& [name, tensor] : salvaged.tensors) EXPECT_TRUE(SameTensor(tensor, *reader.Read(name))) << name;
}

TEST_F(SalvageOne, ACutIndexTellsTheByteOrderIfItHasTheHeader) {
  BundleHeaderProto header;
  header.set_num_shards(1);
  header.set_endianness(BundleHeaderProto::BIG);
  const std::string bytes("\0\0\1\2", 4);
  files_.Put("/m.data-00000-of-00001", bytes);
  const std::string index =
      IndexOf({{"", header.SerializeAsString()}, {"w", EntryOf(3, {1}, bytes).SerializeAsString()}});
  files_.Put("/m.index", index.substr(0, index.size() - 85));
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&files_));
  ASSERT_EQ(salvaged.tensors.size(), 1u);
  EXPECT_TRUE(SameTensor(salvaged.tensors.at("w"), Tensor::FromValues<int32_t>({258})));
  // A newer writer may have changed anything.
  header.mutable_version()->set_min_consumer(9);
  files_.Put("/m.index", IndexOf({{"", header.SerializeAsString()}}).substr(0, 20));
  EXPECT_THAT(Salvage(&files_), StatusIs(Code::kUnimplemented, HasSubstr("requires reader version 9")));
}

TEST_F(SalvageOne, UnverifiedEntriesCostNoVerifiedOnes) {
  const std::string data = "0123456789abcdef";
  BundleEntryProto first = EntryOf(4, {8}, data.substr(0, 8));
  BundleEntryProto second = EntryOf(4, {8}, data.substr(8));
  second.set_offset(8);
  BundleEntryProto wide = EntryOf(4, {16}, data);  // all of the file, with the right checksum
  BundleEntryProto wrong = first;
  wrong.set_crc32c(7);
  BundleHeaderProto header;
  header.set_num_shards(1);
  // Two blocks: the second has a wrong checksum.
  testing::TableForge forge;
  const checkpoint::BlockHandle whole = forge.Block(testing::ForgeBlock({{0, "", header.SerializeAsString()},
                                                                         {0, "a", first.SerializeAsString()},
                                                                         {0, "b", second.SerializeAsString()}}));
  const checkpoint::BlockHandle damaged =
      forge.Block(testing::ForgeBlock({{0, "c", wide.SerializeAsString()}, {0, "d", wrong.SerializeAsString()}}));
  std::string index = forge.Finish({{"b", whole}, {"e", damaged}});
  char& checksum = index[damaged.offset + damaged.size_bytes + 1];
  checksum = static_cast<char>(checksum ^ 1);
  files_.Put("/m.index", index);
  files_.Put("/m.data-00000-of-00001", data);
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&files_));
  EXPECT_EQ(salvaged.tensors.size(), 2u);
  EXPECT_THAT(salvaged.report.unverified, IsEmpty());
  EXPECT_THAT(Messages(salvaged.report),
              ::testing::Contains(HasSubstr("the entry of tensor \"c\" was there; the entry")));
  EXPECT_THAT(Messages(salvaged.report),
              ::testing::Contains(HasSubstr("the entry of tensor \"d\" was there; the entry")));
}

// The type of a compressed block, 1, is in every third byte of a long run.
TEST_F(SalvageOne, ALargeEntryInACompressedBlock) {
  BundleHeaderProto header;
  header.set_num_shards(1);
  const std::string data(8, 'x');
  const std::string value =
      EntryOf(1, {2}, data).SerializeAsString() + std::string("\xa2\x06\xa0\x8d\x06", 5) + std::string(100000, 'u');
  const std::string content = testing::ForgeBlock({{0, "", header.SerializeAsString()}, {0, "w", value}});
  std::string compressed;
  snappy::Compress(content.data(), content.size(), &compressed);
  testing::TableForge forge;
  const checkpoint::BlockHandle block = forge.Block(compressed, /*type=*/1);
  files_.Put("/m.index", forge.Finish({{"w", block}}));
  files_.Put("/m.data-00000-of-00001", data);
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&files_));
  EXPECT_EQ(salvaged.tensors.size(), 1u);
  EXPECT_THAT(salvaged.report.lost, IsEmpty());
  EXPECT_THAT(salvaged.report.unverified, IsEmpty());
}

TEST_F(SalvageOne, V1IsRefusedByName) {
  files_.Put("/v1.ckpt", "a file");
  EXPECT_THAT(SalvageCheckpoint("/v1.ckpt", "/n", Reading(), WriteTo(&files_)),
              StatusIs(Code::kUnimplemented, HasSubstr("V1 checkpoints cannot be salvaged")));
}

TEST_F(SalvageOne, Refuses) {
  EXPECT_THAT(SalvageCheckpoint(kPrefix, "/n", Reading(), WriteTo(&files_)),
              StatusIs(Code::kNotFound, HasSubstr("/m.index")));
  Put(Own(1, 1, 0));
  EXPECT_THAT(SalvageCheckpoint(kPrefix, kPrefix, Reading(), WriteTo(&files_)),
              StatusIs(Code::kInvalidArgument, HasSubstr("/m: ")));
  EXPECT_THAT(SalvageCheckpoint("/m.index", kPrefix, Reading(), WriteTo(&files_)), StatusIs(Code::kInvalidArgument));
  CheckpointWriterOptions overwriting = WriteTo(&files_);
  overwriting.overwrite = true;
  EXPECT_THAT(SalvageCheckpoint(kPrefix, "//m", Reading(), overwriting),
              StatusIs(Code::kInvalidArgument, HasSubstr("//m: is what is to be salvaged, /m")));
  EXPECT_NE(files_.Find("/m.index"), nullptr);
  ASSERT_OK(SalvageCheckpoint(kPrefix, "/n", Reading(), WriteTo(&files_)).status());
  EXPECT_THAT(SalvageCheckpoint(kPrefix, "/n", Reading(), WriteTo(&files_)), StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(SalvageTensors(kPrefix, Reading(),
                             [](absl::string_view, const DecodedTensor&) { return absl::AbortedError("enough"); }),
              StatusIs(Code::kAborted, "enough"));
  // A newer writer may have changed anything.
  BundleHeaderProto header;
  header.set_num_shards(1);
  header.mutable_version()->set_min_consumer(9);
  files_.Put("/m.index", IndexOf({{"", header.SerializeAsString()}}));
  EXPECT_THAT(SalvageCheckpoint(kPrefix, "/o", Reading(), WriteTo(&files_)), StatusIs(Code::kUnimplemented));
}

}  // namespace
}  // namespace tensorcask
