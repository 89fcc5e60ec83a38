// Files that other programs wrote, compared with what an independent reader found in them.

#include <zlib.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/stored/packed_elements.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::nlohmann::json;
using ::tensorcask::testing::ReadFileOrFail;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TestDataFolder;
using ::testing::HasSubstr;

// The elements as the file has them, so that their checksum can be compared: packed below 8 bits.
std::string StoredBytes(const Tensor& tensor) {
  const int bits = SafetensorsDTypeBits(tensor.dtype());
  if (bits >= 8) return std::string(tensor.bytes());
  std::string packed;
  stored::ElementPacker(bits).Pack(tensor.bytes(), &packed);
  return packed;
}

void ExpectTensor(const SafetensorsReader& reader, const json& facts) {
  const std::string name = facts["name"].get<std::string>();
  SCOPED_TRACE(name);
  ASSERT_OK_AND_ASSIGN(const SafetensorsEntry entry, reader.Find(name));
  EXPECT_EQ(SafetensorsDTypeName(entry.dtype), facts["dtype"].get<std::string>());
  const auto dims = entry.shape.dims();
  EXPECT_EQ(json(std::vector<int64_t>(dims.begin(), dims.end())), facts["shape"]);
  EXPECT_EQ(entry.offset, facts["file_offset"].get<uint64_t>());
  EXPECT_EQ(entry.stored_bytes, facts["nbytes"].get<uint64_t>());
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader.Read(name));
  const std::string bytes = StoredBytes(tensor);
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  EXPECT_EQ(absl::StrCat(absl::Hex(static_cast<uint32_t>(crc), absl::kZeroPad8)), facts["crc32"].get<std::string>());
  ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map(name));
  EXPECT_EQ(mapped.bytes(), tensor.bytes());
}

TEST(SafetensorsFiles, GiveWhatIsKnownOfThem) {
  const std::string folder = TestDataFolder("safetensors");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  const json expected = json::parse(ReadFileOrFail(folder + "/expected.json"));
  int read = 0;
  int refused = 0;
  for (const auto& [file, facts] : expected.items()) {
    SCOPED_TRACE(file);
    const std::string path = folder + "/" + file;
    if (file == "bad_gen_unknown_dtype.safetensors") {  // only that tensor cannot be read
      ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(path));
      ASSERT_EQ(reader.entries().size(), 1u);
      EXPECT_THAT(reader.Read(reader.entries()[0].name),
                  StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("dtype")));
      ++refused;
      continue;
    }
    if (facts["expect"] == "reject") {
      EXPECT_THAT(SafetensorsReader::Open(path), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file)));
      ++refused;
      continue;
    }
    SafetensorsReaderOptions options;
    // The reference implementation accepts white space before the header, the specification does not.
    if (file == "odd_gen_leading_whitespace.safetensors") {
      EXPECT_THAT(SafetensorsReader::Open(path), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("white space")));
      options.lenient = true;
    }
    options.restore_aliases = false;
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(path, options));
    EXPECT_EQ(reader.entries().size(), facts["tensors"].size());
    for (const json& tensor : facts["tensors"]) ExpectTensor(reader, tensor);
    const json metadata = facts["metadata"].is_null() ? json::object() : facts["metadata"];
    EXPECT_EQ(json(reader.metadata()), metadata);
    ++read;
  }
  EXPECT_EQ(read, 21);
  EXPECT_EQ(refused, 17);
}

TEST(SafetensorsFiles, AreRefusedWithTheReason) {
  const std::string folder = TestDataFolder("safetensors");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  const std::map<std::string, std::string> reasons = {
      {"gen_duplicate_key", "duplicate name"},
      {"gen_float_dim", "dim 0 of the shape is 2.0"},
      {"gen_header_len_huge", "the header's length is"},
      {"gen_header_len_over_cap", "the header's length is"},
      {"gen_hole", "belong to no tensor"},
      {"gen_metadata_not_string", "must be a string"},
      {"gen_negative_dim", "of the shape is -"},
      {"gen_not_utf8", "not JSON at byte"},
      {"gen_nul_padding", "a NUL byte"},
      {"gen_overlap", "which overlap"},
      {"gen_shape_overflow", "shape ["},
      {"gen_short", "has 3 bytes"},
      {"gen_trailing_bytes", "1 byte behind the last tensor"},
      {"gen_truncated_data", "the file has 7 bytes of data"},
      {"las7_tiny", "bytes behind the last tensor"},
      {"syoyo_abuse_attempt_1", "the header's length is"},
  };
  for (const auto& [name, reason] : reasons) {
    EXPECT_THAT(SafetensorsReader::Open(absl::StrCat(folder, "/bad_", name, ".safetensors")),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(reason)));
  }
}

}  // namespace
}  // namespace tensorcask
