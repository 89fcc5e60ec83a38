// Checkpoints that TensorFlow wrote: read, compared with what an independent reader found in them, and written again.

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::nlohmann::json;
using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::ReadFileOrFail;
using ::tensorcask::testing::TestDataFolder;

// A checkpoint and what is known of it.
struct Known {
  std::string prefix;
  json facts;
};

std::vector<Known> KnownCheckpoints(const std::string& folder) {
  std::vector<Known> known;
  std::set<std::filesystem::path> folders;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    if (item.is_directory()) folders.insert(item.path());
  }
  for (const std::filesystem::path& path : folders) {
    const json expected = json::parse(ReadFileOrFail((path / "expected.json").string()));
    for (const auto& file : std::filesystem::directory_iterator(path)) {
      if (file.path().extension() != ".index") continue;
      const std::string name = file.path().stem().string();
      EXPECT_TRUE(expected.contains(name)) << file.path();
      if (expected.contains(name)) known.push_back({(path / name).string(), expected[name]});
    }
  }
  return known;
}

std::string Hex8(uint32_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad8)); }

void ExpectElements(const Tensor& tensor, const json& facts) {
  if (tensor.dtype() != DType::kString) {
    const absl::string_view bytes = tensor.bytes();
    const uint32_t crc =
        static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
    EXPECT_EQ(Hex8(crc), facts["crc32"].get<std::string>());
    return;
  }
  ASSERT_EQ(tensor.num_elements(), facts["n"].get<int64_t>());
  for (size_t i = 0; i < facts["lens"].size(); ++i) {
    EXPECT_EQ(tensor.flat<std::string>()[static_cast<int64_t>(i)].size(), facts["lens"][i].get<size_t>());
  }
}

TEST(TensorFlowFiles, GiveTheirTensors) {
  const std::string folder = TestDataFolder("tensorflow");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  const std::vector<Known> checkpoints = KnownCheckpoints(folder);
  EXPECT_EQ(checkpoints.size(), 22u);
  for (const Known& known : checkpoints) {
    SCOPED_TRACE(known.prefix);
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(known.prefix));
    EXPECT_EQ(reader.num_shards(), known.facts["header"]["num_shards"].get<int>());
    ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
    EXPECT_EQ(entries.size(), known.facts["entries"].size());
    for (const CheckpointEntry& entry : entries) {
      SCOPED_TRACE(entry.name);
      ASSERT_TRUE(known.facts["entries"].contains(entry.name));
      const json& facts = known.facts["entries"][entry.name];
      ASSERT_OK_AND_ASSIGN(const DType dtype, ParseDType(facts["dtype"].get<std::string>()));
      EXPECT_EQ(entry.dtype, dtype);
      const DimVector dims = entry.shape.dims();
      EXPECT_EQ(std::vector<int64_t>(dims.begin(), dims.end()), facts["shape"].get<std::vector<int64_t>>());
      EXPECT_EQ(entry.shard, facts["shard"].get<int>());
      EXPECT_EQ(entry.offset, facts["offset"].get<uint64_t>());
      EXPECT_EQ(entry.stored_bytes, facts["size"].get<uint64_t>());
      EXPECT_EQ(Hex8(entry.masked_crc32c), facts["crc32c_masked"].get<std::string>());
      ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(entry.name));
      ExpectElements(read, facts);
      ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map(entry.name));
      ExpectElements(mapped, facts);
    }
    ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                         reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
    EXPECT_EQ(counts.whole, static_cast<int64_t>(entries.size()));
  }
}

TEST(TensorFlowFiles, AreReproducedByteForByte) {
  const std::string folder = TestDataFolder("tensorflow");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  int reproduced = 0;
  for (const Known& known : KnownCheckpoints(folder)) {
    SCOPED_TRACE(known.prefix);
    // Some releases of TensorFlow compressed their indices; we write none such.
    bool compressed = false;
    for (const json& type : known.facts["index"]["block_types"]) compressed |= type.get<int>() != 0;
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(known.prefix));
    ASSERT_OK_AND_ASSIGN(std::vector<CheckpointEntry> entries, reader.entries());
    std::sort(entries.begin(), entries.end(), [](const CheckpointEntry& a, const CheckpointEntry& b) {
      return std::tie(a.shard, a.offset, a.name) < std::tie(b.shard, b.offset, b.name);
    });
    MemoryFileSystem files;
    CheckpointWriterOptions options;
    options.file_system = &files;
    options.num_shards = reader.num_shards();
    options.alignment = 1;
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/copy", options));
    for (const CheckpointEntry& entry : entries) {
      ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader.Read(entry.name));
      CheckpointAddOptions add;
      add.shard = entry.shard;
      ASSERT_OK(writer.Add(entry.name, tensor, add));
    }
    ASSERT_OK(writer.Finish());
    for (int shard = 0; shard < reader.num_shards(); ++shard) {
      const std::string path = reader.DataPath(shard);
      const std::string copy = absl::StrCat("/copy", absl::StripPrefix(path, known.prefix));
      EXPECT_TRUE(BytesOf(files, copy) == ReadFileOrFail(path)) << copy;
    }
    if (compressed) continue;
    EXPECT_TRUE(BytesOf(files, "/copy.index") == ReadFileOrFail(known.prefix + ".index"));
    ++reproduced;
  }
  EXPECT_EQ(reproduced, 17);
}

}  // namespace
}  // namespace tensorcask
