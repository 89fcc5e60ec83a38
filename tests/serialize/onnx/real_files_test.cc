// Files that other programs wrote, compared with what the onnx package found in them.

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/onnx/dtypes.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/serialize/stored/packed_elements.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/onnx/onnx_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::nlohmann::json;
using ::tensorcask::testing::LittleEndian;
using ::tensorcask::testing::ReadFileOrFail;
using ::tensorcask::testing::TestDataFolder;

std::string Crc32(const std::string& bytes) {
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  return absl::StrCat(absl::Hex(static_cast<uint32_t>(crc), absl::kZeroPad8));
}

void ExpectTensor(const OnnxReader& reader, const OnnxEntry& entry, const json& facts) {
  SCOPED_TRACE(entry.name);
  EXPECT_EQ(OnnxTypeName(entry.data_type), facts["dtype"].get<std::string>());
  const auto dims = entry.shape.dims();
  EXPECT_EQ(json(std::vector<int64_t>(dims.begin(), dims.end())), facts["shape"]);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader.Read(entry.name));
  if (tensor.dtype() == DType::kString) {
    std::string all;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const std::string& text = tensor.data<std::string>()[i];
      all += LittleEndian(text.size(), 8) + text;
    }
    EXPECT_EQ(Crc32(all), facts["crc32_len_prefixed"].get<std::string>());
    return;
  }
  std::string bytes(tensor.bytes());
  if (const int bits = OnnxTypeBits(entry.data_type); bits < 8) {
    std::string packed;
    stored::ElementPacker packer(bits);
    packer.Pack(bytes, &packed);
    packer.Pack(std::string(7, '\0'), &packed);  // completes the last byte
    packed.resize((bytes.size() * static_cast<size_t>(bits) + 7) / 8);
    bytes = packed;
  }
  EXPECT_EQ(bytes.size(), facts["nbytes"].get<size_t>());
  EXPECT_EQ(Crc32(bytes), facts["crc32"].get<std::string>());
  ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map(entry.name));
  EXPECT_EQ(mapped.bytes(), tensor.bytes());
}

TEST(OnnxFiles, GiveWhatIsKnownOfThem) {
  const std::string folder = TestDataFolder("onnx");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  const json expected = json::parse(ReadFileOrFail(folder + "/expected.json"));
  int tensors = 0;
  for (const auto& [file, facts] : expected.items()) {
    SCOPED_TRACE(file);
    ASSERT_EQ(facts["expect"], "ok");
    ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open(folder + "/" + file));
    const std::string kind = facts["kind"];
    EXPECT_EQ(reader.kind(), kind == "ModelProto"    ? OnnxReader::Kind::kModel
                             : kind == "TensorProto" ? OnnxReader::Kind::kTensor
                                                     : OnnxReader::Kind::kSequence);
    if (kind == "ModelProto") {
      EXPECT_EQ(reader.metadata().at("onnx.ir_version"), absl::StrCat(facts["ir_version"].get<int>()));
    }
    ASSERT_EQ(reader.entries().size(), facts["tensors"].size());
    for (size_t i = 0; i < reader.entries().size(); ++i) {
      const OnnxEntry& entry = reader.entries()[i];
      if (reader.kind() != OnnxReader::Kind::kSequence) {
        EXPECT_EQ(entry.name, facts["tensors"][i]["name"].get<std::string>());
      }
      ExpectTensor(reader, entry, facts["tensors"][i]);
      ++tensors;
    }
    ASSERT_OK_AND_ASSIGN(const OnnxCounts counts,
                         reader.VerifyAll([](const OnnxDamage& damage) { ADD_FAILURE() << damage.status; }));
    EXPECT_EQ(counts.without_checksum, static_cast<int64_t>(reader.entries().size()));
  }
  EXPECT_GE(tensors, 40);
}

}  // namespace
}  // namespace tensorcask
