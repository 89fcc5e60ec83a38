// Tables that are wrong in one place, and limits.

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "snappy.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/serialize/checkpoint/table/table_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::checkpoint {
namespace {

using ::tensorcask::testing::ForgeBlock;
using ::tensorcask::testing::ForgedEntry;
using ::tensorcask::testing::ForgeFooter;
using ::tensorcask::testing::OpenTable;
using ::tensorcask::testing::Pairs;
using ::tensorcask::testing::ReadAll;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TableForge;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// ---- Broken tables --------------------------------------------------------------------------------------------------

struct RejectCase {
  const char* name;
  std::string file;
  const char* says;
  Code code = Code::kDataLoss;
};

class TableRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(TableRejects, WithCodeAndMessage) {
  EXPECT_THAT(ReadAll(GetParam().file), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_THAT(ReadAll(GetParam().file), StatusIs(GetParam().code, HasSubstr("t.index")));
}

const std::vector<ForgedEntry>& Good() {
  static const auto* entries = new std::vector<ForgedEntry>{{0, "apple", "1"}, {3, "ly", "2"}, {0, "b", "3"}};
  return *entries;
}

// A table of one block with this content.
std::string OneBlock(const std::string& content, int type = 0, std::optional<uint32_t> crc = std::nullopt) {
  TableForge forge;
  const BlockHandle block = forge.Block(content, type, crc);
  return forge.Finish({{"zz", block}});
}

// A table of one good block, and ends made by `ends(block, index)`, where index would be its place.
template <typename Fn>
std::string WithEnds(Fn&& ends) {
  TableForge forge;
  const BlockHandle block = forge.Block(ForgeBlock(Good()));
  return forge.Finish({{"zz", block}}, ends(block, BlockHandle{forge.position(), 20}));
}

// A table whose index of blocks has this one entry.
std::string WithIndexValue(const std::string& value, const std::string& key = "zz") {
  TableForge forge;
  forge.Block(ForgeBlock(Good()));
  TableForge::Ends ends;
  ends.metaindex = forge.Block(ForgeBlock({}));
  ends.index = forge.Block(ForgeBlock({{0, key, value}}));
  return forge.Finish({}, ends);
}

std::string HandleBytes(uint64_t offset, uint64_t size) {
  std::string bytes;
  AppendHandle({offset, size}, &bytes);
  return bytes;
}

std::string WithFooterByte(size_t at, char flip) {
  std::string file = OneBlock(ForgeBlock(Good()));
  file[file.size() - kFooterBytes + at] = static_cast<char>(file[file.size() - kFooterBytes + at] ^ flip);
  return file;
}

std::string WithMagic(uint64_t magic) {
  std::string file = OneBlock(ForgeBlock(Good()));
  StoreLittleEndian(magic, &file[file.size() - sizeof(magic)]);
  return file;
}

std::string Compressed(const std::string& content) {
  std::string compressed;
  snappy::Compress(content.data(), content.size(), &compressed);
  return compressed;
}

// Two blocks, whose index says `first` and `second` of their last keys.
std::string TwoBlocks(const std::vector<ForgedEntry>& a, const std::string& first, const std::vector<ForgedEntry>& b,
                      const std::string& second) {
  TableForge forge;
  const BlockHandle block_a = forge.Block(ForgeBlock(a));
  const BlockHandle block_b = forge.Block(ForgeBlock(b));
  return forge.Finish({{first, block_a}, {second, block_b}});
}

std::string ManyEntriesWithoutRestart(uint32_t count) {
  std::vector<ForgedEntry> entries;
  for (uint32_t i = 0; i < count; ++i) {
    std::string key(4, '\0');
    for (int b = 0; b < 4; ++b) key[static_cast<size_t>(b)] = static_cast<char>(i >> (24 - 8 * b));
    entries.push_back({0, "a" + key, ""});
  }
  return OneBlock(ForgeBlock(entries));
}

std::vector<RejectCase> BrokenTables() {
  const std::string good = ForgeBlock(Good());
  const uint64_t kMax = UINT64_MAX;
  using Ends = TableForge::Ends;
  const auto index_at = [](uint64_t offset, uint64_t size) {
    return WithEnds([=](const BlockHandle&, const BlockHandle&) {
      Ends ends;
      ends.index = BlockHandle{offset, size};
      return ends;
    });
  };
  const auto metaindex_at = [](uint64_t offset, uint64_t size) {
    return WithEnds([=](const BlockHandle&, const BlockHandle&) {
      Ends ends;
      ends.metaindex = BlockHandle{offset, size};
      return ends;
    });
  };
  const uint64_t block_end = good.size() + kBlockTrailerBytes;
  std::string long_varint(11, '\x80');
  return {
      {"Empty", "", "0 bytes; the footer alone has 48"},
      {"OneByte", "x", "1 byte; the footer alone has 48"},
      {"47Bytes", std::string(47, '\0'), "47 bytes; the footer alone has 48"},
      {"FooterOnly", ForgeFooter({0, 8}, {13, 8}), "reaches into the footer, at 0"},
      {"FooterOnlyOfZeros", std::string(48, '\0'), "not the index of a checkpoint: ends in 0000000000000000"},
      {"MagicOffByOneBit", WithMagic(kTableMagic ^ 1), "ends in db4775248b80fb56; wanted db4775248b80fb57"},
      {"MagicReversed", WithMagic(__builtin_bswap64(kTableMagic)), "(its bytes reversed)"},
      {"RocksDb", WithMagic(0x88e241b785f4cff7), "(a RocksDB table)"},
      {"IndexPastEnd", index_at(1000, 8), "reaches into the footer"},
      {"IndexOffsetMax", index_at(kMax, 8), "reaches into the footer"},
      {"IndexSizeMax", index_at(0, kMax), "reaches into the footer"},
      {"IndexSumWraps", index_at(16, kMax - 8), "reaches into the footer"},
      {"IndexTrailerWraps", index_at(0, kMax - 3), "reaches into the footer"},
      {"IndexSize2To40", index_at(0, uint64_t{1} << 40), "reaches into the footer"},
      {"IndexTrailerInFooter", index_at(block_end + 13, 0), "reaches into the footer"},
      {"FooterNumberCutShort",
       OneBlock(good).substr(0, OneBlock(good).size() - 48) + std::string(40, '\x80') +
           OneBlock(good).substr(OneBlock(good).size() - 8),
       "cut short"},
      {"FooterPaddingNotZero", WithFooterByte(39, 1), "not padded with zeros"},
      {"MetaindexPastEnd", metaindex_at(kMax, kMax), "reaches into the footer"},
      {"MetaindexIsTheIndex", metaindex_at(block_end, 8), "overlap"},
      {"MetaindexIsData", metaindex_at(0, good.size()), "is not between 0 and 0"},
      {"DataIsIndex", WithIndexValue(HandleBytes(block_end + 13, 10)), "is not between 0 and"},
      {"DataIsMetaindex", WithIndexValue(HandleBytes(block_end, 8)), "is not between 0 and"},
      {"DataIsFooter", WithIndexValue(HandleBytes(block_end + 50, 8)), "is not between 0 and"},
      {"DataOffsetMax", WithIndexValue(HandleBytes(kMax, 8)), "is not between 0 and"},
      {"DataSizeMax", WithIndexValue(HandleBytes(0, kMax)), "is not between 0 and"},
      {"DataTrailerWraps", WithIndexValue(HandleBytes(0, kMax - 2)), "is not between 0 and"},
      {"DataPlaceCutShort", WithIndexValue("\x80"), "not an offset and a size"},
      {"DataPlaceTooLong", WithIndexValue(long_varint), "not an offset and a size"},
      {"DataPlaceWithMore", WithIndexValue(HandleBytes(0, good.size()) + "x"), "not an offset and a size"},
      {"ChecksumWrong", OneBlock(good, 0, 12345), "its checksum is"},
      {"ChecksumZero", OneBlock(good, 0, 0), "stored is 00000000"},
      {"ChecksumUnmasked",
       OneBlock(good, 0, UnmaskCrc32c(LoadLittleEndian<uint32_t>(OneBlock(good).data() + good.size() + 1))),
       "its checksum is"},
      {"SnappyOverPlainBytes", OneBlock("\xff\xff\xff\xff\xff\xff\xff", 1), "is not valid snappy data"},
      {"SnappyCutShort", OneBlock(Compressed(good).substr(0, Compressed(good).size() - 2), 1),
       "is not valid snappy data"},
      {"Type2", OneBlock(good, 2), "type 2; known are 0 (raw) and 1 (snappy)"},
      {"Type7", OneBlock(good, 7), "type 7"},
      {"Type255", OneBlock(good, 255), "type 255"},
      {"Snappy4GiB", OneBlock("\xff\xff\xff\xff\x0f" + std::string(20, 'x'), 1),
       "says that it decodes to 4294967295 bytes"},
      {"SnappyTwiceWhatItCan", OneBlock("\x80\x20" + std::string(20, 'x'), 1),
       "says that it decodes to 4096 bytes, from 22"},
      {"NoRestartArray", OneBlock("abc"), "has no restart array"},
      {"RestartCount0", OneBlock(ForgeBlock(Good(), {}, 0)), "has 0 restarts"},
      {"RestartCountPlus1", OneBlock(ForgeBlock(Good(), {0}, 100)), "has 100 restarts"},
      {"RestartCount2To30", OneBlock(ForgeBlock(Good(), {0}, 1u << 30)), "has 1073741824 restarts"},
      {"RestartCountMax", OneBlock(ForgeBlock(Good(), {0}, UINT32_MAX)), "has 4294967295 restarts"},
      {"RestartCountOneMore", OneBlock(ForgeBlock(Good(), {0}, 2)), "restart"},
      {"FirstRestartNot0", OneBlock(ForgeBlock(Good(), {9})), "its first restart is 9, not 0"},
      {"RestartPastBlock", OneBlock(ForgeBlock(Good(), {0, 1000})), "restart 1 at 1000 does not point to an entry"},
      {"RestartInEntry", OneBlock(ForgeBlock(Good(), {0, 5})),
       "restart 1 at 5 does not point to an entry with a whole key"},
      {"RestartAtSharedKey", OneBlock(ForgeBlock(Good(), {0, 9})),
       "restart 1 at 9 does not point to an entry with a whole key"},
      {"RestartsUnsorted", OneBlock(ForgeBlock(Good(), {0, 15, 9})), "does not point to an entry"},
      {"RestartTwice", OneBlock(ForgeBlock(Good(), {0, 15, 15})), "does not point to an entry"},
      {"TooFewRestarts", ManyEntriesWithoutRestart(5000), "4096 entries without a restart"},
      {"FirstKeyShares", OneBlock(ForgeBlock({{1, "a", ""}})), "shares 1 bytes with a key of 0"},
      {"SharesMoreThanThereIs", OneBlock(ForgeBlock({{0, "a", ""}, {2, "b", ""}})), "shares 2 bytes with a key of 1"},
      {"SharesMax", OneBlock(ForgeBlock({{0, "a", ""}, {UINT32_MAX, "b", ""}})), "shares 4294967295 bytes"},
      {"SharesPast32Bits", OneBlock(ForgeBlock({{0, "a", ""}, {uint64_t{1} << 32, "b", ""}})), "is cut short"},
      {"LengthsWrap", OneBlock(ForgeBlock({{0, "a", "", UINT32_MAX, 2}})), "its entry at 0 is cut short"},
      {"ValueIntoRestarts", OneBlock(ForgeBlock({{0, "a", "1", std::nullopt, 2}})), "its entry at 0 is cut short"},
      {"KeyIntoRestarts", OneBlock(ForgeBlock({{0, "a", "", 2}})), "its entry at 0 is cut short"},
      {"EntryOfTwoBytes", OneBlock(std::string("\0\0", 2) + ForgeBlock({})), "its entry at 0 is cut short"},
      {"KeysUnsorted", OneBlock(ForgeBlock({{0, "b", ""}, {0, "a", ""}})), "key \"a\" is not greater than \"b\""},
      {"KeysUnsortedBehindShared", OneBlock(ForgeBlock({{0, "ab", ""}, {1, "a", ""}})), "key \"aa\" is not greater"},
      {"KeyTwice", OneBlock(ForgeBlock({{0, "a", "1"}, {1, "", "2"}})), "key \"a\" is not greater than \"a\""},
      {"KeyTwiceInTwoBlocks", TwoBlocks({{0, "a", ""}}, "a", {{0, "a", ""}}, "b"), "allows only keys after \"a\""},
      {"BlocksUnsorted", TwoBlocks({{0, "c", ""}}, "c", {{0, "a", ""}}, "d"), "allows only keys after \"c\""},
      {"IndexUnsorted", TwoBlocks({{0, "c", ""}}, "c", {{0, "a", ""}}, "a"), "key \"a\" is not greater than \"c\""},
      {"KeyPastSeparator", TwoBlocks({{0, "m", ""}}, "c", {{0, "n", ""}}, "z"),
       "key \"m\"; the index of blocks allows only keys up to \"c\""},
      {"BlocksOverlap",
       [] {
         TableForge forge;
         const BlockHandle block = forge.Block(ForgeBlock(Good()));
         return forge.Finish({{"bb", block}, {"zz", block}});
       }(),
       "block 1 at 0, 28 bytes, is not between 33 and 33"},
      {"EmptyDataBlock", OneBlock(ForgeBlock({})), "block 0 at 0 has no entries"},
      {"MetaindexDamaged",
       [] {
         std::string file = OneBlock(ForgeBlock(Good()));
         file[file.size() - 48 - 13 - 8 - 10] ^= 1;
         return file;
       }(),
       "checksum"},
  };
}

INSTANTIATE_TEST_SUITE_P(Broken, TableRejects, ::testing::ValuesIn(BrokenTables()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TableForgeItself, MakesGoodTables) {  // or the rows above would prove little
  ASSERT_OK_AND_ASSIGN(const Pairs pairs, ReadAll(OneBlock(ForgeBlock(Good()))));
  EXPECT_EQ(pairs, (Pairs{{"apple", "1"}, {"apply", "2"}, {"b", "3"}}));
  ASSERT_OK_AND_ASSIGN(const Pairs same, ReadAll(OneBlock(ForgeBlock(Good(), {0, 15}))));
  EXPECT_EQ(same, pairs);
  ASSERT_OK_AND_ASSIGN(const Pairs compressed, ReadAll(OneBlock(Compressed(ForgeBlock(Good())), 1)));
  EXPECT_EQ(compressed, pairs);
  EXPECT_OK(ReadAll(TwoBlocks({{0, "a", ""}}, "a", {{0, "b", ""}}, "b")));
  EXPECT_OK(ReadAll(ManyEntriesWithoutRestart(4096)));
}

// What Find touches is checked by Find, too, and what it does not touch does not trouble it.
TEST(Table, FindChecksTheBlockItTouches) {
  const std::string file = TwoBlocks({{0, "m", ""}}, "c", {{0, "n", "value"}}, "z");
  ASSERT_OK_AND_ASSIGN(const auto table, OpenTable(file));
  EXPECT_THAT(table->Find("a"), StatusIs(Code::kDataLoss, HasSubstr("allows only keys up to \"c\"")));
  ASSERT_OK_AND_ASSIGN(const auto found, table->Find("n"));
  EXPECT_EQ(found, "value");
}

// ---- Limits ---------------------------------------------------------------------------------------------------------

TEST(TableLimits, BoundWhatIsDecompressed) {
  const std::string content = ForgeBlock({{0, "a", std::string(5000, 'x')}});
  const std::string file = OneBlock(Compressed(content), 1);
  EXPECT_OK(ReadAll(file));
  DecodeLimits limits;
  limits.max_expansion = 2;
  EXPECT_THAT(ReadAll(file, limits), StatusIs(Code::kResourceExhausted, HasSubstr("max_expansion is 2")));
  limits = DecodeLimits();
  limits.max_message_bytes = 4000;
  EXPECT_THAT(ReadAll(file, limits), StatusIs(Code::kResourceExhausted, HasSubstr("max_message_bytes is 4000")));
}

TEST(TableLimits, BoundBlocksToTheByte) {
  const std::string content = ForgeBlock({{0, "a", std::string(5000, 'x')}});
  DecodeLimits limits;
  limits.max_message_bytes = static_cast<int64_t>(content.size());
  EXPECT_OK(ReadAll(OneBlock(Compressed(content), 1), limits));
  EXPECT_OK(ReadAll(OneBlock(content), limits));
  --limits.max_message_bytes;
  EXPECT_THAT(ReadAll(OneBlock(Compressed(content), 1), limits), StatusIs(Code::kResourceExhausted));
  EXPECT_THAT(ReadAll(OneBlock(content), limits), StatusIs(Code::kResourceExhausted));
}

TEST(TableLimits, BoundWhatIsKept) {
  const std::string file = TwoBlocks({{0, "a", "1"}}, "a", {{0, "b", "2"}}, "b");
  DecodeLimits limits;
  limits.max_file_decoded_bytes = 20;
  ASSERT_OK_AND_ASSIGN(const auto table, OpenTable(file, limits));
  EXPECT_OK(table->Find("a"));
  EXPECT_THAT(table->Find("b"), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 20")));
  limits = DecodeLimits();
  limits.max_message_bytes = 10;  // also limits a block that is not compressed
  EXPECT_THAT(OpenTable(file, limits), StatusIs(Code::kResourceExhausted, HasSubstr("max_message_bytes is 10")));
  limits = DecodeLimits();
  limits.max_entries = 1;
  EXPECT_THAT(OpenTable(file, limits), StatusIs(Code::kResourceExhausted, HasSubstr("max_entries is 1")));
}

// An index of blocks whose keys share all but a byte: 50,000 of them would be over a gigabyte, put together.
TEST(TableLimits, BoundTheKeysOfTheIndexOfBlocks) {
  TableForge forge;
  std::vector<ForgedEntry> index;
  std::vector<uint32_t> restarts = {0};
  uint32_t position = 0;
  for (uint32_t i = 0; i < 50000; ++i) {
    const BlockHandle block = forge.Block(ForgeBlock({{0, "a", ""}}));
    ForgedEntry entry;
    entry.shared = i % 4000 == 0 ? 0 : 2000 + i % 4000;  // whole from time to time, as it must be
    entry.suffix = entry.shared == 0 ? std::string(2001 + i / 4000, 'k') : "k";
    AppendHandle(block, &entry.value);
    if (entry.shared == 0 && i > 0) restarts.push_back(position);
    position += static_cast<uint32_t>(ForgeBlock({entry}, {}).size() - sizeof(uint32_t));
    index.push_back(entry);
    if (i == 3999) break;  // one run of 4,000 suffices: 16 MB
  }
  TableForge::Ends ends;
  ends.metaindex = forge.Block(ForgeBlock({}));
  ends.index = forge.Block(ForgeBlock(index, restarts));
  const std::string file = forge.Finish({}, ends);
  EXPECT_OK(OpenTable(file));
  DecodeLimits limits;
  limits.max_memory_beyond_input = 1 << 20;
  EXPECT_THAT(OpenTable(file, limits),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input is 1048576")));
}

}  // namespace
}  // namespace tensorcask::checkpoint
