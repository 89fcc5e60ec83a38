// Record files that TensorFlow wrote.

#include <zlib.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/wire/records_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::ReadAll;
using ::tensorcask::testing::ReadFileOrFail;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TestDataFolder;
using ::tensorcask::testing::Written;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// What `gzip` holds.
std::string Decompressed(const std::string& gzip) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  stream.avail_in = static_cast<uInt>(gzip.size());
  std::string all(1 << 20, '\0');  // more than the one file has
  stream.next_out = reinterpret_cast<Bytef*>(&all[0]);
  stream.avail_out = static_cast<uInt>(all.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  all.resize(stream.total_out);
  inflateEnd(&stream);
  return all;
}

struct RealFile {
  const char* folder;
  const char* file;
};
constexpr RealFile kRealFiles[] = {
    {"lingvo-tfrecord", "en_fr.tfrecord"},
    {"rust-regression", "expected.tfrecord"},
    {"tf-c-tfrecord", "tf_record"},
    {"tfranking-bert-lite", "eval_elwc.tfrecord"},
    {"tfx-taxi-ckpt-1000", "data_tfrecord-00000-of-00012.gz"},
};

TEST(RealRecordFiles, ReadCleanAndAreWrittenAlike) {
  const std::string root = TestDataFolder("tensorflow");
  if (root.empty()) GTEST_SKIP() << "no test data";
  for (const RealFile& real : kRealFiles) {
    SCOPED_TRACE(real.file);
    const std::string folder = absl::StrCat(root, "/", real.folder, "/");
    std::string bytes = ReadFileOrFail(folder + real.file);
    const nlohmann::json facts = nlohmann::json::parse(ReadFileOrFail(folder + "expected.json"))[real.file];
    std::vector<std::string> records;
    if (facts["kind"] == "tfrecord_gzip") {
      EXPECT_THAT(ReadAll(bytes, &records), StatusIs(Code::kDataLoss, HasSubstr("looks like a gzip file")));
      bytes = Decompressed(bytes);
    }
    EXPECT_OK(ReadAll(bytes, &records));
    EXPECT_EQ(records.size(), facts["records"].get<size_t>());
    size_t data_bytes = 0;
    for (const std::string& record : records) data_bytes += record.size();
    EXPECT_EQ(data_bytes, facts["payload_bytes"].get<size_t>());
    const std::vector<size_t> lengths = facts["first_lengths"];
    ASSERT_LE(lengths.size(), records.size());
    for (size_t i = 0; i < lengths.size(); ++i) EXPECT_EQ(records[i].size(), lengths[i]);
    EXPECT_TRUE(Written(records) == bytes);
  }
}

TEST(RealRecordFiles, EveryChangedByteAndEveryPrefixOfASmallOne) {
  const std::string root = TestDataFolder("tensorflow");
  if (root.empty()) GTEST_SKIP() << "no test data";
  const std::string bytes = ReadFileOrFail(root + "/lingvo-tfrecord/en_fr.tfrecord");
  std::vector<std::string> records;
  for (size_t i = 0; i < bytes.size(); ++i) {
    SCOPED_TRACE(i);
    std::string changed = bytes;
    changed[i] = static_cast<char>(~changed[i]);
    EXPECT_THAT(ReadAll(changed, &records), StatusIs(Code::kDataLoss, HasSubstr("checksum")));
    const absl::Status status = ReadAll(bytes.substr(0, i), &records);
    const bool between = i == 0 || i == 72;  // 16 + 56
    EXPECT_EQ(status.code(), between ? Code::kOk : Code::kDataLoss);
  }
}

}  // namespace
}  // namespace tensorcask
