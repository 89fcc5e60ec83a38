// What is found in damaged tables: blocks that are whole, and names in those that are not.

#include "tensorcask/serialize/checkpoint/table/table_salvage.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "snappy.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"

namespace tensorcask::checkpoint {
namespace {

using ::tensorcask::testing::ForgeBlock;
using ::tensorcask::testing::ForgedEntry;
using ::tensorcask::testing::TableForge;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

struct Found {
  std::map<std::string, std::string> entries;
  std::vector<LostRange> lost;

  std::set<std::string> LostKeys() const {
    std::set<std::string> keys;
    for (const LostRange& range : lost) {
      for (const UnverifiedEntry& entry : range.entries) keys.insert(entry.key);
    }
    return keys;
  }
};

// Values of these tables are printable and begin with "v".
bool IsValue(absl::string_view value) {
  return !value.empty() && value[0] == 'v' && std::all_of(value.begin(), value.end(), [](char c) { return c >= ' '; });
}

Found Salvage(const std::string& bytes, const DecodeLimits& limits = {}) {
  Found found;
  SalvageTable(
      bytes, limits, IsValue,
      [&](absl::string_view key, absl::string_view value) {
        EXPECT_TRUE(found.entries.emplace(std::string(key), std::string(value)).second) << key << " twice";
      },
      [&](const LostRange& range) { found.lost.push_back(range); });
  return found;
}

// A table of blocks, and what was where.
struct Table {
  struct Block {
    BlockHandle handle;
    std::map<std::string, std::string> entries;
    uint64_t end() const { return handle.offset + handle.size_bytes + kBlockTrailerBytes; }
  };
  std::string bytes;
  std::vector<Block> blocks;
};

Table MakeTable(int num_blocks, bool compressed = false) {
  Table table;
  TableForge forge;
  std::vector<std::pair<std::string, BlockHandle>> index;
  for (int i = 0; i < num_blocks; ++i) {
    Table::Block block;
    std::vector<ForgedEntry> entries;
    std::vector<uint32_t> restarts;
    std::string before;
    for (int k = 0; k < 6; ++k) {
      const std::string key = absl::StrCat("block", 100 + i, "/tensor", k);
      const std::string value = absl::StrCat("value of ", key, std::string(static_cast<size_t>(k), '.'));
      if (k % 3 == 0) {
        restarts.push_back(static_cast<uint32_t>(ForgeBlock(entries, {}).size() - sizeof(uint32_t)));
        entries.push_back({0, key, value});
      } else {
        entries.push_back({key.size() - 1, key.substr(key.size() - 1), value});
      }
      block.entries[key] = value;
    }
    std::string content = ForgeBlock(entries, restarts);
    if (compressed) {
      std::string small;
      snappy::Compress(content.data(), content.size(), &small);
      content = small;
    }
    block.handle = forge.Block(content, compressed ? kSnappyBlock : kRawBlock);
    index.emplace_back(block.entries.rbegin()->first, block.handle);
    table.blocks.push_back(block);
  }
  table.bytes = forge.Finish(index);
  return table;
}

// What must be taken when [begin, end) is damaged: whole blocks, exactly.
std::map<std::string, std::string> Undamaged(const Table& table, uint64_t begin, uint64_t end) {
  std::map<std::string, std::string> entries;
  for (const Table::Block& block : table.blocks) {
    if (block.end() <= begin || end <= block.handle.offset) entries.insert(block.entries.begin(), block.entries.end());
  }
  return entries;
}

class SalvageTableOf : public ::testing::TestWithParam<bool> {};  // compressed?

TEST_P(SalvageTableOf, AnIntactFileLosesNothing) {
  const Table table = MakeTable(5, GetParam());
  const Found found = Salvage(table.bytes);
  EXPECT_EQ(found.entries, Undamaged(table, 0, 0));
  EXPECT_THAT(found.lost, IsEmpty());
}

TEST_P(SalvageTableOf, EveryByteChanged) {
  const Table table = MakeTable(4, GetParam());
  const uint64_t data_end = table.blocks.back().end();
  for (size_t i = 0; i < table.bytes.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      SCOPED_TRACE(absl::StrCat("byte ", i, " xor ", flip));
      std::string bad = table.bytes;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      const Found found = Salvage(bad);
      ASSERT_EQ(found.entries, Undamaged(table, i, i + 1));
      if (i >= data_end) {
        ASSERT_THAT(found.lost, IsEmpty()) << "all entries are there";
        continue;
      }
      ASSERT_EQ(found.lost.size(), 1u);
      const LostRange& lost = found.lost[0];
      ASSERT_TRUE(lost.offset <= i && i < lost.offset + lost.size_bytes);
      if (GetParam()) continue;
      // In a block where one byte is wrong, at least the keys after the other restart can be found.
      for (const Table::Block& block : table.blocks) {
        if (i < block.handle.offset || i >= block.end()) continue;
        const size_t half = block.entries.size() / 2;
        std::vector<std::string> first;
        std::vector<std::string> second;
        for (const auto& [key, value] : block.entries) (first.size() < half ? first : second).push_back(key);
        const std::set<std::string> keys = found.LostKeys();
        const auto has = [&](const std::vector<std::string>& wanted) {
          for (const std::string& key : wanted) {
            if (keys.count(key) == 0) return false;
          }
          return true;
        };
        ASSERT_TRUE(has(first) || has(second)) << ::testing::PrintToString(keys);
      }
    }
  }
}

TEST_P(SalvageTableOf, EveryCut) {
  const Table table = MakeTable(4, GetParam());
  for (size_t length = 0; length < table.bytes.size(); ++length) {
    SCOPED_TRACE(length);
    const Found found = Salvage(table.bytes.substr(0, length));
    ASSERT_EQ(found.entries, Undamaged(table, length, table.bytes.size()));
    // The metaindex is the first block after the entries: if it is there, they are.
    const uint64_t metaindex_end = table.blocks.back().end() + 8 + kBlockTrailerBytes;
    ASSERT_EQ(found.lost.empty(), length >= metaindex_end);
  }
}

TEST_P(SalvageTableOf, RandomDamage) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const Table table = MakeTable(static_cast<int>(1 + random() % 20), GetParam());
    std::string bad = table.bytes;
    const uint64_t begin = random() % bad.size();
    const uint64_t end = std::min<uint64_t>(bad.size(), begin + 1 + random() % 500);
    for (uint64_t i = begin; i < end; ++i) bad[i] = static_cast<char>(seed % 2 == 0 ? 0 : random());
    const Found found = Salvage(bad);
    std::map<std::string, std::string> must = Undamaged(table, begin, end);
    for (const auto& [key, value] : must) ASSERT_EQ(found.entries.count(key), 1u) << key;
    for (const auto& [key, value] : found.entries) {
      // What is there besides is there because the damage changed nothing.
      for (const Table::Block& block : table.blocks) {
        if (block.entries.count(key) == 1) {
          ASSERT_EQ(block.entries.at(key), value);
        }
      }
    }
    const bool all = found.entries == Undamaged(table, 0, 0);
    // That nothing is missing can be told if metaindex or index of blocks are whole.
    const uint64_t metaindex_end = table.blocks.back().end() + 8 + kBlockTrailerBytes;
    const bool provable = begin >= metaindex_end || end <= metaindex_end;
    if (!all) {
      ASSERT_THAT(found.lost, Not(IsEmpty()));
    }
    if (all && provable) {
      ASSERT_THAT(found.lost, IsEmpty());
    }
  }
}

// Bytes that were lost, or put in, move what follows: blocks are found by what they are, not by where.
TEST_P(SalvageTableOf, MovedBlocks) {
  const Table table = MakeTable(4, GetParam());
  const Table::Block& block = table.blocks[1];
  std::string bad = table.bytes;
  bad.erase(block.handle.offset + 10, 7);
  Found found = Salvage(bad);
  EXPECT_EQ(found.entries, Undamaged(table, block.handle.offset, block.end()));
  EXPECT_EQ(found.lost.size(), 1u);
  // A whole block is gone: only the index of blocks can tell.
  bad = table.bytes;
  bad.erase(block.handle.offset, block.end() - block.handle.offset);
  found = Salvage(bad);
  EXPECT_EQ(found.entries, Undamaged(table, block.handle.offset, block.end()));
  ASSERT_EQ(found.lost.size(), 1u);
  EXPECT_EQ(found.lost[0].size_bytes, 0u);
  // Something stands between blocks, and nothing is missing.
  bad = table.bytes;
  bad.insert(block.end(), "something");
  found = Salvage(bad);
  EXPECT_EQ(found.entries, Undamaged(table, 0, 0));
  EXPECT_THAT(found.lost, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Blocks, SalvageTableOf, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Compressed" : "Raw"; });

TEST(SalvageTable, NamesOfADamagedBlock) {
  const std::vector<ForgedEntry> entries = {{0, "alpha", "v1"},  {2, "pine", "v2"}, {0, "beta", "v3"},
                                            {0, "gamma", "v45"}, {3, "ut", "v6"},   {0, "omega", "v7"}};
  TableForge forge;
  const BlockHandle handle = forge.Block(ForgeBlock(entries));
  const std::string good = forge.Finish({{"omega", handle}});
  const auto with = [&](absl::string_view from, absl::string_view to) {
    std::string bad = good;
    bad.replace(bad.find(std::string(from)), to.size(), std::string(to));
    return Salvage(bad);
  };
  // A value is wrong: all are told. That of "beta" is vouched for by the entry after it.
  EXPECT_THAT(with("v3", "X3").LostKeys(), ElementsAre("alpha", "alpine", "beta", "gamma", "gamut", "omega"));
  // A name is wrong: it is told as it is, and so are those that share its bytes.
  EXPECT_THAT(with("alpha", "a\x01pha").LostKeys(), IsSupersetOf({"a\x01pha", "a\x01pine", "beta"}));
  // A length is wrong: what shares bytes with the name that went with it cannot be told; the rest can.
  const Found found = with(std::string("\x00\x05\x03gamma", 8), std::string("\x00\x45\x03", 3));
  EXPECT_THAT(found.LostKeys(), IsSupersetOf({"alpha", "alpine", "beta", "omega"}));
  EXPECT_THAT(found.LostKeys(), Not(Contains("gamut")));
}

TEST(SalvageTable, KeysThatGoBackAreNotTaken) {
  TableForge forge;
  const BlockHandle first = forge.Block(ForgeBlock({{0, "m", "v1"}}));
  const BlockHandle again = forge.Block(ForgeBlock({{0, "m", "v2"}}));
  const BlockHandle back = forge.Block(ForgeBlock({{0, "a", "v3"}}));
  const BlockHandle last = forge.Block(ForgeBlock({{0, "z", "v4"}}));
  const Found found = Salvage(forge.Finish({{"m", first}, {"n", again}, {"o", back}, {"z", last}}));
  EXPECT_EQ(found.entries, (std::map<std::string, std::string>{{"m", "v1"}, {"z", "v4"}}));
  EXPECT_THAT(found.LostKeys(), ElementsAre("a", "m"));
}

TEST(SalvageTable, NamesAreBounded) {
  std::vector<ForgedEntry> entries = {{0, std::string(60'000, 'k'), "v"}};
  for (int i = 0; i < 2000; ++i) entries.push_back({59'999, std::string(1, static_cast<char>('l' + i % 2)), "v"});
  TableForge forge;
  const BlockHandle handle = forge.Block(ForgeBlock(entries), 0, 1234u);  // a wrong checksum
  DecodeLimits limits;
  limits.max_memory_beyond_input = 10 << 20;
  const Found found = Salvage(forge.Finish({{"m", handle}}), limits);
  ASSERT_EQ(found.lost.size(), 1u);
  uint64_t bytes = 0;
  for (const UnverifiedEntry& entry : found.lost[0].entries) bytes += entry.key.size();
  EXPECT_GT(bytes, 4u << 20);
  EXPECT_LE(bytes, 10u << 20);
}

// Names of a byte or two take much more than that.
TEST(SalvageTable, ShortNamesAreBoundedToo) {
  std::vector<ForgedEntry> entries;
  for (int i = 0; i < 20000; ++i) entries.push_back({0, absl::StrCat(i), "v"});
  TableForge forge;
  const BlockHandle handle = forge.Block(ForgeBlock(entries), 0, 1234u);  // a wrong checksum
  DecodeLimits limits;
  limits.max_memory_beyond_input = 256 << 10;
  const Found found = Salvage(forge.Finish({{"m", handle}}), limits);
  ASSERT_EQ(found.lost.size(), 1u);
  EXPECT_GT(found.lost[0].entries.size(), 1000u);
  EXPECT_LE(found.lost[0].entries.capacity() * sizeof(UnverifiedEntry), 256u << 10);
}

// Files made to take long take no longer than others of their size.
TEST(SalvageTable, HostileBytesTakeBoundedTime) {
  constexpr size_t kBytes = size_t{2} << 20;
  std::vector<std::pair<std::string, std::string>> files;
  const auto repeated = [](const std::string& piece) {
    std::string out;
    while (out.size() < kBytes) out += piece;
    return out;
  };
  files.emplace_back("zeros", std::string(kBytes, '\0'));
  files.emplace_back("ones", std::string(kBytes, '\x01'));
  files.emplace_back("restart arrays", repeated(std::string("\0\0\0\0\1\0\0\0\0", 9)));
  files.emplace_back("empty blocks", repeated(std::string("\0\0\0\0\1\0\0\0\0\xc0\xf2\xa1\xb0", 13)));
  files.emplace_back("entries", repeated(std::string("\0\1\1av", 5)));
  files.emplace_back("entries of long values", repeated(std::string("\0\1\xff\x7f"
                                                                    "av",
                                                                    6)));
  files.emplace_back("entries that share", repeated(std::string("\1\1\1av", 5)));
  // Ends which all have the right checksum for the begin of the file, and nothing a block has.
  std::string nested(16, '\0');
  uint32_t crc = Crc32c(nested);
  while (nested.size() < kBytes) {
    const std::string body = std::string(30, 'x') + kSnappyBlock;
    crc = ExtendCrc32c(crc, body);
    char stored[4];
    StoreLittleEndian(MaskCrc32c(crc), stored);
    nested += body + std::string(stored, 4);
    crc = ExtendCrc32c(crc, absl::string_view(stored, 4));
  }
  files.emplace_back("nested", nested);
  for (const auto& [name, bytes] : files) {
    SCOPED_TRACE(name);
    const auto begin = std::chrono::steady_clock::now();
    const Found found = Salvage(bytes);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    EXPECT_THAT(found.entries, IsEmpty());
    EXPECT_LT(seconds.count(), 20) << "2 MiB take a tenth of a second; the square of it would take hours";
  }
}

}  // namespace
}  // namespace tensorcask::checkpoint
