// Models of Keras 3 in one file.

#include "tensorcask/serialize/hdf5/keras_file.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/zip/zip_writer.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr char kPath[] = "tests/serialize/hdf5/golden/model.keras";

std::string Bytes() { return std::string((*ReadWholeFile(kPath, 1 << 20))->bytes()); }

absl::StatusOr<KerasFile> OpenBytes(const std::string& bytes) {
  Hdf5ReaderOptions options;
  options.read.source = MakeMemorySource("model.keras", bytes);
  return OpenKerasFile("model.keras", options);
}

TEST(KerasFileTest, HasWeightsAndTexts) {
  const std::string bytes = Bytes();
  EXPECT_TRUE(LooksLikeKerasFile(bytes));
  EXPECT_FALSE(LooksLikeKerasFile(bytes.substr(0, 20)));
  absl::StatusOr<KerasFile> model = OpenKerasFile(kPath);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->weights.Read("layers/dense/vars/0")->shape(), TensorShape({4, 3}));
  EXPECT_EQ(model->weights.Read("layers/dense_1/vars/0")->dtype(), DType::kBFloat16);
  ASSERT_EQ(model->texts.size(), 2u);
  EXPECT_THAT(model->texts["config.json"], HasSubstr("\"Sequential\""));
  EXPECT_THAT(model->notes, ::testing::IsEmpty());
  EXPECT_TRUE(VerifyWeights(*model).ok());
}

TEST(KerasFileTest, ChangedElementsHaveAnotherChecksum) {
  std::string bytes = Bytes();
  const absl::StatusOr<KerasFile> whole = OpenBytes(bytes);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const Hdf5Entry* const entry = whole->weights.FindEntry("layers/dense/vars/0");
  ASSERT_NE(entry, nullptr);
  bytes[whole->member.data_offset + *entry->offset] ^= 1;
  const absl::StatusOr<KerasFile> changed = OpenBytes(bytes);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(VerifyWeights(*changed), StatusIs(Code::kDataLoss, HasSubstr("model.weights.h5")));
}

TEST(KerasFileTest, ChangedTextsAreRefused) {
  std::string bytes = Bytes();
  bytes[bytes.find("keras_version")] ^= 1;
  EXPECT_THAT(OpenBytes(bytes).status(), StatusIs(Code::kDataLoss, HasSubstr("metadata.json")));
}

TEST(KerasFileTest, AnArchiveWithoutWeightsIsRefused) {
  std::string bytes = Bytes();
  for (size_t at = bytes.find("model.weights.h5"); at != std::string::npos; at = bytes.find("model.weights.h5")) {
    bytes[at] = 'M';
  }
  EXPECT_THAT(OpenBytes(bytes).status(), StatusIs(Code::kDataLoss, HasSubstr("has no member model.weights.h5")));
}

TEST(KerasFileTest, DeflatedWeightsAreInMemoryWithinTheLimit) {
  std::string bytes;
  StringSink sink(&bytes);
  ZipWriter zip(&sink);
  std::string weights((*ReadWholeFile("tests/serialize/hdf5/golden/model.weights.h5", 1 << 20))->bytes());
  weights.resize(1 << 20, '\0');
  ZipMemberOptions member;
  member.size_bytes = weights.size();
  member.crc32 = Crc32(weights);
  member.deflate_level = 6;
  ASSERT_TRUE(zip.BeginMember("model.weights.h5", member).ok());
  ASSERT_TRUE(zip.Append(weights).ok());
  ASSERT_TRUE(zip.EndMember().ok());
  ASSERT_TRUE(zip.Finish().ok());
  const absl::StatusOr<KerasFile> model = OpenBytes(bytes);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->weights.Read("layers/dense/vars/0").ok());
  Hdf5ReaderOptions options;
  options.read.source = MakeMemorySource("model.keras", bytes);
  options.limits.max_memory_beyond_input = 1 << 19;
  EXPECT_THAT(OpenKerasFile("model.keras", options).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("member \"model.weights.h5\"")));
}

}  // namespace
}  // namespace tensorcask
