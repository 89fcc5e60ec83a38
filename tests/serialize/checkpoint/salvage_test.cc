// Checkpoints are damaged in many ways; what comes back is exactly what an independent judge finds undamaged.

#include "tensorcask/serialize/checkpoint/salvage.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "snappy.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/checkpoint/table/block_reader.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/checkpoint/writer.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::EntryOf;
using ::tensorcask::testing::IndexOf;
using ::tensorcask::testing::ReadFileOrFail;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::SampleTensors;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TestDataFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

constexpr char kPrefix[] = "/m";
using Files = std::map<std::string, std::string>;  // by path

struct Range {
  std::string file;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Where the parts of each tensor lie in an intact checkpoint.
struct Tensors {
  std::map<std::string, std::vector<Range>> blocks;  // of the index, by tensor: those with its entries
  std::map<std::string, std::vector<Range>> data;
  std::vector<Range> all_blocks;
};

// The judge: reads footer and index of blocks, and the entries by protobuf's own classes.
Tensors Locate(const Files& files) {
  Tensors tensors;
  const std::string& index = files.at(absl::StrCat(kPrefix, ".index"));
  const std::string path = absl::StrCat(kPrefix, ".index");
  const std::shared_ptr<const ByteSource> source = MakeMemorySource(path, index);
  absl::string_view footer = absl::string_view(index).substr(index.size() - checkpoint::kFooterBytes);
  checkpoint::BlockHandle metaindex;
  checkpoint::BlockHandle place;
  EXPECT_TRUE(checkpoint::ParseHandle(&footer, &metaindex) && checkpoint::ParseHandle(&footer, &place));
  const auto blocks = checkpoint::BlockReader::Read(*source, place, {});
  EXPECT_OK(blocks.status());
  int num_shards = 0;
  for (checkpoint::BlockReader::Cursor cursor(**blocks); cursor.Next();) {
    absl::string_view value = cursor.value();
    checkpoint::BlockHandle handle;
    EXPECT_TRUE(checkpoint::ParseHandle(&value, &handle));
    const Range range{path, handle.offset, handle.offset + handle.size_bytes + checkpoint::kBlockTrailerBytes};
    tensors.all_blocks.push_back(range);
    const auto block = checkpoint::BlockReader::Read(*source, handle, {});
    EXPECT_OK(block.status());
    for (checkpoint::BlockReader::Cursor entries(**block); entries.Next();) {
      std::string name(entries.key());
      if (name.empty()) {
        BundleHeaderProto header;
        EXPECT_TRUE(header.ParseFromString(std::string(entries.value())));
        num_shards = header.num_shards();
        continue;
      }
      BundleEntryProto entry;
      EXPECT_TRUE(entry.ParseFromString(std::string(entries.value())));
      if (name[0] == '\0') name = checkpoint::DecodeSliceKey(name)->name;
      tensors.blocks[name].push_back(range);
      if (entry.slices_size() > 0) continue;
      tensors.data[name].push_back({checkpoint::DataPath(kPrefix, entry.shard_id(), num_shards),
                                    static_cast<uint64_t>(entry.offset()),
                                    static_cast<uint64_t>(entry.offset() + entry.size())});
    }
  }
  return tensors;
}

bool Touched(const Files& good, const Files& bad, const Range& range) {
  const std::string& was = good.at(range.file);
  const auto found = bad.find(range.file);
  if (found == bad.end()) return range.end > range.begin;
  if (range.end > found->second.size()) return true;
  return was.compare(range.begin, range.end - range.begin, found->second, range.begin, range.end - range.begin) != 0;
}
bool Touched(const Files& good, const Files& bad, const std::vector<Range>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) { return Touched(good, bad, range); });
}

// How many bytes differ; those that are cut off count.
int64_t DifferentBytes(const Files& good, const Files& bad, const std::vector<Range>& ranges) {
  int64_t count = 0;
  for (const Range& range : ranges) {
    const std::string& was = good.at(range.file);
    const std::string& is = bad.at(range.file);
    for (uint64_t i = range.begin; i < range.end; ++i) count += i >= is.size() || was[i] != is[i] ? 1 : 0;
  }
  return count;
}

struct Salvaged {
  SalvageReport report;
  std::map<std::string, Tensor> tensors;
};

absl::StatusOr<Salvaged> Salvage(MemoryFileSystem* files) {
  Salvaged salvaged;
  CheckpointReaderOptions options;
  options.read.file_system = files;
  options.verify = Verify::kNever;  // is not listened to
  auto report = SalvageTensors(kPrefix, options, [&](absl::string_view name, const DecodedTensor& tensor) {
    absl::StatusOr<Tensor> dense = tensor.view.ToTensor();
    EXPECT_OK(dense.status());
    EXPECT_TRUE(salvaged.tensors.emplace(std::string(name), *std::move(dense)).second) << name << " twice";
    return absl::OkStatus();
  });
  if (!report.ok()) return report.status();
  salvaged.report = *std::move(report);
  return salvaged;
}

Files AllFiles(const MemoryFileSystem& memory) {
  Files files;
  for (const std::string& path : memory.Paths()) files[path] = BytesOf(memory, path);
  return files;
}

// One flipped bit, one range of zeros or noise, or a cut, in one of the files or in several.
void Damage(std::mt19937* random, Files* files) {
  const auto draw = [&](uint64_t bound) { return (*random)() % std::max<uint64_t>(bound, 1); };
  const uint64_t times = 1 + draw(3);
  for (uint64_t i = 0; i < times; ++i) {
    auto file = files->begin();
    // The index is the smallest of the files, and the most interesting.
    const bool index = draw(2) == 0;
    if (!index) std::advance(file, static_cast<int64_t>(draw(files->size())));
    if (index) file = files->find(absl::StrCat(kPrefix, ".index"));
    std::string& bytes = file->second;
    const uint64_t begin = draw(bytes.size());
    const uint64_t end = std::min<uint64_t>(bytes.size(), begin + 1 + draw(draw(2) == 0 ? 8 : 600));
    switch (draw(4)) {
      case 0:
        if (!bytes.empty()) bytes[begin] = static_cast<char>(bytes[begin] ^ (1 << draw(8)));
        break;
      case 1:
        std::fill(bytes.begin() + static_cast<int64_t>(begin), bytes.begin() + static_cast<int64_t>(end), '\0');
        break;
      case 2:
        for (uint64_t k = begin; k < end; ++k) bytes[k] = static_cast<char>((*random)());
        break;
      default:
        bytes.resize(bytes.size() - std::min<uint64_t>(bytes.size(), draw(draw(2) == 0 ? 100 : bytes.size())));
        break;
    }
  }
}

// What the tests of one checkpoint counted, so that they cannot pass by damaging nothing.
struct Counts {
  int saved = 0;
  int lost = 0;
  int unverified = 0;  // saved, from damaged blocks
  int unverified_as_before = 0;
  int in_damaged_blocks = 0;  // lost; few bytes of the block are wrong
  int named_in_damaged_blocks = 0;
};

void SalvageUnderDamage(const Files& good, int num_seeds, Counts* counts) {
  const Tensors tensors = Locate(good);
  MemoryFileSystem intact;
  for (const auto& [path, bytes] : good) intact.Put(path, bytes);
  ASSERT_OK_AND_ASSIGN(const Salvaged whole, Salvage(&intact));
  EXPECT_THAT(whole.report.lost, IsEmpty());
  ASSERT_EQ(whole.tensors.size(), tensors.blocks.size());
  CheckpointReaderOptions options;
  options.read.file_system = &intact;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(kPrefix, options));
  for (const auto& [name, tensor] : whole.tensors) {
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(name));
    ASSERT_TRUE(SameTensor(tensor, read));
  }

  for (int seed = 0; seed < num_seeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    Files bad = good;
    Damage(&random, &bad);
    MemoryFileSystem memory;
    for (const auto& [path, bytes] : bad) memory.Put(path, bytes);
    ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(&memory));
    std::set<std::string> named;
    bool index_is_named = false;
    for (const CheckpointDamage& lost : salvaged.report.lost) {
      ASSERT_FALSE(lost.status.ok());
      ASSERT_THAT(std::string(lost.status.message()), HasSubstr("/m."));
      if (!lost.tensor.empty()) {
        ASSERT_TRUE(named.insert(lost.tensor).second) << lost.tensor << " twice";
      }
      index_is_named |= lost.tensor.empty() && absl::EndsWith(lost.file, ".index");
    }
    const std::set<std::string> unverified(salvaged.report.unverified.begin(), salvaged.report.unverified.end());
    ASSERT_EQ(salvaged.report.saved, static_cast<int64_t>(salvaged.tensors.size()));
    for (const auto& [name, blocks] : tensors.blocks) {
      const bool in_damaged_block = Touched(good, bad, blocks);
      const auto data = tensors.data.find(name);
      const bool is_whole = !in_damaged_block && (data == tensors.data.end() || !Touched(good, bad, data->second));
      const auto saved = salvaged.tensors.find(name);
      if (unverified.count(name) == 1) {
        // Its entry says what it wants; the bytes have the checksum that it says.
        ASSERT_TRUE(in_damaged_block) << name;
        ASSERT_EQ(named.count(name), 0u) << name;
        const Tensor& wanted = whole.tensors.at(name);
        const bool same = saved->second.dtype() == wanted.dtype() && saved->second.shape() == wanted.shape();
        counts->unverified_as_before += same && SameTensor(saved->second, wanted) ? 1 : 0;
        ++counts->unverified;
        continue;
      }
      ASSERT_EQ(saved != salvaged.tensors.end(), is_whole) << name;
      ASSERT_FALSE(is_whole && named.count(name) == 1) << name;
      if (is_whole) {
        ASSERT_TRUE(SameTensor(saved->second, whole.tensors.at(name))) << name;
        ++counts->saved;
        continue;
      }
      ++counts->lost;
      if (!in_damaged_block) {
        ASSERT_EQ(named.count(name), 1u) << name;
      } else {
        ASSERT_TRUE(index_is_named);
        if (DifferentBytes(good, bad, blocks) > 4) continue;  // there may be nothing left of its name
        ++counts->in_damaged_blocks;
        counts->named_in_damaged_blocks += named.count(name) == 1 ? 1 : 0;
      }
    }
  }
}

CheckpointWriterOptions WriteTo(MemoryFileSystem* files, int num_shards = 1) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = num_shards;
  return options;
}

Files Own(int num_shards, uint64_t alignment, size_t index_block_bytes) {
  MemoryFileSystem files;
  CheckpointWriterOptions options = WriteTo(&files, num_shards);
  options.alignment = alignment;
  options.index_block_bytes = index_block_bytes;
  EXPECT_OK(Save(kPrefix, SampleTensors(num_shards), options));
  return AllFiles(files);
}

// Hundreds of tensors in small blocks, some sliced, some not row-major, with metadata.
Files Varied() {
  MemoryFileSystem files;
  CheckpointWriterOptions options = WriteTo(&files, 3);
  options.index_block_bytes = 512;
  auto writer = CheckpointWriter::Create(kPrefix, options);
  EXPECT_OK(writer.status());
  for (int i = 0; i < 100; ++i) {
    const Tensor tensor = Tensor::FromValues<int32_t>({{i, 1, 2}, {3, 4, 5}});
    AddOptions add;
    add.shard = i % 3;
    add.layout = StoredLayout::kPreserve;
    if (i % 2 == 0) add.metadata.attributes["step"] = absl::StrCat(i);
    const TensorView view = TensorView(tensor);
    EXPECT_OK(writer->Add(absl::StrCat("layer", i, "/kernel"), i % 3 == 0 ? *view.Transpose(0, 1) : view, add));
    if (i % 5 == 0) {
      for (const char* slice : {"0,2:-", "2,2:0,3"}) {
        add.shard = (add.shard + 1) % 3;
        EXPECT_OK(
            writer->AddSlice(absl::StrCat("sliced", i), TensorShape({4, 3}), *TensorSlice::Parse(slice), tensor, add));
      }
    }
  }
  EXPECT_OK(writer->Finish());
  return AllFiles(files);
}

TEST(SalvageTensors, OfOwnCheckpointsUnderDamage) {
  Counts counts;
  const std::pair<const char*, Files> checkpoints[] = {{"one block", Own(1, 1, 0)},
                                                       {"small blocks", Own(1, 1, 64)},
                                                       {"two shards", Own(2, 64, 128)},
                                                       {"varied", Varied()}};
  for (const auto& [name, files] : checkpoints) {
    SCOPED_TRACE(name);
    SalvageUnderDamage(files, 150, &counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.saved, 10'000);
  EXPECT_GT(counts.lost, 1000);
  // Most tensors in blocks with a few wrong bytes are saved, as they were.
  EXPECT_GT(counts.unverified, 500);
  EXPECT_GT(counts.unverified_as_before * 100, counts.unverified * 95)
      << counts.unverified_as_before << " of " << counts.unverified;
  EXPECT_GT((counts.unverified + counts.named_in_damaged_blocks) * 10,
            (counts.unverified + counts.in_damaged_blocks) * 6)
      << counts.named_in_damaged_blocks << " of " << counts.in_damaged_blocks;
}

TEST(SalvageTensors, OfTensorFlowsCheckpointsUnderDamage) {
  const std::string folder = TestDataFolder("tensorflow");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  Counts counts;
  int checkpoints = 0;
  for (const char* name :
       {"tf-mnist-ckpt/model.ckpt-46900", "t2t-transformer-2shards/model.ckpt-1", "tf-old-string-tensors/foo",
        "tf-optimizer-slot/variables", "tf-two-shards/variables", "tf-table-legacy/table_legacy_saveable_object"}) {
    SCOPED_TRACE(name);
    Files files;
    const std::filesystem::path prefix = std::filesystem::path(folder) / name;
    for (const auto& file : std::filesystem::directory_iterator(prefix.parent_path())) {
      const std::string path = file.path().string();
      if (!absl::StartsWith(path, prefix.string() + ".")) continue;
      files[absl::StrCat(kPrefix, absl::StripPrefix(path, prefix.string()))] = ReadFileOrFail(path);
    }
    SalvageUnderDamage(files, 60, &counts);
    if (HasFatalFailure()) return;
    ++checkpoints;
  }
  EXPECT_EQ(checkpoints, 6);
  EXPECT_GT(counts.saved, 1000);
  EXPECT_GT(counts.lost, 1000);
}

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
  AddOptions add;
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
  options.limits.max_unbacked_bytes = 1 << 20;
  const auto is_refused = StatusIs(Code::kResourceExhausted, HasSubstr("the names of"));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(kPrefix, options));
  EXPECT_THAT(reader.entries(), is_refused);
  EXPECT_THAT(
      SalvageTensors(kPrefix, options, [](absl::string_view, const DecodedTensor&) { return absl::OkStatus(); }),
      is_refused);
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

// Of an index of one block that was cut off the front is there, in which no checksum confirms anything.
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
