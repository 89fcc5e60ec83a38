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
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/table/block_reader.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/salvage_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Files;
using ::tensorcask::testing::kPrefix;
using ::tensorcask::testing::Own;
using ::tensorcask::testing::ReadFileOrFail;
using ::tensorcask::testing::Salvage;
using ::tensorcask::testing::Salvaged;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::TestDataFolder;
using ::tensorcask::testing::Varied;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Range {
  std::string file;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Where the parts of each tensor lie in an intact checkpoint.
struct Tensors {
  std::map<std::string, std::vector<Range>> blocks;  // blocks of the index, by tensor: those with its entries
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

}  // namespace
}  // namespace tensorcask
