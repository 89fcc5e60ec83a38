// Every TensorProto in the graphs that TensorFlow wrote: decoded through both front ends, compared with what another
// reader of the format found (expected.json), and encoded again.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;

struct Found {
  std::string function;
  std::string node;
  std::string attr;
  std::string message;  // the TensorProto
};

// All fields of `message` with number `number`.
std::vector<std::string> Fields(absl::string_view message, uint32_t number) {
  std::vector<std::string> all;
  WireReader reader(message);
  WireReader::Field field;
  while (reader.Next(&field)) {
    if (field.number == number && field.type == WireType::kBytes) all.emplace_back(field.bytes);
  }
  EXPECT_OK(reader.status());
  return all;
}

std::string First(const std::vector<std::string>& all) { return all.empty() ? "" : all.front(); }

// NodeDef: name 1, attr 5 (map: key 1, AttrValue 2 with tensor 8).
void CollectNode(const std::string& node, const std::string& function, std::vector<Found>* found) {
  for (const std::string& entry : Fields(node, 5)) {
    for (const std::string& tensor : Fields(First(Fields(entry, 2)), 8)) {
      found->push_back({function, First(Fields(node, 1)), First(Fields(entry, 1)), tensor});
    }
  }
}

// GraphDef: node 1, library 2 with functions 1 (signature 1 with name 1, node_def 3).
void CollectGraph(const std::string& graph, std::vector<Found>* found) {
  for (const std::string& node : Fields(graph, 1)) CollectNode(node, "", found);
  for (const std::string& library : Fields(graph, 2)) {
    for (const std::string& function : Fields(library, 1)) {
      const std::string name = First(Fields(First(Fields(function, 1)), 1));
      for (const std::string& node : Fields(function, 3)) CollectNode(node, name, found);
    }
  }
}

// zlib's CRC-32.
uint32_t Crc32(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return ~crc;
}

// `fuzzed` files were written by TensorFlow and then damaged on purpose.
void Compare(const Found& found, const nlohmann::json& wanted, bool fuzzed) {
  absl::StatusOr<Tensor> tensor = testing::DecodeBothWays(found.message);
  const std::string encoding = wanted["encoding"];
  if (encoding == "badshape") {
    EXPECT_THAT(tensor, testing::StatusIs(absl::StatusCode::kInvalidArgument));
    return;
  }
  if (fuzzed && !tensor.ok()) {  // values in another dtype's field, which TensorFlow does not see
    EXPECT_THAT(tensor, testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(" values; the values of ")));
    tensor = testing::DecodeBothWays(found.message, testing::Lenient());
  }
  ASSERT_OK(tensor);
  ASSERT_OK_AND_ASSIGN(const DType dtype, ParseDType(std::string(wanted["dtype"])));
  EXPECT_EQ(tensor->dtype(), dtype);
  const std::vector<int64_t> dims = wanted["shape"];
  ASSERT_OK_AND_ASSIGN(const TensorShape shape, TensorShape::Create(dims));
  EXPECT_EQ(tensor->shape(), shape);
  if (dtype == DType::kString) {
    const std::vector<size_t> lens = wanted["lens"];
    ASSERT_LE(lens.size(), static_cast<size_t>(tensor->num_elements()));
    for (size_t i = 0; i < lens.size(); ++i) {
      EXPECT_EQ(tensor->flat<std::string>()[static_cast<int64_t>(i)].size(), lens[i]) << i;
    }
    EXPECT_EQ(tensor->num_elements(), wanted["n"].get<int64_t>());
  } else {
    EXPECT_EQ(absl::StrCat(absl::Hex(Crc32(tensor->bytes()), absl::kZeroPad8)), wanted["crc32"].get<std::string>());
    EXPECT_EQ(tensor->bytes().size(), wanted["nbytes"].get<size_t>());
  }
  // What TensorFlow wrote in full comes back byte for byte.
  if (fuzzed || (encoding != "field" && encoding != "content")) return;
  EncodeOptions options;
  options.representation = encoding == "field" ? Representation::kValues : Representation::kContent;
  ASSERT_OK_AND_ASSIGN(const uint64_t size, EncodedSize(*tensor, options));
  std::string again(size, '\0');
  ASSERT_OK(EncodeTensorTo(*tensor, options, absl::MakeSpan(&again[0], again.size())));
  EXPECT_EQ(again, found.message);
}

class RealFiles : public ::testing::TestWithParam<const char*> {};
TEST_P(RealFiles, EveryTensor) {
  const std::vector<std::string> parts = absl::StrSplit(GetParam(), '/');
  const std::string folder = testing::TestDataFolder(absl::StrCat("tensorflow/", parts[0]));
  if (folder.empty()) GTEST_SKIP() << "no test data";
  const nlohmann::json expected =
      nlohmann::json::parse(testing::ReadFileOrFail(folder + "/expected.json"), nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(expected.is_object());
  const nlohmann::json& file = expected[parts[1]];
  const std::string bytes = testing::ReadFileOrFail(folder + "/" + parts[1]);
  std::vector<Found> found;
  if (file["kind"] == "saved_model") {
    for (const std::string& meta_graph : Fields(bytes, 2)) {
      for (const std::string& graph : Fields(meta_graph, 2)) CollectGraph(graph, &found);
    }
  } else {
    CollectGraph(bytes, &found);
  }
  ASSERT_EQ(found.size(), file["tensors"].size());
  EXPECT_EQ(found.size(), file["tensor_count"].get<size_t>());
  for (size_t i = 0; i < found.size(); ++i) {
    const nlohmann::json& wanted = file["tensors"][i];
    SCOPED_TRACE(absl::StrCat(found[i].function, " ", found[i].node, " ", found[i].attr));
    ASSERT_EQ(found[i].node, wanted["node"].get<std::string>());
    ASSERT_EQ(found[i].attr, wanted["attr"].get<std::string>());
    ASSERT_EQ(found[i].function, wanted["function"].get<std::string>());
    Compare(found[i], wanted, absl::StartsWith(GetParam(), "tf-fuzz"));
  }
}
INSTANTIATE_TEST_SUITE_P(TensorFlow, RealFiles,
                         ::testing::Values("mediapipe-int32/tf_graph_def.pb", "rust-regression/saved_model.pb",
                                           "serving-half-plus-two-tf2/saved_model.pb", "tf-double-const/saved_model.pb",
                                           "tf-fuzz-const-no-value/saved_model.pb",
                                           "tf-fuzz-negative-shape/saved_model.pb", "tf-half-plus-two/saved_model.pb",
                                           "tf-optimizer-slot/saved_model.pb",
                                           "tf-split-large-constant/split-large-constant.pb",
                                           "tf-two-shards/saved_model.pb", "tf2onnx-gru-frozen/frozen.pb",
                                           "tfdf-adult-rf-bool/saved_model.pb", "tfx-taxi-ckpt-1000/saved_model.pb"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace tensorcask
