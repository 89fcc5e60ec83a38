// Files that PyTorch and other programs wrote, and files that were made to break readers, against what an independent
// reader says of each (pytorch/README.md of the test data). Skipped without the data.

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/torch/torch_reader.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using nlohmann::json;
using ::testing::ElementsAreArray;
using testing::TestDataFolder;

json Load(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

// The name of a tensor, as this library has it, from the steps of the other reader: that shows the arguments of
// functions as steps of their own.
std::string NameOf(const json& path) {
  std::vector<std::string> steps;
  bool is_sparse = false;
  for (const json& step : path) {
    std::string text = step.is_string() ? step.get<std::string>() : absl::StrCat(step.get<int64_t>());
    if (text == "<constants>") {
      steps.push_back("constants");
    } else if (text == "<arg1>") {
      is_sparse = true;
    } else if (text != "<arg0>") {
      if (is_sparse) text = text == "0" ? "indices" : "values";
      steps.push_back(text);
    }
  }
  return absl::StrJoin(steps, ".");
}

uint32_t ChecksumOf(const Tensor& tensor) { return Crc32(tensor.bytes()); }

void ExpectTensors(const TorchReader& reader, const json& expected) {
  int64_t found = 0;
  for (const json& tensor : expected) {
    const std::string name = NameOf(tensor["path"]);
    SCOPED_TRACE(name);
    const TorchEntry* const entry = reader.FindEntry(name);
    ASSERT_NE(entry, nullptr);
    ++found;
    const std::vector<int64_t> dims = tensor["shape"];
    EXPECT_THAT(entry->shape.dims(), ElementsAreArray(dims));
    if (tensor["dtype"] == "complex32") {
      EXPECT_TRUE(absl::IsUnimplemented(entry->read_status)) << entry->read_status;
      continue;
    }
    EXPECT_EQ(DTypeName(entry->dtype), tensor["dtype"].get<std::string>());
    const absl::StatusOr<Tensor> read = reader.Read(name);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(ChecksumOf(*read), tensor["crc32_contiguous"].get<uint32_t>());
    const absl::StatusOr<TensorView> view = reader.ReadView(name);
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_TRUE(Equal(*view, *read));
    const absl::StatusOr<Tensor> mapped = reader.Map(name);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_TRUE(Equal(*mapped, *read));
    if (read->shape().rank() == 0 || read->shape().dim(0) < 2) continue;
    std::vector<TensorSlice::Extent> extents(static_cast<size_t>(read->shape().rank()));
    extents[0] = {1, read->shape().dim(0) - 1};
    const absl::StatusOr<Tensor> slice = reader.ReadSlice(name, *TensorSlice::Create(extents));
    ASSERT_TRUE(slice.ok()) << slice.status();
    EXPECT_TRUE(Equal(*slice, *read->Slice(1, read->shape().dim(0))));
  }
  int64_t others = 0;  // only listed: a sparse tensor, whose parts are tensors
  for (const TorchEntry& entry : reader.entries()) others += entry.encoding == "sparse";
  EXPECT_EQ(static_cast<int64_t>(reader.entries().size()), found + others);
}

TEST(TorchFiles, AreReadAsTheOtherReaderSays) {
  const std::string folder = TestDataFolder("pytorch");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  const json files = Load(folder + "/expected.json")["files"];
  const json crafted = Load(folder + "/crafted/EXPECT.json");
  int refused = 0;
  int accepted = 0;
  for (const auto& [name, expected] : files.items()) {
    SCOPED_TRACE(name);
    const absl::StatusOr<TorchReader> reader = TorchReader::Open(absl::StrCat(folder, "/", name));
    std::string expect = expected.value("expect", "accept");
    if (expected.contains("format") && expected["format"] != "zip" && expected["format"] != "legacy") expect = "reject";
    if (expect == "reject") {
      EXPECT_FALSE(reader.ok());
      ++refused;
      continue;
    }
    if (expect == "accept") {
      EXPECT_TRUE(reader.ok()) << reader.status();
      if (!reader.ok()) continue;
      ++accepted;
      ExpectTensors(*reader, expected["tensors"]);
    }
    if (!reader.ok()) continue;
    for (const TorchEntry& entry : reader->entries()) reader->Read(entry.name).status().IgnoreError();
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace tensorcask
