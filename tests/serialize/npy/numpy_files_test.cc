// Real files by NumPy and eight other writers, against the values that NumPy reads from them (expected.json).

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npy_writer.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::ReadFileOrFail;
using testing::StatusIs;
using Json = nlohmann::json;

// The bytes that expected.json has the CRC-32 of: row-major, little-endian; strings as NumPy pads them.
std::string NumpyBytes(const Tensor& tensor, const NpyEntry& entry) {
  if (tensor.dtype() != DType::kString) return std::string(tensor.bytes());
  NpyFormat format;
  format.strings = absl::StrContains(entry.descr, 'U') ? NpyStrings::kUnicode : NpyStrings::kBytes;
  std::string bytes;
  StringSink sink(&bytes);
  EXPECT_OK(EncodeNpy(tensor, format, {}, &sink));
  return bytes.substr(bytes.size() - entry.data_bytes);
}

template <typename Reader>
void CheckTensors(const Reader& reader, const Json& expected) {
  for (const Json& tensor : expected["tensors"]) {
    const std::string name = tensor["name"];
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const NpyEntry entry, reader.Find(name));
    EXPECT_EQ(entry.descr, tensor["descr"]);
    EXPECT_EQ(entry.fortran_order, tensor["fortran_order"]);
    EXPECT_EQ(entry.data_bytes, tensor["nbytes"]);
    std::vector<int64_t> shape = tensor["shape"];
    EXPECT_EQ(entry.shape, *TensorShape::Create(shape));
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(name));
    if (entry.descr == "<U1" && name.empty()) {  // a lone surrogate, which is no UTF-8 that could be written again
      EXPECT_EQ(read.flat<std::string>()[0], "\xed\xa0\x85");
    } else {
      EXPECT_EQ(absl::StrFormat("%08x", Crc32(NumpyBytes(read, entry))), tensor["crc32"]);
    }
    EXPECT_OK(reader.Verify(name));
  }
  EXPECT_EQ(reader.entries().size(), expected["tensors"].size());
}

TEST(NumpyFiles, AreAsExpected) {
  const std::string folder = testing::TestDataFolder("numpy");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  const Json all = Json::parse(ReadFileOrFail(folder + "/expected.json"));
  int accepted = 0, refused = 0;
  for (const auto& [file, expected] : all.items()) {
    SCOPED_TRACE(file);
    const std::string path = folder + "/" + file;
    const bool is_npz = absl::EndsWith(file, ".npz");
    NpyReaderOptions options;
    options.allow_odd_bools = file == "odd_ndnpy_bool_bad_value.npy";
    if (expected["expect"] == "reject") {
      ++refused;
      const absl::Status status = is_npz ? NpzReader::Open(path).status() : NpyReader::Open(path).status();
      const std::string reason = expected["reason"];
      const char* says = absl::StrContains(reason, "object")     ? "Python objects"
                         : absl::StrContains(reason, "negative") ? "not negative"
                         : absl::StrContains(reason, "keys")     ? "\"fortran_order\" is missing"
                                                                 : "needs 800";
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(std::string(status.message()), ::testing::AllOf(HasSubstr(path), HasSubstr(says)));
      continue;
    }
    ++accepted;
    if (is_npz) {
      ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(path, options));
      CheckTensors(reader, expected);
      const std::vector<std::string> others = expected["other_members"];
      EXPECT_EQ(reader.other_members(), others);
    } else {
      ASSERT_OK_AND_ASSIGN(const NpyReader reader, NpyReader::Open(path, options));
      if (expected["tensors"][0]["descr"].is_array() || options.allow_odd_bools) continue;  // below
      CheckTensors(reader, expected);
    }
  }
  EXPECT_GE(accepted, 30);
  EXPECT_EQ(refused, 7);
}

TEST(NumpyFiles, StructuresAreFields) {
  const std::string folder = testing::TestDataFolder("numpy");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, NpyReader::Open(folder + "/gen_v2_structured.npy"));
  ASSERT_EQ(reader.entries().size(), 3);
  ASSERT_OK_AND_ASSIGN(const Tensor id, reader.Read("id"));
  EXPECT_EQ(id.ToString(), "int32 [3]: [1 2 3]");
  ASSERT_OK_AND_ASSIGN(const Tensor w, reader.Read("w"));  // big-endian, 2 x 2 in each record
  EXPECT_EQ(w.shape(), TensorShape({3, 2, 2}));
  EXPECT_EQ(w.flat<float>()[5], 5.0f);
  ASSERT_OK_AND_ASSIGN(const Tensor tag, reader.Read("tag"));
  EXPECT_EQ(tag.flat<std::string>()[1], "bb");
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("w", *TensorSlice::Parse("1,2:-:1,1")));
  EXPECT_EQ(part.shape(), TensorShape({2, 2, 1}));
  EXPECT_EQ(part.flat<float>()[0], 5.0f);
  ASSERT_OK_AND_ASSIGN(const NpyReader unicode, NpyReader::Open(folder + "/gen_v3_utf8_field.npy"));
  ASSERT_OK_AND_ASSIGN(const Tensor alpha, unicode.Read("\xce\xb1"));
  EXPECT_EQ(alpha.flat<double>()[0], 1.5);
  ASSERT_OK_AND_ASSIGN(const NpyReader aligned, NpyReader::Open(folder + "/npyz_structured.npy"));
  ASSERT_OK_AND_ASSIGN(const TensorView mapped, aligned.Map("b"));
  EXPECT_EQ(mapped.stride(0), 4);
  EXPECT_EQ(mapped.data<float>()[4], 3.1f);
}

TEST(NumpyFiles, OddBoolsAreRefusedUnlessAllowed) {
  const std::string folder = testing::TestDataFolder("numpy");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  const std::string path = folder + "/odd_ndnpy_bool_bad_value.npy";
  ASSERT_OK_AND_ASSIGN(const NpyReader strict, NpyReader::Open(path));
  EXPECT_THAT(strict.Read(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("element 4 is a bool of byte 98")));
  EXPECT_THAT(strict.Verify(), StatusIs(absl::StatusCode::kDataLoss));
  NpyReaderOptions options;
  options.allow_odd_bools = true;
  ASSERT_OK_AND_ASSIGN(const NpyReader lenient, NpyReader::Open(path, options));
  ASSERT_OK_AND_ASSIGN(const Tensor bools, lenient.Read());
  EXPECT_TRUE(bools.flat<bool>()[4]);
}

}  // namespace
}  // namespace tensorcask
