// Small checkpoints that TensorFlow 2.21 wrote (tests/testdata): dtypes, variants, pieces and V1 of a current release.

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::nlohmann::json;
using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::ReadFileOrFail;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;

const char kFolder[] = "tests/testdata/tensorflow/";

json Expected(const std::string& checkpoint) {
  return json::parse(ReadFileOrFail(absl::StrCat(kFolder, "expected.json")))[checkpoint];
}

void ExpectTensor(const Tensor& tensor, const json& facts) {
  EXPECT_EQ(DTypeName(tensor.dtype()), facts["dtype"].get<std::string>());
  const DimVector dims = tensor.shape().dims();
  EXPECT_EQ(std::vector<int64_t>(dims.begin(), dims.end()), facts["shape"].get<std::vector<int64_t>>());
  if (tensor.dtype() == DType::kString) {
    std::vector<std::string> strings;
    for (const std::string& element : tensor.flat<std::string>()) strings.push_back(absl::BytesToHexString(element));
    EXPECT_EQ(strings, facts["strings"].get<std::vector<std::string>>());
  } else if (tensor.dtype() != DType::kVariant) {
    const absl::string_view bytes = tensor.bytes();
    const uLong crc = bytes.empty() ? 0 : crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    EXPECT_EQ(absl::StrCat(absl::Hex(crc, absl::kZeroPad8)), facts["crc32"].get<std::string>());
  }
}

class PeerFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(PeerFiles, GiveTheirTensors) {
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(absl::StrCat(kFolder, GetParam())));
  const json expected = Expected(GetParam());
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  EXPECT_EQ(entries.size(), expected.size());
  for (const CheckpointEntry& entry : entries) {
    SCOPED_TRACE(entry.name);
    ASSERT_TRUE(expected.contains(entry.name));
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(entry.name));
    ExpectTensor(read, expected[entry.name]);
    ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map(entry.name));
    ExpectTensor(mapped, expected[entry.name]);
  }
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                       reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, static_cast<int64_t>(entries.size()));
}

INSTANTIATE_TEST_SUITE_P(All, PeerFiles, ::testing::Values("every-dtype", "variants", "pieces", "version-one"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return name;
                         });

class ReproducedPeerFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(ReproducedPeerFiles, ByteForByte) {
  const std::string prefix = absl::StrCat(kFolder, GetParam());
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(prefix));
  ASSERT_OK_AND_ASSIGN(std::vector<CheckpointEntry> entries, reader.entries());
  std::sort(entries.begin(), entries.end(), [](const CheckpointEntry& a, const CheckpointEntry& b) {
    return std::tie(a.offset, a.stored_bytes, a.name) < std::tie(b.offset, b.stored_bytes, b.name);
  });
  MemoryFileSystem files;
  CheckpointWriterOptions options;
  options.file_system = &files;
  options.alignment = 1;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/copy", options));
  for (const CheckpointEntry& entry : entries) {
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader.Read(entry.name));
    ASSERT_OK(writer.Add(entry.name, tensor));
  }
  ASSERT_OK(writer.Finish());
  for (const char* ending : {".index", ".data-00000-of-00001"}) {
    EXPECT_TRUE(BytesOf(files, absl::StrCat("/copy", ending)) == ReadFileOrFail(prefix + ending)) << ending;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReproducedPeerFiles, ::testing::Values("every-dtype", "variants"), [](const auto& info) {
  return std::string(info.param) == "variants" ? "variants" : "everydtype";
});

TEST(VariantPeerFiles, HaveTheirTensors) {
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(absl::StrCat(kFolder, "variants")));
  ASSERT_OK_AND_ASSIGN(const Tensor list, reader.Read("list/float32"));
  const Variant& variant = list.scalar<Variant>();
  EXPECT_EQ(variant.type_name, "tensorflow::TensorList");
  ASSERT_EQ(variant.tensors.size(), 2u);
  EXPECT_EQ(variant.tensors[0].ToString(), "float32 [2]: [1.5 2.5]");
  ASSERT_OK_AND_ASSIGN(const Tensor lists, reader.Read("list/list"));
  const Variant& outer = lists.scalar<Variant>();
  ASSERT_EQ(outer.tensors.size(), 2u);
  EXPECT_EQ(outer.tensors[1].dtype(), DType::kVariant);
}

TEST(NewerPeerFiles, ADtypeThatIsNewerIsListedAndNotRead) {
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(absl::StrCat(kFolder, "float4")));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  EXPECT_EQ(entries.size(), 2u);
  EXPECT_THAT(reader.Read("float4"), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("dtype number 33")));
  EXPECT_OK(reader.Read("plain"));
}

}  // namespace
}  // namespace tensorcask
