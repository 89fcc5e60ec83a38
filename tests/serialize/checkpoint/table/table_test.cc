#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "leveldb/env.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/checkpoint/table/table_writer.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tests/serialize/checkpoint/table/table_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::checkpoint {
namespace {

using ::tensorcask::testing::OpenTable;
using ::tensorcask::testing::Pairs;
using ::tensorcask::testing::ReadAll;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string WriteTable(const std::map<std::string, std::string>& content, const TableOptions& options = {}) {
  std::string file;
  StringSink sink(&file);
  TableWriter writer(&sink, options);
  for (const auto& [key, value] : content) EXPECT_OK(writer.Add(key, value));
  EXPECT_OK(writer.Finish());
  return file;
}

// ---- Writer and reader ----------------------------------------------------------------------------------------------

TEST(Table, GivesBackWhatWasWritten) {
  std::map<std::string, std::string> content;
  for (int i = 0; i < 1000; ++i)
    content[absl::StrCat("layer_", i * 7919 % 1000, "/kernel")] = absl::StrCat("value ", i);
  content[""] = "header";
  content[std::string("\0\xff\n", 3)] = std::string("\0", 1);
  content["empty"] = "";
  for (const size_t block_bytes : {size_t{1}, size_t{100}, size_t{4096}, size_t{1} << 20}) {
    SCOPED_TRACE(block_bytes);
    TableOptions options;
    options.block_bytes = block_bytes;
    const std::string file = WriteTable(content, options);
    ASSERT_OK_AND_ASSIGN(const Pairs pairs, ReadAll(file));
    EXPECT_EQ(pairs, Pairs(content.begin(), content.end()));
    ASSERT_OK_AND_ASSIGN(const auto table, OpenTable(file));
    for (const auto& [key, value] : content) {
      ASSERT_OK_AND_ASSIGN(const std::optional<absl::string_view> found, table->Find(key));
      ASSERT_TRUE(found.has_value()) << key;
      EXPECT_EQ(*found, value);
      ASSERT_OK_AND_ASSIGN(const std::optional<absl::string_view> other, table->Find(key + "x"));
      EXPECT_EQ(other.has_value(), content.count(key + "x") > 0) << key;
    }
    for (const std::string absent : {"a", "layer_", "layer_1/", "zzz", "\xff\xff\xff"}) {
      ASSERT_OK_AND_ASSIGN(const std::optional<absl::string_view> found, table->Find(absent));
      EXPECT_FALSE(found.has_value()) << absent;
    }
  }
}

// From any key on, whether the reader keeps the blocks or not.
TEST(Table, CountsAsItsWalk) {
  std::map<std::string, std::string> content;
  for (int i = 0; i < 500; ++i) content[absl::StrCat("key", 1000 + i)] = std::string(static_cast<size_t>(i % 7), 'x');
  TableOptions options;
  options.block_bytes = 200;
  const std::string file = WriteTable(content, options);
  const auto table = *OpenTable(file);
  ASSERT_GE(table->num_blocks(), 20u);
  DecodeQuota memory = table->NewQuota();
  const uint64_t before = memory.charged();
  for (const bool kept : {false, true}) {
    for (const std::string& from : {std::string(), std::string("key1000"), std::string("key1000x"),
                                    std::string("key1237"), std::string("key1499"), std::string("key2")}) {
      const auto wanted = static_cast<uint64_t>(std::distance(content.lower_bound(from), content.end()));
      const absl::StatusOr<uint64_t> count = table->CountFrom(from, &memory);
      ASSERT_OK(count.status());
      EXPECT_EQ(*count, wanted) << from << kept;
    }
    EXPECT_EQ(memory.charged(), before);
    ASSERT_OK(table->Find("key1237").status());  // keeps its block
  }
  std::string damaged = file;
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_THAT((*OpenTable(damaged))->CountFrom("key2", &memory).status(),
              StatusIs(Code::kDataLoss, HasSubstr("checksum")));
}

TEST(Table, OfNothingIsEmpty) {
  const std::string file = WriteTable({});
  ASSERT_OK_AND_ASSIGN(const Pairs pairs, ReadAll(file));
  EXPECT_TRUE(pairs.empty());
  ASSERT_OK_AND_ASSIGN(const auto table, OpenTable(file));
  EXPECT_EQ(table->num_blocks(), 0u);
  ASSERT_OK_AND_ASSIGN(const auto found, table->Find(""));
  EXPECT_FALSE(found.has_value());
}

TEST(TableWriter, RefusesKeysThatDoNotIncrease) {
  std::string file;
  StringSink sink(&file);
  TableWriter writer(&sink, {});
  EXPECT_OK(writer.Add("", "header"));
  EXPECT_THAT(writer.Add("", "again"), StatusIs(Code::kInvalidArgument, HasSubstr("not greater")));
  EXPECT_OK(writer.Add("b", ""));
  EXPECT_THAT(writer.Add("a", ""), StatusIs(Code::kInvalidArgument, HasSubstr("\"a\" is not greater than \"b\"")));
  EXPECT_THAT(writer.Add("b", ""), StatusIs(Code::kInvalidArgument, HasSubstr("not greater")));
  EXPECT_OK(writer.Add("\xff", ""));  // bytes are unsigned
  EXPECT_OK(writer.Finish());
  ASSERT_OK_AND_ASSIGN(const Pairs pairs, ReadAll(file));
  EXPECT_EQ(pairs.size(), 3u);
}

TEST(TableWriter, GivesALargeEntryABlockOfItsOwn) {
  TableOptions options;
  options.block_bytes = 100;
  const std::string file = WriteTable({{"a", "1"}, {"b", std::string(199, 'x')}, {"c", "3"}}, options);
  ASSERT_OK_AND_ASSIGN(const auto table, OpenTable(file));
  EXPECT_EQ(table->num_blocks(), 3u);  // "a" was flushed before 200 bytes, twice the block
  const std::string smaller = WriteTable({{"a", "1"}, {"b", std::string(198, 'x')}, {"c", "3"}}, options);
  ASSERT_OK_AND_ASSIGN(const auto small_table, OpenTable(smaller));
  EXPECT_EQ(small_table->num_blocks(), 2u);
}

TEST(Table, MayBeReadByManyThreads) {
  std::map<std::string, std::string> content;
  for (int i = 0; i < 2000; ++i) content[absl::StrCat("key", i)] = absl::StrCat(i);
  TableOptions options;
  options.block_bytes = 256;
  const std::string file = WriteTable(content, options);
  ASSERT_OK_AND_ASSIGN(const auto table, OpenTable(file));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int which = (i * 17 + t * 501) % 2000;
        const auto found = table->Find(absl::StrCat("key", which));
        ASSERT_TRUE(found.ok() && found->has_value());
        EXPECT_EQ(**found, absl::StrCat(which));
      }
      int64_t count = 0;
      EXPECT_OK(table->ForEach([&](absl::string_view, absl::string_view) {
        ++count;
        return absl::OkStatus();
      }));
      EXPECT_EQ(count, 2000);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Table, StopsAtTheErrorOfTheCallback) {
  const std::string file = WriteTable({{"a", "1"}, {"b", "2"}});
  ASSERT_OK_AND_ASSIGN(const auto table, OpenTable(file));
  int calls = 0;
  EXPECT_THAT(table->ForEach([&](absl::string_view, absl::string_view) {
    ++calls;
    return absl::CancelledError("enough");
  }),
              StatusIs(Code::kCancelled, "enough"));
  EXPECT_EQ(calls, 1);
}

// ---- LevelDB as a peer ----------------------------------------------------------------------------------------------

class StringFile final : public leveldb::WritableFile, public leveldb::RandomAccessFile {
 public:
  explicit StringFile(std::string bytes = "") : bytes_(std::move(bytes)) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes_.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result, char*) const override {
    *result = leveldb::Slice(bytes_.data() + offset, std::min<size_t>(n, bytes_.size() - offset));
    return leveldb::Status::OK();
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

std::string LevelDbWrites(const std::map<std::string, std::string>& content, const leveldb::Options& options) {
  StringFile file;
  leveldb::TableBuilder builder(options, &file);
  for (const auto& [key, value] : content) builder.Add(key, value);
  EXPECT_TRUE(builder.Finish().ok());
  return file.bytes();
}

Pairs LevelDbReads(const std::string& bytes) {
  leveldb::Options options;
  options.paranoid_checks = true;
  leveldb::ReadOptions read;
  read.verify_checksums = true;
  StringFile file(bytes);
  leveldb::Table* opened = nullptr;
  const leveldb::Status status = leveldb::Table::Open(options, &file, bytes.size(), &opened);
  EXPECT_TRUE(status.ok()) << status.ToString();
  const std::unique_ptr<leveldb::Table> table(opened);
  if (table == nullptr) return {};
  const std::unique_ptr<leveldb::Iterator> it(table->NewIterator(read));
  Pairs pairs;
  for (it->SeekToFirst(); it->Valid(); it->Next()) pairs.emplace_back(it->key().ToString(), it->value().ToString());
  EXPECT_TRUE(it->status().ok());
  return pairs;
}

std::map<std::string, std::string> RandomContent(std::mt19937* random) {
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(*random); };
  std::map<std::string, std::string> content;
  const size_t count = below(300);
  const size_t alphabet = 1 + below(256);
  for (size_t i = 0; i < count; ++i) {
    std::string key(below(24), '\0');
    for (char& c : key) c = static_cast<char>(255 - below(alphabet));
    std::string value(below(4) == 0 ? below(2000) : below(40), 'v');
    if (below(2) == 0) {
      for (char& c : value) c = static_cast<char>(below(256));
    }
    content[key] = value;
  }
  return content;
}

TEST(TableAndLevelDb, ReadEachOther) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::map<std::string, std::string> content = RandomContent(&random);
    const Pairs pairs(content.begin(), content.end());
    const size_t block_bytes = size_t{1} << std::uniform_int_distribution<int>(0, 18)(random);
    const int restarts = std::uniform_int_distribution<int>(1, 40)(random);

    TableOptions ours;
    ours.block_bytes = block_bytes;
    ours.restart_interval = restarts;
    EXPECT_EQ(LevelDbReads(WriteTable(content, ours)), pairs);

    for (const auto compression : {leveldb::kNoCompression, leveldb::kSnappyCompression}) {
      leveldb::Options theirs;
      theirs.block_size = block_bytes;
      theirs.block_restart_interval = restarts;
      theirs.compression = compression;
      const std::string file = LevelDbWrites(content, theirs);
      ASSERT_OK_AND_ASSIGN(const Pairs read, ReadAll(file));
      EXPECT_EQ(read, pairs);
      ASSERT_OK_AND_ASSIGN(const auto table, OpenTable(file));
      for (const auto& [key, value] : content) {
        ASSERT_OK_AND_ASSIGN(const auto found, table->Find(key));
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(*found, value);
      }
    }
  }
}

// Where no entry is so large that TensorFlow's builder and ours give it a block of its own, the bytes are LevelDB's.
TEST(TableAndLevelDb, WriteTheSameBytes) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::map<std::string, std::string> content = RandomContent(&random);
    leveldb::Options theirs;
    theirs.block_size = size_t{1} << std::uniform_int_distribution<int>(11, 18)(random);
    theirs.compression = leveldb::kNoCompression;
    TableOptions ours;
    ours.block_bytes = theirs.block_size;
    EXPECT_EQ(WriteTable(content, ours), LevelDbWrites(content, theirs));
  }
}

}  // namespace
}  // namespace tensorcask::checkpoint
