// Small checkpoints, damaged everywhere: each prefix of each file, and each single byte of it changed. A reader
// refuses, or gives exactly what was saved.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "leveldb/env.h"
#include "leveldb/options.h"
#include "leveldb/table_builder.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::CheckpointNamedTensor;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::SampleTensors;
using ::tensorcask::testing::Save;

class StringFile final : public leveldb::WritableFile {
 public:
  explicit StringFile(std::string* out) : out_(out) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    out_->append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }

 private:
  std::string* out_;
};

// The same table with snappy blocks, as some releases of TensorFlow wrote them.
std::string WithSnappyBlocks(const std::string& index) {
  auto table = checkpoint::TableReader::Open(MakeMemorySource("index", index), {});
  EXPECT_OK(table);
  std::string out;
  StringFile file(&out);
  leveldb::Options options;
  options.compression = leveldb::kSnappyCompression;
  leveldb::TableBuilder builder(options, &file);
  EXPECT_OK((*table)->ForEach([&](absl::string_view key, absl::string_view value) {
    builder.Add(leveldb::Slice(key.data(), key.size()), leveldb::Slice(value.data(), value.size()));
    return absl::OkStatus();
  }));
  EXPECT_TRUE(builder.Finish().ok());
  EXPECT_LT(out.size(), index.size());
  return out;
}

struct DamageCase {
  const char* name;
  int num_shards;
  uint64_t alignment;
  bool snappy;
};
class Damage : public ::testing::TestWithParam<DamageCase> {
 protected:
  void SetUp() override {
    CheckpointWriterOptions options;
    options.file_system = &files_;
    options.num_shards = GetParam().num_shards;
    options.alignment = GetParam().alignment;
    for (const CheckpointNamedTensor& named : SampleTensors(GetParam().num_shards)) {
      if (named.name != "names") {
        saved_.push_back(named);
      } else {
        saved_.push_back({"names", Tensor::FromValues<std::string>({"ab", "", "cde"}), named.shard});  // small files
      }
    }
    if (GetParam().snappy) {  // something to compress
      for (char c = 'p'; c < 'z'; ++c) {
        saved_.push_back(
            {absl::StrCat(std::string(1, c), "/attention/output"), *Tensor::Create(DType::kInt8, TensorShape({0}))});
      }
    }
    ASSERT_OK(Save("/m", saved_, options));
    if (GetParam().snappy) files_.Put("/m.index", WithSnappyBlocks(BytesOf(files_, "/m.index")));
  }

  // Every way of reading gives an error or the right values. True if at least one of them reports the damage.
  bool Noticed() {
    CheckpointReaderOptions options;
    options.read.file_system = &files_;
    const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open("/m", options);
    if (!reader.ok()) {
      EXPECT_TRUE(absl::StrContains(reader.status().message(), "/m.index")) << reader.status();
      return true;
    }
    bool noticed = false;
    for (const CheckpointNamedTensor& named : saved_) {
      for (const absl::StatusOr<Tensor>& read : {reader->Read(named.name), reader->Map(named.name)}) {
        if (read.ok()) {
          EXPECT_TRUE(SameTensor(*read, named.tensor)) << named.name;
        } else {
          EXPECT_TRUE(absl::StrContains(read.status().message(), "/m.")) << read.status();
          noticed = true;
        }
      }
    }
    const absl::StatusOr<std::vector<CheckpointEntry>> entries = reader->entries();
    if (entries.ok()) {
      EXPECT_EQ(entries->size(), saved_.size());
    } else {
      noticed = true;
    }
    int64_t reports = 0;
    const absl::StatusOr<CheckpointCounts> counts = reader->VerifyAll([&](const CheckpointDamage& damage) {
      ++reports;
      EXPECT_FALSE(damage.status.ok());
    });
    EXPECT_EQ(counts.ok() && reports == 0, !noticed) << "VerifyAll and the rest disagree";
    if (!noticed) {
      EXPECT_EQ(counts.value_or(CheckpointCounts()).whole, static_cast<int64_t>(saved_.size()));
    }
    return noticed;
  }

  MemoryFileSystem files_;
  std::vector<CheckpointNamedTensor> saved_;
};

TEST_P(Damage, ByteChangesAreNoticedOrHarmless) {
  EXPECT_FALSE(Noticed());
  for (const std::string& path : files_.Paths()) {
    const std::string good = BytesOf(files_, path);
    const bool is_index = absl::EndsWith(path, ".index");
    ASSERT_LT(good.size(), 2000u);
    size_t harmless = 0;
    for (size_t i = 0; i < good.size(); ++i) {
      for (const int flip : {0x01, 0x80, 0xff}) {
        SCOPED_TRACE(absl::StrCat(path, " byte ", i, " xor ", flip));
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ flip);
        files_.Put(path, bad);
        if (!Noticed()) {
          ++harmless;
          EXPECT_FALSE(is_index) << "each byte of an index means something";
        }
      }
      if (HasFailure()) return;
    }
    // The bytes that no reader looks at are between tensors.
    if (GetParam().alignment == 1) {
      EXPECT_EQ(harmless, 0u) << path;
    }
    files_.Put(path, good);
  }
}

TEST_P(Damage, CutsAreNoticedOrHarmless) {
  for (const std::string& path : files_.Paths()) {
    const std::string good = BytesOf(files_, path);
    for (size_t length = 0; length < good.size(); ++length) {
      SCOPED_TRACE(absl::StrCat(path, " cut to ", length));
      files_.Put(path, good.substr(0, length));
      if (!Noticed()) {
        EXPECT_GT(GetParam().alignment, 1u);
      }
      if (HasFailure()) return;
    }
    files_.Put(path, good);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Damage,
                         ::testing::Values(DamageCase{"TwoShards", 2, 1, false}, DamageCase{"Snappy", 1, 1, true},
                                           DamageCase{"Aligned", 1, 64, false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
